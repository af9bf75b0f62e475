"""Process. What the host knows of its providers: which credentials rest, whose turn it is in a pool, who stays where.

Tree:  lemon_agent.supervisor / model_router
Owns:  one table of cooldowns, the rotations and the pins, lost with it: a new one holds nothing against anybody
"""

from typing import Final, TypeAlias

from attrs import evolve, field

from lemon_agent.model_runtime.cooldowns import Cooldowns, Failure, Key, Ref
from lemon_agent.model_runtime.routing import Pins, Rotation, Strategy
from lemon_otp import (
    Caller,
    GenServer,
    NoReply,
    Reply,
    Request,
    call,
    cast,
    frozen,
    monotonic_s,
    self_pid,
    send_interval,
)

MODEL_ROUTER: Final = "model_router"
SWEEP_S: Final = 3_600.0


@frozen
class GetCooldowns(Request[Cooldowns]):
    """Which credentials rest?"""


@frozen
class Order(Request[tuple[str, ...]]):
    """In which order should the members of a pool be tried?"""

    pool: str
    members: tuple[str, ...]
    strategy: Strategy
    session: str | None = None


@frozen
class GetPin(Request[tuple[str, str] | None]):
    """With which provider and credential does a session stay?"""

    session: str | None


@frozen
class Failed:
    """A credential failed."""

    key: Key
    failure: Failure
    retry_after_ms: int | None = None


@frozen
class Succeeded:
    """A credential got an answer."""

    key: Key


@frozen
class Pin:
    """A session was answered by a fallback and stays with it."""

    session: str | None
    provider: str
    ref: Ref


@frozen
class Known:
    """What a router holds."""

    cooldowns: Cooldowns = field(factory=Cooldowns)
    rotation: Rotation = field(factory=Rotation)
    pins: Pins = field(factory=Pins)


Asked: TypeAlias = GetCooldowns | Order | GetPin
Told: TypeAlias = Failed | Succeeded | Pin
_SWEEP: Final = "sweep"


class ModelRouter(GenServer[None, Asked, Told, Known]):
    """The one place where failures of credentials are remembered."""

    # Client side: runs in the caller.

    @staticmethod
    async def cooldowns() -> Cooldowns:
        """Which credentials rest, at this moment."""
        return await call(MODEL_ROUTER, GetCooldowns())

    @staticmethod
    def failed(key: Key, failure: Failure, retry_after_ms: int | None = None) -> None:
        """Let a credential rest."""
        cast(MODEL_ROUTER, Failed(key, failure, retry_after_ms))

    @staticmethod
    def succeeded(key: Key) -> None:
        """Hold nothing against a credential any more."""
        cast(MODEL_ROUTER, Succeeded(key))

    @staticmethod
    async def order(
        pool: str, members: tuple[str, ...], strategy: Strategy = "priority", session: str | None = None
    ) -> tuple[str, ...]:
        """The members of a pool in the order to try them."""
        return await call(MODEL_ROUTER, Order(pool, members, strategy, session))

    @staticmethod
    def pin(session: str | None, provider: str, ref: Ref) -> None:
        """Let a session stay with what answered it."""
        cast(MODEL_ROUTER, Pin(session, provider, ref))

    @staticmethod
    async def pinned(session: str | None) -> tuple[str, str] | None:
        """The provider and credential a session stays with."""
        return await call(MODEL_ROUTER, GetPin(session))

    # Server side: runs in the process, one message at a time.

    def init(self, arg: None) -> Known:
        send_interval(self_pid(), _SWEEP, SWEEP_S)
        return Known()

    def handle_call(self, message: Asked, caller: Caller, known: Known) -> Reply[Known]:
        match message:
            case GetCooldowns():
                return Reply(known.cooldowns, known)
            case Order():
                rotation, order = known.rotation.order(
                    message.pool, message.members, message.strategy, message.session, monotonic_s()
                )
                return Reply(order, evolve(known, rotation=rotation))
            case GetPin(session):
                return Reply(known.pins.of(session, monotonic_s()), known)

    def handle_cast(self, message: Told, known: Known) -> NoReply[Known]:
        now_s = monotonic_s()
        match message:
            case Failed(key, failure, retry_after_ms):
                cooldowns = known.cooldowns.failed(key, failure, now_s=now_s, retry_after_ms=retry_after_ms)
                return NoReply(evolve(known, cooldowns=cooldowns))
            case Succeeded(key):
                return NoReply(evolve(known, cooldowns=known.cooldowns.succeeded(key)))
            case Pin(session, provider, ref):
                return NoReply(evolve(known, pins=known.pins.pin(session, provider, ref, now_s)))

    def handle_info(self, message: object, known: Known) -> NoReply[Known]:
        if message == _SWEEP:
            now_s = monotonic_s()
            known = Known(known.cooldowns.swept(now_s), known.rotation.swept(now_s), known.pins.swept(now_s))
        return NoReply(known)
