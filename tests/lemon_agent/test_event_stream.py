"""The stream of a run: lemon_otp's, with the terminal events of an agent."""

import asyncio

import pytest

from lemon_agent import AbortSignal, AgentEnd, AgentStart, Canceled, ErrorEvent, EventStream, TurnStart
from lemon_agent.event_stream import open_stream
from lemon_otp import (
    GenServer,
    NoReply,
    StreamFailed,
    StreamReady,
    exit_signal,
    receive,
    self_pid,
    send,
    spawn,
    sys,
    trap_exit,
)
from lemon_otp.errors import CallTimeout
from lemon_otp.testing import settle


def stream(**options):
    return EventStream.start(**options)


async def all_of(events):
    return [event async for event in events.events()]


END = AgentEnd(())


@pytest.mark.requirement("INV-2.1", "INV-2.2", "ES-4")
async def test_a_full_stream_refuses_and_says_so(runtime, caplog):
    """With the error strategy the queue stays as it is: push says overflow, push_async drops with a warning."""
    full = stream(max_queue=2)
    assert [full.push(AgentStart()) for _ in range(3)] == ["ok", "ok", "overflow"]
    full.push_async(TurnStart())
    stats = full.stats()
    assert (stats.queue_size, stats.max_queue, stats.dropped) == (2, 2, 2)
    assert "event stream is full" in caplog.text
    full.complete(END)
    assert full.push(AgentStart()) == "canceled"


@pytest.mark.requirement("INV-2.1", "ES-2", "ES-3")
@pytest.mark.parametrize(("strategy", "kept"), [("drop_oldest", [3, 4]), ("drop_newest", [0, 1])])
async def test_a_dropping_stream_keeps_one_end_and_counts(runtime, strategy, kept):
    """Five events into room for two: the newest or the oldest two stay, three are counted, every push says ok."""
    dropping = EventStream.start(max_queue=2, drop_strategy=strategy)
    assert {dropping.push(number) for number in range(5)} == {"ok"}
    assert dropping.stats().dropped == 3
    assert dropping.take_all() == kept


@pytest.mark.requirement("INV-2.3", "ES-15")
async def test_cancel_ends_a_stream_for_everybody_and_loses_nothing(runtime):
    """All are woken; what was buffered and the true reason stay readable; a second cancel is nothing."""
    canceled = stream()
    canceled.push(AgentStart())
    canceled.cancel("lunch")
    canceled.cancel("dinner")
    assert await all_of(canceled) == [AgentStart(), Canceled("lunch")]
    with pytest.raises(StreamFailed) as caught:
        await canceled.result()
    assert caught.value.reason == ("canceled", "lunch")


@pytest.mark.requirement("INV-2.3", "ES-9")
async def test_a_cancel_wakes_those_who_wait(runtime):
    """Two waiters for the result and a reader of an empty stream are all released."""
    canceled = stream()
    outcomes = []

    async def wait():
        try:
            await canceled.result()
        except StreamFailed as failed:
            outcomes.append(failed.reason)

    async def read():
        outcomes.extend(await all_of(canceled))

    for body in (wait, wait, read):
        spawn(body)
    await settle()
    canceled.cancel()
    await settle()
    assert sorted(map(str, outcomes)) == sorted(map(str, [Canceled("canceled"), *[("canceled", "canceled")] * 2]))


@pytest.mark.requirement("INV-2.4", "ES-12")
@pytest.mark.parametrize("reason", ["normal", "kill"])
async def test_a_stream_ends_with_its_owner_and_its_task_with_it(runtime, reason):
    """However the owner ends the stream is cancelled as owner_down, its signal said, its task stopped."""
    signal = AbortSignal()
    order = []
    signal.on_abort(lambda why: order.append(("signal", why)))
    made = []

    async def working():
        try:
            await asyncio.sleep(60)
        finally:
            order.append("task ended")

    async def owning():
        made.append(open_stream(self_pid()))
        made.append(spawn(working))
        made[0].attach_task(made[1], signal)
        await receive()

    owner = spawn(owning)
    await settle()
    if reason == "normal":
        from lemon_otp import send

        send(owner, "go")
    else:
        exit_signal(owner, "kill")
    await settle()
    assert await all_of(made[0]) == [Canceled("owner_down")]
    assert order == [("signal", "owner_down"), "task ended"]
    assert not made[1].alive


