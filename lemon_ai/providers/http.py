"""Edge. The one place a connection is opened: an encoded call in, stream events out.

Errors of the wire become ours here. A failure before the body began raises; a failure inside it is the last event.
Closing the generator closes the socket.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from attrs import evolve, field

from lemon_ai.classify import http_error
from lemon_ai.errors import BadRequest, ProviderError, ProviderUnreachable, StreamTruncated
from lemon_ai.events import StreamError, StreamEvent
from lemon_ai.network import check_reachable, is_loopback
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.wire import Decoder, WireCall, WireReader
from lemon_ai.redaction import redact, secrets_of
from lemon_otp import define

if TYPE_CHECKING:
    import httpx

CONNECT_TIMEOUT_S = 10.0
OPENED_AT_ONCE = 16
"""Requests that are being opened at a time, by one transport on one event loop."""

LOOPBACK_IDLE_TIMEOUT_S = 300.0
_LONGEST_ERROR_BODY = 1_000_000
_DRAIN_S = 0.2


class _Gate:
    """Lets a few requests at a time be opened, each until it is sent: two hundred at once would hold up the loop."""

    def __init__(self, places: int) -> None:
        self._free = asyncio.Semaphore(places)

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[Callable[[str, Any], Awaitable[None]]]:
        """Wait for a place; it is free again when the request is sent, at the latest when the block ends."""
        await self._free.acquire()
        inside = True

        async def leave(step: str, _facts: Any = None) -> None:
            nonlocal inside
            if inside and step.endswith("send_request_body.complete"):
                inside = False
                self._free.release()

        try:
            yield leave
        finally:
            await leave("send_request_body.complete")


@define(eq=False)
class HttpTransport:
    """Opens connections for every provider of one application.

    Attributes:
        keep_alive: Connections that ended well are used again. Then `aclose` must be awaited.
    """

    keep_alive: bool = False
    _clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[bool, httpx.AsyncClient]] = field(
        factory=WeakKeyDictionary, init=False, repr=False
    )

    _gates: WeakKeyDictionary[asyncio.AbstractEventLoop, _Gate] = field(
        factory=WeakKeyDictionary, init=False, repr=False
    )

    async def stream(
        self, request: ProviderRequest, call: WireCall, decoder: Decoder
    ) -> AsyncGenerator[StreamEvent, None]:
        """The events of one call.

        Raises:
            ProviderError: The provider refused, or no answer began. Nothing was yielded.
        """
        secrets = secrets_of(request.options, call.headers)
        async with self._answer(request, call, secrets) as answer:
            reader = WireReader(decoder, framer=call.framer, sniff=call.sniff)
            async with aclosing(_bytes(answer)) as chunks:
                async for events in _read(reader, chunks, request, secrets):
                    for event in events:
                        yield _redacted(event, secrets) if type(event) is StreamError else event
                if self.keep_alive:
                    await _drain(chunks)

    async def aclose(self) -> None:
        """Close the connections kept for this event loop."""
        for client in self._clients.pop(asyncio.get_running_loop(), {}).values():
            await client.aclose()

    @asynccontextmanager
    async def _answer(
        self, request: ProviderRequest, call: WireCall, secrets: frozenset[str]
    ) -> AsyncIterator[httpx.Response]:
        provider = request.model.provider
        check_reachable(provider, call.url)
        content, headers = await _payload(request, call)
        gate = self._gates.setdefault(asyncio.get_running_loop(), _Gate(OPENED_AT_ONCE))
        try:
            async with gate.entered() as leave:
                client = self._client(is_loopback(call.url))
                built = client.build_request(
                    call.method,
                    call.url,
                    content=content,
                    headers=headers,
                    timeout=_timeout(request, call),
                    extensions={"trace": leave},
                )
                answer = await client.send(built, stream=True)
        except Exception as error:
            raise wire_error(provider, call.url, error, secrets) from error
        try:
            if request.options.on_response is not None:
                request.options.on_response(answer.status_code, dict(answer.headers))
            if not 200 <= answer.status_code < 300:
                body = await _error_body(answer)
                raise http_error(provider, answer.status_code, body, answer.headers, secrets=secrets)
            yield answer
        finally:
            await answer.aclose()

    def _client(self, loopback: bool) -> httpx.AsyncClient:
        import httpx

        from lemon_ai.providers.sockets import use_loop_sockets

        clients = self._clients.setdefault(asyncio.get_running_loop(), {})
        if loopback not in clients:
            limits = httpx.Limits(
                max_connections=None, max_keepalive_connections=None if self.keep_alive else 0, keepalive_expiry=30.0
            )
            transport = httpx.AsyncHTTPTransport(limits=limits, trust_env=not loopback)
            use_loop_sockets(transport)
            clients[loopback] = httpx.AsyncClient(
                transport=transport, trust_env=not loopback, follow_redirects=False, limits=limits
            )
        return clients[loopback]


def wire_error(provider: str, url: str, error: Exception, secrets: frozenset[str] = frozenset()) -> ProviderError:
    """Our error for one of the HTTP library's."""
    import httpx

    if isinstance(error, ProviderError):
        return error
    host = urlsplit(url).netloc.rsplit("@", 1)[-1]
    said = redact(str(error) or type(error).__name__, secrets)
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError)):
        return BadRequest(provider=provider, message=f"{redact(url, secrets)!r} cannot be called: {said}")
    if isinstance(error, httpx.ConnectTimeout):
        return ProviderUnreachable(provider=provider, message=f"No connection to {host} in time. Is it up?")
    if isinstance(error, httpx.TimeoutException):
        return ProviderUnreachable(provider=provider, message=f"Stream timeout: {host} sent nothing for too long.")
    if isinstance(error, httpx.ConnectError):
        return ProviderUnreachable(
            provider=provider, message=f"Cannot reach {host}: {said}. Check base_url and network."
        )
    if isinstance(error, httpx.TransportError):
        return ProviderUnreachable(provider=provider, message=f"The connection to {host} broke: {said}")
    if isinstance(error, (httpx.HTTPError, OSError)):
        return StreamTruncated(provider=provider, message=f"The answer of {host} cannot be read: {said}")
    raise error


