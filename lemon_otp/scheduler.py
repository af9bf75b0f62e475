"""Edge. The run queue of one event loop: which process runs next, and for how long.

Every process that can run stands in one queue. One callback of the event loop takes them from its front, lets
each run for a turn and, when the fuel of the callback is used up, comes back on the next pass of the loop: so
timers, sockets and other tasks get their share however busy the processes are.

While a process runs it is the loop's current task: `asyncio.timeout`, task groups and libraries that ask
for the current task find the process.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, MutableMapping
from contextvars import Context, ContextVar
from itertools import count
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, Protocol

from lemon_otp.clock import Clock, RealClock, Timers

if TYPE_CHECKING:
    from lemon_otp.process import Pid, Process

TURN_FUEL: Final = 64
"""Messages that one process may take before the next one runs."""
DRAIN_FUEL: Final = 512
"""Messages and turns of one callback, about a millisecond of work."""
DEPTH_MAX: Final = 12
"""Calls that may be answered inside one another on the Python stack."""

CURRENT: ContextVar[Process] = ContextVar("lemon_otp_process")
"""The process whose code runs; helper tasks of a process inherit it."""


class _CurrentTask:
    """The loop-to-current-task mapping where asyncio keeps none (3.14 and later)."""

    def __setitem__(self, loop: asyncio.AbstractEventLoop, task: Any) -> None:
        asyncio.tasks._swap_current_task(loop, task)  # type: ignore[attr-defined]

    def pop(self, loop: asyncio.AbstractEventLoop, default: Any = None) -> Any:
        return asyncio.tasks._swap_current_task(loop, None)  # type: ignore[attr-defined]


CURRENT_TASKS: Final[MutableMapping[asyncio.AbstractEventLoop, Any]] = (
    asyncio.tasks._current_tasks if sys.version_info < (3, 14) else _CurrentTask()  # type: ignore[attr-defined]
)
"""What `asyncio.current_task()` reads; a plain dict, which is quicker to set than two calls."""


class NameService(Protocol):
    """What `Via` asks of a registry."""

    def whereis(self, key: Any) -> Pid | None:
        """The live process registered under `key`."""
        ...

    def register_name(self, key: Any, value: Any, pid: Pid) -> None:
        """Register `pid`; raises AlreadyRegistered."""
        ...

    def unregister_name(self, key: Any, pid: Pid) -> None:
        """Forget the registration of `pid` under `key`, if there is one."""
        ...


class Scheduler:
    """One event loop's processes and the queue of those that can run.

    Attributes:
        processes: Every live process by its number.
        names: Locally registered names.
        name_services: Running registries by name, for `Via`.
        zombies: Dead processes whose coroutine has not ended yet.
        store: Where modules built on processes keep what belongs to this runtime, by their own key.
        turns: How many turns have been given so far.
        running: The process whose turn it is.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.clock: Clock = RealClock() if clock is None else clock
        self.timers = Timers(self.clock, self.loop)
        self.thread_id = get_ident()
        self.numbers = count(1)
        self.processes: dict[int, Process] = {}
        self.names: dict[str, Process] = {}
        self.name_services: dict[str, NameService] = {}
        self.zombies: dict[Process, None] = {}
        self.store: dict[Any, Any] = {}
        self.handlers: dict[tuple[str, ...], tuple[Any, ...]] = {}
        self.queue: deque[Process] = deque()
        self.deaths: deque[Process] = deque()
        self.announcing = False
        self.scheduled = False
        self.closed = False
        self.fuel = TURN_FUEL
        self.depth = 0
        self.turns = 0
        self.running: Process | None = None
        self.context = Context()

    def enqueue(self, process: Process) -> None:
        """Give `process` a turn; the caller has seen to it that it is not in the queue already."""
        self.queue.append(process)
        if not self.scheduled:
            self.scheduled = True
            self.loop.call_soon(self.drain, context=self.context)

    def post(self, callback: Callable[..., None], *args: Any) -> None:
        """Run `callback(*args)` on the loop's thread, from any other thread. Dropped when the loop has ended."""
        try:
            self.loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            if not self.loop.is_closed():
                raise

    def drain(self) -> None:
        queue, loop, tasks = self.queue, self.loop, CURRENT_TASKS
        left = DRAIN_FUEL
        try:
            while queue and left > 0:
                process = queue.popleft()
                tasks[loop] = self.running = process
                self.fuel = TURN_FUEL
                self.turns += 1
                process.context.run(process.step)
                left -= TURN_FUEL + 1 - self.fuel
        finally:
            tasks.pop(loop, None)
            self.running = None
            if queue and not self.closed:
                loop.call_soon(self.drain, context=self.context)
            else:
                self.scheduled = False

    def run_alone(self, process: Process) -> None:
        """Give one turn from a callback of the loop, in whose context (that of `process`) the caller runs."""
        CURRENT_TASKS[self.loop] = self.running = process
        self.fuel = TURN_FUEL
        self.turns += 1
        try:
            process.step()
        finally:
            CURRENT_TASKS.pop(self.loop, None)
            self.running = None

    def run_inside(self, process: Process) -> None:
        """Give one turn in the middle of the turn of another process or task."""
        tasks, loop = CURRENT_TASKS, self.loop
        outer_task, outer = asyncio.current_task(loop), self.running
        tasks[loop] = self.running = process
        if outer is None:
            self.fuel = TURN_FUEL
        self.depth += 1
        self.turns += 1
        try:
            process.context.run(process.step)
        finally:
            self.depth -= 1
            self.running = outer
            if outer_task is None:
                tasks.pop(loop, None)
            else:
                tasks[loop] = outer_task
