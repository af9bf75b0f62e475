"""Edge. One subscriber's events on their way to its mailbox.

Nobody waits for a subscriber. As it comes each event is a message of its own. A subscriber may ask for batches, or for
no more events than it has given credit for; one whose mailbox grows beyond a watermark gets, until it has caught up,
only the newest of the updates that follow each other. Nothing but such updates is ever left out, and order is kept.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from lemon_agent.events import (
    AgentEvent,
    AgentEventBatch,
    AgentEventMessage,
    MessageUpdate,
)
from lemon_otp import Pid, TimerRef, cancel_timer, frozen, mailbox_length, self_pid, send, send_after, telemetry

DEFAULT_WATERMARK: Final = 1000
LOOK_EVERY: Final = 16
"""How many events are sent between two looks at a subscriber's mailbox."""
LOOK_AGAIN_S: Final = 0.05
"""How often a mailbox that was too full is looked at while no events come."""


@frozen(kw_only=True)
class Delivery:
    """How a subscriber wants its events.

    Attributes:
        batch_events: Send so many at a time, at most; None sends each as it comes. Anything but an update of a
            message, and a terminal above all, is sent at once with what waits before it.
        batch_ms: Send what waits after this time at the latest.
        credit: Send no more than this many until `Agent.grant` allows more; the run waits for a subscriber that is
            out of credit, for `credit_timeout_ms` at most. None sends without limit.
        credit_timeout_ms: How long a run waits before it goes on without this subscriber.
        watermark: Messages in the subscriber's mailbox above which updates are thinned out; None never does.
    """

    batch_events: int | None = None
    batch_ms: int = 50
    credit: int | None = None
    credit_timeout_ms: int = 5_000
    watermark: int | None = DEFAULT_WATERMARK


DIRECT: Final = Delivery()


@frozen(eq=False)
class Flush:
    """Message to the owner of an outbox: it is time to send what waits."""

    outbox: "Outbox"


Wrap = Callable[[Any], Any]


class Outbox:
    """See the module. Lives in the process that sends; another may offer for it while it is at rest.

    Args:
        pid: The subscriber.
        delivery: How it wants its events.
        wrap: Makes the message for one event.
        wrap_batch: Makes the message for several.
    """

    __slots__ = (
        "_plain",
        "_timer",
        "_unlooked",
        "_waiting",
        "_wrap",
        "_wrap_batch",
        "behind",
        "credit",
        "delivery",
        "pid",
        "sender",
    )

    def __init__(
        self,
        pid: Pid,
        delivery: Delivery = DIRECT,
        wrap: Wrap = AgentEventMessage,
        wrap_batch: Wrap = AgentEventBatch,
    ) -> None:
        self.pid = pid
        self.sender = self_pid()
        self.delivery = delivery
        self.credit = delivery.credit
        self.behind = False
        """Is its mailbox above the watermark?"""
        self._plain = delivery.batch_events is None and delivery.credit is None
        self._unlooked = 0
        """Events sent since the mailbox was last looked at."""
        self._waiting: deque[AgentEvent] = deque()
        self._wrap = wrap
        self._wrap_batch = wrap_batch
        self._timer: TimerRef | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def starved(self) -> bool:
        """Has it events waiting and no credit for them?"""
        return self.credit is not None and self.credit <= 0 and bool(self._waiting)

    def offer(self, event: AgentEvent) -> None:
        """Send an event now, or as soon as the subscriber's wishes and state allow."""
        waiting = self._waiting
        if self._plain and not waiting:
            self._unlooked += 1
            if (self._unlooked < LOOK_EVERY and not self.behind) or not self._looks_full():
                send(self.pid, self._wrap(event))
                return
        newest = event.__class__ is MessageUpdate
        if newest and waiting and waiting[-1].__class__ is MessageUpdate and self._thins_out():
            waiting[-1] = event
        else:
            waiting.append(event)
        if self._due(event):
            self.flush()
        elif self._timer is None and not self.starved:
            self._timer = send_after(self.sender, Flush(self), self._patience_s())

    def flush(self) -> None:
        """Send what waits, as far as credit goes."""
        if self._timer is not None:
            cancel_timer(self._timer)
            self._timer = None
        if self._looks_full() and not any(event.__class__ is not MessageUpdate for event in self._waiting):
            self._timer = send_after(self.sender, Flush(self), LOOK_AGAIN_S)
            return
        size = self.delivery.batch_events
        while self._waiting and (self.credit is None or self.credit > 0):
            if size is None:
                self._send(self._wrap(self._waiting.popleft()), 1)
            else:
                count = min(size, len(self._waiting), self.credit if self.credit is not None else size)
                self._send(self._wrap_batch(tuple(self._waiting.popleft() for _ in range(count))), count)

    def grant(self, more: int) -> None:
        """Allow so many more events, and send what waits."""
        if self.credit is not None:
            self.credit += more
            self.flush()

    def close(self) -> None:
        """Drop what waits."""
        self._waiting.clear()
        if self._timer is not None:
            cancel_timer(self._timer)
            self._timer = None

    def _send(self, message: Any, events: int) -> None:
        if self.credit is not None:
            self.credit -= events
        send(self.pid, message)

    def _due(self, event: AgentEvent) -> bool:
        if event.__class__ is not MessageUpdate:
            return True
        size = self.delivery.batch_events
        if self.behind:
            return False
        return size is None or len(self._waiting) >= size

    def _thins_out(self) -> bool:
        return self.behind or self.delivery.batch_events is not None or self.credit is not None

    def _patience_s(self) -> float:
        return LOOK_AGAIN_S if self.behind else self.delivery.batch_ms / 1000

    def _looks_full(self) -> bool:
        """Is the subscriber's mailbox above the watermark? It is back below at half of it."""
        watermark = self.delivery.watermark
        if watermark is None:
            return False
        self._unlooked = 0
        length = mailbox_length(self.pid)
        behind = length > (watermark // 2 if self.behind else watermark)
        if behind != self.behind:
            self.behind = behind
            telemetry.execute(
                ("lemon_agent", "subscriber", "coalesced" if behind else "resumed"),
                {"mailbox_length": length, "watermark": watermark},
                {"pid": self.pid},
            )
        return behind
