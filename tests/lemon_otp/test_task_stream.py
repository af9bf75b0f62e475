"""Many tasks, a few at a time, and their results."""

from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lemon_otp import (
    BadArgument,
    CallTimeout,
    Pid,
    ReceiveTimeout,
    Runtime,
    Task,
    TaskDone,
    TaskExit,
    TaskSupervisor,
    exit_process,
    exit_signal,
    receive,
    run,
    self_pid,
    send,
    sleep_s,
    spawn,
    spawn_monitor,
    trap_exit,
)
from lemon_otp.testing import FakeClock, settle

pytestmark = pytest.mark.usefixtures("runtime")


async def work(item: tuple[float, Any]) -> Any:
    """Sleep, then return or exit with the second part."""
    seconds, value = item
    await sleep_s(seconds)
    if isinstance(value, str):
        exit_process(value)
    return value


async def collect(clock: FakeClock, items: list[tuple[float, Any]], **options: Any) -> list[Any]:
    """The results of a stream in a process of its own, or what it raised."""
    results: list[Any] = []

    async def owner() -> None:
        trap_exit(True)
        try:
            async for result in Task.async_stream(items, work, **options):
                results.append(result)  # noqa: PERF401 - what came before a failure counts
        except CallTimeout as late:
            results.append(type(late))
        results.append(await leftovers())

    spawn(owner)
    await clock.advance(100)
    assert results.pop() == []
    return results


async def leftovers() -> list[Any]:
    """What is in the mailbox."""
    found = []
    try:
        while True:
            found.append(await receive(timeout_s=0))
    except ReceiveTimeout:
        return found


async def test_results_come_in_the_order_of_the_items_or_as_they_are_ready(
    fake_clock: FakeClock, clocked_runtime: Runtime
) -> None:
    """Ordered by default; otherwise the quickest first."""
    items = [(3.0, 1), (1.0, 2), (2.0, 3)]
    options: dict[str, Any] = {"max_concurrency": 3}
    assert await collect(fake_clock, items, **options) == [TaskDone(1), TaskDone(2), TaskDone(3)]
    assert await collect(fake_clock, items, ordered=False, **options) == [TaskDone(2), TaskDone(3), TaskDone(1)]


async def test_a_crash_is_a_result_for_a_caller_that_traps_exits(
    fake_clock: FakeClock, clocked_runtime: Runtime
) -> None:
    """The others go on; no message of any task is left."""
    results = await collect(fake_clock, [(0.0, 1), (0.0, "boom"), (0.0, 3)], max_concurrency=1)
    assert results == [TaskDone(1), TaskExit("boom"), TaskDone(3)]


async def test_a_late_task_ends_the_stream_or_only_itself(fake_clock: FakeClock, clocked_runtime: Runtime) -> None:
    """`exit` raises CallTimeout, `kill_task` reports a TaskExit and goes on."""
    items = [(0.0, 1), (90.0, 2), (0.0, 3)]
    assert await collect(fake_clock, items, max_concurrency=3) == [TaskDone(1), CallTimeout]
    results = await collect(fake_clock, items, max_concurrency=3, on_timeout="kill_task")
    assert results == [TaskDone(1), TaskExit("timeout"), TaskDone(3)]


async def test_never_more_tasks_than_allowed_and_none_before_it_is_asked_for() -> None:
    """Items are taken as room is made; a reader that stops reading starts no more."""
    running, most, taken = 0, 0, []

    async def count(item: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await sleep_s(0)
        running -= 1
        return item

    def items() -> Any:
        for number in range(10):
            taken.append(number)
            yield number

    async with aclosing(Task.async_stream(items(), count, max_concurrency=2)) as stream:
        assert taken == []
        assert await anext(stream) == TaskDone(0)
        assert len(taken) <= 3
        assert [result async for result in stream] == [TaskDone(number) for number in range(1, 10)]
    assert most == 2


async def test_closing_a_stream_kills_what_runs() -> None:
    """No task and no message of one remains."""
    supervisor = await TaskSupervisor.start_link()
    stream = TaskSupervisor.async_stream(supervisor, [0.0, 1000.0, 1000.0], sleep_s, max_concurrency=2)
    assert await anext(stream) == TaskDone(None)
    await stream.aclose()
    await settle()
    assert await TaskSupervisor.children(supervisor) == []
    assert await leftovers() == []


async def test_the_tasks_of_a_dead_caller_are_gone() -> None:
    """However the caller of a linked stream ends, nothing of it runs on."""
    supervisor = await TaskSupervisor.start_link()

    async def owner() -> None:
        async for _ in TaskSupervisor.async_stream(supervisor, [1000.0, 1000.0], sleep_s, max_concurrency=2):
            pass

    for reason in ("kill", "boom"):
        pid = spawn(owner)
        await settle()
        assert len(await TaskSupervisor.children(supervisor)) == 2
        exit_signal(pid, reason)
        await settle()
        assert await TaskSupervisor.children(supervisor) == []


async def test_other_messages_of_the_caller_wait_their_turn() -> None:
    """The stream takes only what belongs to it."""
    send(self_pid(), "before")
    results = [result async for result in Task.async_stream([1, 2], abs)]
    assert results == [TaskDone(1), TaskDone(2)]
    assert await receive() == "before"


async def test_a_reader_of_many_streams_keeps_no_trace_of_them() -> None:
    """A process that runs a stream again and again does not collect exit hooks."""
    me: Any = self_pid()
    for _ in range(50):
        assert [result async for result in Task.async_stream([1], abs)] == [TaskDone(1)]
    assert not me.hooks


@pytest.mark.parametrize("options", [{"max_concurrency": 0}, {"on_timeout": "sulk"}])
async def test_nonsense_options_are_refused(options: dict[str, Any]) -> None:
    """BadArgument, before anything runs."""
    with pytest.raises(BadArgument):
        Task.async_stream([1], abs, **options)


async def test_the_functions_own_arguments_follow_the_item() -> None:
    """fn(item, *args)."""
    stream = Task.async_stream([1, 2], pow, 3)
    assert [result async for result in stream] == [TaskDone(1), TaskDone(8)]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    items=st.lists(st.one_of(st.integers(0, 99), st.just("boom")), max_size=12),
    at_a_time=st.integers(1, 5),
    ordered=st.booleans(),
)
def test_every_item_has_exactly_one_result(items: list[Any], at_a_time: int, ordered: bool) -> None:
    """Whatever crashes and however many run at once; in order if that was asked for."""

    async def body(item: Any) -> Any:
        if item == "boom":
            exit_process("boom")
        await sleep_s(0)
        return item

    async def scenario() -> list[Any]:
        trap_exit(True)
        supervisor: Pid = await TaskSupervisor.start_link()
        stream = TaskSupervisor.async_stream(
            supervisor, items, body, max_concurrency=at_a_time, ordered=ordered, link=False
        )
        return [result async for result in stream]

    expected = [TaskExit("boom") if item == "boom" else TaskDone(item) for item in items]
    results = run(scenario)
    assert results == expected if ordered else sorted(map(repr, results)) == sorted(map(repr, expected))


async def test_a_plain_caller_dies_with_a_linked_task_that_crashes() -> None:
    """The link does what links do."""

    async def owner() -> None:
        async for _ in Task.async_stream([(0.0, 1), (0.0, "boom")], work, max_concurrency=1):
            pass

    _, ref = spawn_monitor(owner)
    await settle()
    down = await receive()
    assert down.ref is ref
    assert down.reason == "boom"
