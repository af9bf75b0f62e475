"""Edge. Monotonic seconds, wall milliseconds and timers; the only reader of time.

A clock belongs to a runtime. `monotonic_s()` and `wall_ms()` read the clock of the runtime they are called
in, so a test that moves a FakeClock moves everything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, Protocol

from lemon_otp.errors import BadArgument


class Clock(Protocol):
    """What a runtime needs to know about time."""

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        ...

    def arm(self, timers: Timers, when_s: float) -> None:
        """See to it that `timers.fire()` is called when the clock reaches `when_s`."""
        ...


WAIT_S_MAX: Final = 86_400.0
"""The longest that a loop is asked to wait at a time; not every loop takes more, or infinity."""


class RealClock:
    """The machine's time, and the event loop's timers."""

    __slots__ = ("_armed_for_s", "_handle")

    def __init__(self) -> None:
        self._handle: asyncio.TimerHandle | None = None
        self._armed_for_s = 0.0

    def monotonic_s(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def arm(self, timers: Timers, when_s: float) -> None:
        if self._handle is not None:
            if self._armed_for_s <= when_s:
                return
            self._handle.cancel()
        self._armed_for_s = when_s
        self._handle = timers.loop.call_later(
            min(max(0.0, when_s - time.monotonic()), WAIT_S_MAX), self._expired, timers
        )

    def _expired(self, timers: Timers) -> None:
        self._handle = None
        timers.fire()

    def disarm(self) -> None:
        """Forget the pending wake-up, when the runtime ends."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class Timer:
    """One pending call; `callback` is None once it has fired or was cancelled."""

    __slots__ = ("args", "callback", "when_s")

    def __init__(self, when_s: float, callback: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.when_s = when_s
        self.callback: Callable[..., None] | None = callback
        self.args = args


class Timers:
    """The pending timers of one runtime, in the order in which they fall due.

    Cancelled entries stay in the heap until they fall due or make up most of it, so cancelling is cheap.
    """

    __slots__ = ("_cancelled", "_heap", "_numbers", "clock", "loop")

    PURGE_AT: Final = 256

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self.clock = clock
        self.loop = loop
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = count()
        self._cancelled = 0

    def add(self, delay_s: float, callback: Callable[..., None], *args: Any) -> Timer:
        """Call `callback(*args)` after `delay_s` seconds."""
        return self.add_at(self.clock.monotonic_s() + delay_s, callback, *args)

    def add_at(self, when_s: float, callback: Callable[..., None], *args: Any) -> Timer:
        """Call `callback(*args)` when the clock reaches `when_s`. Raises BadArgument when that is no number."""
        if when_s != when_s:
            raise BadArgument(f"{when_s!r} is no moment; expected a number of seconds")
        timer = Timer(when_s, callback, args)
        heap = self._heap
        heappush(heap, (when_s, next(self._numbers), timer))
        if heap[0][2] is timer:
            self.clock.arm(self, when_s)
        return timer

    def cancel(self, timer: Timer) -> bool:
        """Whether the timer was still pending; it will not fire."""
        if timer.callback is None:
            return False
        timer.callback = None
        timer.args = ()
        self._cancelled += 1
        if self._cancelled > self.PURGE_AT and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapify(self._heap)
            self._cancelled = 0
        return True

    def next_due_s(self) -> float | None:
        """When the next timer falls due; None when there is none."""
        while self._heap and self._heap[0][2].callback is None:
            heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0][0] if self._heap else None

    def fire(self) -> None:
        """Call what has fallen due, oldest first, and wait for the next; also when one of them raises."""
        now_s = self.clock.monotonic_s()
        try:
            while (due_s := self.next_due_s()) is not None and due_s <= now_s:
                timer = heappop(self._heap)[2]
                callback, timer.callback = timer.callback, None
                if callback is not None:
                    callback(*timer.args)
        finally:
            due_s = self.next_due_s()
            if due_s is not None:
                self.clock.arm(self, due_s)

    def clear(self) -> None:
        """Drop every timer, when the runtime ends."""
        for _, _, timer in self._heap:
            timer.callback = None
        self._heap.clear()
        self._cancelled = 0


CURRENT_CLOCK: ContextVar[Clock] = ContextVar("lemon_otp_clock")
_MACHINE: Final = RealClock()


def monotonic_s() -> float:
    """Seconds on the clock of the runtime that the caller runs in; the machine's outside of one."""
    return CURRENT_CLOCK.get(_MACHINE).monotonic_s()


def wall_ms() -> int:
    """Milliseconds since 1970 on the clock of the runtime that the caller runs in."""
    return CURRENT_CLOCK.get(_MACHINE).wall_ms()
