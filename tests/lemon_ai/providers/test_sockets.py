"""Sockets straight on the event loop: what httpcore may count on."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpcore
import httpx
import pytest

from lemon_ai.providers.sockets import LoopBackend, use_loop_sockets

# For the name localhost, until 2126; good for nothing else.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBmjCCAUGgAwIBAgIUErvF/DIbPsK0VFov4gDIjlRY5VAwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEzMDA5MDgzOVoYDzIxMjYxMTA2
MDkwODM5WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQNYihdb6yhT2dcHPuBtq43gYOGASXOtHR6msvRtMe/oSQYUUo9HrCA
Q3nUiskqWrQoonczC2+eqx5j0LobGj1Ho28wbTAdBgNVHQ4EFgQUXV1JICWT7iE5
s4Nh5+nzk8aimsQwHwYDVR0jBBgwFoAUXV1JICWT7iE5s4Nh5+nzk8aimsQwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDRwAwRAIgbbwRIza7vQb45Ij/RrMFmtyOvLJRifLasyxaeRugkWoCIEil
Uc+LIaFfg7pRzVYNyh5jFRkF+4/HDEhcJK0OJT24
-----END CERTIFICATE-----
"""
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgxkpuy7yBqQn99/3z
ED9qn9Tpq2BnPe3d3jVCoya4M96hRANCAAQNYihdb6yhT2dcHPuBtq43gYOGASXO
tHR6msvRtMe/oSQYUUo9HrCAQ3nUiskqWrQoonczC2+eqx5j0LobGj1H
-----END PRIVATE KEY-----
"""

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server on loopback; its port."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    running = await asyncio.start_server(served, "127.0.0.1", 0, ssl=tls)
    try:
        yield running.sockets[0].getsockname()[1]
    finally:
        running.close()
        await running.wait_closed()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(1000):
        writer.write(piece)
        await writer.drain()


@pytest.fixture
def contexts(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS for a server, and for a client that trusts it."""
    (tmp_path / "c.pem").write_text(CERTIFICATE)
    (tmp_path / "k.pem").write_text(KEY)
    of_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    of_server.load_cert_chain(tmp_path / "c.pem", tmp_path / "k.pem")
    return of_server, ssl.create_default_context(cadata=CERTIFICATE)


async def test_what_is_sent_comes_back_in_order_and_the_end_is_an_empty_read() -> None:
    """Reads give at most what was asked for and lose nothing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(10))

    async with server(serve) as port:
        stream = await LoopBackend().connect_tcp("127.0.0.1", port, timeout=5)
        await stream.write(b"0123456789", timeout=5)
        got = [await stream.read(4, timeout=5)]
        while got[-1]:
            got.append(await stream.read(4, timeout=5))
        assert b"".join(got) == b"0123456789"
        assert all(len(piece) <= 4 for piece in got)
        assert await stream.read(4, timeout=5) == b""
        assert stream.get_extra_info("is_readable")
        assert stream.get_extra_info("server_addr") == ("127.0.0.1", port)
        await stream.aclose()


async def test_a_reader_that_lags_holds_the_sender_back() -> None:
    """Not more than a bound waits here; everything arrives all the same."""
    size = 8 * 1024 * 1024

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes(size))
        await writer.drain()
        sent.set()

    sent = asyncio.Event()
    async with server(serve) as port:
        stream = await LoopBackend().connect_tcp("127.0.0.1", port)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await sent.wait()
        total = 0
        while piece := await stream.read(65_536, timeout=5):
            total += len(piece)
        assert total == size
        await stream.aclose()


async def test_a_writer_waits_while_nobody_reads_and_gives_up_in_time() -> None:
    """WriteTimeout, not a buffer without end."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await done.wait()

    done = asyncio.Event()
    async with server(serve) as port:
        stream = await LoopBackend().connect_tcp("127.0.0.1", port)
        with pytest.raises(httpcore.WriteTimeout):
            await stream.write(bytes(64 * 1024 * 1024), timeout=0.1)
        await stream.aclose()
        done.set()


async def test_silence_is_a_timeout_and_a_piece_in_between_starts_it_anew() -> None:
    """The limit is for one read; one timer serves them all."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(4):
            await asyncio.sleep(0.06)
            writer.write(b"x")
        await reader.read(1)

    async with server(serve) as port:
        stream = await LoopBackend().connect_tcp("127.0.0.1", port)
        assert [await stream.read(9, timeout=0.15) for _ in range(4)] == [b"x"] * 4
        with pytest.raises(httpcore.ReadTimeout):
            await stream.read(9, timeout=0.05)
        await stream.aclose()


async def test_nobody_listening_a_reset_and_a_closed_connection_are_httpcores_errors() -> None:
    """So that the HTTP library maps them as its own."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    async with server(serve) as port:
        stream = await LoopBackend().connect_tcp("127.0.0.1", port)
        await stream.write(b"x")
        assert await _ended(stream)
        await stream.aclose()
        with pytest.raises(httpcore.WriteError):
            await stream.write(b"x")
    with pytest.raises(httpcore.ConnectError):
        await LoopBackend().connect_tcp("127.0.0.1", port, timeout=5)
    with pytest.raises(httpcore.ConnectError):
        await LoopBackend().connect_tcp("no-such-host.invalid", 1, timeout=5)


async def _ended(stream: httpcore.AsyncNetworkStream) -> bool:
    try:
        return await stream.read(1, timeout=5) == b""
    except httpcore.ReadError:
        return True


async def test_a_cancelled_read_loses_nothing() -> None:
    """The next read gets what came."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"late")
        await reader.read(1)

    async with server(serve) as port:
        stream = await LoopBackend().connect_tcp("127.0.0.1", port)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await stream.read(9, timeout=5)
        await stream.write(b"x")
        assert await stream.read(9, timeout=5) == b"late"
        await stream.aclose()


async def test_encrypted_connections_work_and_distrust_is_an_error(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    """A certificate that nobody vouches for ends the attempt."""
    of_server, of_client = contexts
    async with server(echo, of_server) as port:
        stream = await LoopBackend().connect_tcp("localhost", port, timeout=5)
        tls = await stream.start_tls(of_client, "localhost", timeout=5)
        await tls.write(b"secret", timeout=5)
        assert await tls.read(100, timeout=5) == b"secret"
        assert tls.get_extra_info("ssl_object").version().startswith("TLS")
        await tls.aclose()
        stranger = await LoopBackend().connect_tcp("localhost", port, timeout=5)
        with pytest.raises(httpcore.ConnectError, match="certificate"):
            await stranger.start_tls(ssl.create_default_context(), "localhost", timeout=5)


async def test_the_http_library_runs_on_these_sockets(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    """Two requests over one encrypted connection."""
    of_server, of_client = contexts
    connections = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async with server(serve, of_server) as port:
        transport = httpx.AsyncHTTPTransport(verify=of_client)
        use_loop_sockets(transport)
        async with httpx.AsyncClient(transport=transport) as client:
            for _ in range(2):
                assert (await client.get(f"https://localhost:{port}/")).text == "ok"
    assert len(connections) == 1
    use_loop_sockets(object())
