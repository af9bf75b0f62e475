"""Pure. What a process has received and not yet taken, oldest first.

A mailbox is a plain deque, and `None` while it is empty and its process waits: an idle process pays for no
queue. The functions here are the rules of taking from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Final, TypeAlias

NEAR: Final = 64
"""So many messages are looked at one by one before the rest is copied to be looked at."""

Mailbox: TypeAlias = deque[Any]
Match: TypeAlias = Callable[[Any], bool]


class Nothing:
    """The type of `NOTHING`: no message matched, which `None` cannot say."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = Nothing()


def take(box: Mailbox, match: Match | None, start: int = 0) -> Any:
    """Remove and return the oldest message from `start` on that `match` accepts, or `NOTHING`.

    The others stay where they are. An error of `match` leaves the mailbox as it was.
    """
    if match is None:
        return box.popleft() if box else NOTHING
    for index in range(start, min(start + NEAR, len(box))):
        message = box[index]
        if match(message):
            del box[index]
            return message
    if len(box) > start + NEAR:
        # A deque finds what is far from its ends slowly: look at the rest in one go.
        for index, message in enumerate(list(islice(box, start + NEAR, None)), start + NEAR):
            if match(message):
                del box[index]
                return message
    return NOTHING


def discard(box: Mailbox, match: Match) -> int:
    """Drop every message that `match` accepts; how many there were."""
    kept = [message for message in box if not match(message)]
    dropped = len(box) - len(kept)
    if dropped:
        box.clear()
        box.extend(kept)
    return dropped


def insert_urgent(box: Mailbox, message: Any, repeated: Callable[[Any], bool]) -> None:
    """Put a system message before the run of repeated timer messages at the end of the mailbox.

    Everything else keeps its place, so signals of one sender stay in order; a timer that ticks faster than
    its receiver works cannot keep a stop request waiting.
    """
    position = len(box)
    while position and repeated(box[position - 1]):
        position -= 1
    if position == len(box):
        box.append(message)
    else:
        box.insert(position, message)
