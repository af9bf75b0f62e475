"""A loopback HTTP/1.1 server that answers with recorded bytes, each piece a chunk of its own."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

from attrs import define, field

from tests.cassettes.recording import Cassette, pieces


@define
class Player:
    """Answers the request for `/<key>/...` with the cassette put under that key."""

    port: int = 0
    _put: dict[str, tuple[Cassette, str | None]] = field(factory=dict)
    _count: int = 0

    def put(self, cassette: Cassette, split: str | None) -> str:
        """The base address under which `cassette` is played."""
        self._count += 1
        key = f"c{self._count}"
        self._put[key] = (cassette, split)
        return f"http://127.0.0.1:{self.port}/{key}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            target = await _read_request(reader)
            cassette, split = self._put.pop(target.split("/")[1])
            writer.write(_head(cassette))
            await _write_chunks(writer, pieces(cassette.body, split, cassette.id))
            await writer.drain()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def playing() -> AsyncIterator[Player]:
    """A running server."""
    player = Player()
    server = await asyncio.start_server(player.answer, "127.0.0.1", 0, limit=1 << 22)
    player.port = server.sockets[0].getsockname()[1]
    try:
        yield player
    finally:
        server.close()
        await server.wait_closed()


async def _read_request(reader: asyncio.StreamReader) -> str:
    """Read one request whole and return its target: a server that leaves bytes unread resets the connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    lengths = [line.partition(":")[2] for line in head if line.lower().startswith("content-length:")]
    await reader.readexactly(int(lengths[0]) if lengths else 0)
    return head[0].split(" ")[1]


def _head(cassette: Cassette) -> bytes:
    lines = [f"HTTP/1.1 {cassette.status} Played"]
    lines += [f"{name}: {value}" for name, value in cassette.headers.items()]
    lines += ["transfer-encoding: chunked", "connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1", "replace")


async def _write_chunks(writer: asyncio.StreamWriter, parts: Iterable[bytes]) -> None:
    waiting: list[bytes] = []
    for part in parts:
        waiting.append(b"%x\r\n%b\r\n" % (len(part), part))
        if len(waiting) >= 512:
            writer.write(b"".join(waiting))
            waiting = []
            await writer.drain()
    writer.write(b"".join([*waiting, b"0\r\n\r\n"]))
