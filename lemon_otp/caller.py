"""Edge. One request to another process and its one answer.

A `Caller` is what the process that was asked replies to, now or later, itself or through another. The answer
does not pass through the mailbox of the process that asks, and one that comes too late goes nowhere.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any, Final

from lemon_otp.clock import Timer
from lemon_otp.errors import CallFailed, CallTimeout
from lemon_otp.machine import Process
from lemon_otp.pid import ALIVE
from lemon_otp.scheduler import MAIL, READY, Scheduler

CALL: Final = "$gen_call"
CAST: Final = "$gen_cast"
SYSTEM: Final = "$system"


PENDING: Final = 0
ANSWERED: Final = 1
FAILED: Final = 2
LATE: Final = 3


class Caller:
    """Who waits for an answer.

    Attributes:
        pid: The process that asked.
        settled: Whether it still waits, and if not, what came of it.
    """

    __slots__ = ("pid", "settled", "value", "waiter")

    def __init__(self, pid: Process) -> None:
        self.pid = pid
        self.settled = PENDING
        self.waiter: Any = None

    def __repr__(self) -> str:
        return f"<caller {self.pid!r}>"

    def answer(self, value: Any) -> None:
        """Settle with a value; does nothing when the caller no longer waits."""
        if get_ident() != self.pid.runtime.thread_id:
            self.pid.runtime.post(self.answer, value)
        elif not self.settled:
            self.settled = ANSWERED
            self.value = value
            if self.waiter is not None:
                self.waiter.resume()

    def target_down(self, reason: Any) -> None:
        """Settle with the exit reason of the process that was asked."""
        self._fail(FAILED, reason)

    def give_up(self) -> None:
        """Settle because time is up."""
        self._fail(LATE, None)

    def _fail(self, how: int, reason: Any) -> None:
        if not self.settled:
            self.settled = how
            self.value = reason
            if self.waiter is not None:
                self.waiter.resume()

    async def wait(self, me: Process, target: Process, timeout_s: float | None) -> Any:
        """The answer, as soon as it is there. Raises CallFailed or CallTimeout."""
        await self.settle(me, target, timeout_s)
        if self.settled == ANSWERED:
            return self.value
        if self.settled == LATE:
            raise CallTimeout(target, timeout_s)
        raise CallFailed(self.value, target)

    async def settle(self, me: Process, target: Process, timeout_s: float | None) -> None:
        """Return when there is an answer, or will be none."""
        if self.settled and not me.alert:
            return
        timer: Timer | None = None
        if target.exit_reason is not ALIVE:
            self.target_down(target.exit_reason)
        else:
            target.watch(self)
            if timeout_s is not None:
                timer = me.runtime.timers.add(timeout_s, self.give_up)
        try:
            await me.wait_cell(self)
        finally:
            if not self.settled:
                self.settled = LATE
            if timer is not None:
                me.runtime.timers.cancel(timer)
            target.unwatch(self)


class _TimedOut:
    """The type of `TIMED_OUT`: nothing came in time."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "TIMED_OUT"


TIMED_OUT: Final = _TimedOut()


def send_request(runtime: Scheduler, target: Process, message: tuple[Any, ...]) -> None:
    """Deliver a request; a server that waits for work serves it at once, inside the turn of the one who asks."""
    if (
        target.status == MAIL
        and target.serves_inside
        and target.coro is None
        and not target.mailbox
        and runtime.fuel > 0
        and (not runtime.outer or runtime.has_room())
    ):
        box = target.mailbox
        if box is None:
            target.make_mailbox(message)
        else:
            box.append(message)
        target.status = READY
        runtime.run_inside(target)
    elif message[0] is SYSTEM:
        target.deliver_urgent(message)
    else:
        target.deliver(message)
