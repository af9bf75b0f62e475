"""Edge. Sockets for the HTTP library, straight on the event loop.

Between the loop and httpcore there is usually another library, which for every piece read suspends reading, opens a
time limit of its own and gives way once more: with hundreds of streams that is half of all the work. Here a piece is
read with what the loop has: a protocol, a future and one timer a connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

import httpcore

_HIGH_WATER: Final = 256 * 1024
"""Bytes that may wait to be read before the connection is paused."""


class LoopBackend(httpcore.AsyncNetworkBackend):
    """Opens connections for httpcore."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """See httpcore. Addresses of both families are tried, the second kind a little later."""
        loop = asyncio.get_running_loop()
        local = None if local_address is None else (local_address, 0)
        try:
            async with asyncio.timeout(timeout):
                transport, protocol = await loop.create_connection(
                    _Inbox, host, port, local_addr=local, happy_eyeballs_delay=0.25
                )
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError(_told(error)) from error
        for option in socket_options or ():
            transport.get_extra_info("socket").setsockopt(*option)
        return LoopStream(transport, protocol)

    async def sleep(self, seconds: float) -> None:
        """See httpcore."""
        await asyncio.sleep(seconds)


class LoopStream(httpcore.AsyncNetworkStream):
    """One connection."""

    def __init__(self, transport: asyncio.Transport, inbox: _Inbox) -> None:
        self._transport = transport
        self._inbox = inbox

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What has come, at most `max_bytes`; empty when the other side has ended."""
        inbox = self._inbox
        if not inbox.pieces:
            if inbox.ended:
                return inbox.end()
            await inbox.wait(timeout)
            if not inbox.pieces:
                return inbox.end()
        return inbox.take(max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send, and wait while the other side takes nothing."""
        if not buffer:
            return
        if self._inbox.ended and self._transport.is_closing():
            raise httpcore.WriteError("the connection is closed")
        self._transport.write(buffer)
        try:
            async with asyncio.timeout(timeout):
                await self._inbox.writable.wait()
        except TimeoutError as error:
            raise httpcore.WriteTimeout(str(error)) from error
        if self._inbox.failure is not None:
            raise httpcore.WriteError(_told(self._inbox.failure))

    async def aclose(self) -> None:
        """Close at once; nobody is waited for."""
        self._inbox.close()
        self._transport.abort()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        """The same connection, encrypted from now on."""
        loop = asyncio.get_running_loop()
        inbox = _Inbox()
        try:
            async with asyncio.timeout(timeout):
                transport = await loop.start_tls(
                    self._transport, inbox, ssl_context, server_hostname=server_hostname or None
                )
        except TimeoutError as error:
            self._transport.abort()
            raise httpcore.ConnectTimeout(str(error)) from error
        except OSError as error:
            self._transport.abort()
            raise httpcore.ConnectError(_told(error)) from error
        except BaseException:
            self._transport.abort()
            raise
        if transport is None:
            raise httpcore.ConnectError("the connection was closed while it was being encrypted")
        inbox.connection_made(transport)
        return LoopStream(transport, inbox)

    def get_extra_info(self, info: str) -> Any:
        """See httpcore."""
        if info == "is_readable":
            return self._inbox.ended or bool(self._inbox.pieces) or self._transport.is_closing()
        names = {"client_addr": "sockname", "server_addr": "peername"}
        return self._transport.get_extra_info(names.get(info, info))


class _Inbox(asyncio.Protocol):
    """What a connection has received and nobody has read yet."""

    def __init__(self) -> None:
        self.pieces: deque[bytes] = deque()
        self.ended = False
        self.failure: BaseException | None = None
        self.writable = asyncio.Event()
        self.writable.set()
        self._size = 0
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._deadline_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()

    # Told by the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport if isinstance(transport, asyncio.Transport) else None

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        self._size += len(data)
        if self._size > _HIGH_WATER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self.ended = True
        self._wake()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.ended = True
        self.failure = self.failure or error
        self.writable.set()
        self._wake()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    # Asked by the stream.

    async def wait(self, timeout: float | None) -> None:
        """Return when something has come or the connection has ended; raises ReadTimeout."""
        waiter = self._waiter = self._loop.create_future()
        self._deadline_s = None if timeout is None else self._loop.time() + timeout
        if self._deadline_s is not None and self._timer is None:
            self._timer = self._loop.call_at(self._deadline_s, self._look_at_the_time)
        try:
            await waiter
        finally:
            self._waiter = self._deadline_s = None

    def take(self, max_bytes: int) -> bytes:
        """The first piece, or as much of it as is wanted."""
        piece = self.pieces.popleft()
        if len(piece) > max_bytes:
            self.pieces.appendleft(piece[max_bytes:])
            piece = piece[:max_bytes]
        self._size -= len(piece)
        if self._paused and self._size <= _HIGH_WATER // 2 and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return piece

    def end(self) -> bytes:
        """The end of what can be read: nothing, or the failure."""
        if self.failure is not None:
            raise httpcore.ReadError(_told(self.failure))
        return b""

    def close(self) -> None:
        """Nobody reads any more."""
        self.ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _look_at_the_time(self) -> None:
        """One timer a connection: when it goes off early, because something came meanwhile, it is set anew."""
        self._timer = None
        if self._deadline_s is None or self._waiter is None or self._waiter.done():
            return
        if self._loop.time() < self._deadline_s:
            self._timer = self._loop.call_at(self._deadline_s, self._look_at_the_time)
        else:
            self._waiter.set_exception(httpcore.ReadTimeout("nothing came in time"))


def _told(error: BaseException) -> str:
    return str(error) or type(error).__name__


def use_loop_sockets(transport: Any) -> None:
    """Have an HTTP transport of httpx use these sockets; one that is built otherwise is left as it is."""
    pool: Any = getattr(transport, "_pool", None)
    if hasattr(pool, "_network_backend"):
        pool._network_backend = LoopBackend()
