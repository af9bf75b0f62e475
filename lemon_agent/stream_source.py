"""Edge. Whatever a `stream_fn` returned, as events that are read and a source that is let go."""

from collections.abc import AsyncIterator
from typing import Any


def events_of(source: Any) -> AsyncIterator[Any]:
    """The events of an `EventStream`, or of anything else that can be iterated."""
    iterator: AsyncIterator[Any] = aiter(source.events() if hasattr(source, "events") else source)
    return iterator


async def let_go(source: Any, *, finished: bool) -> None:
    """Stop whatever feeds a stream that nobody reads on; does nothing to one that has ended.

    Args:
        source: What the `stream_fn` returned.
        finished: Its last event has been read.
    """
    if hasattr(source, "aclose"):
        await source.aclose()
    elif not finished and hasattr(source, "cancel"):
        source.cancel("aborted")
