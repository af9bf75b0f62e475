"""Pure. Regular expressions that are compiled when they are first used.

Errors and redaction need three dozen of them, most runs need none, and compiling them all would be a tenth of the
time that importing this package takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property


class Pattern:
    """A regular expression; the methods are those of `re.Pattern`."""

    def __init__(self, text: str, flags: int = 0) -> None:
        self.text = text
        self.flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The expression itself."""
        return re.compile(self.text, self.flags)

    def search(self, text: str) -> re.Match[str] | None:
        return self.compiled.search(text)

    def match(self, text: str) -> re.Match[str] | None:
        return self.compiled.match(text)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self.compiled.fullmatch(text)

    def sub(self, instead: str | Callable[[re.Match[str]], str], text: str) -> str:
        return self.compiled.sub(instead, text)
