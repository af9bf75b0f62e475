"""The run queue: who is listed, who gets how much, and what a waiting process keeps."""

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest

from lemon_otp import Pid, Runtime, call, cast, exit_signal, receive, self_pid, send, spawn
from lemon_otp.machine import Process
from lemon_otp.process import current_process
from lemon_otp.scheduler import FUEL, Scheduler
from lemon_otp.testing import settle
from tests.lemon_otp.servers import Add, Counter, Read, Scripted


@pytest.fixture(autouse=True)
async def scheduler(runtime: Runtime) -> Scheduler:
    return runtime.scheduler


async def idle() -> None:
    await receive(lambda message: False)


async def once() -> None:
    await receive()


async def test_every_live_process_is_listed_and_no_dead_one(runtime: Runtime) -> None:
    """Before its first turn, while it runs, while it waits; gone when it has ended, however that was."""
    inside: list[list[Pid]] = []

    async def look() -> None:
        inside.append(runtime.processes)

    root = self_pid()
    new = spawn(look)
    assert runtime.processes == [root, new]
    await settle()
    assert inside == [[root, new]]
    assert runtime.processes == [root]
    waiting, killed, server = spawn(once), spawn(idle), await Counter.start(0)
    await settle()
    assert runtime.processes == [root, waiting, killed, server]
    send(waiting, "go")
    exit_signal(killed, "kill")
    await settle()
    assert runtime.processes == [root, server]


async def test_nothing_of_a_process_that_has_ended_is_kept(scheduler: Scheduler) -> None:
    """Without waiting for the collector: no list, no cycle holds it."""

    async def asleep() -> None:
        await asyncio.sleep(0)

    gc.collect()
    gc.disable()
    try:
        kept = [weakref.ref(spawn(asleep)), weakref.ref(spawn(idle)), weakref.ref(spawn(once))]
        await settle()
        for reference, end in zip(
            kept[1:], (lambda pid: exit_signal(pid, "kill"), lambda pid: send(pid, 1)), strict=True
        ):
            pid = reference()
            assert pid is not None
            end(pid)
            del pid
        await settle()
        scheduler.warm.clear()
        assert [reference() for reference in kept] == [None, None, None]
    finally:
        gc.enable()


async def test_a_waiting_process_gives_its_mailbox_back_after_a_while(scheduler: Scheduler) -> None:
    """An empty one, when nothing has come for a second or two; the next message finds another."""
    pids = [spawn(once_more) for _ in range(3)]
    await settle()
    assert all(isinstance(pid, Process) and pid.mailbox is None for pid in pids)
    for pid in pids:
        send(pid, 1)
    await settle()
    assert all(isinstance(pid, Process) and pid.mailbox is not None for pid in pids)
    async with asyncio.timeout(10):
        while scheduler.warm:
            await asyncio.sleep(0.05)
    assert all(isinstance(pid, Process) and pid.mailbox is None for pid in pids)
    send(pids[0], 2)
    await settle()
    assert pids[0].alive


async def once_more() -> None:
    while True:
        await receive()


async def test_one_with_a_full_mailbox_does_not_keep_the_others_waiting() -> None:
    """After its share of messages the next process has its turn."""
    order: list[str] = []

    async def greedy() -> None:
        for _ in range(3 * FUEL):
            await receive()
            order.append("greedy")

    async def modest() -> None:
        await receive()
        order.append("modest")

    first, second = spawn(greedy), spawn(modest)
    for number in range(3 * FUEL):
        send(first, number)
    send(second, 1)
    await settle()
    assert order.index("modest") < 2 * FUEL
    assert order.count("greedy") == 3 * FUEL


async def test_a_server_with_a_full_mailbox_gives_way_too() -> None:
    """Its turn ends although more has come."""
    server = await Counter.start(0)
    assert server is not None
    for _ in range(3 * FUEL):
        cast(server, Add(1))
    seen: list[int] = []

    async def other() -> None:
        me = current_process()
        assert isinstance(server, Process)
        seen.append(len(server.mailbox or ()))
        assert me.alive

    spawn(other)
    await settle()
    assert seen[0] > FUEL
    assert await call(server, Read()) == 3 * FUEL


async def test_a_post_to_a_loop_that_has_ended_is_dropped() -> None:
    """A thread that outlives its runtime does no harm."""
    done = threading.Event()
    failures: list[BaseException] = []

    def outlive(scheduler: Scheduler) -> None:
        try:
            done.wait(10)
            scheduler.post(print, "never")
        except BaseException as error:
            failures.append(error)

    def run_and_end() -> threading.Thread:
        async def main() -> threading.Thread:
            async with Runtime() as runtime:
                thread = threading.Thread(target=outlive, args=(runtime.scheduler,), daemon=True)
                thread.start()
                return thread

        return asyncio.run(main())

    thread = await asyncio.to_thread(run_and_end)
    done.set()
    await asyncio.to_thread(thread.join, 10)
    assert failures == []


async def test_an_error_of_a_watcher_keeps_nobody_from_being_told(caplog: pytest.LogCaptureFixture) -> None:
    """The others hear of the death all the same."""

    class Bad:
        def target_down(self, reason: Any) -> None:
            raise ValueError("cannot bear it")

    pid, other = spawn(idle), spawn(idle)
    await settle()
    assert isinstance(pid, Process)
    assert isinstance(other, Process)
    pid.watch(Bad())
    pid.link(other)
    exit_signal(pid, "boom")
    assert other.exit_reason == "boom"
    assert "cannot bear it" in caplog.text


async def test_turns_inside_turns_leave_the_current_task_as_it_was() -> None:
    """A call that is answered inside the caller's turn gives it back its place, also when the server crashes."""
    seen: list[bool] = []

    async def crash(caller: Any, state: Any) -> Any:
        seen.append(asyncio.current_task() is self_pid())
        raise RuntimeError("crash")

    server = await Scripted.start(0)
    assert server is not None

    async def work() -> None:
        with pytest.raises(Exception, match="crash"):
            await call(server, crash)
        seen.append(asyncio.current_task() is self_pid())

    spawn(work)
    await settle()
    assert seen == [True, True]
    before = asyncio.current_task()
    server = await Scripted.start(0)
    assert server is not None
    with pytest.raises(Exception, match="crash"):
        await call(server, crash)
    assert asyncio.current_task() is before