@pytest.mark.requirement("INV-2.5")
async def test_a_stream_has_a_time_limit_unless_it_has_none(clocked_runtime, fake_clock):
    """At the deadline it is cancelled as timeout; None never; one that ended before is left alone."""
    limited, endless, early = stream(timeout_ms=1000), stream(timeout_ms=None), stream(timeout_ms=1000)
    early.complete(END)
    await fake_clock.advance(1.5)
    assert await all_of(limited) == [Canceled("timeout")]
    assert not endless.done
    assert await all_of(early) == [END]


@pytest.mark.requirement("INV-2.6")
async def test_the_defaults_of_a_stream_are_those_documented(clocked_runtime, fake_clock):
    """The caller owns it, ten thousand events, refuse when full, five minutes."""
    plain = stream()
    assert plain.stats().max_queue == 10_000
    await fake_clock.advance(299)
    assert not plain.done
    await fake_clock.advance(2)
    assert await all_of(plain) == [Canceled("timeout")]
    made = []

    async def maker():
        made.append(stream())

    spawn(maker)
    await settle()
    assert await all_of(made[0]) == [Canceled("owner_down")]


@pytest.mark.requirement("ES-1", "ES-14")
async def test_events_come_in_order_and_each_to_one_reader(runtime):
    """Three producers and four readers: nothing lost, nothing twice, each producer's events in its order."""
    shared = EventStream.start(max_queue=5000)
    seen = [[] for _ in range(4)]

    async def produce(name):
        for number in range(300):
            shared.push((name, number))
            if number % 7 == 0:
                await asyncio.sleep(0)

    async def consume(mine):
        async for event in shared.events():
            mine.append(event)
            await asyncio.sleep(0)

    for mine in seen:
        spawn(consume, mine)
    for name in "abc":
        spawn(produce, name)
    await asyncio.sleep(0.3)
    shared.complete("done")
    await settle()

    got = [event for mine in seen for event in mine if isinstance(event, tuple)]
    assert sorted(got) == sorted((name, number) for name in "abc" for number in range(300))
    for mine in seen:
        for name in "abc":
            numbers = [event[1] for event in mine if isinstance(event, tuple) and event[0] == name]
            assert numbers == sorted(numbers)
    stats = shared.stats()
    assert (stats.queue_size, stats.dropped) == (0, 0)


@pytest.mark.requirement("ES-5")
@pytest.mark.parametrize("strategy", ["error", "drop_oldest", "drop_newest"])
@pytest.mark.parametrize("how", ["complete", "error", "cancel", "push"])
async def test_a_terminal_event_finds_room_in_a_full_stream(runtime, strategy, how):
    """However it ends and whatever the strategy, a reader who comes late gets the terminal event."""
    full = stream(max_queue=3, drop_strategy=strategy)
    for _ in range(5):
        full.push(TurnStart())
    {
        "complete": lambda: full.complete(END),
        "error": lambda: full.error("bad"),
        "cancel": lambda: full.cancel("why"),
        "push": lambda: full.push(END),
    }[how]()
    last = (await all_of(full))[-1]
    assert last == {"complete": END, "error": ErrorEvent("bad"), "cancel": Canceled("why"), "push": END}[how]
    assert full.done


@pytest.mark.requirement("ES-6", "ES-7")
async def test_the_first_terminal_wins(runtime):
    """Whatever comes after it changes neither the result nor what is read."""
    done = stream()
    done.complete(END)
    done.error("late")
    done.cancel("later")
    assert done.push(AgentStart()) == "canceled"
    done.push_async(AgentStart())
    assert await done.result() is END
    assert await all_of(done) == [END]

    failed = stream()
    failed.error("bad", {"some": "state"})
    failed.complete(END)
    assert await all_of(failed) == [ErrorEvent("bad", {"some": "state"})]
    with pytest.raises(StreamFailed) as caught:
        await failed.result()
    assert (caught.value.reason, caught.value.partial) == ("bad", {"some": "state"})


