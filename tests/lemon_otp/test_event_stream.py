"""The one bounded stream: its producer's side, its reader's side, and how it ends."""

import asyncio
import gc
import logging
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from attrs import frozen

from lemon_otp import (
    CallTimeout,
    Canceled,
    Completed,
    EventStream,
    Failed,
    Pid,
    Runtime,
    StreamFailed,
    StreamResult,
    StreamStats,
    Terminals,
    exit_process,
    exit_signal,
    introspect,
    receive,
    run,
    self_pid,
    send,
    sleep_s,
    spawn,
    trap_exit,
)
from lemon_otp.testing import FakeClock, settle

pytestmark = pytest.mark.usefixtures("runtime")

STRATEGIES = ["error", "drop_oldest", "drop_newest"]


async def read_all(stream: EventStream) -> list[Any]:
    return [event async for event in stream.events()]


async def ends_with(reason: Any = "normal") -> None:
    exit_process(reason)


async def live(message: str = "go on") -> None:
    """Wait to be told."""
    await receive()


class Signal:
    """Notes when it is aborted, and whether the task still lived then."""

    def __init__(self, task: Pid | None = None) -> None:
        self.task = task
        self.aborted: list[tuple[Any, bool]] = []

    def abort(self, reason: Any) -> None:
        self.aborted.append((reason, self.task is not None and self.task.alive))


# Pushing and reading.


@pytest.mark.requirement("ES-1", "ES-8")
async def test_events_are_read_in_the_order_of_pushing_and_the_terminal_ends_the_reading() -> None:
    """A reader that comes late gets all of it, too."""
    stream = EventStream.start()
    assert [stream.push(number) for number in range(3)] == ["ok"] * 3
    stream.complete("value")
    assert await read_all(stream) == [0, 1, 2, Completed("value")]


@pytest.mark.requirement("ES-1")
async def test_several_readers_compete_for_the_events() -> None:
    """Each event goes to exactly one; one reader gets the terminal event, the others just end."""
    stream = EventStream.start()
    read: list[list[Any]] = [[], [], []]

    async def reader(seen: list[Any]) -> None:
        seen.extend([event async for event in stream.events()])

    for seen in read:
        spawn(reader, seen)
    for number in range(30):
        stream.push(number)
        if number % 4 == 0:
            await settle()
    stream.complete("value")
    await settle()
    together = sorted(event for seen in read for event in seen if isinstance(event, int))
    assert together == list(range(30))
    assert sum(seen.count(Completed("value")) for seen in read) == 1
    assert all(seen == sorted(seen, key=lambda event: event if isinstance(event, int) else 99) for seen in read)


@pytest.mark.requirement("INV-2.1", "INV-2.2", "INV-2.6", "ES-4")
async def test_a_full_stream_says_overflow_and_keeps_what_it_has() -> None:
    """The default strategy refuses; the queue is as it was and the refusal is counted."""
    stream = EventStream.start(max_queue=2)
    assert [stream.push(number) for number in range(4)] == ["ok", "ok", "overflow", "overflow"]
    assert stream.stats() == StreamStats(queue_size=2, max_queue=2, dropped=2, high_water=2)
    stream.complete(None)
    assert await read_all(stream) == [1, Completed(None)]


@pytest.mark.requirement("ES-2", "ES-3")
@pytest.mark.parametrize(("strategy", "kept"), [("drop_oldest", [3, 4]), ("drop_newest", [0, 1])])
async def test_a_dropping_stream_says_ok_and_counts(strategy: Any, kept: list[int]) -> None:
    """drop_oldest keeps the newest events, drop_newest the oldest."""
    stream = EventStream.start(max_queue=2, drop_strategy=strategy)
    assert {stream.push(number) for number in range(5)} == {"ok"}
    assert stream.stats().dropped == 3
    stream.cancel()
    assert (await read_all(stream))[:-1] == kept


@pytest.mark.requirement("INV-2.6")
async def test_the_defaults_are_the_documented_ones(fake_clock: FakeClock, clocked_runtime: Runtime) -> None:
    """The caller owns it, 10 000 events, error, 300 000 ms."""
    stream = EventStream.start()
    assert stream.stats().max_queue == 10_000
    for number in range(10_000):
        stream.push(number)
    assert stream.push(-1) == "overflow"
    await fake_clock.advance(299.9)
    assert not stream.done
    await fake_clock.advance(0.2)
    assert stream.outcome == Canceled("timeout")


