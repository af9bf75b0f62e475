"""Edge. What this program switches on in a terminal, and that it is switched off however the program ends."""

import atexit
import os
import termios
from collections.abc import Callable
from typing import Any, Final

from attrs import define, field

MODES: Final = (
    ("\x1b[22;0t", "\x1b[23;0t"),  # the title of the window is remembered, and put back
    ("\x1b[?2004h", "\x1b[?2004l"),  # what is pasted is marked as such
)
"""What is switched on at the start, and what undoes it."""
ALSO_OFF: Final = "\x1b[?1l\x1b[?7h\x1b[0m\x1b[?25h"
"""What drawing may have left behind: keys of the cursor pad, no wrapping, colours, no cursor."""


@define(eq=False)
class TerminalModes:
    """The modes of one terminal. `off` can be called at any time, from anywhere, any number of times."""

    input_fd: int
    output_fd: int
    write: Callable[[int, bytes], Any] = os.write
    _saved: Any = field(default=None, init=False)
    _are_on: bool = field(default=False, init=False)

    def on(self) -> None:
        """Switch them on. From now on the end of the program switches them off."""
        if self._saved is None:
            self._saved = self._attributes()
            atexit.register(self.off)
        self._are_on = True
        self._say("".join(on for on, _ in MODES))

    def off(self) -> None:
        """Give the terminal back as it was found."""
        if not self._are_on:
            return
        self._are_on = False
        self._say("".join(off for _, off in reversed(MODES)) + ALSO_OFF)
        if self._saved is not None:
            try:
                termios.tcsetattr(self.input_fd, termios.TCSADRAIN, self._saved)
            except (termios.error, OSError):
                return  # the terminal is gone

    def _attributes(self) -> Any:
        try:
            return termios.tcgetattr(self.input_fd)
        except (termios.error, OSError):
            return None

    def _say(self, text: str) -> None:
        try:
            self.write(self.output_fd, text.encode())
        except OSError:
            return
