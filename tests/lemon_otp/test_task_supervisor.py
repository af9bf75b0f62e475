"""Tasks under a supervisor: seen while they run, stopped with it, gone when they are done."""

from contextvars import ContextVar
from typing import Any

import pytest

from lemon_otp import (
    CallFailed,
    ChildCounts,
    Down,
    Exit,
    GenServer,
    MaxChildren,
    NoReply,
    Pid,
    Reply,
    Runtime,
    Task,
    TaskDone,
    TaskReply,
    TaskSupervisor,
    call,
    exit_process,
    exit_signal,
    info,
    monitor,
    receive,
    self_pid,
    send,
    sleep_s,
    spawn,
    spawn_monitor,
    stop,
    sys,
    trap_exit,
)
from lemon_otp.task_supervisor import StartTask, StartWorker
from lemon_otp.testing import FakeClock, settle

pytestmark = pytest.mark.usefixtures("runtime")

REQUEST: ContextVar[str] = ContextVar("request", default="none")


async def wait() -> None:
    await receive()


async def fail(reason: Any) -> None:
    exit_process(reason)


async def start() -> Pid:
    return await TaskSupervisor.start_link(name="tasks")


@pytest.mark.requirement("INV-1.1", "INV-1.2")
async def test_a_task_is_a_child_for_exactly_as_long_as_it_runs() -> None:
    """Listing shows it while it runs and no more when it has ended."""
    await start()
    task = await TaskSupervisor.async_nolink("tasks", wait, label="waiter")
    assert await TaskSupervisor.children("tasks") == [task.pid]
    infos = await TaskSupervisor.which_children("tasks")
    assert [(child.id, child.pid, child.module) for child in infos] == [("waiter", task.pid, __name__)]
    assert task.pid is not None
    send(task.pid, "go on")
    await task.await_()
    assert await TaskSupervisor.children("tasks") == []
    assert await TaskSupervisor.count_children("tasks") == ChildCounts(0, 0, 0, 0)


@pytest.mark.requirement("INV-1.5")
async def test_a_crash_of_an_unlinked_task_reaches_only_whoever_awaits_it() -> None:
    """async_nolink and start_child spare the caller and the supervisor."""
    supervisor = await start()
    task = await TaskSupervisor.async_nolink("tasks", fail, "boom")
    with pytest.raises(CallFailed) as failed:
        await task.await_()
    assert failed.value.reason == "boom"
    await TaskSupervisor.start_child("tasks", fail, "boom")
    await settle()
    assert supervisor.alive


async def test_a_linked_task_and_its_caller_go_together() -> None:
    """async_ links both: a trapping caller gets the Exit."""
    await start()
    trap_exit(True)
    task = await TaskSupervisor.async_("tasks", fail, "boom")
    await settle()
    assert await receive() == Exit(task.pid, "boom")  # type: ignore[arg-type]
    assert await receive() == Down(task, task.pid, "boom")

    async def owner() -> None:
        tasks.append(await TaskSupervisor.async_("tasks", sleep_s, 1000))
        exit_process("crash")

    tasks: list[Task[Any]] = []
    spawn(owner)
    await settle()
    assert tasks[0].pid is not None
    assert not tasks[0].pid.alive


async def test_max_children_refuses_a_task_and_an_end_makes_room() -> None:
    """MaxChildren is raised where the task was asked for; nothing was started."""
    await TaskSupervisor.start_link(name="few", max_children=1)
    first = await TaskSupervisor.async_nolink("few", wait)
    for ask in (TaskSupervisor.async_nolink, TaskSupervisor.start_child):
        with pytest.raises(MaxChildren):
            await ask("few", wait)
    await first.shutdown()
    assert (await TaskSupervisor.async_nolink("few", lambda: 1)).pid is not None