@pytest.mark.requirement("ES-17", "ES-4")
async def test_push_async_never_waits_and_warns_of_drops_without_flooding(caplog: pytest.LogCaptureFixture) -> None:
    """It returns nothing, whatever happens; the first drop is logged, and then ever fewer."""
    stream = EventStream.start(max_queue=1)
    caplog.set_level(logging.WARNING)
    for number in range(101):
        stream.push_async(number)
    warnings = [record for record in caplog.records if "dropped" in record.getMessage()]
    assert 1 <= len(warnings) <= 8
    stream.complete(None)
    stream.push_async("late")
    assert await read_all(stream) == [Completed(None)]


@pytest.mark.requirement("ES-17")
async def test_push_async_may_be_called_from_any_thread() -> None:
    """Events of one thread arrive in order."""
    stream = EventStream.start()

    def produce() -> None:
        for number in range(100):
            stream.push_async(number)

    thread = threading.Thread(target=produce)
    thread.start()
    await asyncio.get_running_loop().run_in_executor(None, thread.join)
    await settle()
    stream.complete("end")
    assert await read_all(stream) == [*range(100), Completed("end")]


@pytest.mark.requirement("ES-14")
async def test_the_numbers_add_up_under_several_producers() -> None:
    """What was accepted is what was read and what is still there; what was dropped is the rest."""
    stream = EventStream.start(max_queue=50, drop_strategy="error")
    answers: list[str] = []

    async def produce() -> None:
        for number in range(100):
            answers.append(stream.push(number))
            if number % 7 == 0:
                await sleep_s(0)

    for _ in range(5):
        spawn(produce)
    await settle()
    stats = stream.stats()
    assert answers.count("ok") == stats.queue_size == 50
    assert answers.count("overflow") == stats.dropped == 450


@pytest.mark.requirement("ES-1")
async def test_an_event_handed_to_a_reader_who_goes_away_is_not_lost() -> None:
    """The reader is cancelled, or its process killed, in the very moment in which it was given the event."""
    for how in ("cancel", "kill"):
        stream = EventStream.start()

        async def reader(stream: EventStream = stream) -> None:
            async for _ in stream.events():
                pass

        if how == "cancel":
            helper = asyncio.get_running_loop().create_task(reader())
            await settle()
            stream.push("event")
            helper.cancel()
            await asyncio.wait([helper])
        else:
            pid = spawn(reader)
            await settle()
            stream.push("event")
            exit_signal(pid, "kill")
        await settle()
        assert stream.push("next") == "ok"
        stream.complete(None)
        assert await read_all(stream) == ["event", "next", Completed(None)]


# Ending.


@pytest.mark.requirement("ES-5")
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("how", ["complete", "error", "cancel"])
async def test_the_terminal_event_arrives_however_full_the_stream_is(strategy: Any, how: str) -> None:
    """Whatever the strategy, with a reader that is far behind."""
    stream = EventStream.start(max_queue=3, drop_strategy=strategy)
    for number in range(10):
        stream.push(number)
    getattr(stream, how)("why")
    last = (await read_all(stream))[-1]
    assert last == {"complete": Completed("why"), "error": Failed("why"), "cancel": Canceled("why")}[how]


@pytest.mark.requirement("ES-6", "INV-2.3")
@pytest.mark.parametrize("first", ["complete", "error", "cancel"])
async def test_the_first_terminal_wins(first: str) -> None:
    """Whatever comes after it leaves the outcome as it is, a second cancel included."""
    stream = EventStream.start()
    getattr(stream, first)("first")
    outcome = stream.outcome
    for later in ("complete", "error", "cancel"):
        getattr(stream, later)("later")
    assert stream.outcome is outcome
    assert len(await read_all(stream)) == 1


@pytest.mark.requirement("ES-7", "INV-2.2")
async def test_nothing_is_accepted_after_the_end() -> None:
    """push says canceled and the event is gone."""
    stream = EventStream.start()
    stream.complete(1)
    assert stream.push("late") == "canceled"
    stream.push_async("late")
    assert await read_all(stream) == [Completed(1)]


