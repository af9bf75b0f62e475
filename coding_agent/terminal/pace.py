"""Pure. When the screen is drawn: as often as somebody can see it, never for more than a part of the time.

What waits for a model gives way to the sending of the question: to draw the emptied line a moment later is seen by
nobody, to ask a moment later is waited for by everybody.
"""

from typing import Final

from attrs import define

FRAME_S: Final = 1 / 24
"""Between two drawings at least."""
SHARE: Final = 4.0
"""After a drawing, so many times what it took is left to everything else."""
GIVES_WAY_S: Final = FRAME_S
"""So long a drawing waits where something else is to go first."""


@define
class Pace:
    """When the next drawing may be.

    Attributes:
        next_at_s: Not before, for what changes by itself.
        way_until_s: Not before, whatever wants to be drawn.
    """

    next_at_s: float = 0.0
    way_until_s: float = 0.0

    def give_way(self, now_s: float) -> None:
        """Something was just begun that is not to wait for a drawing."""
        self.way_until_s = now_s + GIVES_WAY_S

    def due_s(self, now_s: float, *, for_key: bool = False, is_asking: bool = False) -> float:
        """When a change is drawn.

        Args:
            now_s: The time now.
            for_key: It is what a person did, and is seen at once.
            is_asking: It comes of asking the model, and can wait a moment; the first word of an answer cannot.
        """
        earliest_s = max(now_s, self.way_until_s)
        if for_key:
            return earliest_s
        if is_asking and earliest_s == now_s:
            earliest_s = now_s + GIVES_WAY_S
        return max(self.next_at_s, earliest_s)

    def drawn(self, began_s: float, ended_s: float) -> None:
        """A drawing took this long."""
        self.next_at_s = ended_s + max(FRAME_S, SHARE * (ended_s - began_s))
