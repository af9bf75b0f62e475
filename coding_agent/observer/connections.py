"""Edge. One connection to a web server of the host: it says in time what it wants, takes in time what it is answered.

Whoever opens connections and says nothing would otherwise use up the descriptors that the host's tools need, and
whoever reads nothing would keep others from the page. uvicorn has no limits for either.
"""

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

OPEN_MAX: Final = 96
"""Connections there may be; another one is cut. Beyond `server.CONNECTIONS_MAX` they are told to come back later."""
REQUEST_S: Final = 10.0
"""What the head of a request may take."""
TAKE_S: Final = 30.0
"""How long an answer may wait for somebody to read on."""


class Connection(H11Protocol):
    """A connection with limits."""

    request_s = REQUEST_S
    take_s = TAKE_S
    _asks: asyncio.TimerHandle | None = None
    _takes: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > OPEN_MAX:
            transport.abort()
        else:
            self._asks = self.loop.call_later(self.request_s, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            _cancel(self._asks)
            self._asks = None
        elif self._asks is None and not self.transport.is_closing():
            self._asks = self.loop.call_later(self.request_s, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        _cancel(self._takes)
        self._takes = self.loop.call_later(self.take_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._takes)

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._asks)
        _cancel(self._takes)
        super().connection_lost(exc)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
