"""A loopback HTTP server that misbehaves on demand: it stalls, resets, drips, and lies about length.

Every connection is a real socket. What each request gets is planned beforehand, in order; the last plan repeats.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Literal

from attrs import field, frozen

Misdeed = Literal["reset", "stall", "close"]
Step = bytes | float | Misdeed
SSE: Final = {"content-type": "text/event-stream"}


@frozen
class Answer:
    """What one request gets.

    Attributes:
        steps: Bytes to send, seconds to wait, or what to do to the connection.
        framing: How the body's end is told: in chunks, by a length, or by closing.
        length: The length that is claimed; None tells the truth.
        raw: Sent in place of status line and headers.
    """

    steps: tuple[Step, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(factory=lambda: dict(SSE))
    framing: Literal["chunked", "length", "close"] = "chunked"
    length: int | None = None
    raw: bytes | None = None


@frozen
class Request:
    """A request that arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def sse(*documents: Any, done: bool = True) -> bytes:
    """Documents as server-sent events, and the end marker of Chat Completions."""
    lines = [f"data: {json.dumps(document)}\n\n" for document in documents]
    return "".join([*lines, "data: [DONE]\n\n" if done else ""]).encode()


def chunk(delta: Mapping[str, Any] | None = None, *, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk of Chat Completions."""
    choice = {"index": 0, "delta": dict(delta or {}), "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice], **more}


def text_stream(*texts: str, finish: str = "stop") -> bytes:
    """A whole, well-behaved answer."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    chunks = [chunk({"content": text}) for text in texts]
    return sse(*chunks, chunk(finish=finish), {"choices": [], "usage": usage})


def answer(body: bytes = b"", *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """A well-behaved answer with this body."""
    return Answer((body,), status, dict(SSE) if headers is None else headers, framing="length")


def error_answer(status: int, document: Any, headers: Mapping[str, str] | None = None) -> Answer:
    """An error in JSON."""
    told = {"content-type": "application/json", **(headers or {})}
    return answer(json.dumps(document).encode(), status=status, headers=told)


def dripped(body: bytes, *, size: int = 1, pause_s: float = 0.0) -> tuple[Step, ...]:
    """A body in small pieces with pauses between."""
    steps: list[Step] = []
    for at in range(0, len(body), size):
        steps += [body[at : at + size], pause_s]
    return tuple(steps)


class ChaosServer:
    """The server. `async with ChaosServer(plan...) as server`, then ask `server.url`."""

    def __init__(self, *plans: Answer) -> None:
        self.plans = list(plans)
        self.requests: list[Request] = []
        self.open_connections = 0
        self.ended_by_peer = 0
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    async def __aenter__(self) -> ChaosServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self.until(lambda: self.open_connections == 0)
        await self._server.wait_closed()

    async def until(self, holds: Any, *, timeout_s: float = 60.0) -> None:
        """Return when something about this server holds; fails when it does not in time."""
        async with asyncio.timeout(timeout_s):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.open_connections += 1
        self._tell()
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                self._tell()
                plan = self.plans.pop(0) if len(self.plans) > 1 else self.plans[0]
                if not await self._play(plan, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            self.ended_by_peer += 1
        finally:
            self._writers.discard(writer)
            self.open_connections -= 1
            writer.close()
            self._tell()

    async def _play(self, plan: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Give one answer; whether the connection can be used again."""
        writer.write(_head(plan) if plan.raw is None else plan.raw)
        for step in plan.steps:
            if isinstance(step, bytes):
                writer.write(_framed(step, plan))
                await writer.drain()
            elif isinstance(step, float | int):
                await asyncio.sleep(step)
            else:
                await self._misbehave(step, reader, writer)
                return False
        if plan.framing == "chunked" and plan.raw is None:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return plan.framing != "close" and plan.length is None and plan.raw is None

    async def _misbehave(self, step: Misdeed, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if step == "reset":
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        elif step == "stall":
            await reader.read(1)
            self.ended_by_peer += 1

    def _tell(self) -> None:
        self._changed.set()


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    line = await reader.readline()
    if not line.strip():
        return None
    method, path, _ = line.decode().split(" ", 2)
    headers: dict[str, str] = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode().partition(":")
        headers[name.strip().lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, path, headers, body)


def _head(plan: Answer) -> bytes:
    headers = dict(plan.headers)
    if plan.framing == "chunked":
        headers["transfer-encoding"] = "chunked"
    elif plan.framing == "length":
        true_length = sum(len(step) for step in plan.steps if isinstance(step, bytes))
        headers["content-length"] = str(true_length if plan.length is None else plan.length)
    else:
        headers["connection"] = "close"
    lines = [f"HTTP/1.1 {plan.status} Whatever", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _framed(piece: bytes, plan: Answer) -> bytes:
    if plan.framing != "chunked" or plan.raw is not None:
        return piece
    return b"%x\r\n%s\r\n" % (len(piece), piece) if piece else b""
