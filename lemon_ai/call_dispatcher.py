"""Process. Admission of every model call: breaker, slot, rate limit, in this order.

Tree:  lemon_ai.supervisor / call_dispatcher, permanent
Asked: Acquire (a slot, now or after a wait), SetCap, GetState
Told:  Withdraw, GiveBack, Attach; StreamResult of every stream it holds a slot for; Down of every caller
Emits: telemetry ("lemon_ai", "dispatcher", "dispatch" | "rejected")
Owns:  slots and queues, lost on restart: calls under way go on uncounted

A slot is held until the stream it was taken for has ended, not until `dispatch` returns. The circuit is judged by
that end too, and a call with its retries counts once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Final, TypeVar

from attrs import field

from lemon_ai.admission import DispatcherPolicy, Lane, Waiting
from lemon_ai.circuit import BreakerPolicy
from lemon_ai.circuit_breaker import CircuitBreaker
from lemon_ai.circuit_breaker import name_of as breaker_name
from lemon_ai.errors import AdmissionRefused, CircuitOpen, MaxConcurrency, RateLimitReached
from lemon_ai.rate_limiter import RateLimiter, RatePolicy
from lemon_ai.rate_limiter import name_of as limiter_name
from lemon_ai.verdict import Failing, Nothing, Well, of_failure, of_outcome
from lemon_otp import (
    AlreadyStarted,
    Caller,
    CallFailed,
    Down,
    DynamicSupervisor,
    EventStream,
    GenServer,
    MonitorRef,
    NoReply,
    Reply,
    Request,
    StreamResult,
    call,
    cancel_timer,
    cast,
    define,
    demonitor,
    frozen,
    monitor,
    monotonic_s,
    reply,
    self_pid,
    send_after,
    telemetry,
    whereis,
)

NAME: Final = "call_dispatcher"
SUPERVISOR: Final = "provider_supervisor"
DEFAULT_RESULT_TIMEOUT_MS: Final = 300_000
T = TypeVar("T")

_tokens = count(1)


class Granted:
    """A slot is held under the token asked with."""

    __slots__ = ()


@frozen
class Refused:
    """No slot: the wait ran out, or the queue was full."""

    waited_ms: int
    queue_depth: int


@frozen
class Acquire(Request[Granted | Refused]):
    """A slot of a provider, within so many milliseconds; None waits as long as the policy says."""

    provider: str
    token: int
    queue_timeout_ms: int | None = None


@frozen
class SetCap(Request[None]):
    """How many calls to a provider may be under way, from now on."""

    provider: str
    cap: int


class GetState(Request["DispatcherState"]):
    """Who is in and who waits."""

    __slots__ = ()


@frozen
class DispatcherState:
    """What the dispatcher knows, by provider.

    Attributes:
        caps: Those that were set.
        active: Calls under way.
        queued: Callers that wait.
        default_cap: The cap of every other provider.
    """

    caps: dict[str, int]
    active: dict[str, int]
    queued: dict[str, int]
    default_cap: int


@frozen
class _About:
    provider: str
    token: int


class Withdraw(_About):
    """Whoever asked with this token asks no more; a slot it got meanwhile is free again."""

    __slots__ = ()


@frozen
class Attach:
    """A slot is held for a stream from now on."""

    provider: str
    token: int
    stream: EventStream[Any, Any]
    probe: bool
    timeout_ms: int | None


class WaitedTooLong(_About):
    """A timer of the queue."""

    __slots__ = ()


class StreamTookTooLong(_About):
    """A timer of a held slot."""

    __slots__ = ()


@define
class Holder:
    """Who asked with a token, and what it holds the slot for."""

    provider: str
    caller: MonitorRef
    stream: EventStream[Any, Any] | None = None
    probe: bool = False
    timer: Any = None


@define
class Dispatcher:
    """State of the process."""

    policy: DispatcherPolicy
    lanes: dict[str, Lane] = field(factory=dict)
    caps: dict[str, int] = field(factory=dict)
    holders: dict[int, Holder] = field(factory=dict)
    by_caller: dict[MonitorRef, int] = field(factory=dict)
    by_stream: dict[int, int] = field(factory=dict)

    def lane(self, provider: str) -> Lane:
        if provider not in self.lanes:
            cap = self.caps.get(provider, self.policy.default_cap)
            self.lanes[provider] = Lane(cap, self.policy.max_queue_length)
        return self.lanes[provider]


@frozen
class Config:
    """What admission is started with; the policies of breakers and limiters are for those started later."""

    dispatcher: DispatcherPolicy = field(factory=DispatcherPolicy)
    breaker: BreakerPolicy = field(factory=BreakerPolicy)
    limiter: RatePolicy = field(factory=RatePolicy)


class CallDispatcher(GenServer[DispatcherPolicy, Acquire | SetCap | GetState, Withdraw | Attach, Dispatcher]):
    """Lets model calls through, a bounded number at a time."""

    # Client side: runs in the caller.

    @staticmethod
    async def dispatch(
        provider: str,
        callback: Callable[[], Awaitable[T]],
        *,
        queue_timeout_ms: int | None = None,
        stream_result_timeout_ms: int | None = DEFAULT_RESULT_TIMEOUT_MS,
        config: Config | None = None,
    ) -> T:
        """Run `callback` when the provider may be called, and return what it returned.

        When that is a stream, the call counts as under way until the stream ends.

        Args:
            provider: Whose breaker, slots and bucket.
            callback: Makes the call. It runs in the caller.
            queue_timeout_ms: How long to wait for a slot; 0 fails at once, None takes the dispatcher's policy.
            stream_result_timeout_ms: A stream still open after this is canceled with `timeout`; None never does that.
            config: Policies for a breaker and a limiter that do not run yet.

        Raises:
            CircuitOpen: The provider has been failing.
            MaxConcurrency: No slot came free in time. `callback` never ran.
            RateLimitReached: The bucket is empty. No slot is held.

        What `callback` raises is raised, after the slot was given back. Cancelling gives back whatever was taken.
        """
        telemetry.execute(("lemon_ai", "dispatcher", "dispatch"), {"count": 1}, {"provider": provider})
        await ensure_services(provider, config or Config())
        try:
            lease = await _Lease.obtain(provider, queue_timeout_ms)
        except AdmissionRefused as refusal:
            _tell_rejected(refusal)
            raise
        return await lease.run(callback, stream_result_timeout_ms)

    @staticmethod
    async def set_concurrency_cap(provider: str, cap: int) -> None:
        """Let so many calls run at a time; callers that wait are let in at once when it was raised.

        Raises:
            ValueError: `cap` is not positive.
        """
        if cap <= 0:
            raise ValueError(f"a concurrency cap is at least 1, not {cap!r}")
        await call(NAME, SetCap(provider, cap))

    @staticmethod
    async def get_state() -> DispatcherState:
        """Who is in and who waits, by provider."""
        return await call(NAME, GetState())

    # Server side: runs in the process, one message at a time.

    def init(self, arg: DispatcherPolicy) -> Dispatcher:
        return Dispatcher(arg, caps=dict(arg.caps))

    def handle_call(
        self, message: Acquire | SetCap | GetState, caller: Caller, state: Dispatcher
    ) -> Reply[Dispatcher] | NoReply[Dispatcher]:
        match message:
            case Acquire():
                return _acquire(message, caller, state)
            case SetCap(provider, cap):
                state.caps[provider] = cap
                lane = state.lane(provider)
                lane.cap = cap
                for waiting in lane.admit_waiting():
                    _let_in(waiting, state)
                return Reply(None, state)
            case GetState():
                return Reply(_shown(state), state)

    def handle_cast(self, message: Withdraw | Attach, state: Dispatcher) -> NoReply[Dispatcher]:
        match message:
            case Withdraw():
                _release(message.token, state)
            case Attach():
                _attach(message, state)
        return NoReply(state)

    def handle_info(self, message: Any, state: Dispatcher) -> NoReply[Dispatcher]:
        match message:
            case StreamResult(stream, outcome):
                _stream_ended(stream, outcome, state)
            case Down(ref=ref):
                _caller_died(ref, state)
            case WaitedTooLong(provider, token):
                _waited_too_long(provider, token, state)
            case StreamTookTooLong(_, token):
                holder = state.holders.get(token)
                if holder is not None and holder.stream is not None:
                    holder.stream.cancel("timeout")
        return NoReply(state)


async def ensure_services(provider: str, config: Config) -> None:
    """A breaker and a limiter run for this provider; two first callers at once get the same ones."""
    for name, spec in (
        (breaker_name(provider), CircuitBreaker.spec(provider, config.breaker)),
        (limiter_name(provider), RateLimiter.spec(provider, config.limiter)),
    ):
        if whereis(name) is None:
            try:
                await DynamicSupervisor.start_child(SUPERVISOR, spec)
            except (AlreadyStarted, CallFailed):
                continue  # somebody was first; or nothing supervises here, which breaker and limiter each judge


@define
class _Lease:
    """A call that was admitted: what it holds until it ends."""

    provider: str
    token: int
    tracked: bool
    probe: bool

    @classmethod
    async def obtain(cls, provider: str, queue_timeout_ms: int | None) -> _Lease:
        await CircuitBreaker.admit(provider, take=False)
        lease = cls(provider, next(_tokens), tracked=True, probe=False)
        try:
            await lease._take_slot(queue_timeout_ms)
            lease.probe = (await CircuitBreaker.admit(provider)).probe  # it may have opened during the wait
            await RateLimiter.acquire(provider)
        except BaseException:
            lease.give_back()
            lease._report(Nothing())
            raise
        return lease

    async def run(self, callback: Callable[[], Awaitable[T]], timeout_ms: int | None) -> T:
        try:
            value = await callback()
        except BaseException as error:
            self.give_back()
            self._report(of_failure(error) if isinstance(error, Exception) else Nothing())
            raise
        if isinstance(value, EventStream):
            self._follow(value, timeout_ms)
        else:
            self.give_back()
            self._report(Well())
        return value

    def give_back(self) -> None:
        if self.tracked:
            cast(NAME, Withdraw(self.provider, self.token))

    async def _take_slot(self, queue_timeout_ms: int | None) -> None:
        try:
            answer = await call(NAME, Acquire(self.provider, self.token, queue_timeout_ms), timeout_s=None)
        except CallFailed:
            self.tracked = False  # the dispatcher is being restarted: better uncounted than refused
            return
        if isinstance(answer, Refused):
            self.tracked = False
            raise MaxConcurrency(provider=self.provider, waited_ms=answer.waited_ms, queue_depth=answer.queue_depth)

    def _follow(self, stream: EventStream[Any, Any], timeout_ms: int | None) -> None:
        dispatcher = whereis(NAME)
        if not self.tracked or dispatcher is None:
            return
        cast(NAME, Attach(self.provider, self.token, stream, self.probe, timeout_ms))
        stream.subscribe_result(dispatcher)

    def _report(self, verdict: Well | Failing | Nothing) -> None:
        if self.probe or not isinstance(verdict, Nothing):
            CircuitBreaker.report(self.provider, verdict, probe=self.probe)


def _acquire(message: Acquire, caller: Caller, state: Dispatcher) -> Reply[Dispatcher] | NoReply[Dispatcher]:
    lane = state.lane(message.provider)
    limit_ms = state.policy.queue_timeout_ms if message.queue_timeout_ms is None else message.queue_timeout_ms
    if lane.take(message.token):
        _hold(message, caller, state)
        return Reply(Granted(), state)
    if limit_ms <= 0 or not lane.wait(Waiting(message.token, monotonic_s(), caller)):
        return Reply(Refused(0, len(lane.queue)), state)
    holder = _hold(message, caller, state)
    holder.timer = send_after(self_pid(), WaitedTooLong(message.provider, message.token), limit_ms / 1000)
    return NoReply(state)


def _hold(message: Acquire, caller: Caller, state: Dispatcher) -> Holder:
    ref = monitor(caller.pid)
    holder = state.holders[message.token] = Holder(message.provider, ref)
    state.by_caller[ref] = message.token
    return holder


def _let_in(waiting: Waiting, state: Dispatcher) -> None:
    holder = state.holders[waiting.token]
    _cancel(holder)
    reply(waiting.ticket, Granted())


def _waited_too_long(provider: str, token: int, state: Dispatcher) -> None:
    lane = state.lane(provider)
    waiting = lane.leave(token)
    if waiting is not None:
        waited_ms = round((monotonic_s() - waiting.since_s) * 1000)
        _forget(token, state)
        reply(waiting.ticket, Refused(waited_ms, len(lane.queue)))


def _attach(message: Attach, state: Dispatcher) -> None:
    holder = state.holders.get(message.token)
    if holder is None:
        return
    holder.stream, holder.probe = message.stream, message.probe
    state.by_stream[id(message.stream)] = message.token
    if message.timeout_ms is not None:
        late = StreamTookTooLong(message.provider, message.token)
        holder.timer = send_after(self_pid(), late, message.timeout_ms / 1000)


def _stream_ended(stream: EventStream[Any, Any], outcome: Any, state: Dispatcher) -> None:
    token = state.by_stream.get(id(stream))
    if token is None:
        return
    holder = state.holders[token]
    verdict = of_outcome(outcome)
    if holder.probe or not isinstance(verdict, Nothing):
        CircuitBreaker.report(holder.provider, verdict, probe=holder.probe)
    _release(token, state)


def _caller_died(ref: MonitorRef, state: Dispatcher) -> None:
    token = state.by_caller.get(ref)
    if token is None:
        return
    if state.holders[token].stream is None:
        _release(token, state)  # with a stream, the stream's own end follows and gives the slot back


def _release(token: int, state: Dispatcher) -> None:
    holder = _forget(token, state)
    if holder is None:
        return
    lane = state.lane(holder.provider)
    lane.leave(token)
    for waiting in lane.give_back(token):
        _let_in(waiting, state)


def _forget(token: int, state: Dispatcher) -> Holder | None:
    holder = state.holders.pop(token, None)
    if holder is not None:
        _cancel(holder)
        state.by_caller.pop(holder.caller, None)
        demonitor(holder.caller, flush=True)
        if holder.stream is not None:
            state.by_stream.pop(id(holder.stream), None)
    return holder


def _cancel(holder: Holder) -> None:
    if holder.timer is not None:
        cancel_timer(holder.timer)
        holder.timer = None


def _shown(state: Dispatcher) -> DispatcherState:
    return DispatcherState(
        caps=dict(state.caps),
        active={provider: len(lane.active) for provider, lane in state.lanes.items()},
        queued={provider: len(lane.queue) for provider, lane in state.lanes.items()},
        default_cap=state.policy.default_cap,
    )


def _tell_rejected(refusal: AdmissionRefused) -> None:
    metadata: dict[str, Any] = {"provider": refusal.provider, "reason": refusal.code}
    if isinstance(refusal, CircuitOpen | RateLimitReached):
        metadata["retry_after_ms"] = refusal.retry_after_ms
    elif isinstance(refusal, MaxConcurrency):
        metadata["waited_ms"] = refusal.waited_ms
    telemetry.execute(("lemon_ai", "dispatcher", "rejected"), {"count": 1}, metadata)
