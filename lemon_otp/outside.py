"""Edge. Processes whose work is done elsewhere: on a thread, or in a child process of the operating system.

A thread cannot be stopped: when its process is ended first, it goes on as an orphan until it returns, and is
reported. A child process is killed with everything in its process group, whichever way its process ends.

Emits: telemetry ("lemon_otp", "process", "orphan_thread")
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from lemon_otp import telemetry
from lemon_otp.errors import BadArgument, ProcessExit, RemoteError
from lemon_otp.scheduler import CURRENT
from lemon_otp.telling import describe, error_trace, error_words

if TYPE_CHECKING:
    from lemon_otp.machine import Process

_log: Final = logging.getLogger("lemon_otp")
_CHILD: Final = Path(__file__).with_name("os_child.py")


def outside_entry(on: str, fn: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """What a process of the loop has to call so that `fn(*args)` is run in the place `on`.

    Raises:
        BadArgument: There is no such place, or `fn` cannot be run there.
    """
    if on not in ("thread", "process"):
        raise BadArgument(f'on={on!r}; expected "loop", "thread" or "process"')
    if inspect.iscoroutinefunction(fn):
        raise BadArgument(f"{describe(fn)} is async, which only the loop can run; on={on!r} takes a plain function")
    if on == "thread":
        return run_in_thread, (fn, args)
    try:
        return run_pickled, (pickle.dumps((fn, args)),)
    except Exception as error:
        raise BadArgument(
            f"{describe(fn)} and its arguments cannot be sent to another process: {error_words(error)}"
        ) from error


# Threads.


async def run_in_thread(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The body of a process that runs a plain function on a thread of its own."""
    process = CURRENT.get()
    runtime = process.runtime
    done: asyncio.Future[Any] = runtime.loop.create_future()
    context = copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        runtime.orphans.pop(process, None)
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def work() -> None:
        try:
            result = context.run(fn, *args)
        except SystemExit as leaving:
            runtime.post(settle, None, ProcessExit("normal" if not leaving.code else ("exit_status", leaving.code)))
        except StopIteration as error:
            runtime.post(settle, None, RuntimeError(f"{describe(fn)} raised {describe(error)}"))
        except (Exception, ProcessExit, asyncio.CancelledError) as error:
            runtime.post(settle, None, error)
        except BaseException as error:
            runtime.post(settle, None, _contained(fn, error))
        else:
            runtime.post(settle, result, None)

    threading.Thread(target=work, daemon=True, name=repr(process)).start()
    process.at_exit(lambda _pid, _reason: None if done.done() else _report_orphan(process))
    return await done


def _contained(fn: Callable[..., Any], error: BaseException) -> RuntimeError:
    """What ends the process alone: raised on the loop, an interrupt would end everything."""
    contained = RuntimeError(f"{describe(fn)} raised {describe(error)}")
    contained.__cause__ = error
    return contained


def _report_orphan(process: Process) -> None:
    process.runtime.orphans[process] = None
    _log.warning("%r is dead, but its thread goes on; threads cannot be killed", process)
    metadata = {"pid": process}
    telemetry.execute_in(process.runtime, ("lemon_otp", "process", "orphan_thread"), {"count": 1}, metadata)


# Child processes.


async def run_pickled(work: bytes) -> Any:
    """The body of a process that has a child process do its work: a function and its arguments, pickled."""
    process = CURRENT.get()
    runtime = process.runtime
    done: asyncio.Future[Any] = runtime.loop.create_future()
    child = OsChild(work)
    process.at_exit(lambda _pid, _reason: child.kill())

    def settle(outcome: tuple[Any, ...]) -> None:
        if not done.done():
            done.set_result(outcome)

    def watch() -> None:
        try:
            outcome = child.run(lambda pid: runtime.post(_note_os_pid, process, pid))
        except Exception as error:  # no descriptor or no process is left to start it with
            outcome = ("error", error, error_trace(error))
        runtime.post(settle, outcome)

    threading.Thread(target=watch, daemon=True, name=f"{process!r} waits for its child").start()
    match await done:
        case ("value", value):
            return value
        case ("exit", reason):
            raise ProcessExit(reason)
        case ("error", Exception() as error, text):
            raise error from RemoteError(text)
        case ("error", _, text):
            raise RemoteError(text)


