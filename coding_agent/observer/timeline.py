"""Pure. What happened in the tree lately, for pages that come later: runs as bars, the rest as a list; both bounded."""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from attrs import define, field

RUNS_MAX: Final = 60
STEPS_MAX: Final = 1_000
"""Of one run; what comes after is counted and not shown."""
HISTORY_MAX: Final = 500

Bar = dict[str, Any]


@define(eq=False)
class Timeline:
    """What happened lately, from what a `Recorder` tells.

    Attributes:
        say: Told `("step", bar)`, `("forget", run)` and `("history", item)` as pages are to hear of them.
    """

    say: Callable[[str, Any], None]
    _runs: dict[int, dict[int, Bar]] = field(factory=dict)
    _history: deque[dict[str, Any]] = field(factory=lambda: deque(maxlen=HISTORY_MAX))
    _count: int = 0

    def step(self, bar: Bar) -> None:
        """A step has begun, or has changed."""
        number, run = bar["n"], bar["run"]
        if number == run and run not in self._runs:
            self._runs[run] = {}
            if len(self._runs) > RUNS_MAX:
                self._forget_one()
        steps = self._runs.get(run)
        if steps is not None and (number in steps or len(steps) < STEPS_MAX):
            steps[number] = bar
            self.say("step", bar)

    def happened(self, item: dict[str, Any]) -> None:
        """Something else has happened."""
        self._count += 1
        numbered = {"n": self._count, **item}
        self._history.append(numbered)
        self.say("history", numbered)

    def bars(self) -> list[Bar]:
        """Every step that is remembered; runs before their steps."""
        return [bar for steps in self._runs.values() for bar in steps.values()]

    def history(self) -> list[dict[str, Any]]:
        """Everything else that is remembered, oldest first."""
        return list(self._history)

    def _forget_one(self) -> None:
        """Forget the oldest run that is over, or else the oldest."""
        over = next((run for run, steps in self._runs.items() if run in steps and steps[run]["to"] is not None), None)
        forgotten = next(iter(self._runs)) if over is None else over
        del self._runs[forgotten]
        self.say("forget", forgotten)
