"""Value. What a process waits for that is no message: somebody settles it, and resumes whoever waits."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol


class Waiter(Protocol):
    """Who waits: a process, or what stands for a task of it."""

    def resume(self) -> None:
        """Go on."""
        ...


class Settleable(Protocol):
    """What `Process.wait_cell` waits for."""

    waiter: Waiter | None
    """Resumed by whoever settles it; None while nobody waits."""

    @property
    def settled(self) -> object:
        """True, or anything that counts as true, once there is nothing more to wait for."""
        ...


class Cell:
    """One value that somebody waits for."""

    __slots__ = ("settled", "value", "waiter")

    def __init__(self) -> None:
        self.settled = False
        self.value: Any = None
        self.waiter: Waiter | None = None

    def settle(self, value: Any = None) -> None:
        """Put the value there and wake who waits; only the first time counts."""
        if not self.settled:
            self.settled = True
            self.value = value
            if self.waiter is not None:
                self.waiter.resume()


class Wakeup:
    """Resumes a task that waits on a future, as `Process.resume` does for a process."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[None]) -> None:
        self.future = future

    def resume(self) -> None:
        """Let the task go on, if nothing else has."""
        if not self.future.done():
            self.future.set_result(None)
