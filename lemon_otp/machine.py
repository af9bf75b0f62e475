"""Edge. One process: its mailbox, its first turn, and the signals that reach it.

Signals are delivered at once, in the order in which they are sent. A process that does not trap exits and is
not in the middle of its own turn is dead as soon as an exit signal has reached it; see `ending`.
"""

from __future__ import annotations

from collections import deque
from contextvars import Context
from threading import get_ident
from types import CoroutineType
from typing import Any

from lemon_otp.cell import Settleable, Wakeup
from lemon_otp.clock import Timer
from lemon_otp.ending import Ending
from lemon_otp.errors import NotAProcess, ReceiveTimeout
from lemon_otp.exits import Down, Exit, is_normal
from lemon_otp.mailbox import NOTHING, Mailbox, Match, discard, insert_urgent, take
from lemon_otp.pid import ALIVE, MonitorRef
from lemon_otp.scheduler import DONE, READY, Scheduler, now_running
from lemon_otp.stepper import as_coroutine, give_way, wait_cell, wait_mail


class Process(Ending):
    """A process that runs one function."""

    __slots__ = ("handled",)

    def __init__(self, runtime: Scheduler, context: Context, entry: Any, parent: Process | None) -> None:
        # Everything in one place, without the constructors of the bases: this is most of what a spawn costs.
        self.id = next(runtime.numbers)
        self.exit_reason: Any = ALIVE
        self.runtime = runtime
        self.context = context
        self.coro = self.side = self.ties = self.linked = self.label = None
        self.status = READY
        self.alert = False
        self.entry = entry
        self.parent = parent
        self.mailbox: Mailbox | None = None
        self.handled = 0

    # Messages.

    def deliver(self, message: Any) -> None:
        """Put `message` at the end of the mailbox and wake the process; dropped when it is dead."""
        runtime = self.runtime
        if get_ident() != runtime.thread_id:
            runtime.post(self.deliver, message)
            return
        if self.exit_reason is not ALIVE:
            return
        box = self.mailbox
        if box is None:
            self.make_mailbox(message)
        else:
            box.append(message)
        if self.status < READY:  # `wake` written out, for this is done for every message
            self.status = READY
            runtime.queue.append(self)
            if not runtime.scheduled:
                runtime.scheduled = True
                runtime.loop.call_soon(runtime.drain, context=runtime.context)

    def make_mailbox(self, message: Any) -> None:
        """A mailbox for the first message in a while."""
        self.mailbox = deque((message,))
        self.runtime.keep_warm(self)

    def mark_repeated(self, message: Any) -> None:
        """Let system messages overtake this one, which a timer sends again and again."""
        side = self.interrupts()
        if side.repeated is None:
            side.repeated = {}
        side.repeated[id(message)] = message

    def unmark_repeated(self, message: Any) -> None:
        """The timer sends it no more; what is in the mailbox already is still overtaken."""
        repeated = self.side.repeated if self.side is not None else None
        if repeated and not any(waiting is message for waiting in self.mailbox or ()):
            repeated.pop(id(message), None)

    def deliver_urgent(self, message: Any) -> None:
        """Deliver a system message: ahead of the timer messages that wait at the end of the mailbox."""
        box = self.mailbox
        repeated = self.side.repeated if self.side is not None else None
        if box and repeated and self.exit_reason is ALIVE:
            insert_urgent(box, message, lambda waiting: id(waiting) in repeated)
            self.interrupts().reordered = True
            self.wake()
        else:
            self.deliver(message)

    def discard(self, match: Match) -> None:
        """Drop every message that `match` accepts."""
        if self.mailbox and discard(self.mailbox, match) and not self.is_main_line():
            self.interrupts().reordered = True

    def wake(self) -> None:
        """Give a process that waits for a message a turn."""
        if self.status < READY:
            self.status = READY
            self.runtime.enqueue(self)

    async def wait_message(self, match: Match | None, timeout_s: float | None) -> Any:
        """See `receive`."""
        self._require_main_line()
        runtime = self.runtime
        runtime.fuel -= 1
        if runtime.fuel <= 0 or self.alert:
            await give_way()  # and never come back, if an exit signal came while this process ran
        self.note_busy()
        timer: Timer | None = None
        seen = 0
        try:
            while True:
                box, side = self.mailbox, self.side
                if side is not None and side.reordered:
                    side.reordered = False
                    seen = 0
                if box:
                    found = take(box, match, seen)
                    if found is not NOTHING:
                        self.handled += 1
                        return found
                    seen = len(box)
                if timeout_s is not None:
                    if timer is None and timeout_s > 0:
                        timer = runtime.timers.add(timeout_s, self.wake)
                    elif timer is None or timer.callback is None:
                        raise ReceiveTimeout(f"no matching message within {timeout_s} s")
                await wait_mail()
        finally:
            if timer is not None:
                runtime.timers.cancel(timer)

    async def wait_cell(self, cell: Settleable) -> None:
        """Wait until `cell.settled`; whoever settles it wakes its `waiter`."""
        if self.is_main_line():
            cell.waiter = self
            while not cell.settled or self.exit_reason is not ALIVE:
                await wait_cell()
        else:
            await wait_in_task(self, cell)

    async def heed(self) -> None:
        """Take the signals that have come; does not come back when one of them ends the process."""
        if self.is_main_line():
            self.take_signals()
            while self.exit_reason is not ALIVE:
                await wait_cell()

    def is_main_line(self) -> bool:
        """Whether the calling code is the process itself, not a helper task that it started."""
        return self.runtime.running is self and get_ident() == self.runtime.thread_id

    def _require_main_line(self) -> None:
        if not self.is_main_line():
            raise NotAProcess(f"only the main line of {self!r} may receive, not a task that it started")

    # One turn after the other.

    def first_step(self) -> Any:
        now_running(self)
        entry = self.entry
        if type(entry) is tuple:
            self.entry, args = entry
            made = self.entry(*args)
        else:
            made = entry()
        coro: Any = made if type(made) is CoroutineType else as_coroutine(made)
        if coro is None:
            self.returned(made)
            return DONE
        try:  # `take_up` written out: most processes are done after this step
            waits_for = coro.send(None)
        except StopIteration as stop:
            self.returned(stop.value)
            return DONE
        self.coro = coro
        self.runtime.processes[self.id] = self
        return waits_for

    # Signals.

    def exit_signal(self, sender: Process, reason: Any) -> None:
        """The signal of `exit_signal(pid, reason)`."""
        if self.exit_reason is not ALIVE:
            return
        word = reason if type(reason) is str else None
        if word == "kill":
            self._end("killed", at_once=sender is self)
        elif self.ties is not None and self.ties.trap:
            if sender is self:
                self.signal_self(Exit(sender, reason))
            else:
                self.deliver_urgent(Exit(sender, reason))
        elif sender is not self and word == "normal":
            return
        elif self.status < READY:
            self.die(reason)  # as most do
        else:
            self._end(reason, at_once=sender is self)

    def link_broken(self, other: Process, reason: Any) -> None:
        """A linked process has ended."""
        if self.exit_reason is not ALIVE:
            return
        if self.trap:
            self.deliver_urgent(Exit(other, reason))
        elif not is_normal(reason):
            self._end(reason)

    def _end(self, reason: Any, *, at_once: bool = False) -> None:
        if at_once or self.runtime.running is not self:
            self.die(reason)
            return
        # Its own code is running right now: it ends when that waits, as a signal takes a moment to arrive.
        side = self.interrupts()
        if side.doom is ALIVE:
            side.doom = reason
            self.alert = True

    def signal_self(self, message: Exit | Down) -> None:
        """Send the process a signal of its own, which becomes a message when it next waits or receives."""
        if self.runtime.running is not self:
            self.deliver(message)
            return
        side = self.interrupts()
        if side.own_signals is None:
            side.own_signals = []
        side.own_signals.append((len(self.mailbox or ()), message))
        self.alert = True

    def take_back(self, ref: MonitorRef) -> bool:
        """Forget the signal of a monitor that found nobody; whether it had not become a message yet."""
        signals = self.side.own_signals if self.side is not None else None
        for entry in signals or ():
            if type(entry[1]) is Down and entry[1].ref is ref:
                signals.remove(entry)  # type: ignore[union-attr]
                return True
        return False

    def take_signals(self) -> None:
        """Do what signals ask that came during the turn, now that it is over or a message is wanted."""
        side = self.side
        if side is None or self.exit_reason is not ALIVE:
            return
        signals, side.own_signals = side.own_signals, None
        if side.doom is not ALIVE:
            self.mark_dead(side.doom)
            return
        for ahead, (position, message) in enumerate(signals or ()):
            if type(message) is Exit and not self.trap:
                if is_normal(message.reason):
                    continue
                self.mark_dead(message.reason)
                return
            if self.mailbox is None:
                self.make_mailbox(message)
            else:
                self.mailbox.insert(position + ahead, message)
        self.settle_alert()
        if signals:
            self.wake()

    def monitor_fired(self, ref: MonitorRef, reason: Any) -> None:
        """A monitored process has ended."""
        self.end_monitor(ref)
        self.deliver(Down(ref, ref.shown, reason))

    # For people.

    @property
    def doom(self) -> Any:
        """The reason of an exit signal that came while the process ran, and ends it when it waits."""
        return ALIVE if self.side is None else self.side.doom

    @property
    def facts(self) -> dict[str, Any]:
        """What the process said of itself with `annotate`."""
        return {} if self.side is None or self.side.facts is None else self.side.facts

    @property
    def busy_since_s(self) -> float:
        """Since when the process has been at work on the message that it took last, where it had to wait."""
        side = self.side
        if side is None or side.busy_message != self.handled:
            return self.runtime.clock.monotonic_s()
        return side.busy_since_s

    def note_busy(self) -> None:
        side = self.interrupts()
        if side.busy_message != self.handled:
            side.busy_message = self.handled
            side.busy_since_s = self.runtime.clock.monotonic_s()


async def wait_in_task(process: Process, cell: Settleable) -> None:
    """Wait until `cell.settled` in a task that is not `process` itself."""
    while not cell.settled or process.exit_reason is not ALIVE:
        waiter = process.runtime.loop.create_future()
        cell.waiter = Wakeup(waiter)
        await waiter
