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
from collections.abc import Callable
from contextvars import Context, ContextVar
from itertools import count
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, Protocol

from lemon_otp.clock import Clock, RealClock, Timers
from lemon_otp.pid import ALIVE

if TYPE_CHECKING:
    from lemon_otp.machine import Process
    from lemon_otp.pid import Pid

FUEL: Final = 512
"""Messages that are taken in one callback of the loop, well below a millisecond of work of our own."""
TURNS: Final = 512
"""Turns that are given in one callback of the loop."""
DEPTH_MAX: Final = 12
"""Calls that may be answered inside one another on the Python stack."""
DEPTH_FREE: Final = 2
"""So many of them are not asked how deep the stack is, which costs as much as a tenth of a call."""
FRAMES_MAX: Final = 300
"""So deep may the Python stack be where an inner call is still answered on it: who is called needs room of its own."""

WARM_S: Final = 1.0
"""How long an idle process keeps an empty mailbox, at most twice as long."""
COOLED_AT_ONCE: Final = 2_000
COOLING_PAUSE_S: Final = 0.01
"""Pause between two batches of mailboxes that are taken away."""

IDLE: Final = -2
"""A server that has nothing to do: no message waits, no coroutine is suspended."""
MAIL: Final = -1
"""Waits for a message, as everything below `READY` does."""
READY: Final = 0
"""In the run queue, or running."""
CELL: Final = 1
"""Waits until somebody resumes it."""
FUTURE: Final = 2
"""Waits for a future of the loop."""
ENDED: Final = 3
"""Will never run again."""

DONE: Final = 4
"""Of a first step: there is nothing to wait for, the coroutine has ended already."""
AGAIN: Final = 5
"""Wants another turn, after the others in the queue."""

CURRENT: ContextVar[Process] = ContextVar("lemon_otp_process")
"""The process whose code runs; helper tasks of a process inherit it."""
running_process: Final = CURRENT.get
now_running: Final = CURRENT.set
"""The two looked up once: everything that is done in the name of a process begins with them."""
HANDLERS: ContextVar[dict[tuple[str, ...], tuple[Any, ...]]] = ContextVar("lemon_otp_handlers")
"""The telemetry handlers of the runtime, beside `CURRENT`: an event that nobody hears costs one lookup."""


class _CurrentTask:
    """The loop-to-current-task mapping where asyncio keeps none (3.14 and later)."""

    def __setitem__(self, loop: asyncio.AbstractEventLoop, task: Any) -> None:
        asyncio.tasks._swap_current_task(loop, task)  # type: ignore[attr-defined]

    def get(self, loop: asyncio.AbstractEventLoop) -> Any:
        return asyncio.current_task(loop)

    def pop(self, loop: asyncio.AbstractEventLoop, default: Any = None) -> Any:
        return asyncio.tasks._swap_current_task(loop, None)  # type: ignore[attr-defined]


TASKS: Final[Any] = (
    asyncio.tasks._current_tasks if sys.version_info < (3, 14) else _CurrentTask()  # type: ignore[attr-defined]
)
"""What `asyncio.current_task()` reads: the running task of each loop. A plain dict, quicker than two calls."""


class NameService(Protocol):
    """What `Via` asks of a registry."""

    def whereis(self, key: Any) -> Pid | None:
        """The live process registered under `key`."""
        ...

    def register_name(self, key: Any, value: Any, process: Process) -> None:
        """Register `process`; raises AlreadyRegistered."""
        ...


