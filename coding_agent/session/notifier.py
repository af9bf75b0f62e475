"""The only place a session sends from: who hears what, and by which path.

Two paths, as in the BEAM document ("Session Event Fan-Out"): direct listeners get a mailbox send, meant for consumers
in this program that keep up; stream subscribers get a bounded stream that drops its oldest events when they do not.
Neither path makes the session wait. Order is kept for each subscriber.
"""

from typing import Final, assert_never

from attrs import define, field

from coding_agent.events import SessionEvent
from coding_agent.session.under_way import UnderWay
from lemon_agent import AgentEnd, Canceled, ErrorEvent
from lemon_otp import EventFan, EventStream, MonitorRef, Pid, demonitor, monitor, send

STREAM_QUEUE_MAX = 1000
ENDS: Final = (AgentEnd, ErrorEvent, Canceled)


@define
class Notifier:
    """The subscribers of one session.

    Attributes:
        session_id: Stamped on every event.
        event_listeners: Direct subscribers, with the monitor that notices their death; a pid may stand here twice.
        event_streams: Bounded subscribers by monitor, each with the pid that owns its stream.
        under_way: What whoever comes now has missed.
    """

    session_id: str
    event_listeners: list[tuple[Pid, MonitorRef]] = field(factory=list)
    event_streams: dict[MonitorRef, tuple[Pid, EventStream]] = field(factory=dict)
    under_way: UnderWay = field(factory=UnderWay, init=False)
    _fan: EventFan = field(factory=EventFan, init=False)

    def subscribe_direct(self, subscriber: Pid, *, missed: bool = False) -> None:
        """From now on `subscriber` gets every `SessionEvent` in its mailbox; first what it has `missed`, if wanted."""
        self.event_listeners.append((subscriber, monitor(subscriber)))
        for event, age_ms in self.under_way.missed() if missed else ():
            send(subscriber, SessionEvent(self.session_id, event, missed_by_ms=age_ms))

    def subscribe_stream(self, subscriber: Pid, stream: EventStream) -> None:
        """From now on `stream` gets every `SessionEvent`; it is cancelled when `subscriber` dies."""
        self.event_streams[monitor(subscriber)] = (subscriber, stream)
        self._fan.add(stream)

    def unsubscribe(self, subscriber: Pid) -> None:
        """Nothing more goes to `subscriber`; its streams end. Asking twice does no harm."""
        self._remove(subscriber, "unsubscribed")

    def prune(self, subscriber: Pid) -> None:
        """Forget a subscriber that died; its streams are cancelled with `subscriber_down`."""
        self._remove(subscriber, "subscriber_down")

    def broadcast(self, event: SessionEvent) -> None:
        """Hand `event` to every subscriber, direct listeners first. Never waits, never raises for a dead one.

        An event that ends a run also ends the streams, unless another run follows by itself: each yields it once more,
        bare, as its terminal event. Direct listeners stay subscribed.
        """
        self.under_way.saw(event.event)
        for pid, _ in self.event_listeners:
            send(pid, event)
        if self.event_streams:
            self._fan.push(event)
            if isinstance(event.event, ENDS) and not (isinstance(event.event, AgentEnd) and event.event.will_retry):
                self.complete_streams(event.event)

    def complete_streams(self, terminal: AgentEnd | ErrorEvent | Canceled) -> None:
        """End every stream the way the run ended, and forget it."""
        for reference, (_, stream) in self.event_streams.items():
            demonitor(reference, flush=True)
            self._fan.remove(stream)
            match terminal:
                case AgentEnd():
                    stream.complete(terminal.messages)
                case ErrorEvent():
                    stream.error(terminal.reason, terminal.partial_state)
                case Canceled():
                    stream.cancel(terminal.reason)
                case _:
                    assert_never(terminal)
        self.event_streams.clear()

    def count(self) -> tuple[int, int]:
        """How many direct and how many stream subscriptions there are."""
        return len(self.event_listeners), len(self.event_streams)

    def _remove(self, subscriber: Pid, reason: str) -> None:
        for entry in [entry for entry in self.event_listeners if entry[0] == subscriber]:
            self.event_listeners.remove(entry)
            demonitor(entry[1], flush=True)
        for reference in [ref for ref, (pid, _) in self.event_streams.items() if pid == subscriber]:
            _, stream = self.event_streams.pop(reference)
            demonitor(reference, flush=True)
            self._fan.remove(stream)
            stream.cancel(reason)
