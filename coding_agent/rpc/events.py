"""Pure. What a desk tells, as the events of the protocol: none, one or several for each.

Clients of two generations read them, so what was renamed goes out under both names, and a growing message is there
whole unless a client asked for the parts alone.
"""

from typing import Any

from coding_agent.events import CompactionEnd, CompactionStart, SessionEvent, Settled
from coding_agent.hosting.desk_events import DeskEvent, Ended, HookFailed, Opened
from coding_agent.hosting.dialogs import Asked, Closed, Shown
from coding_agent.hosting.user_bash import BashOutput
from coding_agent.wire import event_to_wire
from lemon_agent import AgentEnd, AgentStart, Canceled, ErrorEvent, MessageUpdate, ToolExecutionUpdate
from lemon_otp import define

Message = dict[str, Any]

INNER = frozenset({"loop_state_transition", "tool_schema_snapshot"})
"""How the loop works inside: no business of a client that draws a conversation."""


def is_passing(event: DeskEvent) -> bool:
    """Will a later event say the same and more?"""
    return isinstance(event, BashOutput) or (
        isinstance(event, SessionEvent) and isinstance(event.event, MessageUpdate | ToolExecutionUpdate)
    )


@define
class EventWriter:
    """Turns events into the objects a client reads.

    Attributes:
        deltas: Leave the growing message out of `message_update`.
        inner: Tell how the loop works inside as well.
        running: A run was begun and its end was not told yet.
    """

    deltas: bool = False
    inner: bool = False
    running: bool = False

    def messages(self, event: DeskEvent) -> list[Message]:
        """The objects of one event, in order."""
        match event:
            case SessionEvent():
                return self._session_event(event)
            case Asked(question):
                return [question.to_json()]
            case Shown():
                return [event.to_json()]
            case Closed(question_id, answered):
                return [{"type": "extension_ui_closed", "id": question_id, "answered": answered}]
            case BashOutput(run_id, delta):
                which = {} if run_id is None else {"id": run_id}
                return [{"type": "bash_execution_update", **which, "delta": delta}]
            case Opened(session_id, reason):
                return [*self._end_of_run(), {"type": "session_opened", "sessionId": session_id, "reason": reason}]
            case Ended(session_id, reason):
                ended = {"type": "session_ended", "sessionId": session_id, "reason": reason}
                return [*self._end_of_run(reason), ended]
            case HookFailed(path, hook, error):
                return [{"type": "extension_error", "extensionPath": path, "event": hook, "error": error}]

    def _session_event(self, event: SessionEvent) -> list[Message]:
        what = event.event
        if what.type in INNER and not self.inner:
            return []
        told = event_to_wire(event, deltas=self.deltas)
        match what:
            case AgentStart():
                self.running = True
            case AgentEnd() as what:
                self.running = False
                return [{**told, "willRetry": what.will_retry}]
            case ErrorEvent(reason) | Canceled(reason):
                return [told, *self._end_of_run(str(reason))]
            case Settled():
                return [*self._end_of_run(), told, {"type": "agent_settled"}]
            case CompactionStart(reason) if reason != "manual":
                return [told, {"type": "auto_compaction_start", "reason": reason}]
            case CompactionEnd():
                return _compaction_end(what, told)
        return [told]

    def _end_of_run(self, reason: str | None = None) -> list[Message]:
        """An end for a run whose own end never came, so that no client waits for it for ever."""
        if not self.running:
            return []
        self.running = False
        outcome = "aborted" if reason is None else "error"
        return [{"type": "agent_end", "messages": [], "outcome": outcome, "reason": reason, "willRetry": False}]


def _compaction_end(end: CompactionEnd, told: Message) -> list[Message]:
    """Its result as one object too, as clients expect it, and under its older name."""
    failed = bool(end.error_message)
    whole = {
        "result": None
        if failed
        else {
            "summary": end.summary,
            "firstKeptEntryId": end.first_kept_entry_id,
            "tokensBefore": end.tokens_before,
            "estimatedTokensAfter": end.tokens_after,
        },
        "aborted": end.aborted,
        "willRetry": end.reason == "overflow" and not failed,
        **({"errorMessage": end.error_message} if failed else {}),
    }
    new = {**told, **whole}
    if not failed:
        new.pop("errorMessage", None)
    return [new] if end.reason == "manual" else [new, {"type": "auto_compaction_end", **whole}]
