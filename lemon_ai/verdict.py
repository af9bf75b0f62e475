"""Pure. What the end of a model call says about its provider: well, failing, or nothing."""

from __future__ import annotations

from typing import Any, Final

from lemon_ai.errors import AiError, ProviderError
from lemon_otp import Canceled, Completed, Failed, frozen

COUNTED_CANCELS: Final = frozenset({"owner_down", "timeout"})
"""Reasons of a cancel that are held against the provider; any other was the caller's own wish."""


class Well:
    """The provider did its work."""

    __slots__ = ()


@frozen
class Failing:
    """The provider did not; `reason` is for people."""

    reason: str


class Nothing:
    """The end was nobody's fault, or the caller's."""

    __slots__ = ()


Verdict = Well | Failing | Nothing


def of_outcome(outcome: Completed | Failed | Canceled) -> Verdict:
    """The verdict on a stream that ended."""
    match outcome:
        case Completed():
            return Well()
        case Canceled(reason):
            return Failing(str(reason)) if reason in COUNTED_CANCELS else Nothing()
        case Failed(reason):
            return of_failure(reason)


def of_failure(reason: Any) -> Verdict:
    """The verdict on a failure: what a request itself caused is not held against the provider."""
    if isinstance(reason, ProviderError):
        return Failing(reason.message) if reason.trips_breaker else Nothing()
    if isinstance(reason, AiError) or reason == "aborted":
        return Nothing()
    return Failing(str(reason))
