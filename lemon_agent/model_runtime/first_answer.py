"""Edge. One model call that goes on to other credentials and providers while nothing useful has come of it.

Events are held back until the first useful one: words that are no blank, or a tool call. From then on the answer is
that provider's, come what may. Before it, a credential that is refused or out of quota gives way to the next one of
its provider, any other failure of a provider to the next provider; a request that every provider would refuse, and a
conversation that is too long, are told as they are. What failed rests for a while, in the model router's table, which
is the only one: sessions learn from each other's failures.
"""

import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from attrs import evolve, field

from lemon_agent.model_runtime.cooldowns import Failure, Key
from lemon_agent.model_runtime.credentials import Credential
from lemon_agent.model_runtime.model_router import ModelRouter
from lemon_agent.stream_source import events_of, let_go
from lemon_ai import (
    AdmissionRefused,
    AiError,
    Context,
    MissingCredential,
    Model,
    ProviderError,
    StreamCanceled,
    StreamDone,
    StreamError,
    StreamOptions,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolCallStart,
)
from lemon_otp import define, frozen

GOES_ON: Final = frozenset({"next_credential", "next_provider"})


@frozen
class Attempt:
    """A model that is asked with one credential; an empty one leaves it to the environment."""

    model: Model
    credential: Credential

    @property
    def key(self) -> Key:
        """Provider and name of the credential, as the router's table knows them."""
        return self.model.provider, self.credential.ref


Switched = Callable[[Attempt, Attempt, Any], None]
"""Told of a failed attempt, the one that is made instead, and what failed."""


def is_useful(event: Any) -> bool:
    """Does this event show that the provider answers?"""
    if isinstance(event, TextDelta | ThinkingDelta):
        return bool(event.delta.strip())
    return isinstance(event, ToolCallStart | ToolCallEnd)


@define(eq=False)
class FirstAnswer:
    """The events of whichever attempt answers first, or of the last that could be made.

    Attributes:
        attempts: Those still to make, in order; at least one.
        switched: Told of each change.
        answered: Told which attempt answers.
        gave_up: Told of the failure that is the answer, and whose it is.
    """

    attempts: list[Attempt]
    context: Context
    options: StreamOptions
    stream_fn: Callable[..., Any]
    switched: Switched
    answered: Callable[[Attempt], None] = field(default=lambda attempt: None)
    gave_up: Callable[[Attempt, Any], None] = field(default=lambda attempt, failure: None)
    _source: Any = None
    _events: AsyncIterator[Any] | None = None
    _held: list[Any] = field(factory=list)
    _decided: bool = False
    _finished: bool = False

    def __aiter__(self) -> "FirstAnswer":
        return self

    async def __anext__(self) -> Any:
        if not self._decided:
            await self._decide()
        if self._held:
            return self._held.pop(0)
        if self._finished or self._events is None:
            raise StopAsyncIteration
        event = await anext(self._events)
        self._finished = isinstance(event, StreamDone | StreamError | StreamCanceled)
        return event

    async def aclose(self) -> None:
        """Nobody reads on: whatever feeds the attempt that is under way stops."""
        if self._source is not None:
            source, self._source = self._source, None
            await let_go(source, finished=self._finished)

    async def _decide(self) -> None:
        """Go on from attempt to attempt until one answers, or the last one has failed; hold what is to be told."""
        while True:
            current = self.attempts.pop(0)
            failure = await self._try(current)
            if failure is None:
                break
            self._let_rest(current, failure)
            if not self._goes_on(current, failure):
                self._decided = self._finished = True
                self.gave_up(current, failure)
                if not self._held or not isinstance(self._held[-1], StreamError | StreamCanceled):
                    raise failure
                return
            self.switched(current, self.attempts[0], failure)
            self._held.clear()
            await self.aclose()
        self._decided = True
        ModelRouter.succeeded(current.key)
        self.answered(current)

    async def _try(self, attempt: Attempt) -> Any:
        """Make this attempt up to its first useful event; what it failed of before, or None."""
        options = evolve(self.options, api_key=attempt.credential.value or None)  # never another provider's
        self._finished = False
        try:
            source = self.stream_fn(attempt.model, self.context, options)
            self._source = await source if inspect.isawaitable(source) else source
            self._events = events_of(self._source)
            async for event in self._events:
                self._held.append(event)
                if isinstance(event, StreamError | StreamCanceled):
                    self._finished = True
                    return _failure(event)
                if is_useful(event):
                    return None
        except AiError as error:
            return error
        self._finished = True
        return None

    def _goes_on(self, current: Attempt, failure: Any) -> bool:
        """Is there another attempt that this failure leaves sense in? It then stands first."""
        action = _action(failure)
        if action == "next_provider":
            self.attempts[:] = [one for one in self.attempts if one.model.provider != current.model.provider]
        return action in GOES_ON and bool(self.attempts)

    def _let_rest(self, attempt: Attempt, failure: Any) -> None:
        """Unless the failure is none of its own, the credential is passed over for a while."""
        if _action(failure) not in GOES_ON or isinstance(failure, AdmissionRefused):
            return
        category = getattr(failure, "category", None)
        kind: Failure = "rate_limit" if category == "rate_limit" else "auth" if category == "auth" else "other"
        after_s = getattr(failure, "retry_after_s", None)
        ModelRouter.failed(attempt.key, kind, None if after_s is None else round(after_s * 1000))


def _failure(event: StreamError | StreamCanceled) -> Any:
    """What is behind the last event of an attempt; None when it was ended from outside."""
    if isinstance(event, StreamCanceled):
        return event
    return (event.error or "error") if event.reason == "error" else None


def _action(failure: Any) -> str:
    """What a failure asks for."""
    if isinstance(failure, ProviderError):
        return failure.failover_action
    if isinstance(failure, MissingCredential):
        return "next_credential"
    return "next_provider"
