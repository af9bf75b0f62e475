"""Edge. How long calls to one server may still take: their time stands still while it waits for us.

A server that asks a person, or the model, in the middle of a call is not slow; the limit is there for one that is.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from attrs import define, field


@define(eq=False)
class CallClocks:
    """The limits of the calls to one server that are under way."""

    _left_s: dict[asyncio.Timeout, float] = field(factory=dict, init=False)
    _waits: int = field(default=0, init=False)

    @asynccontextmanager
    async def limit(self, seconds: float) -> AsyncIterator[None]:
        """While inside, so many seconds may pass in which the server does not wait for us.

        Raises:
            TimeoutError: They have passed.
        """
        async with asyncio.timeout(None if self._waits else seconds) as bound:
            self._left_s[bound] = seconds
            try:
                yield
            finally:
                del self._left_s[bound]

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """While inside, no time passes: the server waits for us."""
        now_s = asyncio.get_running_loop().time
        if self._waits == 0:
            for bound in self._left_s:
                self._left_s[bound] = max(0.0, (bound.when() or now_s()) - now_s())
                bound.reschedule(None)
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            if self._waits == 0:
                for bound, left_s in self._left_s.items():
                    if not bound.expired():
                        bound.reschedule(now_s() + left_s)
