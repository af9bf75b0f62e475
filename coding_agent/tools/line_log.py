"""Pure. The last lines a program printed, in order, in bounded memory."""

from collections import deque
from typing import Final

from coding_agent.tools.visible_text import PlainDecoder, reveal

LINES_MAX: Final = 1_000
LINE_MAX: Final = 2_000
UNFINISHED_MAX: Final = 20_000


class LineLog:
    """Takes bytes in pieces of any size; a line is one however it arrived.

    Attributes:
        total: Lines that were ended so far, those forgotten included.
        hidden: Invisible characters were found, and are shown as escapes.
    """

    def __init__(self, max_lines: int = LINES_MAX) -> None:
        self.total = 0
        self.hidden = False
        self._lines: deque[str] = deque(maxlen=max_lines)
        self._decoder = PlainDecoder()
        self._open = ""

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Take what was printed; `final` ends a last line that had no end."""
        text, hidden = reveal(self._decoder.feed(data, final=final))
        self.hidden = self.hidden or hidden
        *lines, self._open = (self._open + text).split("\n")
        for line in lines:
            self._add(line)
        if len(self._open) > UNFINISHED_MAX:
            self._open = self._open[:UNFINISHED_MAX]
        if final and self._open:
            self._add(self._open)
            self._open = ""

    def _add(self, line: str) -> None:
        self.total += 1
        self._lines.append(line if len(line) <= LINE_MAX else line[:LINE_MAX] + " [... cut ...]")

    def tail(self, count: int) -> list[str]:
        """The last lines, oldest first; one that is not ended yet is the last."""
        lines = [*self._lines, self._open[:LINE_MAX]] if self._open else list(self._lines)
        return lines[-count:] if count > 0 else []

    def after(self, seen: int) -> list[str]:
        """The lines ended since `total` was `seen`, as far as they are still known."""
        fresh = self.total - seen
        return list(self._lines)[-fresh:] if fresh > 0 else []