@pytest.mark.requirement("ES-8")
async def test_a_late_reader_gets_what_was_buffered_and_the_end(runtime):
    """Reading after the end gives every event, then the terminal one, then nothing."""
    done = stream()
    done.push(AgentStart())
    done.complete([])
    assert await all_of(done) == [AgentStart(), END]
    assert await all_of(done) == []


@pytest.mark.requirement("ES-9")
async def test_waiting_for_the_result_reads_no_event_and_answers_all_alike(runtime):
    """Three waiters, one with too little patience; the events are still there afterwards."""
    slow = stream()
    slow.push(AgentStart())
    with pytest.raises(CallTimeout):
        await slow.result(timeout_s=0.01)
    answers = []

    async def wait():
        answers.append(await slow.result())

    spawn(wait)
    spawn(wait)
    await settle()
    slow.complete(END)
    await settle()
    assert answers == [END, END]
    assert len(await all_of(slow)) == 2


@pytest.mark.requirement("ES-10")
async def test_a_stream_whose_process_is_gone_is_closed(runtime):
    """Push says canceled, the rest does nothing, readers get a canceled event and the end."""
    dead = stream()
    await settle()
    exit_signal(dead.pid, "kill")
    await settle()
    assert dead.push(AgentStart()) == "canceled"
    dead.push_async(AgentStart())
    dead.attach_task(spawn(asyncio.sleep, 60))
    assert await all_of(dead) == [Canceled("stream_closed")]
    with pytest.raises(StreamFailed) as caught:
        await dead.result()
    assert caught.value.reason == "stream_closed"


@pytest.mark.requirement("ES-11")
async def test_a_stream_watches_one_task(runtime):
    """The one attached last: its end before the stream's is an error, that of an earlier one is nothing."""
    watched = stream()
    first, second = spawn(asyncio.sleep, 60), spawn(asyncio.sleep, 60)
    watched.attach_task(first)
    watched.attach_task(second)
    await settle()
    exit_signal(first, "kill")
    await settle()
    assert not watched.done
    exit_signal(second, "kill")
    await settle()
    assert await all_of(watched) == [ErrorEvent(("task_crashed", "killed"))]

    done = stream()
    task = spawn(asyncio.sleep, 60)
    done.attach_task(task)
    done.complete(END)
    exit_signal(task, "kill")
    await settle()
    assert await all_of(done) == [END]


@pytest.mark.requirement("ES-12")
async def test_a_cancelled_task_is_killed_when_it_does_not_stop(clocked_runtime, fake_clock):
    """Signal first, then asked to stop, killed after the grace."""
    stubborn = stream(cancel_grace_ms=250)

    async def trapping():
        trap_exit(True)
        await asyncio.sleep(3600)

    task = spawn(trapping)
    await settle()
    signal = AbortSignal()
    stubborn.attach_task(task, signal)
    await settle()
    stubborn.cancel("enough")
    assert signal.reason == "enough"
    await fake_clock.advance(0.2)
    assert task.alive
    await fake_clock.advance(0.1)
    assert not task.alive


@pytest.mark.requirement("ES-13")
async def test_a_runner_that_ends_before_the_stream_breaks_it_and_after_it_nothing(runtime):
    """Even a normal end is a crash while the stream is open; one dead from the start too."""
    runner = spawn(asyncio.sleep, 60)
    broken = stream(runner=runner)
    broken.push(AgentStart())
    await settle()
    exit_signal(runner, "kill")
    await settle()
    assert await all_of(broken) == [AgentStart(), ErrorEvent(("runner_crashed", "killed"))]
    assert await all_of(stream(runner=runner)) == [ErrorEvent(("runner_crashed", "noproc"))]

    other = spawn(asyncio.sleep, 60)
    done = stream(runner=other)
    done.complete(END)
    exit_signal(other, "kill")
    await settle()
    assert await all_of(done) == [END]


@pytest.mark.requirement("ES-16")
async def test_a_thousand_finished_streams_leave_nothing_behind(runtime):
    """Once its terminal event was read, or its owner is gone, a stream's process ends."""
    before = len(runtime.processes)
    for _ in range(1000):
        one = stream()
        one.push(AgentStart())
        one.complete(END)
        await all_of(one)
    await settle()
    assert len(runtime.processes) == before