def _note_os_pid(process: Process, pid: int) -> None:
    process.interrupts().facts = {**process.facts, "os_pid": pid}


class OsChild:
    """One child process and the thread that waits for it. `kill` may come at any time, from any thread."""

    def __init__(self, work: bytes) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._killed = False
        self._popen: subprocess.Popen[bytes] | None = None

    def run(self, started: Callable[[int], None]) -> tuple[Any, ...]:
        """Start the child, wait for its end and say what came of it. Blocks; for a thread of its own."""
        orders_out, orders_in = os.pipe()
        results_out, results_in = os.pipe()
        with os.fdopen(orders_in, "wb", buffering=0) as orders, os.fdopen(results_out, "rb", buffering=0) as results:
            try:
                popen = self._start(orders_out, results_in)
            finally:
                os.close(orders_out)
                os.close(results_in)
            if popen is None:
                return ("exit", "killed")
            started(popen.pid)
            _send(orders, self._work)
            answer = _receive(results, popen.pid)
            self.kill()  # what the function left running in its group, and the child if it is stuck on its way out
            with self._lock:
                self._popen = None
            return _outcome(answer, popen.wait())

    def kill(self) -> None:
        """Kill the child and its process group, now or as soon as it would be started."""
        with self._lock:
            self._killed = True
            if self._popen is not None and self._popen.returncode is None:
                with suppress(ProcessLookupError, PermissionError):  # it has ended already
                    os.killpg(self._popen.pid, signal.SIGKILL)

    def _start(self, orders_fd: int, results_fd: int) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._killed:
                return None
            self._popen = subprocess.Popen(
                [sys.executable, "-P", str(_CHILD), str(orders_fd), str(results_fd)],
                stdin=subprocess.DEVNULL,
                pass_fds=(orders_fd, results_fd),
                start_new_session=True,
            )
            return self._popen


def _send(orders: BinaryIO, work: bytes) -> None:
    with suppress(BrokenPipeError):  # the child is dead: its exit status says why
        for part in (_preparation(), work):
            rest = memoryview(len(part).to_bytes(8, "big") + part)
            while rest:
                rest = rest[orders.write(rest) :]


LOOK_EVERY_S: Final = 0.5
"""How often a child that is silent is looked at. Its pipe closes with it, unless it forked and left somebody behind."""


def _receive(results: BinaryIO, pid: int) -> bytes:
    """The answer, which is empty when the child ended without one."""
    received, size = bytearray(), None
    with DefaultSelector() as selector:
        selector.register(results, EVENT_READ)
        while size is None or len(received) < size:
            if selector.select(LOOK_EVERY_S):
                part = results.read(1 << 20)
                if not part:
                    return b""
                received += part
            elif _has_ended(pid):
                return b""
            if size is None and len(received) >= 8:
                size = int.from_bytes(received[:8], "big")
                del received[:8]
    return bytes(received)


def _has_ended(pid: int) -> bool:
    """Whether a child has ended; its status is left for whoever waits for it, and with it the number of its group."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _preparation() -> bytes:
    """What the child needs to find the same modules, among them the main one under another name."""
    from multiprocessing import spawn  # not needed by those who never start a child

    data = spawn.get_preparation_data("lemon_otp")
    del data["authkey"]
    return pickle.dumps(data)


def _outcome(answer: bytes, status: int) -> tuple[Any, ...]:
    try:
        if answer:
            outcome: tuple[Any, ...] = pickle.loads(answer)
            return outcome
    except Exception as error:
        if not status:
            return ("error", None, f"the result cannot be read: {describe(error)}")
    if status == -signal.SIGKILL:
        return ("exit", "killed")
    return ("exit", ("signal", -status) if status < 0 else ("exit_status", status))
