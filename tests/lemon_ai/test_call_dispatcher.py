"""Admission of model calls: breaker, slot, rate limit; who waits, who is refused, when a slot comes free."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from lemon_ai import (
    AssistantMessage,
    BreakerPolicy,
    CallDispatcher,
    CircuitBreaker,
    CircuitOpen,
    Config,
    MaxConcurrency,
    Model,
    ProviderUnavailable,
    RateLimiter,
    RateLimitReached,
    RatePolicy,
)
from lemon_ai.event_stream import open_model_stream
from lemon_otp import Down, EventStream, exit_signal, monitor, receive, self_pid, send, spawn, telemetry, whereis
from lemon_otp.testing import FakeClock, settle

MESSAGE = AssistantMessage(timestamp=0)
MODEL = Model(id="m", api="scripted", provider="p")
ROOMY = Config(limiter=RatePolicy(1000.0, 1000.0))


async def opened(provider: str = "p", **options: Any) -> EventStream[Any, Any]:
    """A stream that was admitted, owned by the caller."""

    async def begin() -> EventStream[Any, Any]:
        return open_model_stream(MODEL, timeout_ms=None)

    return await CallDispatcher.dispatch(provider, begin, config=ROOMY, **options)


async def fill(provider: str = "p", cap: int = 1) -> list[EventStream[Any, Any]]:
    """All slots of a provider, taken."""
    await CallDispatcher.set_concurrency_cap(provider, cap)
    return [await opened(provider) for _ in range(cap)]


async def caller(parent: Any, label: Any, provider: str = "p", **options: Any) -> None:
    """A process that asks for a call, tells what it got, and holds on to it."""
    try:
        stream = await opened(provider, **options)
    except Exception as error:
        send(parent, (label, error))
        return
    send(parent, (label, stream))
    await receive(lambda message: message == "leave")


async def active(provider: str = "p") -> tuple[int, int]:
    state = await CallDispatcher.get_state()
    return state.active.get(provider, 0), state.queued.get(provider, 0)


@pytest.mark.requirement("AI-5")
async def test_a_slot_is_held_until_the_stream_ends_not_until_dispatch_returns(ai: Any) -> None:
    """Completion, error and cancel each give it back; reading the events is not needed for that."""
    for ending in (
        lambda stream: stream.complete(MESSAGE),
        lambda stream: stream.error("boom"),
        lambda stream: stream.cancel("user_abort"),
    ):
        stream = await opened()
        assert await active() == (1, 0)
        ending(stream)
        await settle()
        assert await active() == (0, 0)


@pytest.mark.requirement("AI-4", "AI-5")
async def test_the_owners_death_gives_the_slot_back(ai: Any) -> None:
    """The stream is canceled with its owner, and the slot with the stream."""
    owner = spawn(caller, self_pid(), "one")
    _, stream = await receive()
    assert await active() == (1, 0)
    exit_signal(owner, "kill")
    await settle()
    assert stream.done
    assert await active() == (0, 0)


@pytest.mark.requirement("AI-6")
async def test_no_wait_at_all_fails_at_once_before_the_callback_runs(ai: Any) -> None:
    """queue_timeout_ms 0 is max_concurrency straight away."""
    await fill()
    ran = []

    async def never() -> None:
        ran.append(True)

    with pytest.raises(MaxConcurrency) as refused:
        await CallDispatcher.dispatch("p", never, queue_timeout_ms=0, config=ROOMY)
    assert (refused.value.waited_ms, ran, refused.value.code) == (0, [], "max_concurrency")


@pytest.mark.requirement("AI-6")
async def test_callers_wait_in_the_order_they_came(ai: Any) -> None:
    """Each slot that comes free goes to the one that waited longest."""
    (stream,) = await fill()
    for label in "abc":
        spawn(caller, self_pid(), label)
        await settle()
    assert await active() == (1, 3)
    order = []
    for _ in range(3):
        stream.cancel("user_abort")
        label, stream = await receive()
        order.append(label)
    assert order == ["a", "b", "c"]


@pytest.mark.requirement("AI-6")
async def test_a_wait_that_runs_out_is_max_concurrency(clocked_ai: FakeClock) -> None:
    """The error says how long it waited and how many wait still; the queue is shorter by one."""
    await fill()
    spawn(caller, self_pid(), "patient")
    spawn(partial(caller, queue_timeout_ms=2_000), self_pid(), "hasty")
    await settle()
    await clocked_ai.advance(2.0)
    label, error = await receive()
    assert label == "hasty"
    assert isinstance(error, MaxConcurrency)
    assert (error.waited_ms, error.queue_depth) == (2_000, 1)
    await clocked_ai.advance(28.0)
    label, error = await receive()
    assert (label, type(error)) == ("patient", MaxConcurrency)
    assert await active() == (1, 0)


async def test_a_full_queue_refuses_at_once(ai: Any) -> None:
    """A hundred may wait for one provider."""
    await fill()
    for number in range(100):
        spawn(caller, self_pid(), number)
    await settle()
    with pytest.raises(MaxConcurrency) as refused:
        await opened()
    assert refused.value.queue_depth == 100


async def test_a_waiting_caller_that_dies_leaves_the_queue_without_a_slot(ai: Any) -> None:
    """The next one gets it."""
    (stream,) = await fill()
    first = spawn(caller, self_pid(), "first")
    await settle()
    spawn(caller, self_pid(), "second")
    await settle()
    exit_signal(first, "kill")
    await settle()
    assert await active() == (1, 1)
    stream.cancel("user_abort")
    label, _ = await receive()
    assert label == "second"


async def test_a_wait_that_is_cancelled_leaves_the_queue(ai: Any) -> None:
    """The process lives on; a slot it would have got later is not lost."""
    (stream,) = await fill()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await opened()
    await settle()
    assert await active() == (1, 0)
    stream.cancel("user_abort")
    await settle()
    assert await active() == (0, 0)


async def test_raising_the_cap_lets_waiting_callers_in_at_once(ai: Any) -> None:
    """A cap must be positive."""
    await fill()
    spawn(caller, self_pid(), "a")
    await settle()
    await CallDispatcher.set_concurrency_cap("p", 2)
    label, _ = await receive()
    assert label == "a"
    with pytest.raises(ValueError, match="at least 1"):
        await CallDispatcher.set_concurrency_cap("p", 0)


async def test_providers_do_not_share_slots(ai: Any) -> None:
    """One that is full stops no other."""
    await fill("p")
    await opened("q")
    state = await CallDispatcher.get_state()
    assert (state.active, state.caps, state.default_cap) == ({"p": 1, "q": 1}, {"p": 1}, 10)


async def test_a_callback_that_raises_gives_the_slot_back_and_is_heard(ai: Any) -> None:
    """The exception comes out as it is and counts against the provider; what the request caused does not."""

    async def fails() -> None:
        raise RuntimeError("no socket")

    with pytest.raises(RuntimeError, match="no socket"):
        await CallDispatcher.dispatch("p", fails)
    await settle()
    assert await active() == (0, 0)
    circuit = await CircuitBreaker.get_state("p")
    assert circuit is not None
    assert (circuit.failure_count, circuit.last_failure_reason) == (1, "no socket")


async def test_a_callback_that_returns_no_stream_is_done_when_it_returns(ai: Any) -> None:
    """And counts as a success."""

    async def plain() -> str:
        return "value"

    assert await CallDispatcher.dispatch("p", plain) == "value"
    await settle()
    assert await active() == (0, 0)


async def test_an_empty_bucket_refuses_and_holds_no_slot(clocked_ai: FakeClock) -> None:
    """Twenty at once, then ten a second; the refusal says when."""
    for _ in range(20):
        (await CallDispatcher.dispatch("r", _stream_of_nobody)).cancel("user_abort")
    with pytest.raises(RateLimitReached) as refused:
        await CallDispatcher.dispatch("r", _stream_of_nobody)
    assert refused.value.retry_after_ms == 100
    await settle()
    assert (await CallDispatcher.get_state()).active["r"] == 0
    await clocked_ai.advance(0.1)
    await CallDispatcher.dispatch("r", _stream_of_nobody)


async def _stream_of_nobody() -> EventStream[Any, Any]:
    return open_model_stream(MODEL, timeout_ms=None)


async def test_failed_streams_open_the_circuit_and_only_a_complete_one_closes_it(clocked_ai: FakeClock) -> None:
    """Five failures in a row refuse the sixth; after 30 s two probes that complete close it again."""
    for _ in range(5):
        (await opened()).error(ProviderUnavailable(provider="p", message="down"))
        await settle()
    with pytest.raises(CircuitOpen) as refused:
        await opened()
    assert refused.value.retry_after_ms == 30_000
    await clocked_ai.advance(30.0)
    probes = [await opened(), await opened()]
    with pytest.raises(CircuitOpen):
        await opened()
    for probe in probes:
        probe.complete(MESSAGE)
    await settle()
    assert not await CircuitBreaker.is_open("p")
    circuit = await CircuitBreaker.get_state("p")
    assert circuit is not None
    assert circuit.state == "closed"


async def test_what_a_request_caused_and_what_a_user_wished_is_not_held_against_the_provider(ai: Any) -> None:
    """4xx, rate limits, overflow and aborts leave the circuit alone; a timeout and an owner's death count."""
    from lemon_ai import AuthFailed, BadRequest, ContextOverflow, RateLimited

    for cls in (AuthFailed, BadRequest, ContextOverflow, RateLimited):
        (await opened()).error(cls(provider="p", message="m"))
    for reason in ("user_abort", "aborted", "redirected", "shutdown"):
        (await opened()).cancel(reason)
    await settle()
    circuit = await CircuitBreaker.get_state("p")
    assert circuit is not None
    assert circuit.failure_count == 0
    (await opened()).cancel("timeout")
    (await opened()).cancel("owner_down")
    (await opened()).error(("task_crashed", "bug"))
    await settle()
    circuit = await CircuitBreaker.get_state("p")
    assert circuit is not None
    assert circuit.failure_count == 3


