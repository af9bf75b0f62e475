"""Edge. Looks take turns: one at a time is on the event loop, so that everything else there runs in between.

However many are asked for at once, the loop is held for one of them. Belongs to the thread that serves.
"""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Final

from lemon_otp.repl.connections import Pending
from lemon_otp.repl.handover import Handover

LATER: Final = math.inf
"""The deadline of a look whose turn has not come."""


class Turns:
    """Looks in the order of asking.

    Args:
        handover: The way to the loop; where the loop was held up when it was last asked, nobody waits for it again.
        held_s: How long the loop may take to begin with it.
    """

    def __init__(self, handover: Handover, held_s: float) -> None:
        self._handover = handover
        self._held_s = held_s
        self._waiting: deque[Pending] = deque()
        self._current: Pending | None = None

    def add(self, look: Pending) -> None:
        """Give it to the loop, or have it wait until those before it are answered."""
        look.deadline_s = LATER
        self._waiting.append(look)
        self._next()

    def over(self, look: Pending) -> None:
        """It is answered, or nobody wants to know any more."""
        if look is self._current:
            self._current = None
            self._next()

    def _next(self) -> None:
        while self._current is None and self._waiting:
            look = self._waiting.popleft()
            if not look.cancelled:
                self._current = look
                look.deadline_s = time.monotonic() + (0.0 if self._handover.held else self._held_s)
                self._handover.begin(look)
