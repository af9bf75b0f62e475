"""A piece of work as a process, and the handle through which its owner gets the value."""

import asyncio
import threading
from typing import Any

import pytest

from lemon_otp import (
    BadArgument,
    CallFailed,
    CallTimeout,
    Down,
    Exit,
    ReceiveTimeout,
    Runtime,
    Task,
    TaskDone,
    TaskExit,
    TaskReply,
    exit_process,
    exit_signal,
    mailbox_length,
    receive,
    self_pid,
    send,
    sleep_s,
    spawn,
    spawn_monitor,
    trap_exit,
)
from lemon_otp.testing import FakeClock, settle

pytestmark = pytest.mark.usefixtures("runtime")


async def double(number: int) -> int:
    return 2 * number


async def after(seconds: float, value: Any) -> Any:
    await sleep_s(seconds)
    return value


async def fail(reason: Any) -> None:
    exit_process(reason)


async def empty_mailbox() -> None:
    """Fail when the test process has a message."""
    with pytest.raises(ReceiveTimeout):
        await receive(timeout_s=0)


async def test_a_task_returns_its_value_and_leaves_no_message() -> None:
    """Whether it has ended before it is awaited or not, and in any order."""
    first, second = Task.async_(double, 1), Task.async_(double, 2)
    assert await first.await_() == 2
    await settle()
    assert await second.await_() == 4
    await empty_mailbox()


async def test_a_plain_function_is_a_task_too_and_may_run_on_a_thread() -> None:
    """On the loop by default, on a thread of its own when asked."""
    assert await Task.async_(lambda: threading.get_ident()).await_() == threading.get_ident()
    assert await Task.async_(threading.get_ident, on="thread").await_() != threading.get_ident()


async def test_the_end_of_a_task_without_a_value_is_raised_in_whoever_awaits() -> None:
    """CallFailed carries the reason; an exception is its cause."""
    trap_exit(True)
    with pytest.raises(CallFailed) as failed:
        await Task.async_(fail, "boom").await_()
    assert failed.value.reason == "boom"

    async def raises() -> None:
        raise ValueError("broken")

    with pytest.raises(CallFailed) as failed:
        await Task.async_(raises).await_()
    assert isinstance(failed.value.__cause__, ValueError)


async def test_a_late_value_is_dropped(fake_clock: FakeClock, clocked_runtime: Runtime) -> None:
    """A task that is awaited in vain goes on; its value and its end reach nobody."""

    async def owner() -> str:
        task = Task.async_(after, 9.0, "late")
        with pytest.raises(CallTimeout):
            await task.await_(5.0)
        assert task.pid is not None
        assert task.pid.alive
        with pytest.raises(ReceiveTimeout):
            await receive(timeout_s=60)
        return "dropped"

    waiting = spawn_monitor(owner)[1]
    await fake_clock.advance(70)
    assert (await receive()).ref is waiting


async def test_a_server_that_does_not_await_finds_the_reply_and_the_down() -> None:
    """Two messages, in this order; a task that crashed sends only the Down."""
    task = Task.async_(double, 3)
    await settle()
    assert await receive() == TaskReply(task.ref, 6)
    assert await receive() == Down(task.ref, task.pid, "normal")
    trap_exit(True)
    task = Task.async_(fail, "boom")
    await settle()
    assert await receive() == Exit(task.pid, "boom")  # type: ignore[arg-type]
    assert await receive() == Down(task.ref, task.pid, "boom")


async def test_only_the_owner_may_wait() -> None:
    """BadArgument for everybody else; the owner still gets the value."""
    task = Task.async_(double, 1)
    errors: list[BaseException] = []

    async def other() -> None:
        for attempt in (task.await_, task.yield_, task.shutdown, task.ignore):
            try:
                await attempt()
            except BadArgument as error:
                errors.append(error)

    spawn(other)
    await settle()
    assert len(errors) == 4
    assert await task.await_() == 2


async def test_yield_may_be_asked_again(fake_clock: FakeClock, clocked_runtime: Runtime) -> None:
    """None while the task goes on, then how it ended."""
    results: list[Any] = []

    async def owner() -> None:
        trap_exit(True)
        task = Task.async_(after, 3.0, "value")
        results.append(await task.yield_(1.0))
        results.append(await task.yield_(5.0))
        results.append(await Task.async_(fail, "boom").yield_())

    spawn(owner)
    await fake_clock.advance(10)
    assert results == [None, TaskDone("value"), TaskExit("boom")]


async def test_shutdown_says_what_came_first(fake_clock: FakeClock, clocked_runtime: Runtime) -> None:
    """A value that came is handed over, a crash is told, stopping as asked is None; a deaf task is killed in time."""

    async def stubborn() -> None:
        trap_exit(True)
        await sleep_s(1000)

    results: list[Any] = []

    async def owner() -> None:
        trap_exit(True)
        finished, crashed = Task.async_(double, 4), Task.async_(fail, "boom")
        running, deaf = Task.async_(after, 100.0, 1), Task.async_(stubborn)
        await sleep_s(0.1)
        results.append(await finished.shutdown())
        results.append(await crashed.shutdown())
        results.append(await running.shutdown("brutal_kill"))
        results.append(await deaf.shutdown(2.0))
        results.append(await Task.async_(after, 100.0, 1).shutdown(None))

    spawn(owner)
    await fake_clock.advance(5)
    assert results == [TaskDone(8), TaskExit("boom"), None, TaskExit("killed"), None]


