"""Work on threads and in child processes of the operating system."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lemon_otp import (
    BadArgument,
    Down,
    Pid,
    ProcessExit,
    RemoteError,
    Runtime,
    exit_signal,
    monitor,
    receive,
    self_pid,
    send,
    spawn,
    spawn_monitor,
    telemetry,
    zombies,
)


@pytest.fixture(autouse=True)
async def entered(runtime: Runtime) -> Runtime:
    return runtime


async def reason_of(pid: Pid) -> Any:
    if not pid.alive:
        return pid.exit_reason
    ref = monitor(pid)
    return (await receive(lambda message: isinstance(message, Down) and message.ref is ref, timeout_s=20)).reason


# Threads.


@pytest.mark.requirement("BR-148", "BR-149")
async def test_blocking_functions_on_threads_leave_the_loop_free() -> None:
    """Two of them run side by side, the loop goes on, and a kill is effective at once."""
    gate = threading.Event()
    me = self_pid()

    def block(name: str) -> None:
        send(me, name)
        gate.wait(20)

    one, two = spawn(block, "one", on="thread"), spawn(block, "two", on="thread")
    assert {await receive(timeout_s=5), await receive(timeout_s=5)} == {"one", "two"}
    exit_signal(one, "kill")
    assert not one.alive
    gate.set()
    assert await reason_of(two) == "normal"


async def test_what_a_thread_raises_is_the_reason() -> None:
    """Exceptions, exits of the process and of the interpreter alike."""
    error = ValueError("boom")

    def fail(what: BaseException) -> None:
        raise what

    assert await reason_of(spawn(fail, error, on="thread")) is error
    assert await reason_of(spawn(fail, ProcessExit("left"), on="thread")) == "left"
    assert await reason_of(spawn(fail, SystemExit(), on="thread")) == "normal"
    assert await reason_of(spawn(fail, SystemExit(3), on="thread")) == ("exit_status", 3)
    assert isinstance(await reason_of(spawn(fail, StopIteration(), on="thread")), RuntimeError)


async def test_a_thread_whose_process_was_killed_is_reported_as_an_orphan() -> None:
    """Listed among the zombies until it returns; what it returns goes nowhere."""
    events: list[Any] = []
    telemetry.attach("h", ("lemon_otp", "process", "orphan_thread"), lambda *event: events.append(event))
    gate = threading.Event()
    pid = spawn(gate.wait, 20, on="thread")
    await asyncio.sleep(0)
    while not any(thread.name == repr(pid) for thread in threading.enumerate()):
        await asyncio.sleep(0)
    exit_signal(pid, "kill")
    assert zombies() == [pid]
    assert events[0][2]["pid"] is pid
    gate.set()
    async with asyncio.timeout(5):
        while zombies():
            await asyncio.sleep(0.005)


async def test_async_functions_and_unpicklable_ones_are_refused_at_once() -> None:
    """BadArgument where the mistake was made."""

    async def coro() -> None:
        return None

    for place in ("thread", "process"):
        with pytest.raises(BadArgument, match="async"):
            spawn(coro, on=place)  # type: ignore[arg-type]
    with pytest.raises(BadArgument, match="cannot be sent"):
        spawn(lambda: 1, on="process")


# Child processes. The functions stand at the top of the module, where a child can find them.


def write_pids_and_sleep(path: str) -> None:
    grandchild = subprocess.Popen(["sleep", "60"])
    Path(path + ".new").write_text(f"{os.getpid()} {grandchild.pid}")
    os.rename(path + ".new", path)
    time.sleep(60)


def double(number: int) -> int:
    return number * 2


def fail_with(message: str) -> None:
    raise ValueError(message)


class Unpicklable(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__("unpicklable")


def fail_strangely() -> None:
    raise Unpicklable(1, 2)


def leave(code: int) -> None:
    sys.exit(code)


def exit_with(reason: str) -> None:
    raise ProcessExit(reason)


def die(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(60)


def open_descriptors(_: int) -> None:
    """Fail when a descriptor is open that what the function starts would inherit."""
    extra = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the descriptor of this very listing is closed by now
            if int(name) > 2 and os.get_inheritable(int(name)):
                extra.append(name)
    if extra:
        raise RuntimeError(f"inherited {extra}")


async def pids_in(path: Path) -> tuple[int, int]:
    async with asyncio.timeout(20):
        while not path.exists():
            await asyncio.sleep(0.01)
    child, grandchild = map(int, path.read_text().split())
    return child, grandchild


async def gone(pid: int) -> bool:
    """Whether the process has ended, or does within a few seconds; one that is only not yet collected has."""
    for _ in range(500):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        await asyncio.sleep(0.01)
    return False


async def test_a_child_process_runs_a_function() -> None:
    """And ends with "normal", with the exception, or with the reason it gave."""
    assert await reason_of(spawn(double, 4, on="process")) == "normal"
    error = await reason_of(spawn(fail_with, "boom", on="process"))
    assert isinstance(error, ValueError)
    assert str(error) == "boom"
    assert isinstance(error.__cause__, RemoteError)
    assert "fail_with" in str(error.__cause__)
    assert await reason_of(spawn(exit_with, "left", on="process")) == "left"


async def test_the_ways_a_child_can_end_are_told_apart() -> None:
    """Exit codes, signals, and errors that do not come through a pipe."""
    pids = {
        spawn(leave, 0, on="process"): "normal",
        spawn(leave, 7, on="process"): ("exit_status", 7),
        spawn(die, signal.SIGTERM, on="process"): ("signal", signal.SIGTERM),
        spawn(fail_strangely, on="process"): RemoteError,
        spawn(open_descriptors, 1, on="process"): "normal",
    }
    for pid, wanted in pids.items():
        reason = await reason_of(pid)
        if isinstance(wanted, type):
            assert isinstance(reason, wanted)
            assert "unpicklable" in str(reason)
        else:
            assert reason == wanted


@pytest.mark.requirement("BR-133")
async def test_a_child_killed_from_outside_is_told_as_killed(tmp_path: Path) -> None:
    """kill -9 by somebody else: a Down with "killed", and its own children are killed too."""
    pid, _ = spawn_monitor(write_pids_and_sleep, str(tmp_path / "pids"), on="process")
    child, grandchild = await pids_in(tmp_path / "pids")
    os.kill(child, signal.SIGKILL)
    assert (await receive(timeout_s=20)).reason == "killed"
    assert await gone(child)
    assert await gone(grandchild)
    assert pid.exit_reason == "killed"


@pytest.mark.requirement("BR-133")
async def test_a_child_killed_before_it_has_read_its_work_is_told_as_killed() -> None:
    """There is more to read than a pipe holds, so some of it is never written; nobody waits for that."""
    for _ in range(8):
        pid, ref = spawn_monitor(len, b"x" * 3_000_000, on="process")
        while "os_pid" not in pid.facts:  # type: ignore[attr-defined]
            await asyncio.sleep(0)
        os.kill(pid.facts["os_pid"], signal.SIGKILL)  # type: ignore[attr-defined]
        down = await receive(lambda message, ref=ref: isinstance(message, Down) and message.ref is ref, timeout_s=20)
        assert down.reason == "killed"


async def test_a_child_that_cannot_be_started_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what the operating system said."""

    def refuse(*_args: Any, **_options: Any) -> Any:
        raise BlockingIOError(11, "no more processes")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert isinstance(await reason_of(spawn(double, 1, on="process")), BlockingIOError)


