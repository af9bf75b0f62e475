"""Connections that ask for nothing, or take nothing: none of them is kept."""

import asyncio
import socket

import pytest

from coding_agent.observer import connections, routes
from coding_agent.observer.observer import observe

SILENT = b""
SLOW = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "


async def opened(url: str, said: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 12)
    writer.write(said)
    await writer.drain()
    return reader, writer


async def rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(connections.Connection, "request_s", 0.05)
    monkeypatch.setattr(connections.Connection, "take_s", 0.05)


@pytest.mark.parametrize("said", [SILENT, SLOW])
async def test_a_connection_that_does_not_say_what_it_wants_is_cut(host, hasty, said):
    """Slowly is as good as never."""
    url = (await observe("")).partition("#")[0]
    reader, writer = await opened(url, said)
    while not reader.at_eof() and not reader.exception():
        try:
            writer.write(b"x" if said else b"")
            await asyncio.wait_for(reader.read(1), 0.02)
        except TimeoutError:
            continue
        except ConnectionError:
            break
    writer.close()


async def test_a_connection_that_is_kept_for_the_next_request_is_cut_when_that_does_not_come(host, hasty):
    """A piece of a second request does not keep it for ever."""
    url = (await observe("")).partition("#")[0]
    reader, writer = await opened(url, b"GET /nope HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert (await reader.readuntil(b"not found\n")).startswith(b"HTTP/1.1 404")
    writer.write(SLOW)
    assert await rest(reader) == b""
    writer.close()


async def test_a_request_whose_rest_does_not_come_is_refused(host, monkeypatch):
    """It announces ten bytes and sends two."""
    monkeypatch.setattr(routes, "BODY_S", 0.05)
    url, _, token = (await observe("")).partition("#token=")
    head = f"POST /api/act HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
    more = "Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{}"
    reader, writer = await opened(url, (head + more).encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 408")
    writer.close()


async def test_a_page_that_reads_nothing_is_cut_and_makes_room_for_another(host, hasty):
    """What is said to it waits in bounds, and not for ever."""
    url, _, token = (await observe("")).partition("#token=")
    name, _, port = url.removeprefix("http://").rstrip("/").partition(":")
    asker = socket.socket()
    asker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    asker.setblocking(False)
    await asyncio.get_running_loop().sock_connect(asker, (name, int(port)))
    asked = f"GET /style.css HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    answered = 0
    try:
        for _ in range(100_000):  # requests are answered into a connection that nobody reads
            await asyncio.get_running_loop().sock_sendall(asker, asked)
            answered += 1
    except ConnectionError:
        answered = -1
    assert answered == -1
    asker.close()


async def test_more_connections_than_are_allowed_are_cut_at_once(host, monkeypatch):
    """The descriptors of the host are for its work; those who ask properly are served again when the others go."""
    monkeypatch.setattr(connections, "OPEN_MAX", 5)
    url = (await observe("")).partition("#")[0]
    kept = [await opened(url, b"") for _ in range(5)]
    reader, writer = await opened(url, b"")
    assert await rest(reader) == b""
    for _, other in [*kept, (reader, writer)]:
        other.close()
        await other.wait_closed()
    reader, writer = await opened(url, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert (await rest(reader)).startswith(b"HTTP/1.1 200")
    writer.close()
