"""Value. Who of several threads goes on with something: the one that asks first."""

from __future__ import annotations


class Claim:
    """To what the event loop does or, where that is held up, somebody else in its place."""

    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free: list[None] = [None]

    @property
    def taken(self) -> bool:
        """Whether somebody goes on with it already."""
        return not self._free

    def take(self) -> bool:
        """Whether the caller is the one to go on: true once."""
        try:
            self._free.pop()  # one step, which no other thread comes between
        except IndexError:
            return False
        return True