async def _read(
    reader: WireReader, chunks: AsyncIterator[bytes], request: ProviderRequest, secrets: frozenset[str]
) -> AsyncGenerator[list[StreamEvent], None]:
    try:
        async for chunk in chunks:
            yield reader.feed(chunk)
            if reader.finished:
                return
    except Exception as error:
        yield reader.close(_cut(wire_error(request.model.provider, request.model.base_url, error, secrets)))
    else:
        yield reader.close()


def _redacted(event: StreamError, secrets: frozenset[str]) -> StreamError:
    said = redact(event.message.error_message or "", secrets)
    message = evolve(event.message, error_message=said)
    if isinstance(event.error, ProviderError):
        event.error.message = redact(event.error.message, secrets)
        event.error.partial = message
    return evolve(event, message=message)


def _cut(error: ProviderError) -> ProviderError:
    """A connection that broke inside a body cut the answer short; silence stays a timeout."""
    if type(error) is ProviderUnreachable and "timeout" not in error.message:
        return StreamTruncated(provider=error.provider, message=error.message, in_stream=True)
    error.in_stream = True
    return error


async def _bytes(answer: httpx.Response) -> AsyncGenerator[bytes, None]:
    plain = "content-encoding" not in answer.headers
    async for chunk in answer.aiter_raw() if plain else answer.aiter_bytes():
        yield chunk


async def _drain(chunks: AsyncGenerator[bytes, None]) -> None:
    """Read what is left behind a terminal event, if it is there already: only then can the connection be kept."""
    with suppress(Exception):
        async with asyncio.timeout(_DRAIN_S):
            async for _ in chunks:
                pass


async def _error_body(answer: httpx.Response) -> bytes:
    import httpx

    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in answer.aiter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > _LONGEST_ERROR_BODY:
                break
    except httpx.HTTPError:
        pass  # a body cut short still tells most of what happened
    return b"".join(pieces)


async def _payload(request: ProviderRequest, call: WireCall) -> tuple[bytes, dict[str, str]]:
    body: dict[str, Any] = await request.options.payload_instead(call.body) or call.body
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    headers = {"content-type": "application/json", "accept": "text/event-stream", **call.headers}
    if call.sign is not None:
        headers = dict(call.sign(call.method, call.url, headers, content))
    return content, headers


def _timeout(request: ProviderRequest, call: WireCall) -> httpx.Timeout:
    import httpx

    options = request.options
    idle_s = call.idle_timeout_s if options.timeout_ms is None else options.timeout_ms / 1000
    if options.timeout_ms is None and is_loopback(call.url):
        idle_s = max(idle_s, LOOPBACK_IDLE_TIMEOUT_S)
    connect_s = CONNECT_TIMEOUT_S if options.connect_timeout_ms is None else options.connect_timeout_ms / 1000
    return httpx.Timeout(idle_s, connect=connect_s)


def merge_headers(*layers: Mapping[str, str]) -> dict[str, str]:
    """Headers of several layers, later ones above earlier ones, names without case."""
    merged: dict[str, str] = {}
    for layer in layers:
        merged.update({name.lower(): value for name, value in layer.items()})
    return merged
