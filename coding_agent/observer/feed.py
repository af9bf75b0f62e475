"""Edge. What is said to the pages that look: a bounded queue for each, and server-sent events on the wire.

A page that does not keep up loses its queue, not the truth: it gets the whole picture again when it reads on.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from attrs import define, field

QUEUE_MAX: Final = 32
"""Messages that wait for one page."""
PAGES_MAX: Final = 16
SILENCE_S: Final = 15.0
"""After so long without anything to say a comment shows that the line is open."""


@define(eq=False)
class Feed:
    """One page that looks.

    Attributes:
        whole: Makes the whole picture.
        lost: It did not keep up; what it gets next is the whole picture.
    """

    whole: Callable[[], Awaitable[list[tuple[str, Any]]]]
    lost: bool = True
    _queue: deque[bytes] = field(factory=deque)
    _news: asyncio.Event = field(factory=asyncio.Event)
    _over: bool = False

    def put(self, message: bytes) -> None:
        """Say something; when too much waits already, forget it all."""
        if self.lost:
            return
        if len(self._queue) >= QUEUE_MAX:
            self._queue.clear()
            self.lost = True
        else:
            self._queue.append(message)
        self._news.set()

    def end(self) -> None:
        """Say no more; what waits is dropped."""
        self._over = True
        self._news.set()

    async def read(self) -> AsyncIterator[bytes]:
        """Everything that is said, as it goes over the wire, until the feed ends."""
        while not self._over:
            if self.lost:
                self.lost = False
                self._queue.clear()
                for name, value in await self.whole():
                    yield encoded(name, value)
            elif self._queue:
                yield self._queue.popleft()
            else:
                self._news.clear()
                try:
                    async with asyncio.timeout(SILENCE_S):
                        await self._news.wait()
                except TimeoutError:
                    yield b": still here\n\n"


@define(eq=False)
class Feeds:
    """All pages that look."""

    _open: set[Feed] = field(factory=set)

    def __len__(self) -> int:
        return len(self._open)

    def add(self, feed: Feed) -> bool:
        """Whether there was room for one more."""
        if len(self._open) >= PAGES_MAX:
            return False
        self._open.add(feed)
        return True

    def remove(self, feed: Feed) -> None:
        """It looks no more."""
        self._open.discard(feed)

    def say(self, name: str, value: Any) -> None:
        """Say something to everybody."""
        following = [feed for feed in self._open if not feed.lost]
        if following:
            message = encoded(name, value)
            for feed in following:
                feed.put(message)

    def end(self) -> None:
        """Say no more to anybody."""
        for feed in self._open:
            feed.end()


def encoded(name: str, value: Any) -> bytes:
    """One server-sent event. JSON holds no line break, so it is one `data` line."""
    text = json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":"))
    return f"event: {name}\ndata: {text}\n\n".encode("utf-8", "replace")