async def test_a_task_without_an_owner_may_be_started_again() -> None:
    """start_child is temporary by default; a transient one runs again after a crash."""
    runs: list[int] = []

    async def crash_once() -> None:
        runs.append(len(runs))
        if len(runs) == 1:
            exit_process("boom")

    await start()
    await TaskSupervisor.start_child("tasks", crash_once, restart="transient")
    await settle()
    assert runs == [0, 1]


async def test_a_supervisor_that_is_stopped_stops_its_tasks(fake_clock: FakeClock, clocked_runtime: Runtime) -> None:
    """Each within its own time; brutal_kill at once."""
    supervisor = await start()

    async def deaf() -> None:
        trap_exit(True)
        await sleep_s(1000)

    await TaskSupervisor.start_child("tasks", deaf, shutdown=3.0)
    quick = await TaskSupervisor.start_child("tasks", deaf, shutdown="brutal_kill")
    gentle = await TaskSupervisor.start_child("tasks", wait)
    watched = [monitor(quick), monitor(gentle)]
    stopping = spawn(stop, supervisor)
    await fake_clock.advance(2.9)
    assert [(await receive()).ref in watched for _ in range(2)] == [True, True]
    assert stopping.alive
    await fake_clock.advance(0.2)
    assert not stopping.alive


async def test_terminate_child_stops_one_task() -> None:
    """By pid, as for any dynamic child."""
    await start()
    pid = await TaskSupervisor.start_child("tasks", wait)
    ref = monitor(pid)
    await TaskSupervisor.terminate_child("tasks", pid)
    assert await receive() == Down(ref, pid, "shutdown")


async def test_a_task_keeps_the_context_of_whoever_asked_for_it() -> None:
    """Context variables of the caller are seen in the task, whether its supervisor is idle or busy."""
    supervisor = await start()
    token = REQUEST.set("r1")
    assert await (await TaskSupervisor.async_nolink("tasks", REQUEST.get)).await_() == "r1"
    await sys.suspend(supervisor)
    asking = spawn_monitor(ask_for_request)[1]
    await settle()
    await sys.resume(supervisor)
    await settle()
    REQUEST.reset(token)
    assert (await receive(lambda message: isinstance(message, str))) == "r1"
    assert (await receive()).ref is asking


async def ask_for_request() -> None:
    root = info(self_pid()).ancestors[-1]
    send(root, await (await TaskSupervisor.async_nolink("tasks", REQUEST.get)).await_())


async def test_a_busy_supervisor_starts_the_task_when_its_turn_comes() -> None:
    """The slow road ends where the quick one does: one child, one value, no message left."""
    supervisor = await start()
    await sys.suspend(supervisor)
    results: list[Any] = []

    async def ask() -> None:
        task = await TaskSupervisor.async_nolink(supervisor, lambda: 5)
        results.append(await task.await_())
        results.append(self_pid().mailbox or None)  # type: ignore[attr-defined]

    spawn(ask)
    await settle()
    assert results == []
    await sys.resume(supervisor)
    await settle()
    assert results == [5, None]


async def test_a_task_whose_owner_dies_before_it_was_told_never_begins() -> None:
    """The supervisor is busy, the owner is killed meanwhile: the function is not called and nobody is left."""
    supervisor = await start()
    called: list[int] = []
    await sys.suspend(supervisor)

    async def ask() -> None:
        await TaskSupervisor.async_nolink(supervisor, called.append, 1)

    owner = spawn(ask)
    await settle()
    exit_signal(owner, "kill")
    await sys.resume(supervisor)
    await settle()
    assert called == []
    assert await TaskSupervisor.children(supervisor) == []


