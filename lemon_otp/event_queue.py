"""Pure. The bounded buffer of an event stream: what is kept, what is dropped, and what is counted."""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from attrs import frozen

E = TypeVar("E")

DropStrategy: TypeAlias = Literal["error", "drop_oldest", "drop_newest"]
"""What a full buffer does with one more event: refuse it, forget its oldest, or forget the new one."""
DROP_STRATEGIES: Final = ("error", "drop_oldest", "drop_newest")


@frozen
class StreamStats:
    """How full a stream is.

    Attributes:
        queue_size: Events buffered and not yet taken, the terminal one included.
        max_queue: Bound on the ordinary events among them.
        dropped: Events that were lost or refused for want of room.
        high_water: The largest `queue_size` so far.
    """

    queue_size: int
    max_queue: int
    dropped: int
    high_water: int


class EventQueue(Generic[E]):
    """First in, first out, at most `max_size` ordinary events; a terminal event always finds room."""

    __slots__ = ("dropped", "events", "high_water", "max_size", "strategy")

    def __init__(self, max_size: int, strategy: DropStrategy) -> None:
        if isinstance(max_size, bool) or not isinstance(max_size, int) or max_size < 1:
            raise ValueError(f"max_queue must be a positive number, not {max_size!r}")
        if strategy not in DROP_STRATEGIES:
            raise ValueError(f"drop_strategy must be one of {', '.join(DROP_STRATEGIES)}, not {strategy!r}")
        self.max_size = max_size
        self.strategy = strategy
        self.events: deque[E] = deque()
        self.dropped = 0
        self.high_water = 0

    def __len__(self) -> int:
        return len(self.events)

    def offer(self, event: E) -> bool:
        """Buffer an ordinary event; False when the buffer is full and refuses it."""
        events = self.events
        size = len(events)
        if size < self.max_size:
            events.append(event)
            if size >= self.high_water:
                self.high_water = size + 1
            return True
        self.dropped += 1
        if self.strategy == "drop_oldest":
            events.popleft()
            events.append(event)
        return self.strategy != "error"

    def end_with(self, terminal: E, *, extra_slot: bool) -> None:
        """Buffer the terminal event; a full buffer forgets its oldest event, or grows by one slot when asked."""
        if len(self.events) >= self.max_size and not extra_slot:
            self.events.popleft()
            self.dropped += 1
        self.events.append(terminal)
        self.high_water = max(self.high_water, len(self.events))

    def note_size(self) -> None:
        """Events may have been put into the buffer past `offer`: before it shrinks, remember how large it was."""
        if len(self.events) > self.high_water:
            self.high_water = len(self.events)

    def put_back(self, event: E) -> None:
        """Return an event that was handed to a reader who went away before reading it."""
        self.events.appendleft(event)
        self.high_water = max(self.high_water, len(self.events))

    def stats(self) -> StreamStats:
        """The numbers as they are now."""
        self.note_size()
        return StreamStats(len(self.events), self.max_size, self.dropped, self.high_water)
