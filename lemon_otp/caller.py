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
from lemon_otp.scheduler import DEPTH_MAX, MAIL, Scheduler

CALL: Final = "$gen_call"
CAST: Final = "$gen_cast"
SYSTEM: Final = "$system"


class Caller:
    """Who waits for an answer.

    Attributes:
        pid: The process that asked.
    """

    __slots__ = ("failure", "pid", "settled", "value", "waiter")

    def __init__(self, pid: Process) -> None:
        self.pid = pid
        self.settled = False
        self.value: Any = None
        self.failure: Any = ALIVE
        self.waiter: Any = None

    def __repr__(self) -> str:
        return f"<caller {self.pid!r}>"

    def answer(self, value: Any) -> None:
        """Settle with a value; does nothing when the caller no longer waits."""
        if get_ident() != self.pid.runtime.thread_id:
            self.pid.runtime.post(self.answer, value)
            return
        if not self.settled:
            self.settled = True
            self.value = value
            if self.waiter is not None:
                self.waiter.resume()

    def target_down(self, reason: Any) -> None:
        """Settle with the exit reason of the process that was asked."""
        if not self.settled:
            self.settled = True
            self.failure = reason
            if self.waiter is not None:
                self.waiter.resume()

    def give_up(self) -> None:
        """Settle because time is up."""
        if not self.settled:
            self.settled = True
            self.failure = TIMED_OUT
            if self.waiter is not None:
                self.waiter.resume()

    async def wait(self, me: Process, target: Process, timeout_s: float | None) -> Any:
        """The answer, as soon as it is there. Raises CallFailed or CallTimeout."""
        if not self.settled or me.exit_reason is not ALIVE:
            await self._wait(me, target, timeout_s)
        failure = self.failure
        if failure is ALIVE:
            return self.value
        if failure is TIMED_OUT:
            raise CallTimeout(target, timeout_s)
        raise CallFailed(failure, target)

    async def _wait(self, me: Process, target: Process, timeout_s: float | None) -> None:
        timer: Timer | None = None
        if target.exit_reason is not ALIVE:
            self.target_down(target.exit_reason)
        else:
            if target.monitors is None:
                target.monitors = {}
            target.monitors[self] = None
            if timeout_s is not None:
                timer = me.runtime.timers.add(timeout_s, self.give_up)
        try:
            await me.wait_cell(self)
        finally:
            self.settled = True
            if timer is not None:
                me.runtime.timers.cancel(timer)
            if target.monitors is not None:
                target.monitors.pop(self, None)


class _TimedOut:
    """The type of `TIMED_OUT`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "TIMED_OUT"


TIMED_OUT: Final = _TimedOut()


def send_request(runtime: Scheduler, target: Process, message: tuple[Any, ...]) -> None:
    """Deliver a request; a server that waits for work serves it at once, inside the turn of the one who asks."""
    if (
        target.serves_inside
        and target.status == MAIL
        and target.coro is None
        and not target.mailbox
        and runtime.fuel > 0
        and runtime.depth < DEPTH_MAX
    ):
        target.deliver_unseen(message)
        runtime.run_inside(target)
    elif message[0] is SYSTEM:
        target.deliver_urgent(message)
    else:
        target.deliver(message)
