"""Value. How an event stream may end, and the events that say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from attrs import field, frozen

if TYPE_CHECKING:
    from lemon_otp.event_stream import EventStream

TerminalKind: TypeAlias = Literal["completed", "failed", "canceled"]


@frozen
class Completed:
    """The producer reached its end.

    Attributes:
        value: What the stream was completed with.
    """

    value: Any


@frozen
class Failed:
    """The producer did not reach its end.

    Attributes:
        reason: Why: what `error` was given, `("runner_crashed", reason)`, `("task_crashed", reason)`, or
            `stream_closed` when the stream's process was killed.
        partial: What there is of a result.
    """

    reason: Any
    partial: Any = None


@frozen
class Canceled:
    """Somebody ended the stream early.

    Attributes:
        reason: What `cancel` was given, `owner_down` or `timeout`.
    """

    reason: Any


Outcome: TypeAlias = Completed | Failed | Canceled
"""Closed: how a stream ended."""


@frozen
class StreamResult:
    """Message to a process that subscribed to a stream's result: the stream has ended."""

    stream: EventStream
    outcome: Outcome


@frozen
class StreamReady:
    """Message to the process that a stream delivers to: events wait in it."""

    stream: EventStream


def _kind_of_stock_event(event: Any) -> TerminalKind | None:
    if isinstance(event, Completed):
        return "completed"
    if isinstance(event, Failed):
        return "failed"
    return "canceled" if isinstance(event, Canceled) else None


def _outcome_of_event(event: Any, kind: TerminalKind) -> Outcome:
    if isinstance(event, Completed | Failed | Canceled):
        return event
    if kind == "completed":
        return Completed(event)
    reason = getattr(event, "reason", event)
    return Failed(reason, event) if kind == "failed" else Canceled(reason)


@frozen
class Terminals:
    """The terminal events of a stream; by default the outcomes themselves.

    Attributes:
        completed: Makes the event for `complete(value)`.
        failed: Makes the event for `error(reason, partial)`.
        canceled: Makes the event for `cancel(reason)`.
        classify: Says which kind of terminal an event is, None for an ordinary event. Asked once for each class of
            events, so it must look at nothing but the class.
        outcome_of: Reads the outcome from a terminal event that arrived through `push`. By default the event itself
            is the value of a completed stream, and its `reason`, where it has one, that of the others.
    """

    completed: Callable[[Any], Any] = Completed
    failed: Callable[[Any, Any], Any] = Failed
    canceled: Callable[[Any], Any] = Canceled
    classify: Callable[[Any], TerminalKind | None] = _kind_of_stock_event
    outcome_of: Callable[[Any, TerminalKind], Outcome] = _outcome_of_event
    kinds: dict[type, TerminalKind | None] = field(factory=dict, init=False, repr=False, eq=False)

    def kind(self, event: Any) -> TerminalKind | None:
        """What `classify` says of the event's class."""
        event_class = event.__class__
        if event_class not in self.kinds:
            self.kinds[event_class] = self.classify(event)
        return self.kinds[event_class]
