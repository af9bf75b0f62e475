"""Which failures are tried again, and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_ai import (
    AuthFailed,
    BadRequest,
    ContentRefused,
    ContextOverflow,
    ProviderError,
    ProviderUnavailable,
    ProviderUnreachable,
    QuotaExhausted,
    RateLimited,
    RetryPolicy,
    ServerFailed,
    StreamOptions,
    StreamTruncated,
)
from lemon_ai.retry_helper import Again, GiveUp, backoff_s, decide, human_duration, is_retryable, policy_for

POLICY = RetryPolicy(max_retries=3, base_ms=400)


def made(cls: type[ProviderError], **facts: object) -> ProviderError:
    return cls(provider="p", message="m", **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (made(RateLimited, status=429), True),
        (made(ProviderUnavailable, status=529), True),
        (made(ProviderUnreachable), True),
        (made(StreamTruncated), True),
        (made(ServerFailed, status=500), True),
        (made(ServerFailed, status=501), False),
        (made(BadRequest, status=409), True),
        (made(BadRequest, status=400), False),
        (made(AuthFailed, status=401), False),
        (made(ContextOverflow, status=400), False),
        (made(ContentRefused), False),
        (made(QuotaExhausted, status=429), False),
        (made(ProviderError), False),
    ],
)
@pytest.mark.requirement("AI-7")
def test_only_passing_failures_are_tried_again(error: ProviderError, retryable: bool) -> None:
    """What a request itself caused, or a plan's limit, is not."""
    assert is_retryable(error) is retryable


@given(st.integers(0, 8), st.floats(0, 1, exclude_max=True))
def test_waits_double_and_the_upper_half_is_chance(attempt: int, chance: float) -> None:
    """Never shorter than half of it, so never none at all."""
    whole_s = 0.4 * 2**attempt
    assert whole_s / 2 < backoff_s(attempt, POLICY, chance=lambda: chance) <= whole_s


def test_retries_are_counted() -> None:
    """After the last one the error comes out."""
    error = made(ProviderUnavailable)
    assert isinstance(decide(error, 2, POLICY, max_delay_ms=60_000), Again)
    assert decide(error, 3, POLICY, max_delay_ms=60_000) == GiveUp(error)


@pytest.mark.requirement("BR-030")
def test_a_wait_asked_for_is_a_lower_bound() -> None:
    """With a second on top; a longer backoff wins."""
    again = decide(made(RateLimited, retry_after_s=5.0), 0, POLICY, max_delay_ms=60_000)
    assert again == Again(6.0)
    slow = RetryPolicy(max_retries=3, base_ms=60_000)
    again = decide(made(RateLimited, retry_after_s=5.0), 0, slow, max_delay_ms=60_000, chance=lambda: 0.0)
    assert again == Again(60.0)


@pytest.mark.requirement("BR-026", "AI-7")
def test_a_longer_wait_than_the_cap_comes_out_at_once_and_is_told() -> None:
    """The error carries the seconds and says them; 0 lifts the cap."""
    error = made(RateLimited, retry_after_s=1_382_400.0)
    given_up = decide(error, 0, POLICY, max_delay_ms=60_000)
    assert given_up == GiveUp(error)
    assert "16 days" in str(error)
    assert decide(made(RateLimited, retry_after_s=90.0), 0, POLICY, max_delay_ms=0) == Again(91.0)


@pytest.mark.requirement("BR-028")
def test_a_budget_of_time_bounds_the_tries_instead_of_their_number() -> None:
    """Waits stay below a minute, and the last one ends within the budget."""
    error = made(RateLimited)
    late = decide(error, 30, POLICY, max_delay_ms=60_000, elapsed_s=600.0, budget_ms=3_600_000, chance=lambda: 0.0)
    assert late == Again(60.0)
    over = decide(error, 30, POLICY, max_delay_ms=60_000, elapsed_s=3_590.0, budget_ms=3_600_000, chance=lambda: 0.0)
    assert over == GiveUp(error)


def test_the_caller_may_set_the_number_of_retries() -> None:
    """A provider's own policy stands otherwise."""

    class Own:
        retry = RetryPolicy(2, 1_000)

    assert policy_for(Own(), StreamOptions()) == RetryPolicy(2, 1_000)
    assert policy_for(Own(), StreamOptions(max_retries=0)) == RetryPolicy(0, 1_000)
    assert policy_for(object(), StreamOptions()) == RetryPolicy()


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (45, "45 s"), (119, "119 s"), (300, "5 min"), (10_800, "3 h"), (1_382_400, "16 days")],
)
def test_waits_are_said_as_people_say_them(seconds: float, said: str) -> None:
    """Rounded to a unit of which there are at least two."""
    assert human_duration(seconds) == said
