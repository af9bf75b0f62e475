"""A small web server on loopback that answers what it was told to, byte for byte."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from attrs import define, field

Answer = bytes | Callable[[asyncio.StreamWriter], object]


@define
class WebServer:
    """What it answers, by path, and what it was asked."""

    port: int
    answers: dict[str, Answer] = field(factory=dict)
    asked: list[str] = field(factory=list)
    heads: list[dict[str, str]] = field(factory=list)
    bodies: list[bytes] = field(factory=list)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        """Where a path is."""
        return f"http://{host}:{self.port}{path}"

    def page(
        self,
        path: str,
        body: bytes | str,
        content_type: str = "text/html; charset=utf-8",
        *more: str,
        status: str = "200 OK",
    ) -> None:
        """Answer a path with a whole page."""
        data = body.encode() if isinstance(body, str) else body
        head = [
            f"HTTP/1.1 {status}",
            f"Content-Type: {content_type}",
            f"Content-Length: {len(data)}",
            "Connection: close",
        ]
        self.answers[path] = "\r\n".join([*head, *more, "", ""]).encode() + data

    def redirect(self, path: str, to: str) -> None:
        """Answer a path by sending elsewhere."""
        self.answers[path] = (
            f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *rest = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in rest)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.asked.append(line)
            self.heads.append(headers)
            self.bodies.append(body)
            answer = self.answers.get(
                line.split()[1].partition("?")[0], b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone"
            )
            if isinstance(answer, bytes):
                writer.write(answer)
            else:
                done = answer(writer)
                if asyncio.iscoroutine(done):
                    await done
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def running() -> AsyncIterator[WebServer]:
    """The server, while in the block; 127.0.0.2 leads to it as well."""
    made: list[WebServer] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made[0].serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    made.append(WebServer(server.sockets[0].getsockname()[1]))
    other = await asyncio.start_server(serve, "127.0.0.2", made[0].port)
    async with server, other:
        yield made[0]