async def test_a_kill_ends_the_whole_process_group(tmp_path: Path) -> None:
    """The process is dead at once; child and grandchild follow."""
    pid = spawn(write_pids_and_sleep, str(tmp_path / "pids"), on="process")
    child, grandchild = await pids_in(tmp_path / "pids")
    assert isinstance(child, int)
    exit_signal(pid, "kill")
    assert not pid.alive
    assert await gone(child)
    assert await gone(grandchild)


async def test_a_child_of_a_runtime_that_ends_is_killed(tmp_path: Path) -> None:
    """Leaving the block is enough."""
    async with Runtime():
        spawn(write_pids_and_sleep, str(tmp_path / "pids"), on="process")
        child, grandchild = await pids_in(tmp_path / "pids")
    assert await gone(child)
    assert await gone(grandchild)


async def test_a_process_killed_before_its_child_has_started_starts_none() -> None:
    """Nothing is left over."""
    pids = [spawn(double, 1, on="process") for _ in range(3)]
    await asyncio.sleep(0)
    for pid in pids:
        exit_signal(pid, "kill")
    assert [pid for pid in pids if pid.alive] == []
    async with asyncio.timeout(20):
        while any("waits for its child" in thread.name for thread in threading.enumerate()):
            await asyncio.sleep(0.01)


async def test_a_child_ends_with_its_parent_whatever_ends_that(tmp_path: Path) -> None:
    """kill -9 of the whole Python process leaves neither child nor grandchild."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import asyncio\n"
        "from lemon_otp import run, spawn\n"
        "from tests.lemon_otp.test_outside import write_pids_and_sleep\n"
        "async def main():\n"
        f"    spawn(write_pids_and_sleep, {str(tmp_path / 'pids')!r}, on='process')\n"
        "    await asyncio.sleep(60)\n"
        "if __name__ == '__main__':\n"
        "    run(main)\n"
    )
    root = str(Path(__file__).resolve().parents[2])
    parent = subprocess.Popen([sys.executable, str(script)], env={**os.environ, "PYTHONPATH": root})
    try:
        child, grandchild = await pids_in(tmp_path / "pids")
    finally:
        parent.kill()
        parent.wait()
    assert await gone(child)
    assert await gone(grandchild)


def fork_and_leave(pids: str) -> str:
    """Leave somebody behind who holds every pipe of this child."""
    child = os.fork()
    if child == 0:
        time.sleep(300)
    Path(pids).write_text(str(child))
    return "done"


def fork_and_exit(pids: str) -> None:
    """The same, without an answer."""
    fork_and_leave(pids)
    os._exit(7)


@pytest.mark.parametrize(("work", "reason"), [(fork_and_leave, "normal"), (fork_and_exit, ("exit_status", 7))])
async def test_a_child_that_forked_ends_when_it_ends_and_leaves_nobody(work: Any, reason: Any, tmp_path: Path) -> None:
    """What it forked has the pipe of the answer too: nobody waits for that to be closed, and the group is killed."""
    pids = tmp_path / "pid"

    assert await reason_of(spawn(work, str(pids), on="process")) == reason
    assert await gone(int(pids.read_text()))


def interrupt() -> None:
    """As if somebody had pressed Ctrl-C there."""
    raise KeyboardInterrupt


async def test_an_interrupt_elsewhere_ends_the_process_and_not_the_loop() -> None:
    """On a thread and in a child alike, it is the error of the one function."""
    on_thread = await reason_of(spawn(interrupt, on="thread"))
    in_child = await reason_of(spawn(interrupt, on="process"))

    assert isinstance(on_thread, RuntimeError)
    assert isinstance(on_thread.__cause__, KeyboardInterrupt)
    assert isinstance(in_child, RemoteError)
    assert "KeyboardInterrupt" in str(in_child)