@pytest.mark.requirement("ES-9")
async def test_result_waits_and_answers_everybody_alike_without_reading() -> None:
    """Before and after the end, for any number of callers; the events are all still there."""
    stream = EventStream.start()
    answers: list[Any] = []

    async def wait() -> None:
        answers.append(await stream.result())

    for _ in range(3):
        spawn(wait)
    stream.push("event")
    await settle()
    assert answers == []
    stream.complete("value")
    await settle()
    assert answers == ["value"] * 3
    assert await stream.result(timeout_s=0) == "value"
    assert await read_all(stream) == ["event", Completed("value")]


@pytest.mark.requirement("ES-9")
async def test_result_honours_its_timeout_and_leaves_the_stream_alone(
    fake_clock: FakeClock, clocked_runtime: Runtime
) -> None:
    """CallTimeout, and the stream goes on."""
    stream = EventStream.start()
    errors: list[Any] = []

    async def wait() -> None:
        try:
            await stream.result(timeout_s=2.0)
        except CallTimeout as error:
            errors.append(error)

    spawn(wait)
    await fake_clock.advance(1.9)
    assert errors == []
    await fake_clock.advance(0.2)
    assert len(errors) == 1
    assert stream.push("still open") == "ok"


async def test_result_raises_how_a_stream_failed() -> None:
    """Reason and partial of an error, the reason of a cancel as a pair."""
    stream = EventStream.start()
    stream.error("overloaded", partial=["half"])
    with pytest.raises(StreamFailed) as failed:
        await stream.result()
    assert (failed.value.reason, failed.value.partial) == ("overloaded", ["half"])
    stream = EventStream.start()
    stream.cancel("user")
    with pytest.raises(StreamFailed) as failed:
        await stream.result()
    assert failed.value.reason == ("canceled", "user")


async def test_a_subscriber_is_sent_the_result() -> None:
    """When the stream ends, or at once when it has."""
    stream = EventStream.start()
    stream.subscribe_result(self_pid())
    stream.complete(1)
    assert await receive() == StreamResult(stream, Completed(1))
    stream.subscribe_result(self_pid())
    assert await receive() == StreamResult(stream, Completed(1))


@pytest.mark.requirement("INV-2.3", "ES-15")
async def test_a_cancel_wakes_everybody_and_keeps_what_was_buffered() -> None:
    """Readers get the events from before the cancel and then the canceled event with its true reason."""
    stream = EventStream.start()
    waiting = EventStream.start()
    woken: list[Any] = []

    async def read() -> None:
        woken.append(await read_all(waiting))

    async def wait() -> None:
        try:
            await waiting.result()
        except StreamFailed as failed:
            woken.append(failed.reason)

    spawn(read)
    spawn(wait)
    await settle()
    waiting.cancel("user")
    await settle()
    assert [Canceled("user")] in woken
    assert ("canceled", "user") in woken
    for number in range(3):
        stream.push(number)
    stream.cancel("user")
    await settle()
    assert await read_all(stream) == [0, 1, 2, Canceled("user")]


@pytest.mark.requirement("ES-10")
async def test_a_dead_stream_refuses_quietly() -> None:
    """
    Its guard was killed while it was open: push says canceled, push_async and attach_task do nothing, result fails
    with stream_closed, readers get a canceled event and end.
    """
    stream, worker = EventStream.start(), spawn(live)
    stream.attach_task(worker)
    exit_signal(stream.pid, "kill")
    await settle()
    assert not worker.alive
    assert stream.push("event") == "canceled"
    stream.push_async("event")
    stream.attach_task(spawn(live))
    stream.complete("too late")
    with pytest.raises(StreamFailed) as failed:
        await stream.result()
    assert failed.value.reason == "stream_closed"
    assert await read_all(stream) == [Canceled("stream_closed")]


# Owner, runner, task, time.


