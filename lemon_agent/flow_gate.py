"""Edge. Lets a subscriber that must not miss its pace slow a run down, for a while.

The loop asks the gate before it reads on from the model. The agent closes it for a subscriber that is out of credit and
opens it when there is credit again; one that lets the run wait too long is no longer waited for, until it gives credit.
While anybody counts, the loop lets the agent pass on each event before it reads the next: a model that has everything
ready at once is held up as well.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final

from lemon_agent.outbox import Outbox
from lemon_otp import current_runtime, telemetry

_NOBODY: Final[frozenset[Outbox]] = frozenset()


class FlowGate:
    """One agent's gate. Used by the agent's process and, through `__call__`, by its loop's.

    Most are never closed, and then hold nothing.
    """

    __slots__ = ("_closed_by", "_counting", "_given_up", "_waiters")

    def __init__(self) -> None:
        self._counting: frozenset[Outbox] = _NOBODY
        """Those whose pace matters."""
        self._closed_by: frozenset[Outbox] = _NOBODY
        self._given_up: frozenset[Outbox] = _NOBODY
        self._waiters: tuple[asyncio.Future[None], ...] = ()

    def __call__(self) -> Awaitable[None] | None:
        """None when the run may go on; else what it should wait for."""
        if not self._counting:
            return None
        return self._wait() if self._closed_by else self._catch_up()

    def look_at(self, outbox: Outbox) -> None:
        """Close or open for a subscriber, as its credit says."""
        if outbox.credit is None:
            return
        if not outbox.starved:
            self._given_up -= {outbox}
            self._counting |= {outbox}
            self._open_for(outbox)
        elif outbox not in self._given_up and outbox not in self._closed_by:
            self._closed_by |= {outbox}
            telemetry.execute(
                ("lemon_agent", "subscriber", "out_of_credit"), {"waiting": len(outbox)}, {"pid": outbox.pid}
            )

    def forget(self, outbox: Outbox) -> None:
        """Wait for a subscriber no longer."""
        self._counting -= {outbox}
        self._open_for(outbox)

    def _open_for(self, outbox: Outbox) -> None:
        self._closed_by -= {outbox}
        if not self._closed_by:
            self._open()

    def _open(self) -> None:
        waiters, self._waiters = self._waiters, ()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _catch_up(self) -> None:
        await asyncio.sleep(0)
        if self._closed_by:
            await self._wait()

    async def _wait(self) -> None:
        runtime = current_runtime()
        waiter: asyncio.Future[None] = runtime.loop.create_future()
        self._waiters = (*self._waiters, waiter)
        timers = [
            runtime.timers.add(outbox.delivery.credit_timeout_ms / 1000, self._give_up, outbox)
            for outbox in self._closed_by
        ]
        try:
            await waiter
        finally:
            for timer in timers:
                runtime.timers.cancel(timer)

    def _give_up(self, outbox: Outbox) -> None:
        if outbox in self._closed_by:
            self._given_up |= {outbox}
            self.forget(outbox)
