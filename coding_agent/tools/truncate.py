"""Pure. Long output cut to what a model should be given: whole characters, bytes counted exactly."""

import re
from collections import deque
from typing import Final

from attrs import frozen

MAX_BYTES: Final = 50_000
MAX_LINES: Final = 2_000
HEAD_SHARE: Final = 0.2
"""The part of the room that the beginning gets; the end, where errors stand, gets the rest."""
MARKER_ROOM: Final = 96
DENSE: Final = re.compile(r"[^\s\w]|[^\x00-\x7f]")


def clip_head(data: bytes, limit: int) -> bytes:
    """The longest beginning of UTF-8 `data` within `limit` bytes that ends on a whole character."""
    if len(data) <= limit:
        return data
    end = max(0, limit)
    while end > 0 and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end]


def clip_tail(data: bytes, limit: int) -> bytes:
    """The longest end of UTF-8 `data` within `limit` bytes that begins on a whole character."""
    if len(data) <= limit:
        return data
    start = len(data) - max(0, limit)
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


def clip_text(text: str, limit: int) -> str:
    """The longest beginning of `text` within `limit` bytes of UTF-8."""
    if len(text) * 4 <= limit:
        return text
    return clip_head(text.encode(errors="replace"), limit).decode()


def whole_lines(text: str, limit: int) -> str:
    """The longest beginning of `text` within `limit` bytes that does not end within a line."""
    clipped = clip_text(text, limit)
    return clipped if clipped == text else clipped.rpartition("\n")[0]


def clip_around(line: str, start: int, end: int, width: int) -> str:
    """At most `width` characters of `line` with `start:end` among them, and dots where something was cut off."""
    if len(line) <= width:
        return line
    room = max(0, width - 2)
    begin = max(0, min(start - max(0, room - (end - start)) // 2, len(line) - room))
    stop = min(len(line), begin + room)
    return ("…" if begin > 0 else "") + line[begin:stop] + ("…" if stop < len(line) else "")


def token_estimate(text: str) -> int:
    """About how many tokens a model counts: four plain characters to one, anything dense one each."""
    dense = len(DENSE.findall(text))
    return dense + (len(text) - dense) // 4


@frozen
class Shortened:
    """What was kept of some output.

    Attributes:
        text: At most the allowed bytes and lines, the note about what was left out included.
        truncated: Something was left out.
        total_bytes: All there was, in UTF-8.
        total_lines: All there was; a last line without its end counts.
    """

    text: str
    truncated: bool
    total_bytes: int
    total_lines: int


class HeadTail:
    """Collects output of any length in bounded memory: its beginning and its end."""

    def __init__(self, max_bytes: int = MAX_BYTES, max_lines: int = MAX_LINES, head_share: float = HEAD_SHARE) -> None:
        self.total_bytes = 0
        self.newlines = 0
        self._max_bytes = max_bytes
        self._max_lines = max_lines
        self._head_bytes = int(max_bytes * head_share)
        self._head_lines = int(max_lines * head_share)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._open_line = False

    @property
    def total_lines(self) -> int:
        """Lines so far; a last one without its end counts."""
        return self.newlines + self._open_line

    def feed(self, text: str) -> None:
        """Take the next piece."""
        if not text:
            return
        data = text.encode(errors="replace")
        self.total_bytes += len(data)
        self.newlines += data.count(b"\n")
        self._open_line = data[-1:] != b"\n"
        if len(self._head) < self._max_bytes and self._tail_size == 0:
            # Everything stands in the head until it is known that not all of it can stay.
            self._head += data
            if len(self._head) > self._max_bytes:
                kept = len(clip_head(bytes(self._head), self._head_bytes))
                self._keep_tail(bytes(self._head[kept:]))
                del self._head[kept:]
        else:
            self._keep_tail(data)

    def _keep_tail(self, data: bytes) -> None:
        data = clip_tail(data, self._max_bytes + 4)
        self._tail.append(data)
        self._tail_size += len(data)
        while len(self._tail) > 1 and self._tail_size - len(self._tail[0]) >= self._max_bytes:
            self._tail_size -= len(self._tail.popleft())

    def shortened(self) -> Shortened:
        """What is kept by now."""
        fits = self._tail_size == 0 and self.total_lines <= self._max_lines and self.total_bytes <= self._max_bytes
        if fits:
            return Shortened(self._head.decode(), False, self.total_bytes, self.total_lines)
        room = max(0, self._max_bytes - MARKER_ROOM)
        first, rest = bytes(self._head), b"".join(self._tail)
        head = whole_lines_head(first, min(self._head_bytes, room), self._head_lines)
        if len(first) + len(rest) == self.total_bytes:
            rest = first[len(head) :] + rest
        tail = whole_lines_tail(rest, room - len(head), self._max_lines - head.count(b"\n") - 2)
        left_out = self.total_bytes - len(head) - len(tail)
        lines = self.newlines - head.count(b"\n") - tail.count(b"\n")
        if left_out <= 0:
            return Shortened((head + tail).decode(), False, self.total_bytes, self.total_lines)
        break_before = "\n" if head and not head.endswith(b"\n") else ""
        marker = f"{break_before}[... {lines} lines, {left_out} bytes left out ...]\n"
        if len(marker) > self._max_bytes:
            marker, head, tail = "", b"", whole_lines_tail(rest, self._max_bytes, self._max_lines)
        return Shortened(head.decode() + marker + tail.decode(), True, self.total_bytes, self.total_lines)


def whole_lines_head(data: bytes, limit: int, max_lines: int) -> bytes:
    """The beginning of `data` within both limits, ending with a line's end unless the first line is too long."""
    cut = clip_head(data, limit)
    position = -1
    for _line in range(max_lines):
        following = cut.find(b"\n", position + 1)
        if following < 0:
            break
        position = following
    else:
        return cut[: position + 1]
    if len(cut) == len(data):
        return cut
    return cut[: position + 1] if position >= 0 else cut


def whole_lines_tail(data: bytes, limit: int, max_lines: int) -> bytes:
    """The end of `data` within both limits, beginning with a line's beginning unless the last line is too long."""
    cut = clip_tail(data, limit)
    position = len(cut) - 1 if cut.endswith(b"\n") else len(cut)
    for _line in range(max(1, max_lines)):
        previous = cut.rfind(b"\n", 0, position)
        if previous < 0:
            break
        position = previous
    else:
        return cut[position + 1 :]
    if len(cut) == len(data):
        return cut
    begin = cut.find(b"\n") + 1
    return cut[begin:] if 0 < begin < len(cut) else cut
