"""Edge. An output for prompt-toolkit whose writes can be held back, so that what belongs together is drawn at once."""

import os
from collections.abc import Mapping
from typing import Any, Final

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from coding_agent.terminal.theme import Depth

DEPTHS: Final[Mapping[Depth, ColorDepth]] = {
    "standard": ColorDepth.DEPTH_4_BIT,
    "256": ColorDepth.DEPTH_8_BIT,
    "truecolor": ColorDepth.DEPTH_24_BIT,
}


class HeldOutput(Vt100_Output):
    """Between `hold` and `release` nothing reaches the terminal; then all of it does, in one write.

    It never asks the terminal where its cursor is: the answer would come among the keys.
    """

    def __init__(self, stdout: Any, *, term: str | None, colour: bool, depth: Depth = "standard") -> None:
        bits = DEPTHS[depth] if colour else ColorDepth.DEPTH_1_BIT
        super().__init__(stdout, self._measure, term=term, default_color_depth=bits, enable_cpr=False)
        self.holds = False

    def hold(self) -> None:
        """Keep what is written from now on."""
        self.holds = True

    def release(self) -> None:
        """Write what was kept."""
        self.holds = False
        self.flush()

    def flush(self) -> None:
        """Write what there is, unless it is held."""
        if not self.holds:
            super().flush()

    def _measure(self) -> Size:
        try:
            size = os.get_terminal_size(self.stdout.fileno())
        except (OSError, ValueError):
            return Size(rows=24, columns=80)
        return Size(rows=size.lines or 24, columns=size.columns or 80)
