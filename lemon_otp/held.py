"""Pure. Things that are listed for as long as somebody holds them, without anything being called when one goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar
from weakref import ReferenceType, ref

T = TypeVar("T")

ROOM_MIN: Final = 64


class Held(Generic[T]):
    """What is still there of all that was noted, oldest first.

    Those that are gone are swept out when the list has doubled, so noting one costs the same however many there were.
    """

    __slots__ = ("_noted", "_room")

    def __init__(self) -> None:
        self._noted: list[ReferenceType[T]] = []
        self._room = ROOM_MIN

    def note(self, thing: T) -> None:
        """List one more."""
        if len(self._noted) >= self._room:
            self._noted = [there for there in self._noted if there() is not None]
            self._room = max(ROOM_MIN, 2 * len(self._noted))
        self._noted.append(ref(thing))

    def __iter__(self) -> Iterator[T]:
        for there in tuple(self._noted):
            thing = there()
            if thing is not None:
                yield thing
