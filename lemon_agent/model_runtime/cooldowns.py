"""Pure. How long a credential rests after it failed, and which of several to take."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

from attrs import evolve, field

from lemon_otp import frozen

Failure: TypeAlias = Literal["rate_limit", "auth", "other"]
Ref: TypeAlias = str
"""The name of a credential, such as "env:ANTHROPIC_API_KEY"; never the credential itself."""
Key: TypeAlias = tuple[str, Ref]
"""A provider and one of its credentials."""

FIRST_MS: Final[Mapping[Failure, int]] = {"rate_limit": 15_000, "auth": 300_000, "other": 2_000}
LONGEST_MS: Final[Mapping[Failure, int]] = {"rate_limit": 300_000, "auth": 3_600_000, "other": 60_000}


@frozen
class Rest:
    """Why and until when a credential is passed over; `failures` counts those in a row."""

    failure: Failure
    failures: int
    until_s: float


@frozen
class Cooldowns:
    """Every credential that failed lately."""

    rests: Mapping[Key, Rest] = field(factory=dict)

    def failed(self, key: Key, failure: Failure, *, now_s: float, retry_after_ms: int | None = None) -> "Cooldowns":
        """After one more failure. What a provider asks for in a rate limit is taken at its word."""
        before = self.rests.get(key)
        failures = 1 if before is None else before.failures + 1
        rest = Rest(failure, failures, now_s + rest_ms(failure, failures, retry_after_ms) / 1000)
        return evolve(self, rests={**self.rests, key: rest})

    def succeeded(self, key: Key) -> "Cooldowns":
        """After an answer: nothing is held against the credential any more."""
        if key not in self.rests:
            return self
        return evolve(self, rests={known: rest for known, rest in self.rests.items() if known != key})

    def resting(self, key: Key, now_s: float) -> bool:
        """Is it passed over now?"""
        rest = self.rests.get(key)
        return rest is not None and rest.until_s > now_s

    def choose(self, provider: str, refs: Iterable[Ref], now_s: float) -> Ref | None:
        """The first credential that does not rest; when all do, the first; None when there is none."""
        listed = tuple(refs)
        fresh = (ref for ref in listed if not self.resting((provider, ref), now_s))
        return next(fresh, listed[0] if listed else None)

    def swept(self, now_s: float, keep_s: float = 3_600.0) -> "Cooldowns":
        """Without what has not mattered for a long time."""
        return evolve(self, rests={key: rest for key, rest in self.rests.items() if rest.until_s + keep_s > now_s})


def rest_ms(failure: Failure, failures: int, retry_after_ms: int | None = None) -> int:
    """How long the `failures`-th failure in a row lasts: twice as long each time, up to a limit."""
    if failure == "rate_limit" and retry_after_ms is not None:
        return retry_after_ms
    return min(FIRST_MS[failure] << min(failures - 1, 20), LONGEST_MS[failure])
