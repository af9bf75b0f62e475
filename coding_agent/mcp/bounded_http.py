"""Edge. HTTP answers of bounded length, for servers that are not trusted with our memory."""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from lemon_ai import is_loopback, is_offline

BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one HTTP answer."""

OnStatus = Callable[[str, int], None]
"""Told the address of each request, and the status of its answer."""


def http_client(
    headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None, on_status: OnStatus | None = None
) -> Any:
    """A client of the library's kind whose answers are bounded; it takes no redirect to another place."""
    import httpx2
    from mcp.shared._httpx_utils import MCP_DEFAULT_SSE_READ_TIMEOUT, MCP_DEFAULT_TIMEOUT

    return httpx2.AsyncClient(
        headers=headers,
        timeout=timeout or httpx2.Timeout(MCP_DEFAULT_TIMEOUT, read=MCP_DEFAULT_SSE_READ_TIMEOUT),
        auth=auth,
        transport=bounded_transport(BODY_BYTES_MAX, on_status),
        trust_env=False,
    )


def bounded_transport(limit: int, on_status: OnStatus | None = None) -> Any:
    """The usual transport of the HTTP library, whose answers fail once they are longer than `limit` bytes.

    A stream of events may go on for ever; its bound is for each event, and the `mcp` library keeps that one.
    """
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        def __init__(self, inner: Any, request: Any) -> None:
            self._inner = inner
            self._request = request

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in self._inner:
                size += len(piece)
                if size > limit:
                    raise httpx2.ReadError(f"the answer is longer than {limit} bytes", request=self._request)
                yield piece

        async def aclose(self) -> None:
            await self._inner.aclose()

    class BoundedTransport(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: Any) -> Any:
            if is_offline() and not is_loopback(str(request.url)):
                raise httpx2.ConnectError("it is on another machine, and this start is offline", request=request)
            response = await super().handle_async_request(request)
            if on_status is not None:
                on_status(str(request.url), response.status_code)
            if "text/event-stream" not in response.headers.get("content-type", ""):
                response.stream = Bounded(response.stream, request)
            return response

    return BoundedTransport()
