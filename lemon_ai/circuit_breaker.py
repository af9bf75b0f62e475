"""Process. One provider's circuit breaker.

Tree:  lemon_ai.supervisor / provider_supervisor / circuit_breaker[provider], permanent
Emits: telemetry ("lemon_ai", "circuit_breaker", "opened" | "half_opened" | "closed" | "reopened")
Owns:  one Circuit, lost on restart: a new one starts closed
"""

from __future__ import annotations

from typing import Final

from attrs import field

from lemon_ai.circuit import CHANGES, BreakerPolicy, Circuit
from lemon_ai.errors import CircuitOpen
from lemon_ai.verdict import Failing, Nothing, Verdict, Well
from lemon_otp import (
    Caller,
    CallFailed,
    ChildSpec,
    GenServer,
    NoReply,
    Reply,
    Request,
    call,
    cast,
    frozen,
    monotonic_s,
    telemetry,
)

_WELL: Final = Well()


@frozen
class Start:
    """What a breaker is started with."""

    provider: str
    policy: BreakerPolicy = field(factory=BreakerPolicy)


@frozen
class Admission:
    """The answer to `Admit`.

    Attributes:
        admitted: A call may be made.
        probe: It is a probe: its end must be reported.
        retry_after_ms: How long until calls are tried again, when not admitted.
    """

    admitted: bool
    probe: bool = False
    retry_after_ms: int = 0


@frozen
class Admit(Request[Admission]):
    """May one call be made now? `take` is False for a look that takes no probe's place."""

    take: bool = True


class GetCircuit(Request[Circuit]):
    """The circuit as it is now."""

    __slots__ = ()


class Reset(Request[None]):
    """Forget everything: closed."""

    __slots__ = ()


@frozen
class Report:
    """An admitted call ended."""

    verdict: Verdict
    probe: bool = False


@frozen
class Breaker:
    """State of the process."""

    provider: str
    circuit: Circuit


def name_of(provider: str) -> str:
    """The registered name of a provider's breaker."""
    return f"circuit_breaker[{provider}]"


class CircuitBreaker(GenServer[Start, Admit | GetCircuit | Reset, Report, Breaker]):
    """Refuses calls to a provider that keeps failing. Where none runs, calls pass."""

    # Client side: runs in the caller.

    @staticmethod
    def spec(provider: str, policy: BreakerPolicy) -> ChildSpec:
        """How a provider's breaker is started."""
        name = name_of(provider)
        return CircuitBreaker.child_spec(Start(provider, policy), id=name, name=name)

    @staticmethod
    async def admit(provider: str, *, take: bool = True, timeout_s: float = 5.0) -> Admission:
        """Whether a call may be made now.

        Raises:
            CircuitOpen: It may not; nothing was taken.
        """
        try:
            answer = await call(name_of(provider), Admit(take), timeout_s=timeout_s)
        except CallFailed:
            return Admission(admitted=True)
        if not answer.admitted:
            raise CircuitOpen(provider=provider, retry_after_ms=answer.retry_after_ms)
        return answer

    @staticmethod
    def report(provider: str, verdict: Verdict, *, probe: bool = False) -> None:
        """Say how an admitted call ended."""
        cast(name_of(provider), Report(verdict, probe))

    @staticmethod
    def record_success(provider: str) -> None:
        """A call ended well."""
        CircuitBreaker.report(provider, _WELL)

    @staticmethod
    def record_failure(provider: str, reason: str) -> None:
        """A call ended badly."""
        CircuitBreaker.report(provider, Failing(reason))

    @staticmethod
    async def is_open(provider: str) -> bool:
        """Whether calls are refused now; False where no breaker runs."""
        try:
            return (await call(name_of(provider), GetCircuit())).state == "open"
        except CallFailed:
            return False

    @staticmethod
    async def get_state(provider: str) -> Circuit | None:
        """The circuit as it is now; None where no breaker runs."""
        try:
            circuit: Circuit = await call(name_of(provider), GetCircuit())
        except CallFailed:
            return None
        return circuit

    @staticmethod
    async def reset(provider: str) -> None:
        """Close the circuit and forget its failures."""
        await call(name_of(provider), Reset())

    # Server side: runs in the process, one message at a time.

    async def init(self, arg: Start) -> Breaker:
        return Breaker(arg.provider, Circuit(arg.policy))

    async def handle_call(self, message: Admit | GetCircuit | Reset, caller: Caller, state: Breaker) -> Reply[Breaker]:
        now_s = monotonic_s()
        match message:
            case Admit(take=True):
                circuit, admitted = state.circuit.admit(now_s)
                answer = Admission(
                    admitted,
                    probe=admitted and circuit.state == "half_open",
                    retry_after_ms=circuit.time_until_recovery_ms(now_s),
                )
                return Reply(answer, _told(state, circuit))
            case Admit():
                circuit = state.circuit.at(now_s)
                answer = Admission(circuit.state != "open", retry_after_ms=circuit.time_until_recovery_ms(now_s))
                return Reply(answer, _told(state, circuit))
            case GetCircuit():
                circuit = state.circuit.at(now_s)
                return Reply(circuit, _told(state, circuit))
            case Reset():
                return Reply(None, Breaker(state.provider, Circuit(state.circuit.policy)))

    async def handle_cast(self, message: Report, state: Breaker) -> NoReply[Breaker]:
        now_s = monotonic_s()
        match message.verdict:
            case Well():
                circuit = state.circuit.record_success(now_s, probe=message.probe)
            case Failing(reason):
                circuit = state.circuit.record_failure(reason, now_s, probe=message.probe)
            case Nothing():
                circuit = state.circuit.forget_probe(now_s, probe=message.probe)
        return NoReply(_told(state, circuit))


def _told(state: Breaker, circuit: Circuit) -> Breaker:
    if circuit.signal is not None:
        telemetry.execute(
            ("lemon_ai", "circuit_breaker", CHANGES[circuit.signal]),
            {"failure_count": circuit.failure_count},
            {"provider": state.provider, "reason": circuit.last_failure_reason},
        )
    return Breaker(state.provider, circuit)
