"""Process. One provider's token bucket.

Tree:  lemon_ai.supervisor / provider_supervisor / rate_limiter[provider], permanent
Owns:  one Bucket, lost on restart: a new one starts full
"""

from __future__ import annotations

from attrs import evolve, field

from lemon_ai.errors import RateLimitReached
from lemon_otp import Caller, CallFailed, ChildSpec, GenServer, NoReply, Reply, Request, call, frozen, monotonic_s


@frozen
class RatePolicy:
    """How often a provider may be called.

    Attributes:
        refill_per_s: Tokens that come back in a second, fractions included.
        capacity: Tokens a full bucket holds.
    """

    refill_per_s: float = 10.0
    capacity: float = 20.0


@frozen
class Bucket:
    """Tokens left, and when that was counted."""

    policy: RatePolicy
    tokens: float
    counted_s: float

    def at(self, now_s: float) -> Bucket:
        """The bucket now: what came back since is in it."""
        refilled = self.tokens + max(0.0, now_s - self.counted_s) * self.policy.refill_per_s
        return evolve(self, tokens=min(self.policy.capacity, refilled), counted_s=now_s)

    def take(self, now_s: float) -> tuple[Bucket, bool]:
        """One token less, or False when there is none; never waits."""
        now = self.at(now_s)
        return (evolve(now, tokens=now.tokens - 1), True) if now.tokens >= 1 else (now, False)

    def wait_ms(self) -> int:
        """Milliseconds until there is a token again."""
        missing = max(0.0, 1 - self.tokens)
        return round(missing / self.policy.refill_per_s * 1000) if self.policy.refill_per_s > 0 else 0


@frozen
class Start:
    """What a limiter is started with."""

    provider: str
    policy: RatePolicy = field(factory=RatePolicy)


@frozen
class LimiterState:
    """Whole tokens to be had, of how many."""

    available_tokens: int
    capacity: int


class Acquire(Request[int | None]):
    """Take one token: None when taken, else milliseconds until there is one."""

    __slots__ = ()


class GetState(Request[LimiterState]):
    """How full the bucket is."""

    __slots__ = ()


def name_of(provider: str) -> str:
    """The registered name of a provider's limiter."""
    return f"rate_limiter[{provider}]"


class RateLimiter(GenServer[Start, Acquire | GetState, None, Bucket]):
    """Spreads the calls of this host to one provider. Where none runs, calls are refused."""

    # Client side: runs in the caller.

    @staticmethod
    def spec(provider: str, policy: RatePolicy) -> ChildSpec:
        """How a provider's limiter is started."""
        name = name_of(provider)
        return RateLimiter.child_spec(Start(provider, policy), id=name, name=name)

    @staticmethod
    async def acquire(provider: str, *, timeout_s: float = 5.0) -> None:
        """Take a token now; there is nothing to give back later.

        Raises:
            RateLimitReached: There is none, or no limiter runs.
        """
        try:
            wait_ms = await call(name_of(provider), Acquire(), timeout_s=timeout_s)
        except CallFailed:
            wait_ms = 0
        if wait_ms is not None:
            raise RateLimitReached(provider=provider, retry_after_ms=wait_ms)

    @staticmethod
    async def get_state(provider: str) -> LimiterState | None:
        """How full the bucket is; None where no limiter runs."""
        try:
            state: LimiterState = await call(name_of(provider), GetState())
        except CallFailed:
            return None
        return state

    # Server side: runs in the process, one message at a time.

    async def init(self, arg: Start) -> Bucket:
        return Bucket(arg.policy, arg.policy.capacity, monotonic_s())

    async def handle_call(self, message: Acquire | GetState, caller: Caller, state: Bucket) -> Reply[Bucket]:
        match message:
            case Acquire():
                bucket, taken = state.take(monotonic_s())
                return Reply(None if taken else bucket.wait_ms(), bucket)
            case GetState():
                bucket = state.at(monotonic_s())
                return Reply(LimiterState(int(bucket.tokens), int(bucket.policy.capacity)), bucket)

    async def handle_cast(self, message: None, state: Bucket) -> NoReply[Bucket]:
        return NoReply(state)
