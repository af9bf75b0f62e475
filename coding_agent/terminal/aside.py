"""Edge. Where what this program writes to standard error goes while a screen is shown: into it, line by line."""

import io
import threading
from collections.abc import Callable


class Aside(io.TextIOBase):
    """A standard error for a program with a screen. Only what the thread of the screen writes is shown."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._line = ""
        self._thread = threading.get_ident()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """Show each line that is whole."""
        if threading.get_ident() == self._thread:
            *lines, self._line = (self._line + text).split("\n")
            for line in lines:
                if line.strip():
                    self._show(line)
        return len(text)
