"""Edge. Where what this program writes to standard error goes while a screen is shown: into it, line by line."""

import io
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any


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


@contextmanager
def everything_aside(show: Callable[[str], None]) -> Iterator[None]:
    """Inside, what goes to standard error, by loggers that were set up before too, is shown by `show`."""
    aside: Any = Aside(show)
    streams = (sys.stderr, sys.__stderr__)
    handlers = [handler for handler in all_handlers() if handler.stream in streams]
    before = [handler.setStream(aside) for handler in handlers]
    try:
        with redirect_stderr(aside):
            yield
    finally:
        for handler, stream in zip(handlers, before, strict=True):
            if stream is not None:
                handler.setStream(stream)


def all_handlers() -> "list[logging.StreamHandler[Any]]":
    """Those that write to a stream, of every logger."""
    loggers = [logging.root, *(each for each in logging.root.manager.loggerDict.values() if hasattr(each, "handlers"))]
    found = {id(handler): handler for logger in loggers for handler in logger.handlers}
    return [handler for handler in found.values() if isinstance(handler, logging.StreamHandler)]
