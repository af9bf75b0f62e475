"""Value. The stream of one run: lemon_otp's, with `AgentEnd`, `ErrorEvent` and `Canceled` as its terminal events."""

from typing import Any, ClassVar, Final

import lemon_otp
from lemon_agent.events import AgentEnd, AgentEvent, Canceled, ErrorEvent
from lemon_otp import Pid, TerminalKind, Terminals


def _kind(event: Any) -> TerminalKind | None:
    match event:
        case AgentEnd():
            return "completed"
        case ErrorEvent():
            return "failed"
        case Canceled():
            return "canceled"
        case _:
            return None


def _completed(value: Any) -> AgentEnd:
    return value if isinstance(value, AgentEnd) else AgentEnd(tuple(value))


TERMINALS: Final = Terminals(completed=_completed, failed=ErrorEvent, canceled=Canceled, classify=_kind)


class EventStream(lemon_otp.EventStream[AgentEvent, AgentEnd]):
    """What `agent_loop` returns: the events of one run, and its `AgentEnd` as the result.

    Whoever makes one may complete it with the messages of an `AgentEnd` as well; they then are the result.
    """

    __slots__ = ()

    TERMINALS: ClassVar[Terminals] = TERMINALS


def open_stream(owner: Pid | None, *, max_queue: int = 10_000, cancel_grace_ms: int = 100) -> EventStream:
    """An open stream for one run. It ends with its owner and has no deadline: how long a run takes nobody knows."""
    return EventStream.start(owner=owner, max_queue=max_queue, timeout_ms=None, cancel_grace_ms=cancel_grace_ms)
