"""Edge. The time of a scenario: the machine's, or a virtual one that jumps from timer to timer.

Only the order of times matters in a scenario. On the virtual clock that order is exact, whatever else the machine
does, and nobody waits; `--clock real` shows that the timers of the event loop give the same traces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lemon_otp import current_runtime

if TYPE_CHECKING:
    from lemon_otp.clock import Timers


STEP_S: Final = 0.0005
"""What a step takes, so that of two timers with the same end the one that was set in an earlier step is first."""


class VirtualClock:
    """A clock that stands still while anything can run, and then moves to the next timer.

    Attributes:
        now_s: Monotonic seconds.
    """

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + round(self.now_s * 1000)

    def arm(self, timers: Timers, when_s: float) -> None:
        """What is due now fires on the next pass of the loop; `move_on` finds the rest when it is needed."""
        if when_s <= self.now_s:
            timers.loop.call_soon(timers.fire)

    def end_step(self) -> None:
        """A step is over."""
        self.now_s += STEP_S

    def move_on(self) -> bool:
        """Fire the next timer of the calling runtime; False when none is pending."""
        timers = current_runtime().timers
        due_s = timers.next_due_s()
        if due_s is None:
            return False
        self.now_s = max(self.now_s, due_s)
        timers.fire()
        return True


def clock_named(name: str) -> VirtualClock | None:
    """The clock for a runtime: a fresh virtual one, or None for the machine's."""
    return VirtualClock() if name == "virtual" else None
