"""Edge. A runtime: all processes of one event loop, from `run(main)` or `async with Runtime()` to its end.

Nothing is shared between two runtimes. The task that enters a runtime becomes its first process, so scripts
and tests can send, receive, link and start servers like any process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Token, copy_context
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from lemon_otp.cell import Settleable, Wakeup
from lemon_otp.clock import CURRENT_CLOCK, Clock, RealClock
from lemon_otp.errors import NoRuntime, ProcessExit, ReceiveTimeout
from lemon_otp.exits import is_orderly
from lemon_otp.machine import Process, wait_in_task
from lemon_otp.mailbox import NOTHING, Match, take
from lemon_otp.pid import ALIVE, Pid
from lemon_otp.scheduler import CELL, CURRENT, ENDED, HANDLERS, MAIL, READY, Scheduler
from lemon_otp.watchdog import Watchdog

T = TypeVar("T")

LEFTOVERS_S: Final = 1.0
"""How long a runtime that ends waits for the coroutines of its killed processes."""


class AttachedProcess(Process):
    """A process whose code is an ordinary task, or several one after the other."""

    __slots__ = ("task", "waiter")

    def __init__(self, runtime: Scheduler) -> None:
        super().__init__(runtime, copy_context(), _attached, None)
        self.label = "attached"
        self.status = CELL
        self.task: asyncio.Task[Any] | None = asyncio.current_task()
        self.waiter: Wakeup | None = None
        runtime.processes[self.id] = self

    def first_step(self) -> Any:
        """Reached through the run queue, which a message has brought here: wake the task that waits."""
        if self.waiter is not None:
            self.waiter.resume()
        return CELL

    def is_main_line(self) -> bool:
        return False

    async def heed(self) -> None:
        if self.exit_reason is not ALIVE:
            raise ProcessExit(self.exit_reason)

    def attend(self) -> None:
        """Nothing is thrown in: its code is a task's, which is cancelled by `finished`."""

    async def wait_message(self, match: Match | None, timeout_s: float | None) -> Any:
        self.task = asyncio.current_task()
        timer = None
        try:
            while True:
                if self.exit_reason is not ALIVE:
                    raise ProcessExit(self.exit_reason)
                found = take(self.mailbox, match) if self.mailbox else NOTHING
                if found is not NOTHING:
                    return found
                if timeout_s is not None:
                    if timer is None and timeout_s > 0:
                        timer = self.runtime.timers.add(timeout_s, self.wake)
                    elif timer is None or timer.callback is None:
                        raise ReceiveTimeout(f"no matching message within {timeout_s} s")
                await self._wait_mail()
        finally:
            if timer is not None:
                self.runtime.timers.cancel(timer)

    async def _wait_mail(self) -> None:
        future = self.runtime.loop.create_future()
        self.waiter = Wakeup(future)
        self.status = MAIL
        try:
            await future
        finally:
            self.waiter = None
            if self.status < READY:
                self.status = CELL

    async def wait_cell(self, cell: Settleable) -> None:
        if self.exit_reason is not ALIVE:
            raise ProcessExit(self.exit_reason)
        self.task = asyncio.current_task()
        await wait_in_task(self, cell)

    def finished(self) -> None:
        """The process is dead; its task learns of it by being cancelled."""
        self.status = ENDED
        task = self.task
        if task is not None and not task.done() and not self.runtime.closed:
            task.cancel()


def _attached() -> None:
    """Stands for the code of an attached process in reports."""


class Runtime:
    """The processes of the running event loop, for the length of an `async with` block.

    The task that enters becomes a process. When the block ends every process is killed, and the coroutines
    of the killed are given a second to clean up.

    Args:
        clock: What time it is; the machine's time by default.
        watchdog_s: Report whoever holds the event loop for longer than so many seconds; see `watchdog`.

    Raises, when the block ends:
        ProcessExit: The attached process itself was ended by an exit signal; the block was cancelled.
    """

    def __init__(self, clock: Clock | None = None, *, watchdog_s: float | None = None) -> None:
        self._clock = clock
        self._watchdog_s = watchdog_s
        self.watchdog: Watchdog | None = None
        self._scheduler: Scheduler | None = None
        self._root: AttachedProcess | None = None
        self._tokens: tuple[Token[Any], ...] | None = None

    @property
    def scheduler(self) -> Scheduler:
        """The engine. Raises NoRuntime before the block is entered."""
        if self._scheduler is None:
            raise NoRuntime("this runtime has not been entered")
        return self._scheduler

    @property
    def root(self) -> Pid:
        """The process that the entering task became."""
        if self._root is None:
            raise NoRuntime("this runtime has not been entered")
        return self._root

    @property
    def processes(self) -> list[Pid]:
        """Every live process, oldest first."""
        return list(self.scheduler.live())

    @property
    def zombies(self) -> list[Pid]:
        """Dead processes whose coroutine has not ended."""
        return list(self.scheduler.zombies)

    async def __aenter__(self) -> Self:
        scheduler = self._scheduler = Scheduler(self._clock)
        clock_token = CURRENT_CLOCK.set(scheduler.clock)
        self._root = AttachedProcess(scheduler)
        self._tokens = CURRENT.set(self._root), HANDLERS.set(scheduler.handlers), clock_token
        if self._watchdog_s is not None:
            self.watchdog = Watchdog(scheduler, self._watchdog_s)
            self.watchdog.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        root = self._root
        assert root is not None
        reason = root.exit_reason
        if reason is not ALIVE and isinstance(error, asyncio.CancelledError) and root.task is not None:
            root.task.uncancel()
        await self.close()
        if reason is ALIVE or is_orderly(reason):
            return
        if error is None or isinstance(error, asyncio.CancelledError):
            raise ProcessExit(reason) from (reason if isinstance(reason, BaseException) else error)

    async def close(self) -> None:
        """Kill every process and wait, for a while, until their coroutines have ended."""
        scheduler = self.scheduler
        if scheduler.closed:
            return
        root = self._root
        assert root is not None
        root.task = None
        if self.watchdog is not None:
            self.watchdog.stop()
        for process in reversed(scheduler.live()):
            if process.exit_reason is ALIVE:
                process.die("killed")
        try:
            if scheduler.zombies:
                scheduler.rest = scheduler.loop.create_future()
                await asyncio.wait([scheduler.rest], timeout=LEFTOVERS_S)
        finally:
            scheduler.closed = True
            scheduler.timers.clear()
            if isinstance(scheduler.clock, RealClock):
                scheduler.clock.disarm()
            for zombie in list(scheduler.zombies):
                zombie.abandon()
            self._detach()

    def _detach(self) -> None:
        tokens, self._tokens = self._tokens, None
        if tokens is not None:
            for token in tokens:
                with suppress(ValueError):  # entered in another context, as a fixture does; that context is gone
                    token.var.reset(token)


def run(
    main: Callable[..., Awaitable[T]],
    *args: Any,
    clock: Clock | None = None,
    watchdog_s: float | None = None,
    debug: bool | None = None,
) -> T:
    """Run `main(*args)` as the first process of a new runtime on a new event loop, and return its result.

    When it returns, every process that is left is killed.

    Raises:
        ProcessExit: `main` called `exit_process`, or an exit signal ended it.
    """

    async def root() -> T:
        async with Runtime(clock, watchdog_s=watchdog_s):
            return await main(*args)

    return asyncio.run(root(), debug=debug)
