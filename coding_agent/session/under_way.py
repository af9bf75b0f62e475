"""Pure, but for the clock. What is under way in a session, as the events that somebody who comes now has missed.

They are few whatever has happened: the beginning of the run and of its turn, the message that is being said as it is by
now, each call that runs with the last of its output, what waits in the queues. Whoever hears them and then what happens
has lost nothing and hears nothing twice.
"""

from collections.abc import Iterator
from typing import Final

from attrs import define, field

from coding_agent.events import (
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    QueueUpdate,
    SessionNotice,
    SessionReset,
    Settled,
)
from lemon_agent import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    Canceled,
    ErrorEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from lemon_otp import monotonic_s

Event = AgentEvent | SessionNotice

ENDS: Final[dict[type, tuple[type, ...]]] = {
    AgentEnd: (AgentStart, TurnStart),
    ErrorEvent: (AgentStart, TurnStart),
    Canceled: (AgentStart, TurnStart),
    TurnEnd: (TurnStart,),
    CompactionEnd: (CompactionStart,),
    AutoRetryEnd: (AutoRetryStart,),
}
"""What is over with each of these."""
STANDS: Final = (AgentStart, TurnStart, CompactionStart, AutoRetryStart, QueueUpdate)
"""What holds until it is over or another of its kind comes, in the order in which it is told."""


@define
class UnderWay:
    """Told of every event in turn; `missed` says which of them still matter, and how old they are."""

    _standing: dict[type, tuple[Event, float]] = field(factory=dict)
    _begun: tuple[MessageStart, float] | None = None
    _grown: MessageUpdate | None = None
    _calls: dict[str, tuple[ToolExecutionStart, float, ToolExecutionUpdate | None]] = field(factory=dict)

    def saw(self, event: Event) -> None:
        """This has happened."""
        kind = type(event)
        if kind is MessageUpdate:  # thousands in a run; the message itself is built only when somebody asks
            self._grown = event  # type: ignore[assignment]  # its exact class was looked at
            return
        match event:
            case MessageStart(message) if message.role == "assistant":
                self._begun, self._grown = (event, monotonic_s()), None
            case MessageEnd(message) if message.role == "assistant":
                self._begun = self._grown = None
            case ToolExecutionStart(call_id):
                self._calls[call_id] = event, monotonic_s(), None
            case ToolExecutionUpdate(call_id) if call_id in self._calls:
                begun, began_s, _ = self._calls[call_id]
                self._calls[call_id] = begun, began_s, event
            case ToolExecutionEnd(call_id):
                self._calls.pop(call_id, None)
            case Settled() | SessionReset():
                self._begun = self._grown = None
                self._calls.clear()
                self._standing = {each: what for each, what in self._standing.items() if each is QueueUpdate}
            case QueueUpdate((), ()):
                self._standing.pop(kind, None)
            case _ if kind in STANDS:
                self._standing[kind] = event, monotonic_s()
            case _:
                for over in ENDS.get(kind, ()):
                    self._standing.pop(over, None)

    def missed(self) -> Iterator[tuple[Event, int]]:
        """The events that bring somebody who has heard nothing up to date, and how many milliseconds ago they were."""
        now_s = monotonic_s()

        def age_ms(at_s: float) -> int:
            return round((now_s - at_s) * 1000)

        for kind in STANDS:
            if kind in self._standing:
                event, at_s = self._standing[kind]
                yield event, age_ms(at_s)
        if self._begun is not None:
            message, at_s = self._begun
            yield message if self._grown is None else MessageStart(self._grown.message), age_ms(at_s)
        for begun, at_s, last in self._calls.values():
            yield begun, age_ms(at_s)
            if last is not None:
                yield last, 0
