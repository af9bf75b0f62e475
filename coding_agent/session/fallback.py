"""Edge. Other credentials and other providers for a session, with every change told to its subscribers.

How one gives way to the next is `lemon_agent.model_runtime.FirstAnswer`'s; whom a session may ask stands here. What
rests is passed over, unless all rest. A provider that asks to wait longer than a run should sleep is not waited for:
the wait is told, as an event.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from hashlib import sha256
from typing import Any, Final

from attrs import evolve, field

from coding_agent.events import ProviderSwitched, RateLimitPaused
from lemon_agent import model_runtime
from lemon_ai import Context, Model, RateLimited, StreamCanceled, StreamOptions
from lemon_otp import CallFailed, frozen, monotonic_s, telemetry, wall_ms

PAUSE_S: Final = 30.0
"""A longer wait than this is told."""

Attempt = model_runtime.Attempt
Tell = Callable[[ProviderSwitched | RateLimitPaused], None]
KeyFinder = Callable[[str], "str | Awaitable[str | None] | None"]


@frozen
class Candidate:
    """A model that may answer in the place of the session's own.

    Attributes:
        model: Whom to ask; None is the model of the call.
        api_keys: The credentials to try, in order; empty leaves it to the options and the environment.
    """

    model: Model | None = None
    api_keys: tuple[str, ...] = field(default=(), repr=False)


def with_fallback(
    candidates: tuple[Candidate, ...], stream_fn: Any, tell: Tell, get_api_key: KeyFinder | None = None
) -> Any:
    """A `stream_fn` that tries the candidates in order, the model of the call first unless one of them stands for it.

    Args:
        candidates: Whom else to ask.
        stream_fn: Makes each call.
        tell: Told of every change of provider and of long waits.
        get_api_key: The credential for another provider than that of the call, where its candidate names none.
    """

    async def falling_back(model: Model, context: Context, options: StreamOptions) -> model_runtime.FirstAnswer:
        attempts = await _rested(list(_attempts(model, candidates, options)))
        call = stream_fn if get_api_key is None else partial(_with_key, stream_fn, get_api_key)
        return model_runtime.FirstAnswer(
            attempts, context, options, call, partial(_told_switch, tell), gave_up=partial(_told_wait, tell)
        )

    return falling_back


async def _with_key(
    stream_fn: Any, get_api_key: KeyFinder, model: Model, context: Context, options: StreamOptions
) -> Any:
    """Make a call, with the credential that its provider has here where it was given none."""
    if options.api_key is None:
        found = get_api_key(model.provider)
        options = evolve(options, api_key=(await found if inspect.isawaitable(found) else found) or None)
    source = stream_fn(model, context, options)
    return await source if inspect.isawaitable(source) else source


def _attempts(model: Model, candidates: tuple[Candidate, ...], options: StreamOptions) -> Iterator[Attempt]:
    seen: set[tuple[str, str, str]] = set()
    own = [one for one in candidates if one.model is None or one.model == model]
    others = [one for one in candidates if one not in own]
    for candidate in (*(own or [Candidate()]), *others):
        chosen = candidate.model or model
        default = options.api_key if chosen.provider == model.provider else None
        for api_key in candidate.api_keys or (default,):
            attempt = Attempt(chosen, _credential(api_key))
            asked = (*attempt.key, chosen.id)
            if asked not in seen:
                seen.add(asked)
                yield attempt


def _credential(api_key: str | None) -> model_runtime.Credential:
    """A credential under a name that does not give it away."""
    if api_key is None:
        return model_runtime.Credential("usual", "")
    return model_runtime.Credential(f"sha256:{sha256(api_key.encode()).hexdigest()[:16]}", api_key)


async def _rested(attempts: list[Attempt]) -> list[Attempt]:
    """Those that do not rest; all of them when they all do, or when nobody knows."""
    try:
        cooldowns = await model_runtime.ModelRouter.cooldowns()
    except CallFailed:  # the router is being started again, and has forgotten everything
        return attempts
    now_s = monotonic_s()
    return [attempt for attempt in attempts if not cooldowns.resting(attempt.key, now_s)] or attempts


def _told_switch(tell: Tell, failed: Attempt, following: Attempt, failure: Any) -> None:
    words = str(failure.reason) if isinstance(failure, StreamCanceled) else str(failure)
    tell(ProviderSwitched(failed.model.provider, failed.model.id, following.model.provider, following.model.id, words))


def _told_wait(tell: Tell, attempt: Attempt, failure: Any) -> None:
    wait_s = getattr(failure, "retry_after_s", None)
    if isinstance(failure, RateLimited) and wait_s is not None and wait_s > PAUSE_S:
        wait_ms = round(wait_s * 1000)
        resume_at = (wall_ms() + wait_ms) // 1000 * 1000
        tell(RateLimitPaused(attempt.model.provider, wait_ms, resume_at))
        telemetry.execute(
            ("coding_agent", "rate_limit_pause", "paused"),
            {"retry_after_ms": wait_ms},
            {"provider": attempt.model.provider, "model": attempt.model.id},
        )
