"""Edge. How a process ends: once, at once for everybody else, whatever its code does.

A process that is dead has no name, its hooks have run, and its links and monitors have been told. Its
coroutine, where it has one, is cancelled afterwards so that `finally` blocks run; one that swallows the cancel
is cancelled again, ever more rarely, and stands in the list of zombies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from typing import cast as typed

from lemon_otp.crash_reports import report_crash, report_leftover_error, report_zombie
from lemon_otp.errors import ProcessExit
from lemon_otp.exits import is_orderly
from lemon_otp.mailbox import Mailbox
from lemon_otp.pid import ALIVE
from lemon_otp.relations import Keeper, Related, Ties
from lemon_otp.scheduler import DONE, ENDED, FUTURE, IDLE
from lemon_otp.stepper import NO_CONTEXT, Interrupts

if TYPE_CHECKING:
    from lemon_otp.machine import Process

CANCEL_AGAIN_S: Final = 0.1
"""Pause before a swallowed cancel is repeated; it doubles up to `CANCEL_PAUSE_S_MAX`."""
CANCEL_PAUSE_S_MAX: Final = 5.0


class Ending(Related):
    """A stepper that dies as a process does."""

    __slots__ = ("entry", "mailbox", "parent")

    entry: Any
    mailbox: Mailbox | None
    parent: Process | None

    def returned(self, value: Any) -> None:
        if self.linked is None and self.ties is None and self.side is None and self.exit_reason is ALIVE:
            # Nobody to tell and nothing to clean up: the end of most processes, and half the cost of the others'.
            self.exit_reason = "normal"
            self.alert = True
            self.status = ENDED
            if self.coro is not None:  # it has waited, and is known since then
                del self.runtime.processes[self.id]
            self.coro = self.parent = self.mailbox = None
            self.context = NO_CONTEXT
        elif self.exit_reason is ALIVE:
            self.end("normal")
        else:
            self.finished()

    def raised(self, error: BaseException) -> None:
        if self.exit_reason is not ALIVE:
            if not isinstance(error, asyncio.CancelledError | ProcessExit):
                report_leftover_error(self.as_process(), error)
            self.finished()
            return
        if error.__traceback__ is not None:
            error.__traceback__ = error.__traceback__.tb_next  # without our own frame, which holds this process
        reason = reason_of(error)
        if not is_orderly(reason):
            self.report(reason)
        self.end(reason)

    def report(self, reason: Any) -> None:
        """Tell that the process ends badly, from the inside."""
        report_crash(self.as_process(), reason)

    def end(self, reason: Any) -> None:
        """The coroutine has ended, and the process with it."""
        self.coro = None
        self.mark_dead(reason)
        self.finished()

    def attend(self) -> None:
        self.as_process().take_signals()
        if self.exit_reason is not ALIVE:
            self._linger()
        else:
            super().attend()

    def call_back(self, side: Interrupts) -> None:
        super().call_back(side)
        runtime = self.runtime
        if runtime.zombies:
            runtime.zombies.pop(self.as_process(), None)
            if not runtime.zombies and runtime.rest is not None and not runtime.rest.done():
                runtime.rest.set_result(None)

    def die(self, reason: Any) -> None:
        """End the process now, for everybody else; its coroutine, if there is one, is left to be cancelled."""
        self.mark_dead(reason)
        if self.status == IDLE:
            self.finished()
        elif self.status != ENDED and not self.runtime.is_running(self.as_process()):
            if self.coro is None:
                self.finished()
            else:
                self._linger()

    def mark_dead(self, reason: Any) -> None:
        """Free the name, run the hooks and tell links and monitors."""
        runtime = self.runtime
        self.exit_reason = reason
        self.alert = True
        runtime.processes.pop(self.id, None)
        self.mailbox = None
        ties, linked = self.ties, self.linked
        if ties is not None and ties.name is not None:
            runtime.names.pop(ties.name, None)
        if linked:
            self._tell_keepers(linked, reason)
        if ties is not None:
            self._leave(ties, reason)
        if linked or (ties is not None and ties.monitors):
            dead = self.as_process()
            if runtime.announcing:
                runtime.enqueue(typed("Process", Announcement(dead)))
            else:
                announce_death(dead)
        self.parent = None

    def _tell_keepers(self, linked: dict[Process, Keeper | None], reason: Any) -> None:
        me: Any = self
        for other, keeper in list(linked.items()):
            if keeper is not None:
                _tell(me, keeper, me, reason)
                me.unlink(other)

    def _leave(self, ties: Ties, reason: Any) -> None:
        """Run the hooks, and take back the monitors that this process has set."""
        hooks, ties.hooks = ties.hooks, None
        for hook in hooks or ():
            _tell(self.as_process(), hook, self, reason)
        if ties.monitoring is not None:
            self.stop_monitoring()

    def _linger(self) -> None:
        """Cancel what is left of the coroutine, now and, when it goes on all the same, again."""
        zombies, me = self.runtime.zombies, self.as_process()
        side = self.interrupts()
        if me not in zombies:
            zombies[me] = None
            waits_for_future = self.status == FUTURE
            self.interrupt()
            if not waits_for_future:
                return
        elif side.must_cancel:
            self.wake_for_interrupt()
        if side.cancel_again_s == 0.0:
            side.cancel_again_s = CANCEL_AGAIN_S
            self.runtime.loop.call_later(CANCEL_AGAIN_S, self._cancel_again, 1)

    def _cancel_again(self, attempts: int) -> None:
        if self.status == ENDED or self.runtime.closed:
            return
        report_zombie(self.as_process(), attempts)
        self.interrupt()
        side = self.interrupts()
        side.cancel_again_s = min(2 * side.cancel_again_s, CANCEL_PAUSE_S_MAX)
        self.runtime.loop.call_later(side.cancel_again_s, self._cancel_again, attempts + 1)

    def abandon(self) -> None:
        """Close what is left of the coroutine, when the runtime ends."""
        coro, self.coro = self.coro, None
        if coro is not None and not self.runtime.is_running(self.as_process()):
            try:
                coro.close()
            except BaseException as error:
                report_leftover_error(self.as_process(), error)
        self.finished()

    # For people.

    @property
    def function(self) -> Any:
        """What the process calls, without the arguments; of a server this says nothing."""
        return self.entry[0] if type(self.entry) is tuple else self.entry

    def initial_call(self) -> str:
        """The name of the function that the process runs."""
        function = self.function
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return f"{getattr(function, '__module__', '?')}.{name}"

    def ancestors(self) -> list[Process]:
        """Who started it, and who started that, as far as they live."""
        found: list[Process] = []
        parent = self.parent
        while parent is not None:
            found.append(parent)
            parent = parent.parent
        return found


def reason_of(error: BaseException) -> Any:
    """The exit reason of a process that lets `error` escape."""
    if isinstance(error, ProcessExit):
        return error.reason
    if isinstance(error, BaseExceptionGroup) and (exits := error.subgroup(ProcessExit)) is not None:
        return _first_leaf(exits).reason
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    return error


def _first_leaf(group: BaseExceptionGroup[ProcessExit]) -> ProcessExit:
    """The first of the exits that a task group has collected."""
    first = group.exceptions[0]
    return _first_leaf(first) if isinstance(first, BaseExceptionGroup) else first


def announce_death(dead: Process) -> None:
    """Tell the links of one that is dead, then its monitors; who dies of it tells its own when its turn comes.

    So whoever has been told of a death has its turn before the next but one along a chain of links, as on the BEAM.
    """
    runtime, reason, ties = dead.runtime, dead.exit_reason, dead.ties
    linked, dead.linked = dead.linked, None
    monitors = None
    if ties is not None:
        monitors, ties.monitors = ties.monitors, None
    runtime.announcing = True
    try:
        for other in linked or ():
            if other.linked is not None:
                other.linked.pop(dead, None)
            _tell(dead, other.link_broken, dead, reason)
    finally:
        runtime.announcing = False
    for watcher in monitors or ():
        _tell(dead, watcher.target_down, reason)


class Announcement:
    """Stands in the run queue for the death of a process that died of a link."""

    __slots__ = ("dead",)

    alert = False
    coro = None
    context = NO_CONTEXT

    def __init__(self, dead: Process) -> None:
        self.dead = dead

    def first_step(self) -> Any:
        """Tell its own links and monitors."""
        announce_death(self.dead)
        return DONE

    def raised(self, error: BaseException) -> None:
        """Interrupted from outside: the scheduler passes that on, and the death has been told as far as it goes."""


def _tell(dead: Process, tell: Callable[..., None], *said: Any) -> None:
    """One that cannot bear to be told keeps nobody else from it."""
    try:
        tell(*said)
    except (Exception, ProcessExit) as error:
        report_leftover_error(dead, error)
