"""Pure. Who may call a provider now: slots in use and callers waiting, first come first served.

One `Lane` a provider. A slot that comes free goes to the caller that waited longest in the same step, so nobody
overtakes a waiter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, TypeAlias

from attrs import field

from lemon_otp import define, frozen

Token: TypeAlias = int
"""Names one request for a slot, from the asking to the giving back."""


@frozen
class DispatcherPolicy:
    """How many calls may run, how many may wait, and for how long.

    Attributes:
        default_cap: Calls under way to one provider.
        max_queue_length: Callers waiting for one provider.
        queue_timeout_ms: How long each waits; 0 never waits.
        caps: Caps of single providers, above the default.
    """

    default_cap: int = 10
    max_queue_length: int = 100
    queue_timeout_ms: int = 30_000
    caps: dict[str, int] = field(factory=dict)


@define
class Waiting:
    """A caller in the queue; `ticket` is whatever the process needs to answer it."""

    token: Token
    since_s: float
    ticket: Any


@define
class Lane:
    """One provider's slots and queue."""

    cap: int
    max_queue_length: int
    active: set[Token] = field(factory=set)
    queue: deque[Waiting] = field(factory=deque)

    def take(self, token: Token) -> bool:
        """A slot at once, if one is free and nobody waits for it."""
        if len(self.active) >= self.cap or self.queue:
            return False
        self.active.add(token)
        return True

    def wait(self, waiting: Waiting) -> bool:
        """A place at the end of the queue; False when it is full."""
        if len(self.queue) >= self.max_queue_length:
            return False
        self.queue.append(waiting)
        return True

    def give_back(self, token: Token) -> Iterator[Waiting]:
        """A slot comes free, once however often it is said; whoever gets it is named."""
        if token in self.active:
            self.active.remove(token)
        return self.admit_waiting()

    def leave(self, token: Token) -> Waiting | None:
        """A waiting caller goes away; None when it was not waiting."""
        for waiting in self.queue:
            if waiting.token == token:
                self.queue.remove(waiting)
                return waiting
        return None

    def admit_waiting(self) -> Iterator[Waiting]:
        """Those at the head of the queue for whom there is a slot now; they have it."""
        while self.queue and len(self.active) < self.cap:
            waiting = self.queue.popleft()
            self.active.add(waiting.token)
            yield waiting
