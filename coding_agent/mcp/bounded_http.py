"""Edge. HTTP answers of bounded length, for servers that are not trusted with our memory."""

from collections.abc import AsyncIterator
from typing import Any


def bounded_transport(limit: int) -> Any:
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
            response = await super().handle_async_request(request)
            if "text/event-stream" not in response.headers.get("content-type", ""):
                response.stream = Bounded(response.stream, request)
            return response

    return BoundedTransport()