async def test_an_ignored_task_lives_its_own_life() -> None:
    """Its value, if it came, is handed over; otherwise nothing of it is heard again."""
    finished = Task.async_(double, 5)
    await settle()
    assert await finished.ignore() == TaskDone(10)
    trap_exit(True)
    crashing = Task.async_(fail, "boom")
    assert await crashing.ignore() is None
    await settle()
    await empty_mailbox()


async def test_a_completed_task_needs_no_process() -> None:
    """Its value waits in the owner's mailbox."""
    task = Task.completed(7)
    assert task.pid is None
    assert await task.await_() == 7
    await empty_mailbox()


async def test_many_tasks_are_awaited_in_the_order_asked(fake_clock: FakeClock, clocked_runtime: Runtime) -> None:
    """await_many returns all values or raises for the first that fails or is late; yield_many tells each."""
    results: list[Any] = []

    async def owner() -> None:
        trap_exit(True)
        slow, quick = Task.async_(after, 2.0, "slow"), Task.async_(double, 1)
        results.append(await Task.await_many([slow, quick]))
        tasks = [Task.async_(double, 2), Task.async_(fail, "boom"), Task.async_(after, 50.0, 1)]
        results.append([result for _, result in await Task.yield_many(tasks, 1.0)])
        with pytest.raises(CallTimeout):
            await Task.await_many([tasks[2]], 1.0)
        with pytest.raises(CallFailed):
            await Task.await_many([Task.async_(after, 50.0, 1), Task.async_(fail, "boom")])

    watching = spawn_monitor(owner)[1]
    await fake_clock.advance(20)
    down = await receive()
    assert down.ref is watching
    assert down.reason == "normal"
    assert results == [["slow", 2], [TaskDone(4), TaskExit("boom"), None]]


async def test_owner_and_task_share_their_fate_through_the_link() -> None:
    """A crash takes a plain owner along, the owner's crash the task; a normal end of either harms nobody."""

    async def owner(reason: Any) -> None:
        started.append(Task.async_(sleep_s, 1000))
        await receive()
        exit_process(reason)

    for reason, lives in (("boom", False), ("normal", True)):
        started: list[Task[Any]] = []
        pid = spawn(owner, reason)
        await settle()
        send(pid, "end")
        await settle()
        assert started[0].pid is not None
        assert started[0].pid.alive is lives


async def test_a_task_may_be_awaited_from_a_helper_of_its_owner() -> None:
    """A helper task of the owner's coroutine awaits as well as the main line."""
    task = Task.async_(double, 8)
    assert await asyncio.gather(task.await_()) == [16]


async def test_interrupting_whoever_awaits_loses_nothing() -> None:
    """
    The owner is cancelled in the very turn in which the value comes, or before: afterwards the value is there to be
    awaited again, exactly once.
    """
    for turns in range(6):
        gate = asyncio.Event()

        async def work(gate: asyncio.Event = gate) -> str:
            await gate.wait()
            return "value"

        task = Task.async_(work)
        helper = asyncio.get_running_loop().create_task(task.await_())
        await settle()
        gate.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        helper.cancel()
        try:
            value = await helper
        except asyncio.CancelledError:
            value = await task.await_()
        assert value == "value"
        await settle()
        await empty_mailbox()


async def test_start_and_start_link_run_work_that_nobody_awaits() -> None:
    """start is on its own, start_link takes its starter along when it fails."""
    done: list[str] = []
    Task.start(done.append, "alone")
    trap_exit(True)
    linked = Task.start_link(fail, "boom")
    await settle()
    assert done == ["alone"]
    assert await receive() == Exit(linked, "boom")


async def test_a_killed_task_is_reported_as_killed() -> None:
    """The kill is final, and whoever awaits is told."""
    trap_exit(True)
    task = Task.async_(after, 100.0, 1)
    assert task.pid is not None
    exit_signal(task.pid, "kill")
    with pytest.raises(CallFailed) as failed:
        await task.await_()
    assert failed.value.reason == "killed"


async def test_awaiting_a_task_keeps_other_messages_in_their_order() -> None:
    """Only the task's own messages are taken."""
    for number in range(3):
        send(self_pid(), number)
    assert await Task.async_(double, 1).await_() == 2
    assert [await receive() for _ in range(3)] == [0, 1, 2]


async def test_values_that_had_come_stay_in_the_mailbox_when_await_many_fails() -> None:
    """As on the BEAM: only the monitors of the tasks that were not taken are ended, with the Downs that had come."""
    trap_exit(True)
    failed = Task.async_(fail, "boom")
    await settle()
    quick, other = Task.async_(double, 1), Task.async_(fail, "bang")
    await settle()
    with pytest.raises(CallFailed) as raised:
        await Task.await_many([quick, other, failed])
    left = [await receive(timeout_s=0) for _ in range(mailbox_length(self_pid()))]

    assert raised.value.reason == "boom"
    assert [message for message in left if not isinstance(message, Exit)] == [TaskReply(quick, 2)]


async def test_a_task_that_is_named_twice_is_yielded_once() -> None:
    """yield_many uses a result up; the second time there is none."""
    task = Task.async_(double, 2)

    assert [result for _, result in await Task.yield_many([task, task], 0.01)] == [TaskDone(4), None]
