"""Edge. Notices when one handler holds the event loop, names the process and shows where it stands.

A thread asks the loop for a sign of life, again and again. When none comes within the limit it looks who runs:
a process that is busy is not dead, so nothing is killed, but everybody else waits for it.

Emits: telemetry ("lemon_otp", "watchdog", "held") when the loop is free again
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from typing import Any, Final

from lemon_otp import telemetry
from lemon_otp.errors import BadArgument
from lemon_otp.scheduler import Scheduler
from lemon_otp.values import frozen

_log: Final = logging.getLogger("lemon_otp")


@frozen
class LoopHeld:
    """One time that the loop was held.

    Attributes:
        holder: The process or task whose turn it was; None for a plain callback of the loop.
        stack: Where it stood when the limit was reached, outermost call first.
        held_s: How long the loop was held in all.
    """

    holder: Any
    stack: str
    held_s: float


class Watchdog:
    """Watches the loop of one runtime from a thread of its own, until `stop`.

    Attributes:
        reports: The last times that the loop was held, oldest first.
    """

    REPORTS_MAX: Final = 100

    def __init__(self, scheduler: Scheduler, limit_s: float) -> None:
        if isinstance(limit_s, bool) or not isinstance(limit_s, int | float) or not limit_s > 0:
            raise BadArgument(f"limit_s={limit_s!r}; expected a positive number of seconds")
        self.reports: list[LoopHeld] = []
        self._scheduler = scheduler
        self._limit_s = limit_s
        self._stopped = threading.Event()
        self._beat = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="lemon_otp watchdog")

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no more. Does not wait for the thread, which ends within the limit."""
        self._stopped.set()
        self._beat.set()

    def _watch(self) -> None:
        while not self._stopped.wait(self._limit_s / 2):
            self._beat.clear()
            asked_s = time.monotonic()
            self._scheduler.post(self._beat.set)
            if not self._beat.wait(self._limit_s) and not self._stopped.is_set():
                self._report(asked_s)

    def _report(self, asked_s: float) -> None:
        holder = self._scheduler.running
        frame = sys._current_frames().get(self._scheduler.thread_id)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else "(unknown)"
        _log.warning("%r has held the event loop for more than %.3f s, at\n%s", holder, self._limit_s, stack)
        self._beat.wait()
        held = LoopHeld(holder, stack, time.monotonic() - asked_s)
        self.reports = [*self.reports[1 - self.REPORTS_MAX :], held]
        self._scheduler.post(self._tell, held)

    def _tell(self, held: LoopHeld) -> None:
        metadata = {"holder": held.holder, "stack": held.stack}
        telemetry.execute_in(self._scheduler, ("lemon_otp", "watchdog", "held"), {"held_s": held.held_s}, metadata)