async def test_a_circuit_that_opens_during_the_wait_refuses_the_waiting(ai: Any) -> None:
    """The breaker is asked again when the slot is there; the slot goes back."""
    streams = await fill("p", 5)
    spawn(caller, self_pid(), "waiting")
    await settle()
    for stream in streams:
        stream.error(ProviderUnavailable(provider="p", message="down"))
    label, error = await receive()
    assert label == "waiting"
    # The first slot came free with the first failure: the waiting call was let in before the circuit opened.
    if isinstance(error, EventStream):
        error.cancel("user_abort")
    await settle()
    assert await active() == (0, 0)
    with pytest.raises(CircuitOpen):
        await opened()


async def test_a_stream_that_never_ends_is_canceled_and_counted(clocked_ai: FakeClock) -> None:
    """The dispatcher's own limit for a stream without one."""
    stream = await opened(stream_result_timeout_ms=5_000)
    await clocked_ai.advance(5.0)
    assert stream.done
    assert await active() == (0, 0)
    circuit = await CircuitBreaker.get_state("p")
    assert circuit is not None
    assert circuit.failure_count == 1


async def test_two_first_callers_get_one_breaker_and_one_limiter(ai: Any) -> None:
    """Concurrent first use starts each once."""
    for label in range(5):
        spawn(caller, self_pid(), label, "fresh")
    await settle()
    assert await active("fresh") == (5, 0)
    assert whereis("circuit_breaker[fresh]") is not None
    assert whereis("rate_limiter[fresh]") is not None


