"""Pure. Which failures are tried again, and when.

Only failures that the classification calls passing, only while nothing of the answer was shown, and only a few
times. A provider that asks for a longer wait than the cap is not waited for: its error comes out at once, with the
wait in it, for the session to decide. Nothing here speaks of tools: running one again is never this module's call.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from attrs import evolve

from lemon_ai.classify import RETRYABLE_STATUSES
from lemon_ai.errors import (
    AuthFailed,
    ContentRefused,
    ContextOverflow,
    ProviderError,
    QuotaExhausted,
)
from lemon_ai.stream_options import StreamOptions
from lemon_otp import frozen

Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""Waits seconds. It is interrupted when the call is canceled."""

HINT_BUFFER_S: Final = 1.0
"""Added to a wait a provider asked for: its clock is not ours."""

LONGEST_BACKOFF_S: Final = 60.0
"""A wait of our own is never longer, where the caller sets no cap."""

_NEVER: Final = (QuotaExhausted, AuthFailed, ContextOverflow, ContentRefused)


@frozen
class RetryPolicy:
    """How often and how fast a provider's calls are tried again.

    Attributes:
        max_retries: Tries after the first.
        base_ms: The first wait; each later one is twice as long, and half of it is chance.
    """

    max_retries: int = 3
    base_ms: int = 400


@frozen
class Again:
    """Try again after a wait."""

    delay_s: float


@frozen
class GiveUp:
    """Do not; `error` is what to tell."""

    error: ProviderError


def policy_for(provider: object, options: StreamOptions) -> RetryPolicy:
    """A provider's own policy, with what the caller set in place of its number of retries and its first wait."""
    own = getattr(provider, "retry", None)
    policy = own if isinstance(own, RetryPolicy) else RetryPolicy()
    if options.max_retries is not None:
        policy = evolve(policy, max_retries=max(0, options.max_retries))
    return policy if options.retry_base_ms is None else evolve(policy, base_ms=max(0, options.retry_base_ms))


def is_retryable(error: ProviderError) -> bool:
    """Whether the same request may work a little later."""
    if isinstance(error, _NEVER):
        return False
    return error.retryable or error.status in RETRYABLE_STATUSES


def decide(
    error: ProviderError,
    attempt: int,
    policy: RetryPolicy,
    *,
    max_delay_ms: int,
    chance: Callable[[], float] = random.random,
    elapsed_s: float = 0.0,
    budget_ms: int | None = None,
) -> Again | GiveUp:
    """What to do about a failure before any content.

    Args:
        error: What happened.
        attempt: How many retries there were before; 0 after the first try.
        policy: The provider's.
        max_delay_ms: The longest wait a provider may ask for; 0 is no cap.
        chance: A number from [0, 1); 0 gives the longest wait.
        elapsed_s: How long the call has been going on.
        budget_ms: Time for all tries together: then their number does not count.
    """
    if not is_retryable(error) or (budget_ms is None and attempt >= policy.max_retries):
        return GiveUp(error)
    hint_s = error.retry_after_s or 0.0
    if hint_s and max_delay_ms and hint_s * 1000 > max_delay_ms:
        return GiveUp(with_wait_told(error))
    delay_s = min(backoff_s(attempt, policy, chance=chance), max_delay_ms / 1000 or LONGEST_BACKOFF_S)
    delay_s = max(delay_s, hint_s + HINT_BUFFER_S) if hint_s else delay_s
    if budget_ms is not None and (elapsed_s + delay_s) * 1000 > budget_ms:
        return GiveUp(error)
    return Again(delay_s)


def backoff_s(attempt: int, policy: RetryPolicy, *, chance: Callable[[], float] = random.random) -> float:
    """Seconds before retry number `attempt`, counted from 0: twice as many each time, half of them by chance."""
    whole_s: float = policy.base_ms * 2**attempt / 1000
    return whole_s - whole_s / 2 * chance()


def with_wait_told(error: ProviderError) -> ProviderError:
    """The error, its message saying how long the provider asks to wait."""
    wait_s = error.retry_after_s or 0.0
    told = f"asks to wait {human_duration(wait_s)}"
    if told not in error.message:
        error.message = f"{error.message.rstrip('.')}. {error.provider} {told}."
    return error


def human_duration(seconds: float) -> str:
    """Seconds as a person says them: 45 s, 5 min, 3 h, 16 days."""
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
