"""Edge. The proxy all of a browser's traffic goes through: it connects to nothing but addresses it was given.

It runs in the browser's worker and asks the host for each connection. The host looks the name up, judges every address
it has, and answers with those; the connection goes to one of them. So redirects, frames, scripts, sockets and names
that change their meaning all meet the same judge, and the browser itself looks nothing up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

HEAD_MAX: Final = 65_536
HEAD_S: Final = 60.0
CONNECT_S: Final = 10.0
IDLE_S: Final = 300.0
CONNECTIONS_MAX: Final = 128
BYTES_MAX: Final = 200_000_000
"""Of one connection, in one direction."""
PIECE: Final = 65_536
NOT_PASSED: Final = frozenset({b"proxy-connection", b"proxy-authorization", b"connection", b"keep-alive"})


class Refused(Exception):
    """This may not be connected to; the text says why."""


Ask = Callable[[str, int, str], Awaitable[Sequence[str]]]
"""The addresses of a host, a port and a scheme that may be connected to; raises `Refused`."""


class Proxy:
    """Listens on loopback for the one browser it was made for."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._seats = asyncio.Semaphore(CONNECTIONS_MAX)

    async def start(self) -> int:
        """Listen; the port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_MAX)
        return int(server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._seats:
                await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, ValueError):
            pass  # whatever it was, this connection is over
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_S):
            head = await reader.readuntil(b"\r\n\r\n")
        line, _, fields = head.partition(b"\r\n")
        method, target, _version = line.split(b" ", 2)
        tunnel = method == b"CONNECT"
        host, port, path = parted(target.decode("ascii"), tunnel=tunnel)
        try:
            addresses = await self._ask(host, port, "https" if tunnel else "http")
            up_reader, up_writer = await connected(addresses, port)
        except Refused:
            return  # no answer at all: one of ours would be taken for the page
        try:
            if tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                up_writer.write(forwarded(method, path, fields))
            await asyncio.gather(pump(reader, up_writer), pump(up_reader, writer))
        finally:
            up_writer.close()


def parted(target: str, *, tunnel: bool) -> tuple[str, int, str]:
    """Host, port and path of what a browser asks a proxy for.

    Raises:
        ValueError: It is neither HOST:PORT nor an http URL.
    """
    if tunnel:
        parts = urlsplit(f"//{target}")
        if not parts.hostname or parts.port is None:
            raise ValueError(target)
        return parts.hostname, parts.port, ""
    parts = urlsplit(target)
    if parts.scheme != "http" or not parts.hostname or "@" in parts.netloc:
        raise ValueError(target)
    path = parts.path or "/"
    return parts.hostname, parts.port or 80, f"{path}?{parts.query}" if parts.query else path


def forwarded(method: bytes, path: str, fields: bytes) -> bytes:
    """The head of a request as its server gets it: one request a connection, nothing about the proxy."""
    kept = [
        field for field in fields.split(b"\r\n") if field and field.partition(b":")[0].strip().lower() not in NOT_PASSED
    ]
    return b"\r\n".join([method + b" " + path.encode() + b" HTTP/1.1", *kept, b"Connection: close", b"", b""])


async def connected(addresses: Sequence[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the first of the addresses that answers.

    Raises:
        OSError: None does.
        TimeoutError: The last one took too long.
    """
    failure: Exception = OSError("no address")
    for address in addresses[:4]:
        try:
            async with asyncio.timeout(CONNECT_S):
                return await asyncio.open_connection(address, port)
        except (OSError, TimeoutError) as error:
            failure = error
    raise failure


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes until it ends, is too much, or nothing comes for long; then end the other side too."""
    total = 0
    with suppress(OSError, TimeoutError):
        while total < BYTES_MAX:
            async with asyncio.timeout(IDLE_S):
                piece = await reader.read(PIECE)
            if not piece:
                break
            total += len(piece)
            writer.write(piece)
            await writer.drain()
    with suppress(OSError, RuntimeError):
        if writer.can_write_eof():
            writer.write_eof()