async def test_calls_go_on_uncounted_while_the_dispatcher_is_started_again(ai: Any) -> None:
    """Killed in its work: streams under way run on, new calls pass, slots are counted anew."""
    before = await opened()
    dispatcher = whereis("call_dispatcher")
    assert dispatcher is not None
    ref = monitor(dispatcher)
    exit_signal(dispatcher, "kill")
    await receive(lambda message: isinstance(message, Down) and message.ref == ref)
    await settle()
    assert whereis("call_dispatcher") not in (None, dispatcher)
    assert not before.done
    assert await active() == (0, 0)
    stream = await opened()
    assert await active() == (1, 0)
    before.cancel("user_abort")
    stream.cancel("user_abort")
    await settle()
    assert await active() == (0, 0)


async def test_a_killed_breaker_starts_closed_and_a_killed_limiter_full(ai: Any) -> None:
    """What each knew is lost with it, and calls go on."""
    config = Config(breaker=BreakerPolicy(failure_threshold=1))
    (await CallDispatcher.dispatch("k", _stream_of_nobody, config=config)).error("boom")
    await settle()
    assert await CircuitBreaker.is_open("k")
    for name in ("circuit_breaker[k]", "rate_limiter[k]"):
        pid = whereis(name)
        assert pid is not None
        exit_signal(pid, "kill")
    await settle()
    assert not await CircuitBreaker.is_open("k")
    state = await RateLimiter.get_state("k")
    assert state is not None
    assert (state.available_tokens, state.capacity) == (20, 20)


@pytest.mark.requirement("TEL-10")
async def test_every_refusal_is_told_by_telemetry_with_provider_and_reason(clocked_ai: FakeClock) -> None:
    """rate_limited, circuit_open and max_concurrency."""
    told: list[tuple[str, str]] = []
    telemetry.attach(
        "t",
        ("lemon_ai", "dispatcher", "rejected"),
        lambda _e, _n, facts, *_: told.append((facts["provider"], facts["reason"])),
    )
    await fill("full")
    with pytest.raises(MaxConcurrency):
        await opened("full", queue_timeout_ms=0)
    empty = Config(limiter=RatePolicy(1.0, 0.0))
    with pytest.raises(RateLimitReached):
        await CallDispatcher.dispatch("empty", _stream_of_nobody, config=empty)
    for _ in range(5):
        (await opened("down")).error("boom")
        await settle()
    with pytest.raises(CircuitOpen):
        await opened("down")
    assert told == [("full", "max_concurrency"), ("empty", "rate_limited"), ("down", "circuit_open")]


async def test_admission_is_told_by_telemetry(ai: Any) -> None:
    """dispatch for every call, rejected with its reason, and what the circuit does."""
    told: list[tuple[str, Any, Any]] = []

    def hear(event: tuple[str, ...], measurements: Any, metadata: Any, _config: Any = None) -> None:
        told.append((event[-1], metadata.get("provider"), metadata.get("reason")))

    events = [("lemon_ai", "dispatcher", name) for name in ("dispatch", "rejected")]
    events += [("lemon_ai", "circuit_breaker", name) for name in ("opened", "half_opened", "closed", "reopened")]
    telemetry.attach_many("test", events, hear)
    for _ in range(5):
        (await opened()).error(("task_crashed", "bug"))
        await settle()
    with pytest.raises(CircuitOpen):
        await opened()
    assert told == [
        *[("dispatch", "p", None)] * 5,
        ("opened", "p", "('task_crashed', 'bug')"),
        ("dispatch", "p", None),
        ("rejected", "p", "circuit_open"),
    ]
