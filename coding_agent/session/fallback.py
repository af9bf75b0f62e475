"""Edge. Other credentials and other providers, tried in order while nothing useful has come of a model call.

Events are held back until the first useful one: words that are no blank, or a tool call. From then on the answer is
that provider's, come what may. Before it, a credential that is refused or out of quota gives way to the next one of
its provider, any other failure of a provider to the next provider; a request that every provider would refuse, and a
conversation that is too long, are told as they are. What failed rests for a while and is passed over, unless all rest;
how long is the model router's to say, whose table is the only one: sessions learn from each other's failures.

A provider that asks to wait longer than a run should sleep is not waited for: the wait is told, as an event.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from hashlib import sha256
from typing import Any, Final, Literal

from attrs import evolve, field

from coding_agent.events import ProviderSwitched, RateLimitPaused
from coding_agent.session.budgeted import events_of, let_go
from lemon_agent import model_runtime
from lemon_ai import (
    AdmissionRefused,
    AiError,
    Context,
    MissingCredential,
    Model,
    ProviderError,
    RateLimited,
    StreamCanceled,
    StreamError,
    StreamOptions,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolCallStart,
)
from lemon_otp import CallFailed, define, frozen, monotonic_s, wall_ms

PAUSE_S: Final = 30.0
"""A longer wait than this is told."""

ModelRouter = model_runtime.ModelRouter

Tell = Callable[[ProviderSwitched | RateLimitPaused], None]


@frozen
class Candidate:
    """A model that may answer in the place of the session's own.

    Attributes:
        model: Whom to ask; None is the model of the call.
        api_keys: The credentials to try, in order; empty leaves it to the options and the environment.
    """

    model: Model | None = None
    api_keys: tuple[str, ...] = field(default=(), repr=False)


@frozen
class _Attempt:
    model: Model
    api_key: str | None = field(repr=False)

    @property
    def key(self) -> tuple[str, str]:
        """The provider and a name for the credential that does not give it away."""
        if self.api_key is None:
            return self.model.provider, "usual"
        return self.model.provider, f"sha256:{sha256(self.api_key.encode()).hexdigest()[:16]}"


def with_fallback(candidates: tuple[Candidate, ...], stream_fn: Any, tell: Tell) -> Any:
    """A `stream_fn` that tries the candidates in order, the model of the call first unless one of them stands for it.

    Args:
        candidates: Whom else to ask.
        stream_fn: Makes each call.
        tell: Told of every change of provider and of long waits.
    """

    def falling_back(model: Model, context: Context, options: StreamOptions) -> FallbackStream:
        attempts = list(_attempts(model, candidates, options))
        return FallbackStream(attempts, context, options, stream_fn, tell)

    return falling_back


def _attempts(model: Model, candidates: tuple[Candidate, ...], options: StreamOptions) -> Iterator[_Attempt]:
    seen: set[tuple[str, str, str]] = set()
    own = [one for one in candidates if one.model is None or one.model == model]
    others = [one for one in candidates if one not in own]
    for candidate in (*(own or [Candidate()]), *others):
        chosen = candidate.model or model
        default = options.api_key if chosen.provider == model.provider else None
        for api_key in candidate.api_keys or (default,):
            attempt = _Attempt(chosen, api_key)
            asked = (*attempt.key, chosen.id)
            if asked not in seen:
                seen.add(asked)
                yield attempt


def is_useful(event: Any) -> bool:
    """Does this event show that the provider answers?"""
    if isinstance(event, TextDelta | ThinkingDelta):
        return bool(event.delta.strip())
    return isinstance(event, ToolCallStart | ToolCallEnd)


@define(eq=False)
class FallbackStream:
    """The events of whichever attempt answers first."""

    attempts: list[_Attempt]
    context: Context
    options: StreamOptions
    stream_fn: Any
    tell: Tell
    _source: Any = None
    _events: AsyncIterator[Any] | None = None
    _held: list[Any] = field(factory=list)
    _committed: bool = False
    _finished: bool = False
    _current: _Attempt | None = None

    def __aiter__(self) -> "FallbackStream":
        return self

    async def __anext__(self) -> Any:
        if not self._committed:
            await self._commit()
        if self._held:
            return self._held.pop(0)
        if self._finished or self._events is None:
            raise StopAsyncIteration
        event = await anext(self._events)
        self._finished = isinstance(event, StreamError | StreamCanceled)
        return event

    async def aclose(self) -> None:
        """Nobody reads on: whatever feeds the attempt that is under way stops."""
        if self._source is not None:
            source, self._source = self._source, None
            await let_go(source, finished=self._finished)

    async def _commit(self) -> None:
        """Go on from attempt to attempt until one answers, or the last one has failed; hold what is to be told."""
        self.attempts = await _rested(self.attempts)
        while True:
            failure, error = await self._try_next()
            if failure is None:
                break
            following = self._following(failure)
            if following is None:
                self._committed = self._finished = True
                self._told_wait(failure)
                if error is not None:
                    raise error
                return
            assert self._current is not None
            self.tell(ProviderSwitched(*_names(self._current), *_names(following), _words(failure)))
            self._held.clear()
        self._committed = True
        assert self._current is not None
        ModelRouter.succeeded(self._current.key)

    async def _try_next(self) -> tuple[Any, Exception | None]:
        """Make the next attempt; what it failed of before it was of use, and the exception to raise for that."""
        self._current = current = self.attempts.pop(0)
        try:
            source = self.stream_fn(current.model, self.context, evolve(self.options, api_key=current.api_key))
            self._source = await source if inspect.isawaitable(source) else source
            self._events = events_of(self._source)
            async for event in self._events:
                self._held.append(event)
                if isinstance(event, StreamError):
                    return event.error or "error", None
                if isinstance(event, StreamCanceled):
                    return event, None
                if is_useful(event):
                    return None, None
        except (AdmissionRefused, MissingCredential, ProviderError) as error:
            return error, error
        return None, None

    def _following(self, failure: Any) -> _Attempt | None:
        """The attempt to make after this failure, first in line; None when it is to be told."""
        assert self._current is not None
        action = _action(failure)
        if action not in ("next_credential", "next_provider"):
            return None
        _let_rest(self._current, failure)
        if action == "next_provider":
            provider = self._current.model.provider
            rest = [attempt for attempt in self.attempts if attempt.model.provider != provider]
            if rest:
                self.attempts[:] = rest
            else:
                return None
        return self.attempts[0] if self.attempts else None

    def _told_wait(self, failure: Any) -> None:
        assert self._current is not None
        wait_s = getattr(failure, "retry_after_s", None)
        if isinstance(failure, RateLimited) and wait_s is not None and wait_s > PAUSE_S:
            wait_ms = round(wait_s * 1000)
            resume_at = (wall_ms() + wait_ms) // 1000 * 1000
            self.tell(RateLimitPaused(self._current.model.provider, wait_ms, resume_at))


async def _rested(attempts: list[_Attempt]) -> list[_Attempt]:
    """Those that do not rest; all of them when they all do, or when nobody knows."""
    try:
        cooldowns = await ModelRouter.cooldowns()
    except CallFailed:  # the router is being started again, and has forgotten everything
        return attempts
    now_s = monotonic_s()
    return [attempt for attempt in attempts if not cooldowns.resting(attempt.key, now_s)] or attempts


def _let_rest(attempt: _Attempt, failure: Any) -> None:
    category = getattr(failure, "category", "other")
    after_s = getattr(failure, "retry_after_s", None)
    kind: Literal["rate_limit", "auth", "other"] = (
        "rate_limit" if category == "rate_limit" else "auth" if category == "auth" else "other"
    )
    ModelRouter.failed(attempt.key, kind, None if after_s is None else round(after_s * 1000))


def _action(failure: Any) -> str:
    if isinstance(failure, ProviderError):
        return failure.failover_action
    if isinstance(failure, MissingCredential):
        return "next_credential"
    return "next_provider" if isinstance(failure, AiError | StreamCanceled | str) else "fail"


def _names(attempt: _Attempt) -> tuple[str, str]:
    return attempt.model.provider, attempt.model.id


def _words(failure: Any) -> str:
    return str(failure.reason) if isinstance(failure, StreamCanceled) else str(failure)
