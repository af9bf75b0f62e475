"""Edge. Work that ends when the run is aborted, though what it waits for knows nothing of abort signals."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from lemon_agent import AbortSignal, ToolError

T = TypeVar("T")


async def unless_aborted(work: Coroutine[Any, Any, T], signal: AbortSignal | None) -> T:
    """The work's result. When the signal is given meanwhile the work is cancelled, as by a timeout that is due.

    Raises:
        ToolError: "Operation aborted".
    """
    if signal is None:
        return await work
    loop = asyncio.get_running_loop()
    deadline = asyncio.timeout(None)

    def heard(_reason: object) -> None:
        with suppress(RuntimeError):  # it has ended already
            deadline.reschedule(loop.time())

    try:
        async with deadline:
            undo = signal.on_abort(heard)
            try:
                return await work
            finally:
                undo()
    except TimeoutError:
        if deadline.expired():
            raise ToolError("Operation aborted") from None
        raise
