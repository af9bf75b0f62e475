"""Pure. Who may work now, lane by lane: first come, first served, and nobody waits for somebody who waits.

A holder that only waits for others, such as a parent whose subagents are at work, steps aside: it keeps its place in
the books but gives its seat to the next in line. When it has work again it is first in line.
"""

from collections import deque
from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeVar

from attrs import field

from lemon_otp import define

DEFAULT_CAPS: Final[Mapping[str, int]] = {"main": 4, "subagent": 8, "background_exec": 2}
UNKNOWN_LANE_CAP: Final = 1

H = TypeVar("H", bound=Hashable)


@define
class Lane(Generic[H]):
    """One lane: how many may work, who does, who waits."""

    cap: int
    seated: set[H] = field(factory=set)
    waiting: deque[H] = field(factory=deque)
    aside: set[H] = field(factory=set)


@define
class Lanes(Generic[H]):
    """All lanes. Each change returns the holders that may work from now on, in the order they are seated."""

    caps: Mapping[str, int] = field(factory=lambda: dict(DEFAULT_CAPS))
    lanes: dict[str, Lane[H]] = field(factory=dict)
    where: dict[H, str] = field(factory=dict)

    def ask(self, name: str, holder: H) -> list[H]:
        """A holder wants a seat; one that has a place already is left where it is."""
        if holder in self.where:
            return [holder] if holder in self._of(holder).seated else []
        lane = self.lanes.setdefault(name, Lane(max(1, self.caps.get(name, UNKNOWN_LANE_CAP))))
        self.where[holder] = name
        lane.waiting.append(holder)
        return _fill(lane)

    def release(self, holder: H) -> list[H]:
        """A holder is done, or gone; its seat goes to the next. Releasing twice does no harm."""
        name = self.where.pop(holder, None)
        if name is None:
            return []
        lane = self.lanes[name]
        lane.seated.discard(holder)
        lane.aside.discard(holder)
        if holder in lane.waiting:
            lane.waiting.remove(holder)
        return _fill(lane)

    def step_aside(self, holder: H) -> list[H]:
        """A holder waits for others from here on; without a seat it has nothing to give."""
        if holder not in self.where or holder not in (lane := self._of(holder)).seated:
            return []
        lane.seated.remove(holder)
        lane.aside.add(holder)
        return _fill(lane)

    def step_back(self, holder: H) -> list[H]:
        """A holder that stepped aside has work again: it is first in line."""
        if holder not in self.where or holder not in (lane := self._of(holder)).aside:
            return []
        lane.aside.remove(holder)
        lane.waiting.appendleft(holder)
        return _fill(lane)

    def is_seated(self, holder: H) -> bool:
        """May it work now? One nobody knows is not held up."""
        return holder not in self.where or holder in self._of(holder).seated

    def counts(self) -> dict[str, tuple[int, int, int]]:
        """How many are seated, wait and stand aside, by lane."""
        return {name: (len(lane.seated), len(lane.waiting), len(lane.aside)) for name, lane in self.lanes.items()}

    def _of(self, holder: H) -> Lane[H]:
        return self.lanes[self.where[holder]]


def _fill(lane: Lane[H]) -> list[H]:
    granted = []
    while lane.waiting and len(lane.seated) < lane.cap:
        holder = lane.waiting.popleft()
        lane.seated.add(holder)
        granted.append(holder)
    return granted