@pytest.mark.requirement("INV-2.4")
@pytest.mark.parametrize("reason", ["normal", "boom", "kill"])
async def test_the_death_of_the_owner_cancels_the_stream_and_its_task(reason: str) -> None:
    """However the owner ends."""
    owner, task = spawn(live), spawn(live)
    stream = EventStream.start(owner=owner)
    stream.attach_task(task)
    await settle()
    exit_signal(owner, "kill") if reason == "kill" else exit_signal(owner, "shutdown" if reason == "normal" else reason)
    await settle()
    assert stream.outcome == Canceled("owner_down")
    assert not task.alive
    assert not stream.pid.alive
    assert await read_all(stream) == [Canceled("owner_down")]


@pytest.mark.requirement("INV-2.4")
async def test_the_caller_owns_a_stream_unless_somebody_else_does_or_nobody() -> None:
    """A stream without an owner outlives whoever made it."""
    made: list[EventStream] = []

    async def maker() -> None:
        made.append(EventStream.start())
        made.append(EventStream.start(owner=None))

    spawn(maker)
    await settle()
    assert made[0].outcome == Canceled("owner_down")
    assert not made[1].done


@pytest.mark.requirement("INV-2.5")
async def test_time_cancels_an_open_stream_only(fake_clock: FakeClock, clocked_runtime: Runtime) -> None:
    """With the reason timeout; None never does; an end before the deadline disarms it."""
    short, endless, done = (EventStream.start(timeout_ms=ms) for ms in (1_000, None, 1_000))
    done.push("event")
    done.complete("in time")
    await fake_clock.advance(1_000_000)
    assert short.outcome == Canceled("timeout")
    assert not endless.done
    assert done.outcome == Completed("in time")


