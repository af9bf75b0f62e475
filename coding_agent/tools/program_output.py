"""Edge. What a program prints: bounded in memory, all of it in a private file once it is too long to be shown."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from coding_agent.tools.truncate import HEAD_SHARE, MAX_BYTES, MAX_LINES, HeadTail, Shortened
from coding_agent.tools.visible_text import PlainDecoder, reveal

SPILLED_BYTES_MAX: Final = 256 * 1024 * 1024
"""More than this of one program's output is not kept anywhere."""


class ProgramOutput:
    """Takes bytes in pieces of any size; gives text, cut in the middle, and keeps the rest in a file.

    Attributes:
        path: Where all of it stands, once it did not fit.
        hidden: Invisible characters were found and are shown as escapes.
    """

    def __init__(
        self,
        new_file: Callable[[], Path],
        max_bytes: int = MAX_BYTES,
        max_lines: int = MAX_LINES,
        head_share: float = HEAD_SHARE,
    ) -> None:
        self.path: Path | None = None
        self.hidden = False
        self._new_file = new_file
        self._max_bytes = max_bytes
        self._max_lines = max_lines
        self._decoder = PlainDecoder()
        self._kept = HeadTail(max_bytes, max_lines, head_share)
        self._early: list[str] | None = []
        self._file = -1
        self._spilled = 0
        self._incomplete = ""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._add(self._decoder.feed(data))

    def so_far(self) -> str:
        """What can be shown by now."""
        return self._kept.shortened().text

    def finished(self) -> Shortened:
        """All that can be shown, once nothing more comes."""
        self._add(self._decoder.feed(b"", final=True))
        return self._kept.shortened()

    def note(self, shown: Shortened) -> str:
        """Where the rest is."""
        where = f"Full output: {self.path}" if self.path is not None else "The full output could not be kept"
        return f"[Output was {shown.total_lines} lines, {shown.total_bytes} bytes. {where}{self._incomplete}]"

    def descriptor(self) -> int | None:
        """The file, open for more to be appended; None when it cannot be had."""
        if self._file < 0:
            self._spill()
        return self._file if self._file >= 0 else None

    def close(self) -> None:
        """Close the file, which stays."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _add(self, text: str) -> None:
        if not text:
            return
        shown, hidden = reveal(text)
        self.hidden = self.hidden or hidden
        self._kept.feed(shown)
        if self._early is not None:
            self._early.append(shown)
            if self._kept.total_bytes > self._max_bytes or self._kept.total_lines > self._max_lines:
                self._spill()
        else:
            self._write(shown)

    def _spill(self) -> None:
        """Begin the file with all there was so far."""
        early, self._early = self._early or [], None
        with suppress(OSError):
            self.path = self._new_file()
            self._file = os.open(
                self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
        if self._file < 0:
            self.path = None
        self._write("".join(early))

    def _write(self, text: str) -> None:
        if self._file < 0 or self._incomplete:
            return
        data = text.encode(errors="replace")
        try:
            if self._spilled + len(data) > SPILLED_BYTES_MAX:
                self._incomplete = f", of which only the first {self._spilled} bytes were kept"
                return
            while data:
                written = os.write(self._file, data)
                self._spilled += written
                data = data[written:]
        except OSError as error:
            self._incomplete = f", incomplete: {error.strerror}"
