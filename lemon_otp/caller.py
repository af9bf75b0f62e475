"""Edge. One request to another process and its one answer.

A `Caller` is what the process that was asked replies to, now or later, itself or through another. The answer
does not pass through the mailbox of the process that asks, and one that comes too late goes nowhere.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any, Final

from lemon_otp.cell import Waiter
from lemon_otp.clock import Timer
from lemon_otp.errors import CallFailed, CallTimeout
from lemon_otp.machine import Process
from lemon_otp.pid import ALIVE

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
        self.waiter: Waiter | None = None

    def __repr__(self) -> str:
        return f"<caller {self.pid!r}>"

    def answer(self, value: Any) -> None:
        """Settle with a value, from any thread; does nothing when the caller no longer waits."""
        if get_ident() != self.pid.runtime.thread_id:
            self.pid.runtime.post(self.answer, value)
        else:
            self.settle_as(ANSWERED, value)

    def target_down(self, reason: Any) -> None:
        """Settle with the exit reason of the process that was asked."""
        self.settle_as(FAILED, reason)

    def give_up(self) -> None:
        """Settle because time is up."""
        self.settle_as(LATE, None)

    def settle_as(self, how: int, value: Any) -> None:
        """Note what came of the request, on the loop's thread, and wake who waits; only the first time counts."""
        if not self.settled:
            self.settled = how
            self.value = value
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
