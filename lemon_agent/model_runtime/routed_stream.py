"""Edge. A `stream_fn` that goes on to the next credential or provider while nothing has been said yet.

Of each provider every credential that does not rest is tried; a failure that the next credential cannot cure goes on to
the next provider, one that nobody can cure is told as it is. From the first word on the answer is that provider's.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from attrs import evolve, field

from lemon_agent.model_runtime.cooldowns import Failure
from lemon_agent.model_runtime.credentials import DEFAULT_REF, Credential, Sources
from lemon_agent.model_runtime.model_router import ModelRouter
from lemon_ai import AiError, Context, Model, ProviderError, StreamDone, StreamError, StreamOptions, StreamStart, stream
from lemon_otp import frozen, monotonic_s, telemetry

WORSE: Final = frozenset({"fail", "compact"})
"""What a failure asks for when no other provider would do better."""


@frozen(eq=False)
class RoutedStream:
    """A `stream_fn`: the model asked for first, then those that may stand in for it.

    Attributes:
        fallbacks: Models that may answer instead, in order.
        sources: Where credentials come from.
        stream_fn: Makes each single call.
    """

    fallbacks: tuple[Model, ...] = ()
    sources: Sources = field(factory=Sources)
    stream_fn: Callable[..., Any] = field(default=stream, repr=False)

    async def __call__(self, model: Model, context: Context, options: StreamOptions) -> AsyncIterator[Any]:
        """The events of the first call that says anything, or of the last that could be tried."""
        return self._play(await self._attempts(model, options), context, options)

    async def _attempts(self, model: Model, options: StreamOptions) -> list[tuple[Model, Credential]]:
        """Whom to ask with what, best first: what rests goes to the end, what a session stays with to the front."""
        cooldowns, now_s = await ModelRouter.cooldowns(), monotonic_s()
        pin = await ModelRouter.pinned(options.session_id)
        found: list[tuple[Model, Credential]] = []
        for candidate in (model, *(other for other in self.fallbacks if other != model)):
            keys = self.sources.credentials(candidate.provider)
            if not keys or (candidate is model and options.api_key):
                own = options.api_key if candidate.provider == model.provider else None
                keys = (Credential(DEFAULT_REF, own or ""), *(key for key in keys if key.ref != DEFAULT_REF))
            found += [(candidate, key) for key in keys]
        return sorted(
            found,
            key=lambda attempt: (
                (attempt[0].provider, attempt[1].ref) != pin,
                cooldowns.resting((attempt[0].provider, attempt[1].ref), now_s),
            ),
        )

    async def _play(
        self, attempts: Sequence[tuple[Model, Credential]], context: Context, options: StreamOptions
    ) -> AsyncIterator[Any]:
        left = list(attempts)
        while left:
            attempt = _Attempt(*left.pop(0), is_fallback=len(left) < len(attempts) - 1)
            async for event in attempt.events(self.stream_fn, context, options):
                yield event
            if attempt.failure is None:
                return
            attempt.note()
            if attempt.action != "next_credential":
                left = [(model, key) for model, key in left if model.provider != attempt.model.provider]
            if not left or attempt.action in WORSE:
                if isinstance(attempt.failure, StreamError):
                    yield attempt.failure
                    return
                raise attempt.failure
            attempt.tell(left[0][0])


class _Attempt:
    """One provider with one credential."""

    def __init__(self, model: Model, credential: Credential, *, is_fallback: bool) -> None:
        self._is_fallback = is_fallback
        self.model = model
        self.credential = credential
        self.key = (model.provider, credential.ref)
        self.failure: AiError | StreamError | None = None

    async def events(
        self, stream_fn: Callable[..., Any], context: Context, options: StreamOptions
    ) -> AsyncIterator[Any]:
        """What the provider says; nothing, and `failure`, when it fails before it said anything."""
        options = evolve(options, api_key=self.credential.value or None)  # never another provider's
        start: StreamStart | None = None
        said = False
        try:
            async for event in _events(stream_fn, self.model, context, options):
                if not said:
                    if isinstance(event, StreamStart):
                        start = event
                        continue
                    if isinstance(event, StreamError) and event.reason == "error":
                        self.failure = event
                        return
                    said = True
                    if start is not None:
                        yield start
                if isinstance(event, StreamDone):
                    self._answered(options.session_id)
                yield event
        except AiError as error:
            if said:
                raise
            self.failure = error

    def _answered(self, session: str | None) -> None:
        """The provider has answered: nothing is held against it, and the session of a fallback stays with it."""
        ModelRouter.succeeded(self.key)
        if self._is_fallback:
            ModelRouter.pin(session, *self.key)

    @property
    def cause(self) -> Any:
        """The exception behind the failure."""
        return self.failure.error if isinstance(self.failure, StreamError) else self.failure

    @property
    def action(self) -> str:
        """What the failure asks for."""
        return self.cause.failover_action if isinstance(self.cause, ProviderError) else "next_provider"

    def note(self) -> None:
        """Let the credential rest, unless its failure is none of its own."""
        cause = self.cause
        if isinstance(cause, ProviderError) and self.action not in WORSE:
            failure: Failure = cause.category if cause.category in ("rate_limit", "auth") else "other"
            after_ms = None if cause.retry_after_s is None else round(cause.retry_after_s * 1000)
            ModelRouter.failed(self.key, failure, after_ms)

    def tell(self, following: Model) -> None:
        """Say that another provider or credential is tried."""
        telemetry.execute(
            ("lemon_agent", "model_runtime", "fallback"),
            {"count": 1},
            {
                "from_provider": self.model.provider,
                "to_provider": following.provider,
                "category": getattr(self.cause, "category", "unknown"),
            },
        )


async def _events(stream_fn: Callable[..., Any], *args: Any) -> AsyncIterator[Any]:
    source = stream_fn(*args)
    if inspect.isawaitable(source):
        source = await source
    try:
        async for event in source.events() if hasattr(source, "events") else source:
            yield event
    finally:
        if hasattr(source, "cancel"):
            source.cancel("canceled")
