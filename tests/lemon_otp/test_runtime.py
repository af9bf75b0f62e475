"""A runtime from its beginning to its end, and the task that becomes its first process."""

import asyncio
import gc
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lemon_otp import (
    CallFailed,
    Down,
    Exit,
    NoRuntime,
    Pid,
    ProcessExit,
    ReceiveTimeout,
    Runtime,
    call,
    exit_process,
    exit_signal,
    link,
    monitor,
    receive,
    run,
    self_pid,
    send,
    spawn,
    spawn_link,
    trap_exit,
)
from lemon_otp.testing import settle
from tests.lemon_otp.servers import Counter, Read


async def idle() -> None:
    await receive(lambda message: False)


def test_run_returns_what_main_returns() -> None:
    """With its arguments, in a process of its own."""

    async def main(number: int) -> tuple[int, bool]:
        return number * 2, self_pid().alive

    assert run(main, 4) == (8, True)


def test_run_passes_on_what_main_raises() -> None:
    """Unchanged."""

    async def main() -> None:
        raise KeyError("k")

    with pytest.raises(KeyError):
        run(main)


def test_an_exit_of_main_is_raised() -> None:
    """ProcessExit with the reason."""

    async def main() -> None:
        exit_process("bye")

    with pytest.raises(ProcessExit) as exited:
        run(main)
    assert exited.value.reason == "bye"


def test_a_crash_of_a_linked_process_ends_main() -> None:
    """It is cancelled where it waits, and the reason is raised, with the exception as the cause."""
    error = ValueError("boom")
    seen: list[str] = []

    async def fail() -> None:
        raise error

    async def main() -> None:
        spawn_link(fail)
        try:
            await receive()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with pytest.raises(ProcessExit) as exited:
        run(main)
    assert exited.value.reason is error
    assert exited.value.__cause__ is error
    assert seen == ["cancelled"]


def test_an_orderly_signal_ends_main_silently() -> None:
    """shutdown from a linked process cancels the block, and nothing is raised in its place."""

    async def main() -> str:
        async with Runtime() as runtime:
            spawn_link(exit_process, "shutdown")
            try:
                await receive()
            except asyncio.CancelledError:
                return f"cancelled, {runtime.root.exit_reason}"
        return "?"

    assert asyncio.run(main()) == "cancelled, shutdown"


async def test_the_attached_process_is_a_process() -> None:
    """It sends, receives with match and timeout, links, monitors, traps exits, and calls."""
    async with Runtime() as runtime:
        me = self_pid()
        assert runtime.root is me
        send(me, "one")
        send(me, "two")
        assert await receive(lambda message: message == "two") == "two"
        assert await receive() == "one"
        with pytest.raises(ReceiveTimeout):
            await receive(timeout_s=0.001)
        trap_exit(True)
        pid = spawn_link(exit_process, "left")
        assert await receive() == Exit(pid, "left")
        server = await Counter.start_link(3)
        assert server is not None
        assert await call(server, Read()) == 3
        spawn(send, me, "woken")
        assert await receive() == "woken"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.005):
                await receive()
    assert not me.alive


async def test_when_it_ends_every_process_is_killed() -> None:
    """Also those that trap exits; their coroutines have run their clean-up."""
    cleaned: list[str] = []

    async def work() -> None:
        try:
            await idle()
        finally:
            await asyncio.sleep(0)
            cleaned.append("clean")

    async with Runtime() as runtime:
        pids = [spawn(work, trap_exit=True), spawn(work, name="n"), spawn(idle)]
        await settle()
        assert set(pids) < set(runtime.processes)
    assert [pid.exit_reason for pid in pids] == ["killed"] * 3
    assert cleaned == ["clean", "clean"]
    assert runtime.processes == []


async def test_an_error_in_the_block_is_passed_on_after_the_end() -> None:
    """The processes are gone, and the error is the block's own."""
    with pytest.raises(ValueError, match="mine"):
        async with Runtime():
            pid = spawn(idle)
            raise ValueError("mine")
    assert not pid.alive


