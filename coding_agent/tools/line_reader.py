"""Edge. Some lines out of a file of any size, in memory bounded by what is shown."""

from collections.abc import Iterator
from typing import Any, BinaryIO, Final, Literal

from attrs import define, field, frozen

from coding_agent.tools.files import Fence
from coding_agent.tools.text_file import legacy_encoding
from coding_agent.tools.truncate import clip_head, token_estimate

CHUNK: Final = 1 << 20
CONTINUATION: Final = bytes(range(0x80, 0xC0))
COUNTED_BYTES_MAX: Final = 1 << 30
"""Lines are counted to the end of the file, but not further than this."""


@frozen
class Limits:
    """How much is shown, whichever is reached first."""

    lines: int
    bytes: int
    tokens: int


@define
class Slice:
    """A part of a file.

    Attributes:
        data: Its bytes without the last line's end.
        start_line: The number of its first line.
        start_byte: Where in the file it begins.
        total_lines: Of the file; None when it is too large to count.
        reason: Why there is more than was shown; None when there is not.
        next_byte: Where to go on when a line was cut; None when lines are whole.
        beyond: The file ends before the part that was asked for.
    """

    start_line: int
    start_byte: int = 0
    data: bytes = field(default=b"", repr=False)
    total_lines: int | None = None
    reason: Literal["lines", "bytes", "tokens"] | None = None
    next_byte: int | None = None
    beyond: bool = False

    @property
    def lines_shown(self) -> int:
        """How many, a cut one included."""
        return self.data.count(b"\n") + 1

    @property
    def next_line(self) -> int:
        """The first line after the part."""
        return self.start_line + self.lines_shown

    def decoded(self, sample: bytes) -> tuple[str, str]:
        """The text, and its encoding; `sample` is the file's beginning."""
        mark = b"\xef\xbb\xbf"
        data = self.data
        if self.start_byte == 0:
            data = data.removeprefix(mark)
        elif len(data) - len(data.lstrip(CONTINUATION)) < 4:  # the offset pointed into a character
            data = data.lstrip(CONTINUATION)
        try:
            return data.decode().replace("\r\n", "\n").removesuffix("\r"), "utf-8"
        except UnicodeDecodeError:
            whole_lines = sample[: sample.rfind(b"\n") + 1] or data
            encoding = legacy_encoding(whole_lines if not whole_lines.isascii() else data)
            return data.decode(encoding, "replace").replace("\r\n", "\n").removesuffix("\r"), encoding

    def truncation(self) -> dict[str, Any] | None:
        """For the details."""
        if self.reason is None:
            return None
        if self.next_byte is not None:
            return {"reason": self.reason, "next_byte_offset": self.next_byte}
        return {"reason": self.reason, "next_offset": self.next_line}

    def footer(self) -> str:
        """For the model."""
        if self.reason is None:
            return ""
        total = "an unknown number of" if self.total_lines is None else str(self.total_lines)
        if self.next_byte is not None:
            return (
                f"[Line {self.next_line - 1} is too long to be shown whole. Showing bytes {self.start_byte} to "
                f"{self.next_byte} of the file, which has {total} lines. Use byte_offset={self.next_byte} to go on.]"
            )
        return (
            f"[Showing lines {self.start_line}-{self.next_line - 1} of {total} ({self.reason} limit). "
            f"Use offset={self.next_line} to go on.]"
        )


def chunks(file: BinaryIO, fence: Fence) -> Iterator[bytes]:
    """The file from where it stands, in pieces; the fence is asked before each."""
    while True:
        fence.check()
        chunk = file.read(CHUNK)
        if not chunk:
            return
        yield chunk


def read_lines(file: BinaryIO, first: int, limits: Limits, fence: Fence) -> Slice:
    """Whole lines from number `first` on; a first line that is too long alone is cut."""
    taker = Taker(limits, Slice(start_line=first))
    newlines, position, counted_all = 0, 0, True
    for chunk in chunks(file, fence):
        start = 0
        if newlines < first - 1:
            inside = chunk.count(b"\n")
            if newlines + inside < first - 1:
                newlines += inside
                position += len(chunk)
                continue
            for _line in range(first - 1 - newlines):
                start = chunk.index(b"\n", start) + 1
            taker.part.start_byte = position + start
        newlines += chunk.count(b"\n")
        position += len(chunk)
        if not taker.full:
            taker.take(chunk[start:])
        elif position > COUNTED_BYTES_MAX:
            counted_all = False
            break
    part = taker.finished(position)
    part.total_lines = newlines + 1 if counted_all else None
    part.beyond = newlines < first - 1
    return part


def read_bytes_from(file: BinaryIO, start: int, limits: Limits, fence: Fence) -> Slice:
    """The file from byte `start` on, wherever in a line that is."""
    newlines, position, start_line = 0, 0, 1
    before: list[int] = []
    for chunk in chunks(file, fence):
        if position <= start < position + len(chunk):
            start_line = newlines + chunk.count(b"\n", 0, start - position) + 1
            before.append(start)
        newlines += chunk.count(b"\n")
        position += len(chunk)
        if position > COUNTED_BYTES_MAX and before:
            break
    part = Slice(start_line=start_line, start_byte=start, total_lines=newlines + 1)
    if not before:
        part.beyond = start > 0
        return part
    file.seek(start)
    taker = Taker(limits, part)
    for chunk in chunks(file, fence):
        taker.take(chunk)
        if taker.full:
            break
    return taker.finished(position)


class Taker:
    """Collects a part until one of the limits is reached."""

    def __init__(self, limits: Limits, part: Slice) -> None:
        self.part = part
        self.full = False
        self._limits = limits
        self._data = bytearray()

    def take(self, piece: bytes) -> None:
        """More of the file, up to somewhat more than may be shown."""
        self._data += piece[: self._limits.bytes + 4 - len(self._data)]
        self.full = len(self._data) > self._limits.bytes or self._data.count(b"\n") >= self._limits.lines

    def finished(self, size: int) -> Slice:
        """The part, cut to the limits; `size` is the file's."""
        part = self.part
        lines = bytes(self._data).split(b"\n")
        kept: list[bytes] = []
        shown = tokens = 0
        for line in lines[: self._limits.lines]:
            shown += len(line) + len(str(part.start_line + len(kept))) + 3
            tokens += token_estimate(line.decode(errors="replace"))
            if shown > self._limits.bytes or tokens > self._limits.tokens:
                part.reason = "bytes" if shown > self._limits.bytes else "tokens"
                break
            kept.append(line)
        part.data = b"\n".join(kept)
        if part.reason is not None and not kept:
            self._cut_line(lines[0])
        elif part.reason is None and part.start_byte + len(part.data) + 1 < size:
            part.reason = "lines"
        return part

    def _cut_line(self, line: bytes) -> None:
        """Show the beginning of a line that is too long by itself."""
        limit = self._limits.bytes - 16
        cut = clip_head(line, limit)
        while (tokens := token_estimate(cut.decode(errors="replace"))) > self._limits.tokens:
            cut = clip_head(cut, len(cut) * self._limits.tokens // (tokens + 1))
        self.part.data = cut
        self.part.next_byte = self.part.start_byte + len(cut)