@pytest.mark.requirement("ES-17")
async def test_a_producer_never_waits(runtime):
    """Pushing ten thousand events to a stream nobody reads returns at once, with the answer push gives."""
    full = stream(max_queue=100)
    answers = {full.push(TurnStart()) for _ in range(10_000)}
    for _ in range(10_000):
        full.push_async(TurnStart())
    assert answers == {"ok", "overflow"}
    assert full.stats().queue_size == 100


async def test_a_process_with_other_things_to_do_is_told_once_of_many_events(runtime):
    """`deliver_to` sends one message for a burst; `take_all` gives everything, the terminal event last."""
    from lemon_otp import ReceiveTimeout

    quiet = stream()
    quiet.deliver_to(self_pid())
    for _ in range(3):
        quiet.push(TurnStart())
    assert await receive() == StreamReady(quiet)
    with pytest.raises(ReceiveTimeout):
        await receive(timeout_s=0)
    assert quiet.take_all() == [TurnStart()] * 3
    quiet.complete(END)
    assert await receive() == StreamReady(quiet)
    assert quiet.take_all() == [END]
    assert quiet.take_all() == []


class Reader(GenServer):
    """Reads a stream of which it is told, and takes numbers at once; what it got, and whether a turn of it got it."""

    async def init(self, stream):
        got = []
        stream.deliver_to(self_pid(), lambda event: self.take(got, event))
        return got

    def take(self, got, event):
        if isinstance(event, int):
            got.append(("at once", event))
        return isinstance(event, int)

    async def handle_info(self, message, got):
        match message:
            case StreamReady(stream):
                got += [("in a turn", event) for event in stream.take_all()]
            case asyncio.Event():
                await message.wait()
        return NoReply(got)


async def test_a_server_at_rest_takes_an_event_at_once_and_anything_else_in_its_turn(runtime):
    """An event it does not take at once is waited for by those after it, so that the order stays."""
    numbers = stream()
    reader = await Reader.start(numbers)
    await settle()
    assert [numbers.push(event) for event in (1, 2, "word", 3)] == ["ok"] * 4
    got = await sys.get_state(reader)
    assert got == [("at once", 1), ("at once", 2), ("in a turn", "word"), ("in a turn", 3)]
    numbers.push(4)
    numbers.complete(END)
    await settle()
    assert got[4:] == [("at once", 4), ("in a turn", END)]
    assert numbers.stats().queue_size == 0


async def test_nothing_is_taken_at_once_for_a_server_that_is_busy_or_suspended_or_has_mail(runtime):
    """What it has begun, been sent or been told to leave comes first."""
    numbers = stream()
    reader = await Reader.start(numbers)
    busy = asyncio.Event()
    send(reader, busy)
    numbers.push(1)
    await settle()
    numbers.push(2)
    busy.set()
    got = await sys.get_state(reader)
    assert got == [("in a turn", 1), ("in a turn", 2)]

    await sys.suspend(reader)
    numbers.push(3)
    await settle()
    assert len(got) == 2
    await sys.resume(reader)
    await settle()
    assert got[2:] == [("in a turn", 3)]


async def test_a_server_whose_code_fails_at_an_event_is_woken_for_it_and_for_all_that_follow(runtime, caplog):
    """The mistake is its own, not the producer's; nothing is lost, the terminal event least of all."""

    class Failing(Reader):
        def take(self, got, event):
            if event == 2:
                raise LookupError("no such thing")
            return super().take(got, event)

    numbers = stream()
    reader = await Failing.start(numbers)
    assert [numbers.push(event) for event in (1, 2, 3)] == ["ok"] * 3
    numbers.complete(END)
    got = await sys.get_state(reader)
    assert got == [("at once", 1), *(("in a turn", event) for event in (2, 3, END))]
    assert "could not take an event at once" in caplog.text


async def test_a_plain_process_is_told_of_every_event(runtime):
    """Only a server can be at rest: what another process waits for nobody knows."""
    numbers = stream()
    numbers.deliver_to(self_pid(), lambda event: pytest.fail("taken at once"))
    numbers.push(1)
    assert await receive() == StreamReady(numbers)
    assert numbers.take_all() == [1]
