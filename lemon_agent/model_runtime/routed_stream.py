"""Edge. A `stream_fn` over several models and credentials: whom to ask first, and whom a session stays with.

What happens when an attempt fails is `first_answer`'s.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import field

from lemon_agent.model_runtime.credentials import DEFAULT_REF, Credential, Sources
from lemon_agent.model_runtime.first_answer import Attempt, FirstAnswer
from lemon_agent.model_runtime.model_router import ModelRouter
from lemon_ai import Context, Model, StreamOptions, stream
from lemon_otp import frozen, monotonic_s, telemetry


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

    async def __call__(self, model: Model, context: Context, options: StreamOptions) -> FirstAnswer:
        """The events of the first call that says anything, or of the last that could be tried."""
        attempts = await self._attempts(model, options)
        answered = partial(_stay, options.session_id, attempts[0])
        return FirstAnswer(attempts, context, options, self.stream_fn, _tell, answered)

    async def _attempts(self, model: Model, options: StreamOptions) -> list[Attempt]:
        """Whom to ask with what, best first: what rests goes to the end, what a session stays with to the front."""
        cooldowns, now_s = await ModelRouter.cooldowns(), monotonic_s()
        pin = await ModelRouter.pinned(options.session_id)
        found: list[Attempt] = []
        for candidate in (model, *(other for other in self.fallbacks if other != model)):
            keys = self.sources.credentials(candidate.provider)
            if not keys or (candidate is model and options.api_key):
                own = options.api_key if candidate.provider == model.provider else None
                keys = (Credential(DEFAULT_REF, own or ""), *(key for key in keys if key.ref != DEFAULT_REF))
            found += [Attempt(candidate, key) for key in keys]
        return sorted(found, key=lambda attempt: (attempt.key != pin, cooldowns.resting(attempt.key, now_s)))


def _stay(session: str | None, first: Attempt, answers: Attempt) -> None:
    """The session of a fallback stays with it."""
    if answers is not first:
        ModelRouter.pin(session, *answers.key)


def _tell(failed: Attempt, following: Attempt, failure: Any) -> None:
    telemetry.execute(
        ("lemon_agent", "model_runtime", "fallback"),
        {"count": 1},
        {
            "from_provider": failed.model.provider,
            "to_provider": following.model.provider,
            "category": getattr(failure, "category", "unknown"),
        },
    )
