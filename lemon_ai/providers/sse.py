"""Pure. Bytes, split anywhere, to server-sent events.

Line ends may be LF, CR or CRLF, also with CR and LF in different reads. Comments and events without data give
nothing. Text that is no field of an event, such as a bare JSON object some servers put behind the last event, is
handed over at the end as one event of its own.
"""

from __future__ import annotations

from typing import Any, Protocol

from lemon_otp import frozen

_BOM = b"\xef\xbb\xbf"
LONGEST_EVENT = 64 * 1024 * 1024
"""Bytes of one event beyond which a stream is taken for garbage."""


@frozen
class ServerSentEvent:
    """One event: its data lines joined, and the name it was given."""

    data: str
    event: str | None = None


class FramingError(Exception):
    """The bytes cannot be what the stream claims to be."""


class Framer(Protocol):
    """Cuts a body into the frames a decoder is fed."""

    def feed(self, chunk: bytes) -> list[Any]:
        """The frames that `chunk` completed."""
        ...

    def close(self) -> list[Any]:
        """The frames that the end of the body completes."""
        ...


class SseFramer:
    """Server-sent events."""

    def __init__(self) -> None:
        self._carry: list[bytes] = []
        self._carried = 0
        self._after_cr = False
        self._begun = False
        self._data: list[bytes] = []
        self._name: bytes | None = None
        self._stray: list[bytes] = []

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The events that `chunk` completed."""
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[0] == 0x0A:
                chunk = chunk[1:]
        if b"\n" not in chunk and b"\r" not in chunk:
            self._keep(chunk)
            return []
        if self._carry:
            self._carry.append(chunk)
            chunk = b"".join(self._carry)
            self._carry, self._carried = [], 0
        if not self._begun:
            self._begun = True
            chunk = chunk.removeprefix(_BOM)
        lines = chunk.splitlines(keepends=True)
        if not lines[-1].endswith((b"\n", b"\r")):
            self._keep(lines.pop())
        self._after_cr = chunk.endswith(b"\r")
        return self._read(lines)

    def close(self) -> list[ServerSentEvent]:
        """An event that lacked its blank line, then what was no event at all."""
        last = b"".join(self._carry)
        self._carry, self._carried = [], 0
        if not self._begun:
            last = last.removeprefix(_BOM)
        events = self._read([last, b"\n"] if last else [b"\n"])
        stray = b"".join(self._stray).strip()
        self._stray = []
        if stray.startswith((b"{", b"[")):
            events.append(ServerSentEvent(stray.decode("utf-8", "replace")))
        return events

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._carry.append(piece)
            self._carried += len(piece)
            if self._carried > LONGEST_EVENT:
                raise FramingError(f"more than {LONGEST_EVENT} bytes without a line end")

    def _read(self, lines: list[bytes]) -> list[ServerSentEvent]:
        events: list[ServerSentEvent] = []
        data = self._data
        for line in lines:
            line = line.rstrip(b"\r\n")
            if line.startswith(b"data:"):
                data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line:
                if data:
                    events.append(self._event())
                    data = self._data
                self._name = None
            else:
                self._other_field(line)
        return events

    def _other_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"event":
            self._name = value.removeprefix(b" ")
        elif name == b"data":
            self._data.append(b"")
        elif name not in (b"", b"id", b"retry"):
            self._stray.append(line + b"\n")

    def _event(self) -> ServerSentEvent:
        data, self._data = b"\n".join(self._data), []
        name, self._name = self._name, None
        return ServerSentEvent(data.decode("utf-8", "replace"), name.decode("utf-8", "replace") if name else None)
