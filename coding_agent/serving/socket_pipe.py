"""Edge. A connected Unix socket for a process: what comes in are messages, what goes out never waits.

A peer that does not read is given up once too much waits for it, so that no client can make a host grow.
"""

from __future__ import annotations

import asyncio
import select
import socket
from pathlib import Path
from typing import Final

from coding_agent.rpc.lines import BACKLOG_MAX
from lemon_otp import Pid, frozen, send

PIECES_MAX: Final = 64
"""So many pieces are read ahead of what the process has taken."""


@frozen
class Came:
    """Bytes came in."""

    data: bytes


@frozen
class PeerSilent:
    """The peer says no more, but may still listen."""


@frozen
class PeerGone:
    """The connection has ended.

    Attributes:
        reason: Why, in words.
    """

    reason: str


class SocketPipe(asyncio.Protocol):
    """One end of a connection. Made with `over` or `to`; `listener` gets `Came`, `PeerSilent` and `PeerGone`."""

    def __init__(self, listener: Pid, unread_max: int = BACKLOG_MAX) -> None:
        self._listener = listener
        self._unread_max = unread_max
        self._transport: asyncio.Transport | None = None
        self._untaken = 0
        self._reason = "the other side has closed the connection"

    @classmethod
    async def over(cls, connected: socket.socket, listener: Pid, *, unread_max: int = BACKLOG_MAX) -> SocketPipe:
        """A pipe over a connected socket, which is the pipe's from here on."""
        connected.setblocking(False)
        pipe = cls(listener, unread_max)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: pipe, connected)
        return pipe

    @classmethod
    async def to(cls, path: Path, listener: Pid) -> SocketPipe:
        """A pipe to whoever listens at a socket's file.

        Raises:
            OSError: Nobody does.
        """
        pipe = cls(listener)
        await asyncio.get_running_loop().create_unix_connection(lambda: pipe, str(path))
        return pipe

    def write(self, data: bytes) -> None:
        """Send this behind what waits already. Never waits, never raises; after the end it goes nowhere."""
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(data)
        if self.backlog > self._unread_max:
            self._reason = f"{self._unread_max} bytes were left unread"
            self._transport.abort()

    @property
    def backlog(self) -> int:
        """Bytes that wait to be sent."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def taken(self) -> None:
        """The listener is done with one piece."""
        self._untaken -= 1
        if self._untaken == PIECES_MAX - 1 and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """End the connection when what waits was sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection now."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def hung_up(self) -> bool:
        """Is the peer gone, rather than done with speaking?"""
        held = None if self._transport is None else self._transport.get_extra_info("socket")
        if held is None or self._transport is None or self._transport.is_closing() or held.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(held.fileno(), 0)
        return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._untaken += 1
        if self._untaken >= PIECES_MAX and self._transport is not None:
            self._transport.pause_reading()
        send(self._listener, Came(data))

    def eof_received(self) -> bool:
        send(self._listener, PeerSilent())
        return True  # it may still listen

    def connection_lost(self, error: Exception | None) -> None:
        send(self._listener, PeerGone(str(error) if error is not None else self._reason))