@pytest.mark.requirement("ES-11")
@pytest.mark.parametrize("reason", ["normal", "boom"])
async def test_a_task_that_ends_before_the_stream_fails_it(reason: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the reason; what was pushed stays readable. Only a bad end is worth a warning."""
    stream = EventStream.start()
    stream.push("event")
    stream.attach_task(spawn(ends_with, reason))
    await settle()
    assert await read_all(stream) == ["event", Failed(("task_crashed", reason))]
    warned = any("task of an event stream" in record.getMessage() for record in caplog.records)
    assert warned is (reason == "boom")


@pytest.mark.requirement("ES-11")
async def test_a_task_is_forgotten_for_the_next_and_ignored_after_the_end() -> None:
    """At most one is attached; a crash after the terminal event changes nothing; completing kills nobody."""
    stream = EventStream.start()
    first, second = spawn(live), spawn(live)
    stream.attach_task(first)
    stream.attach_task(second)
    await settle()
    exit_signal(first, "boom")
    await settle()
    assert not stream.done
    stream.complete("value")
    await settle()
    assert second.alive
    exit_signal(second, "boom")
    await settle()
    assert stream.outcome == Completed("value")


@pytest.mark.requirement("ES-11", "ES-10")
async def test_a_task_that_is_dead_already_fails_the_stream() -> None:
    """Attaching it is as if it had ended just now."""
    task = spawn(ends_with)
    await settle()
    stream = EventStream.start()
    stream.attach_task(task)
    await settle()
    assert stream.outcome == Failed(("task_crashed", "noproc"))


@pytest.mark.requirement("ES-12")
async def test_cancel_aborts_the_signal_then_asks_then_kills(fake_clock: FakeClock, clocked_runtime: Runtime) -> None:
    """First the abort, with the reason, while the task lives; then shutdown; after 100 ms a kill."""
    asked: list[Any] = []

    async def stubborn() -> None:
        trap_exit(True)
        while True:
            asked.append((await receive()).reason)

    task = spawn(stubborn)
    stream = EventStream.start()
    signal = Signal(task)
    stream.attach_task(task, signal)
    await settle()
    stream.cancel("user")
    assert signal.aborted == [("user", True)]
    await settle()
    assert asked == ["shutdown"]
    await fake_clock.advance(0.09)
    assert task.alive
    await fake_clock.advance(0.02)
    assert not task.alive
    assert not stream.pid.alive


@pytest.mark.requirement("ES-12")
@pytest.mark.parametrize(("grace_ms", "killed_after_s"), [(500, 0.5), (0, 0.1), (-5, 0.1), ("soon", 0.1), (True, 0.1)])
async def test_the_grace_is_configurable_and_nonsense_means_the_default(
    grace_ms: Any, killed_after_s: float, fake_clock: FakeClock, clocked_runtime: Runtime
) -> None:
    """Only a positive whole number of milliseconds counts."""

    async def stubborn() -> None:
        trap_exit(True)
        await sleep_s(1000)

    task = spawn(stubborn)
    stream = EventStream.start(cancel_grace_ms=grace_ms)
    stream.attach_task(task)
    await settle()
    stream.cancel()
    await fake_clock.advance(killed_after_s - 0.01)
    assert task.alive
    await fake_clock.advance(0.02)
    assert not task.alive


@pytest.mark.requirement("ES-12")
async def test_a_signal_that_raises_does_not_keep_the_stream_open() -> None:
    """The cancel goes on without it."""

    class Broken:
        def abort(self, reason: Any) -> None:
            raise ValueError("broken")

    task = spawn(live)
    stream = EventStream.start()
    stream.attach_task(task, Broken())
    stream.cancel("user")
    await settle()
    assert stream.outcome == Canceled("user")
    assert not task.alive


@pytest.mark.requirement("ES-13")
@pytest.mark.parametrize("reason", ["normal", "boom"])
async def test_a_runner_that_dies_early_fails_the_stream_which_stays_readable(reason: str) -> None:
    """Also when it is dead before the stream begins; after a terminal event it has no effect."""
    runner = spawn(ends_with, reason)
    await settle()
    dead = EventStream.start(runner=runner)
    runner = spawn(live)
    stream, ended = EventStream.start(runner=runner), EventStream.start(runner=runner)
    stream.push("event")
    ended.complete("value")
    await settle()
    exit_signal(runner, "boom")
    await settle()
    assert dead.outcome == Failed(("runner_crashed", "noproc"))
    assert await read_all(stream) == ["event", Failed(("runner_crashed", "boom"))]
    assert ended.outcome == Completed("value")


async def test_a_linked_stream_shares_the_fate_of_its_maker() -> None:
    """start_link: the crash of the maker takes the guard along, and the stream is closed."""
    made: list[EventStream] = []

    async def maker() -> None:
        made.append(EventStream.start_link(owner=None))
        exit_process("boom")

    spawn(maker)
    await settle()
    assert not made[0].pid.alive
    assert made[0].outcome == Failed("stream_closed")


@pytest.mark.requirement("ES-16")
async def test_a_finished_stream_frees_itself_once_it_was_read_or_its_owner_is_gone() -> None:
    """Until then its guard lives; a thousand runs leave none, and no memory of them either."""
    others = {id(thing) for thing in gc.get_objects() if isinstance(thing, EventStream)}
    stream = EventStream.start()
    stream.push("event")
    stream.complete("value")
    await settle()
    assert stream.pid.alive
    await read_all(stream)
    await settle()
    assert not stream.pid.alive
    assert await stream.result() == "value"

    async def one_run(number: int) -> None:
        stream = EventStream.start()
        task = spawn(live)
        stream.attach_task(task)
        stream.push(number)
        if number % 3 == 0:
            stream.complete(number)
        elif number % 3 == 1:
            stream.cancel("user")
        if number % 2:
            await read_all(stream) if stream.done else None
        exit_signal(task, "kill")

    runtime = self_pid().runtime  # type: ignore[attr-defined]
    for number in range(1000):
        spawn(one_run, number)
    await settle()
    assert list(runtime.processes.values()) == [self_pid()]
    del stream
    gc.collect()
    left = [thing for thing in gc.get_objects() if isinstance(thing, EventStream) and id(thing) not in others]
    assert left == []


async def test_the_guard_of_a_stream_that_ends_well_has_nothing_to_do() -> None:
    """No message and no turn from the start to the end; what it watched is watched by it no longer."""
    owner, task = spawn(live), spawn(live)
    stream = EventStream.start(owner=owner, timeout_ms=1_000)
    stream.attach_task(task)
    guard = introspect.info(stream.pid)
    assert (guard.label, guard.state, guard.monitors) == ("event_stream", "idle", (owner, task))
    stream.push("event")
    stream.complete("value")
    assert introspect.info(stream.pid).monitors == (owner,)
    await read_all(stream)
    ended = introspect.info(stream.pid)
    assert (ended.exit_reason, ended.messages_handled) == ("'normal'", 0)
    assert introspect.info(owner).monitored_by == introspect.info(task).monitored_by == ()


async def test_a_message_to_a_guard_is_no_business_of_its() -> None:
    """It is dropped, and the stream goes on."""
    stream = EventStream.start()
    send(stream.pid, "hello")
    await settle()
    assert not stream.done
    stream.complete("value")
    assert await read_all(stream) == [Completed("value")]


# Terminal events of the packages above.


@frozen
class Delta:
    text: str


@frozen
class Done:
    message: str


@frozen
class Broken:
    reason: str
    partial: Any


@frozen
class Stopped:
    reason: str


def classify(event: Any) -> Any:
    return {Done: "completed", Broken: "failed", Stopped: "canceled"}.get(type(event))


TERMINALS = Terminals(completed=Done, failed=Broken, canceled=Stopped, classify=classify)


async def test_a_package_names_its_own_terminal_events() -> None:
    """complete, error and cancel make them."""
    for end, terminal in (
        (lambda stream: stream.complete("text"), Done("text")),
        (lambda stream: stream.error("why", "half"), Broken("why", "half")),
        (lambda stream: stream.cancel("user"), Stopped("user")),
    ):
        stream = EventStream.start(terminals=TERMINALS)
        stream.push(Delta("a"))
        end(stream)
        assert await read_all(stream) == [Delta("a"), terminal]


@pytest.mark.requirement("ES-5", "ES-6")
async def test_a_terminal_event_that_is_pushed_ends_the_stream_too() -> None:
    """Whichever way it comes, also into a full buffer; what comes after it is refused."""
    for push in ("push", "push_async"):
        stream = EventStream.start(terminals=TERMINALS, max_queue=1)
        stream.push(Delta("a"))
        getattr(stream, push)(Done("text"))
        assert stream.done
        assert stream.push(Delta("b")) == "canceled"
        assert await stream.result() == Done("text")
        assert await read_all(stream) == [Done("text")]
    stream = EventStream.start(terminals=TERMINALS)
    assert stream.push(Broken("why", None)) == "ok"
    assert stream.outcome == Failed("why", Broken("why", None))
    stream = EventStream.start(terminals=TERMINALS)
    stream.push(Stopped("user"))
    assert stream.outcome == Canceled("user")


async def test_a_package_may_say_what_the_value_of_a_pushed_terminal_is() -> None:
    """outcome_of reads it from the event."""
    terminals = Terminals(Done, Broken, Stopped, classify, outcome_of=lambda event, kind: Completed(event.message))
    stream = EventStream.start(terminals=terminals)
    stream.push(Done("text"))
    assert await stream.result() == "text"


@pytest.mark.parametrize("options", [{"max_queue": 0}, {"drop_strategy": "drop_all"}, {"timeout_ms": -1}])
async def test_nonsense_options_are_refused(options: dict[str, Any]) -> None:
    """ValueError; no process was started."""
    runtime = self_pid().runtime  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="must be"):
        EventStream.start(**options)
    assert len(runtime.processes) == 1


def test_a_stream_carries_events_between_processes_without_losing_or_doubling_any() -> None:
    """Several producers, several readers, everybody yielding at different times: each event is read exactly once."""

    async def scenario() -> None:
        stream = EventStream.start(max_queue=16)
        read: list[Any] = []
        open_producers = 4

        async def produce(name: str) -> None:
            nonlocal open_producers
            for number in range(500):
                while stream.push((name, number)) == "overflow":
                    await sleep_s(0)
            open_producers -= 1
            if open_producers == 0:
                stream.complete(None)

        async def consume(events: AsyncIterator[Any]) -> None:
            async for event in events:
                read.append(event)
                if len(read) % 5 == 0:
                    await sleep_s(0)

        for name in "abcd":
            spawn(produce, name)
        for _ in range(3):
            spawn(consume, stream.events())
        await stream.result()
        await settle()
        assert read.count(Completed(None)) == 1
        events = [event for event in read if isinstance(event, tuple)]
        assert sorted(events) == sorted((name, number) for name in "abcd" for number in range(500))
        for name in "abcd":
            assert [number for who, number in events if who == name] == list(range(500))

    run(scenario)