async def test_a_server_can_start_tasks_and_take_their_replies_as_messages() -> None:
    """A server does not await: it matches TaskReply and Down in handle_info."""
    seen: list[Any] = []

    class Asker(GenServer[None, Any, Any, None]):
        def init(self, arg: None) -> None:
            return None

        async def handle_call(self, message: Any, caller: Any, state: None) -> Reply[None]:
            task = await TaskSupervisor.async_nolink("tasks", lambda: 42)
            return Reply(task.ref, state)

        def handle_info(self, message: Any, state: None) -> Any:
            seen.append(message)
            return NoReply(state)

    await start()
    asker = await Asker.start(None)
    assert asker is not None
    ref = await call(asker, "go")
    await settle()
    assert seen == [TaskReply(ref, 42), Down(ref, ref.pid, "normal")]


async def test_a_stream_under_a_supervisor_shows_its_tasks_as_children() -> None:
    """And leaves none behind."""
    await start()
    counts: list[int] = []

    async def count(item: int) -> int:
        counts.append(len(await TaskSupervisor.children("tasks")))
        return item

    results = [result async for result in TaskSupervisor.async_stream("tasks", [1, 2, 3], count, max_concurrency=2)]
    assert results == [TaskDone(1), TaskDone(2), TaskDone(3)]
    assert max(counts) <= 2
    assert await TaskSupervisor.children("tasks") == []


@pytest.mark.parametrize("link", [True, False])
async def test_a_supervisor_that_waits_for_a_child_to_end_starts_no_task(
    link: bool, fake_clock: FakeClock, clocked_runtime: Runtime
) -> None:
    """
    While it stops its tasks a request waits, and fails when it has ended: nothing is started that it would not stop.
    """
    trap_exit(True)
    supervisor = await start()
    ran: list[str] = []

    async def stubborn() -> None:
        trap_exit(True)
        await sleep_s(3.0)

    async def late() -> None:
        ran.append("late")

    async def ask() -> Any:
        start_one = TaskSupervisor.async_ if link else TaskSupervisor.async_nolink
        for request in (start_one(supervisor, late), TaskSupervisor.start_child(supervisor, late)):
            with pytest.raises(CallFailed) as failed:
                await request
            ran.append(failed.value.reason)

    await TaskSupervisor.start_child(supervisor, stubborn)
    await settle()
    exit_signal(supervisor, "shutdown")
    await settle()
    asking = spawn_monitor(ask)[1]
    await fake_clock.advance(10)
    down = await receive(lambda message: isinstance(message, Down) and message.ref is asking)

    assert down.reason == "normal"
    assert ran == ["shutdown", "noproc"]


async def test_a_task_that_fails_at_once_ends_a_linked_stream_before_the_next_is_begun() -> None:
    """The caller dies of the first task, and nothing of the rest has run; without a link all of it does."""
    supervisor = await start()
    ran: list[int] = []

    async def work(number: int) -> int:
        ran.append(number)
        if number == 1:
            exit_process("boom")
        return number

    async def stream(link: bool) -> list[Any]:
        results = TaskSupervisor.async_stream(supervisor, [1, 2, 3], work, max_concurrency=3, link=link)
        return [result async for result in results]

    linked, watching = spawn_monitor(stream, True)
    down = await receive()
    assert (down.ref, down.reason, linked.alive) == (watching, "boom", False)
    assert ran == [1]
    spawn(stream, False)
    await settle()
    assert ran == [1, 1, 2, 3]
    assert await TaskSupervisor.children(supervisor) == []


async def test_a_supervisor_with_requests_of_its_own_takes_every_one_itself() -> None:
    """A class that overrides handle_call is asked, by a message, for tasks with an owner and without."""

    class Asked(TaskSupervisor):
        def handle_call(self, message: Any, caller: Any, state: Any) -> Any:
            asked.append((type(message), self_pid()))
            return super().handle_call(message, caller, state)

    async def seven() -> int:
        return 7

    asked: list[Any] = []
    supervisor = await Asked.start_link()
    task = await TaskSupervisor.async_nolink(supervisor, seven)
    assert await task.await_() == 7
    await TaskSupervisor.start_child(supervisor, seven)
    assert asked == [(StartTask, supervisor), (StartWorker, supervisor)]
