"""Edge. A page that is asked for again and again, on a screen of its own, until it is left with `q` or Ctrl-C."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from lemon_otp.repl_shell.drawing import Drawing
from lemon_otp.repl_shell.sheets import Page, plain

EVERY_S: Final = 1.0
LEAVE_KEYS: Final = ("q", "Q", "\x03", "\x04")
_ENTER: Final = "\x1b[?1049h\x1b[?25l"
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H\x1b[J"

Ask = Callable[[], Page]
Press = Callable[[str], None]


def live(ask: Ask, drawing: Drawing, every_s: float = EVERY_S, press: Press | None = None) -> None:
    """Show what `ask` gives until it is left.

    Without a terminal a page is printed each time that it has changed.
    """
    if sys.stdin.isatty() and sys.stdout.isatty():
        with _own_screen():
            _screen(ask, drawing, every_s, press)
    else:
        _printed(ask, drawing, every_s)


def _screen(ask: Ask, drawing: Drawing, every_s: float, press: Press | None) -> None:
    while True:
        text = drawing.fitted(ask())
        sys.stdout.write(_HOME + text.replace("\n", "\r\n"))
        sys.stdout.flush()
        key = _key(every_s)
        if key in LEAVE_KEYS:
            return
        if key and press is not None:
            press(key)


def _printed(ask: Ask, drawing: Drawing, every_s: float) -> None:
    shown = None
    while True:
        page = ask()
        text = plain(page)
        if text != shown:
            drawing.show(page)
            shown = text
        time.sleep(every_s)


def _key(timeout_s: float) -> str:
    """The key that was pressed within the time; nothing when none was."""
    ready, _, _ = select.select([sys.stdin], [], [], timeout_s)
    return os.read(sys.stdin.fileno(), 32).decode(errors="replace")[:1] if ready else ""


@contextmanager
def _own_screen() -> Iterator[None]:
    """The terminal's second screen, without a cursor, keys as they are pressed; all is as before in the end."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        sys.stdout.write(_ENTER)
        sys.stdout.flush()
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