async def test_a_cancel_from_outside_is_not_swallowed() -> None:
    """A timeout around the block works as usual."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), Runtime():
            await receive()


async def test_a_dead_attached_process_does_nothing_more() -> None:
    """Receiving and calling raise ProcessExit instead of waiting for ever."""
    runtime = Runtime()
    await runtime.__aenter__()
    server = await Counter.start(0)
    assert server is not None
    me = self_pid()
    with pytest.raises(asyncio.CancelledError):
        exit_signal_from_other(me)
        await asyncio.sleep(1)
    asyncio.current_task().uncancel()  # type: ignore[union-attr]
    with pytest.raises(ProcessExit):
        await receive()
    with pytest.raises(ProcessExit):
        await runtime.__aexit__(None, None, None)


def exit_signal_from_other(target: Pid) -> None:
    async def other() -> None:
        exit_signal(target, "boom")

    spawn(other)


async def test_a_stubborn_coroutine_does_not_hold_the_end_up_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    """After a second it is closed, and reported if it does not even end then."""

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue

    loop = asyncio.get_running_loop()
    async with Runtime():
        pid = spawn(stubborn)
        await settle()
        before_s = loop.time()
    assert not pid.alive
    assert 0.5 < loop.time() - before_s < 5
    gc.collect()


def test_a_runtime_that_was_not_entered_says_so() -> None:
    """NoRuntime for everything that needs one."""
    runtime = Runtime()
    for attempt in (lambda: runtime.root, lambda: runtime.processes, lambda: runtime.scheduler):
        with pytest.raises(NoRuntime):
            attempt()


async def test_nothing_of_a_runtime_is_left_in_the_loop() -> None:
    """No task, no timer that fires, no thread."""
    before = asyncio.all_tasks()
    async with Runtime():
        for _ in range(10):
            spawn(idle)
        await settle()
    assert asyncio.all_tasks() == before


async def test_links_to_the_attached_process_work_both_ways() -> None:
    """When the block ends, those that are linked to it and trap exits would hear; all are killed anyway."""
    async with Runtime():
        pid = spawn(idle)
        link(pid)
        ref = monitor(pid)
        trap_exit(True)
        exit_signal(pid, "gone")
        messages = [await receive(), await receive()]
        assert Down(ref, pid, "gone") in messages
        assert Exit(pid, "gone") in messages


async def test_a_call_to_a_process_of_an_ended_runtime_fails() -> None:
    """The pid is dead, as any other."""
    async with Runtime():
        server = await Counter.start(0)
        assert server is not None
    async with Runtime():
        with pytest.raises(CallFailed):
            await call(server, Read())


def test_an_interrupt_ends_the_run_cleanly() -> None:
    """Ctrl-C while processes work: KeyboardInterrupt, no message about anything forgotten."""
    script = (
        "import asyncio, os, signal\n"
        "from lemon_otp import receive, run, self_pid, send, spawn\n"
        "async def busy():\n"
        "    while True:\n"
        "        await asyncio.sleep(0)\n"
        "async def main():\n"
        "    spawn(busy)\n"
        "    asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGINT)\n"
        "    await receive()\n"
        "run(main)\n"
    )
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, timeout=30)
    assert done.returncode != 0
    assert done.stderr.strip().endswith("KeyboardInterrupt")
    assert "never" not in done.stderr
    assert "pending" not in done.stderr


def test_a_keyboard_interrupt_inside_a_process_leaves_the_loop_consistent() -> None:
    """It goes out through the loop; the process is dead, the others are still served."""
    seen: list[Any] = []

    async def interrupted() -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        pid = spawn(interrupted)
        spawn(idle)
        try:
            await asyncio.sleep(1)
        finally:
            seen.append(pid.alive)

    logging.getLogger("lemon_otp").disabled = True
    try:
        with pytest.raises(KeyboardInterrupt):
            run(main)
    finally:
        logging.getLogger("lemon_otp").disabled = False
    assert seen == [False]