class Scheduler:
    """One event loop's processes and the queue of those that can run.

    Attributes:
        processes: The live processes that have waited for something, by number; see `live`.
        names: Locally registered names.
        name_services: Running registries by name, for `Via`.
        queue: Those that can run, next first.
        later: Those that gave the loop a pass of its own, as `asyncio.sleep(0)` does; they run after it.
        zombies: Dead processes whose coroutine has not ended yet.
        orphans: Dead processes whose thread has not ended yet.
        rest: Settled when the last zombie has ended; only while the runtime waits for that.
        store: Where modules built on processes keep what belongs to this runtime, by their own key.
        announcing: Whether links of a dead process are being told; who dies of it waits with its own, see `ending`.
        scheduled: Whether the loop will call `drain`.
        fuel: How many messages may still be taken before the loop has its turn.
        turns: How many turns have been given; counted when the callback that gives them is done.
        outer: The tasks and processes in whose turn the running one was given its own.
        warm: Processes that keep an empty mailbox for a while, see `keep_warm`.
        context: What the loop's callbacks run in; each process has its own.
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
        self.orphans: dict[Process, None] = {}
        self.rest: asyncio.Future[None] | None = None
        self.store: dict[Any, Any] = {}
        self.handlers: dict[tuple[str, ...], tuple[Any, ...]] = {}
        self.queue: deque[Process] = deque()
        self.later: list[Process] = []
        self.announcing = False
        self.scheduled = False
        self.closed = False
        self.fuel = FUEL
        self.turns = 0
        self.outer: list[Any] = []
        self.warm: list[Process] = []
        self.context = Context()

    @property
    def running(self) -> Any:
        """The process or task whose code runs right now."""
        return TASKS.get(self.loop)

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
        """Give turns until nobody can run or the fuel is used up."""
        self.fuel = FUEL
        if self.later:
            self._take_later()
        try:
            self._give_turns(TURNS)
        finally:
            TASKS.pop(self.loop, None)
            if self.later:
                self._take_later()
            if self.queue and not self.closed:
                self.loop.call_soon(self.drain, context=self.context)
            else:
                self.scheduled = False

    def _take_later(self) -> None:
        self.queue.extend(self.later)
        self.later.clear()

    def _give_turns(self, turns: int) -> None:
        """Give turns to the first in the queue. Whoever calls puts the current task back."""
        tasks, loop, queue = TASKS, self.loop, self.queue
        for number in range(turns):
            if not queue or self.fuel <= 0:
                self.turns += number
                return
            process = queue.popleft()
            coro = process.coro
            tasks[loop] = process
            try:
                if process.alert:
                    if process.status:  # is not READY: it ended while it stood in the queue
                        continue
                    waits_for = process.context.run(process.alerted_step)
                elif coro is None:
                    waits_for = process.context.run(process.first_step)
                else:
                    waits_for = process.context.run(coro.send, None)
            except StopIteration as stop:
                process.returned(stop.value)
            except BaseException as error:
                process.raised(error)
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise
            else:
                if waits_for is MAIL and not process.alert:
                    process.status = MAIL
                elif waits_for is DONE:
                    pass
                elif process.alert:
                    process.suspended(waits_for)
                elif waits_for is AGAIN:
                    queue.append(process)
                elif waits_for is None:
                    self.later.append(process)
                else:
                    process.suspended(waits_for)
        self.turns += turns

    def run_alone(self, process: Process) -> None:
        """Give one turn from a callback of the loop."""
        self.fuel = FUEL
        self.queue.appendleft(process)
        try:
            self._give_turns(1)
        finally:
            TASKS.pop(self.loop, None)
            self._schedule()

    def run_inside(self, process: Process, step: Callable[[Any], Any]) -> None:
        """Give a server its turn, `step(process)`, in the middle of the turn of another process or task."""
        tasks, loop = TASKS, self.loop
        outer = tasks.get(loop)
        self.outer.append(outer)
        self.turns += 1
        tasks[loop] = process
        try:
            waits_for = process.context.run(step, process)
            if waits_for is not DONE:
                process.suspended(waits_for)
        except BaseException as error:
            process.raised(error)
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
        finally:
            self.outer.pop()
            if outer is None:
                tasks.pop(loop, None)
            else:
                tasks[loop] = outer
            if not self.scheduled and (self.queue or self.later):
                self._schedule()

    def has_room(self) -> bool:
        """Whether another process may have a turn inside the running one."""
        depth = len(self.outer)
        if self.fuel <= 0 or depth >= DEPTH_MAX:
            return False
        if depth < DEPTH_FREE:
            return True
        try:
            sys._getframe(FRAMES_MAX)
        except ValueError:
            return True
        return False

    def _schedule(self) -> None:
        if (self.queue or self.later) and not self.scheduled:
            self.scheduled = True
            self.loop.call_soon(self.drain, context=self.context)

    def live(self) -> list[Process]:
        """Every live process, oldest first: those known, and those that have not had or not finished a turn yet."""
        found = dict(self.processes)
        for process in (*self.queue, *self.later, *self.outer, self.running):
            if process is not None and getattr(process, "exit_reason", None) is ALIVE:
                found[process.id] = process
        return [found[number] for number in sorted(found)]

    def is_running(self, process: Process) -> bool:
        """Whether code of `process` is on the Python stack."""
        return TASKS.get(self.loop) is process or process in self.outer

    def keep_warm(self, process: Process) -> None:
        """Let `process` keep its empty mailbox for a while, instead of making one for every message."""
        if not self.warm:
            self.loop.call_later(WARM_S, self._cool)
        self.warm.append(process)

    def _cool(self) -> None:
        """Take the empty mailboxes of idle processes away, some thousands at a time."""
        if self.closed:
            return
        batch, rest = self.warm[:COOLED_AT_ONCE], self.warm[COOLED_AT_ONCE:]
        busy = []
        for process in batch:
            if process.mailbox or process.status == READY:
                busy.append(process)
            else:
                process.mailbox = None
        self.warm = rest + busy
        if self.warm:
            self.loop.call_later(COOLING_PAUSE_S if len(rest) > len(busy) else WARM_S, self._cool)
