"""Edge. Calls that change the same files run one after the other, in the order they came.

A call draws a number for each of its files at once and waits until it is the first at all of them: so two calls about
several files can neither overtake nor block each other.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

_HELD: Final[ContextVar[frozenset[str]]] = ContextVar("lemon_files_held", default=frozenset())
"""The files whose turn the running call has; a tool within a tool does not wait for itself."""


class Turns:
    """Who is next at each file."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, keys: Iterable[str]) -> AsyncIterator[None]:
        """Around what changes these files. Cancelling while it waits gives the numbers back."""
        held = _HELD.get()
        mine = frozenset(keys) - held
        ticket: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for key in mine:
            self._queues.setdefault(key, deque()).append(ticket)
        try:
            self._call(ticket, mine)
            if not ticket.done():
                await ticket
            token = _HELD.set(held | mine)
            try:
                yield
            finally:
                _HELD.reset(token)
        finally:
            self._leave(ticket, mine)

    def _call(self, ticket: "asyncio.Future[None]", keys: Iterable[str]) -> None:
        """Let it go on if it is the first everywhere."""
        if not ticket.done() and all(self._queues[key][0] is ticket for key in keys):
            ticket.set_result(None)

    def _leave(self, ticket: "asyncio.Future[None]", keys: Iterable[str]) -> None:
        for key in keys:
            queue = self._queues[key]
            queue.remove(ticket)
            if not queue:
                del self._queues[key]
        for key in keys:
            if key in self._queues:
                following = self._queues[key][0]
                self._call(following, [each for each, queue in self._queues.items() if following in queue])
