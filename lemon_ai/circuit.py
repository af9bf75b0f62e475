"""Pure. When a provider may be called again: closed yes, open no, half_open a probe or two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from attrs import evolve

from lemon_otp import frozen

State: TypeAlias = Literal["closed", "open", "half_open"]
Signal: TypeAlias = Literal["tripped", "cooled", "probes_passed", "probe_failed"]

TRANSITIONS: Final[Mapping[tuple[State, Signal], State]] = {
    ("closed", "tripped"): "open",
    ("open", "cooled"): "half_open",
    ("half_open", "probes_passed"): "closed",
    ("half_open", "probe_failed"): "open",
}

CHANGES: Final[Mapping[Signal, str]] = {
    "tripped": "opened",
    "cooled": "half_opened",
    "probes_passed": "closed",
    "probe_failed": "reopened",
}
"""What telemetry calls each signal."""


def step(state: State, signal: Signal) -> State:
    """The state after `signal`; an unlisted pair is a bug here, not in the caller."""
    return TRANSITIONS[state, signal]


@frozen
class BreakerPolicy:
    """When a circuit opens and closes.

    Attributes:
        failure_threshold: Failures in a row that open it.
        recovery_timeout_ms: How long it stays open after the last failure.
        probes: How many calls may be under way while it is half open, and how many must succeed to close it.
        probe_timeout_ms: A probe that was never reported on is forgotten after this time.
    """

    failure_threshold: int = 5
    recovery_timeout_ms: int = 30_000
    probes: int = 2
    probe_timeout_ms: int = 300_000


@frozen
class Circuit:
    """What is known of one provider's recent calls.

    Attributes:
        failure_count: Failures since the last success.
        success_count: Probes that succeeded since it became half open.
        last_failure_s: When the last failure was reported.
        last_failure_reason: What it was, for people.
        probes_s: When each probe under way was admitted.
        signal: What changed the state in the step that made this value; None when nothing did.
    """

    policy: BreakerPolicy
    state: State = "closed"
    failure_count: int = 0
    success_count: int = 0
    last_failure_s: float = 0.0
    last_failure_reason: str | None = None
    probes_s: tuple[float, ...] = ()
    signal: Signal | None = None

    def at(self, now_s: float) -> Circuit:
        """The circuit as it is now: one that cooled down is half open."""
        if self.state == "open" and self.time_until_recovery_ms(now_s) == 0:
            return evolve(self._moved("cooled"), success_count=0, probes_s=())
        return evolve(self, signal=None)

    def admit(self, now_s: float) -> tuple[Circuit, bool]:
        """Whether a call may be made. In half_open an admitted call is a probe and must be reported on."""
        now = self.at(now_s)
        if now.state != "half_open":
            return now, now.state == "closed"
        alive = tuple(since for since in now.probes_s if now_s - since < self.policy.probe_timeout_ms / 1000)
        if len(alive) >= self.policy.probes:
            return evolve(now, probes_s=alive), False
        return evolve(now, probes_s=(*alive, now_s)), True

    def record_success(self, now_s: float, *, probe: bool = False) -> Circuit:
        """A call ended well."""
        now = self.at(now_s)._without_probe(probe)
        if now.state == "closed":
            return evolve(now, failure_count=0)
        if now.state == "open":
            return now
        now = evolve(now, success_count=now.success_count + 1)
        if now.success_count < self.policy.probes:
            return now
        return evolve(now._moved("probes_passed"), failure_count=0, success_count=0, probes_s=())

    def record_failure(self, reason: str, now_s: float, *, probe: bool = False) -> Circuit:
        """A call ended badly, and it was the provider's doing."""
        now = self.at(now_s)._without_probe(probe)
        now = evolve(
            now, failure_count=now.failure_count + 1, last_failure_s=now_s, last_failure_reason=reason, success_count=0
        )
        if now.state == "half_open":
            return evolve(now._moved("probe_failed"), probes_s=())
        if now.state == "closed" and now.failure_count >= self.policy.failure_threshold:
            return now._moved("tripped")
        return now

    def forget_probe(self, now_s: float, *, probe: bool = True) -> Circuit:
        """An admitted call ended without saying anything about the provider."""
        return self.at(now_s)._without_probe(probe)

    def time_until_recovery_ms(self, now_s: float) -> int:
        """Milliseconds until it becomes half open; 0 unless it is open."""
        if self.state != "open":
            return 0
        return max(0, round(self.policy.recovery_timeout_ms - (now_s - self.last_failure_s) * 1000))

    def _moved(self, signal: Signal) -> Circuit:
        return evolve(self, state=step(self.state, signal), signal=signal)

    def _without_probe(self, probe: bool) -> Circuit:
        return evolve(self, probes_s=self.probes_s[1:]) if probe and self.probes_s else self
