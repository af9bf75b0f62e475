"""A server that plays a vendor's login: answers by path, in order, and remembers what it was asked."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from attrs import define, field

Answer = tuple[int, dict[str, Any] | Callable[[str], dict[str, Any]]]


@define
class LoginServer:
    """Answers each path from its list; the last answer is given again."""

    url: str = ""
    answers: dict[str, list[Answer]] = field(factory=dict)
    asked: list[tuple[str, str]] = field(factory=list)
    headers: list[dict[str, str]] = field(factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            body = (await reader.readexactly(int(headers.get("content-length") or 0))).decode()
            path = head[0].split(" ")[1]
            self.asked.append((path, body))
            self.headers.append(headers)
            status, answer = self._answer(path)
            said = json.dumps(answer(body) if callable(answer) else answer).encode()
            writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: {len(said)}\r\nconnection: close\r\n\r\n".encode())
            writer.write(said)
            await writer.drain()
        writer.close()

    def _answer(self, path: str) -> Answer:
        left = self.answers[path]
        return left.pop(0) if len(left) > 1 else left[0]


@asynccontextmanager
async def running() -> AsyncIterator[LoginServer]:
    """A running server."""
    login = LoginServer()
    server = await asyncio.start_server(login.serve, "127.0.0.1", 0)
    login.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield login
    finally:
        server.close()
        await server.wait_closed()
