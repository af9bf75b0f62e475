"""Pure. Session events and messages as the JSON every client of this kind of agent already speaks.

Field names are camelCase and event types keep the seed's tags. A growing message is quadratic to send with each of its
parts, so `deltas=True` leaves it out: the parts and the final `message_end` say the same.
"""

from typing import Any, assert_never

from coding_agent.events import (
    AutoRetryEnd,
    AutoRetryStart,
    BranchSummarized,
    CommandsUpdate,
    CompactionEnd,
    CompactionStart,
    ExtensionFailed,
    ModelUpdate,
    PermissionAsked,
    PermissionDecided,
    ProviderSwitched,
    QueueUpdate,
    RateLimitPaused,
    SavePoint,
    SessionEvent,
    SessionNotice,
    SessionReset,
    Settled,
    StorageFailed,
    ThinkingLevelUpdate,
    ToolsUpdate,
    TreeMoved,
)
from coding_agent.json_form import to_json
from coding_agent.messages import message_to_json
from coding_agent.session.protocol import SessionState
from lemon_agent import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    AgentToolResult,
    Canceled,
    ErrorEvent,
    LoopBudgetExhausted,
    LoopStateTransition,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolSchemaSnapshotted,
    TurnEnd,
    TurnStart,
)
from lemon_ai import (
    StreamCanceled,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    block_to_wire,
)
from lemon_otp import reason_words

_TOOL_CALL_TAGS = {
    "tool_call_start": "toolcall_start",
    "tool_call_delta": "toolcall_delta",
    "tool_call_end": "toolcall_end",
}


def header_to_wire(state: SessionState) -> dict[str, Any]:
    """The first line of a stream of events: whose they are."""
    return {
        "type": "session",
        "version": 3,
        "id": state.session_id,
        "timestamp": state.created_at,
        "cwd": state.cwd,
        "file": state.file,
        "model": state.model,
    }


def event_to_wire(event: SessionEvent, *, deltas: bool = False) -> dict[str, Any]:
    """One session event as a JSON object.

    `entryId` is there when its message was stored; `missed`, and `ageMs`, when it is told to somebody who came later.
    """
    told = {"type": event.event.type, **_body(event.event, deltas)}
    if event.entry_id is not None:
        told["entryId"] = event.entry_id
    if event.missed_by_ms is not None:
        told |= {"missed": True, "ageMs": event.missed_by_ms}
    return told


def _body(event: AgentEvent | SessionNotice, deltas: bool) -> dict[str, Any]:
    match event:
        case AgentStart() | TurnStart():
            return {}
        case MessageStart(message) | MessageEnd(message):
            return {"message": message_to_json(message)}
        case MessageUpdate(assistant_event):
            if deltas:
                return {"assistantMessageEvent": stream_event_to_wire(assistant_event, deltas=True)}
            whole = message_to_json(event.message)
            return {"message": whole, "assistantMessageEvent": stream_event_to_wire(assistant_event, partial=whole)}
        case ToolExecutionStart(tool_call_id, tool_name, args):
            return {"toolCallId": tool_call_id, "toolName": tool_name, "args": args}
        case ToolExecutionUpdate(tool_call_id, tool_name, args, partial):
            return {
                "toolCallId": tool_call_id,
                "toolName": tool_name,
                "args": args,
                "partialResult": result_to_wire(partial),
            }
        case ToolExecutionEnd(tool_call_id, tool_name, result, is_error):
            return {
                "toolCallId": tool_call_id,
                "toolName": tool_name,
                "result": result_to_wire(result),
                "isError": is_error,
            }
        case TurnEnd(message, results):
            return {"message": message_to_json(message), "toolResults": [message_to_json(result) for result in results]}
        case AgentEnd(messages, outcome, reason, will_retry=will_retry):
            told = {"messages": [message_to_json(m) for m in messages], "outcome": outcome, "reason": plain(reason)}
            return {**told, "willRetry": True} if will_retry else told
        case ErrorEvent(reason):
            return {"reason": plain(reason)}
        case Canceled(reason):
            return {"reason": plain(reason)}
        case ToolSchemaSnapshotted(snapshot):
            return {"id": snapshot.id, "toolNames": list(snapshot.tool_names), "fingerprint": snapshot.fingerprint}
        case LoopStateTransition(from_state, to_state):
            return {"from": from_state, "to": to_state}
        case LoopBudgetExhausted(details):
            return {"details": to_json(details)}
        case _:
            return _notice_body(event)


def _notice_body(event: SessionNotice) -> dict[str, Any]:
    match event:
        case QueueUpdate(steering, follow_up):
            return {"steering": list(steering), "followUp": list(follow_up)}
        case Settled(outcome, reason, count):
            return {"outcome": outcome, "reason": plain(reason), "nextTurnCount": count}
        case SavePoint() | ModelUpdate() | ThinkingLevelUpdate() | ToolsUpdate() | CommandsUpdate() | StorageFailed():
            return dict(to_json(event))
        case ProviderSwitched() | RateLimitPaused() | PermissionAsked() | PermissionDecided():
            return dict(to_json(event))
        case ExtensionFailed(path, name, error):
            return {"extensionPath": path, "event": name, "error": error}
        case AutoRetryStart() | AutoRetryEnd():
            return dict(to_json(event))
        case CompactionStart() | CompactionEnd() | BranchSummarized() | TreeMoved() | SessionReset():
            return dict(to_json(event))
        case _:
            assert_never(event)


def stream_event_to_wire(
    event: StreamEvent, *, deltas: bool = False, partial: dict[str, Any] | None = None
) -> dict[str, Any]:
    """What a provider said, as `assistantMessageEvent`; `partial` is its message so far where that is known already."""
    tag = _TOOL_CALL_TAGS.get(event.type, event.type)
    match event:
        case StreamStart():
            return {"type": tag}
        case TextDelta() | ThinkingDelta() | ToolCallDelta():
            body: dict[str, Any] = {"contentIndex": event.index, "delta": event.delta}
        case TextStart() | ThinkingStart() | ToolCallStart():
            body = {"contentIndex": event.index}
        case TextEnd() | ThinkingEnd():
            body = {"contentIndex": event.index, "content": event.content}
        case ToolCallEnd():
            body = {"contentIndex": event.index, "toolCall": block_to_wire(event.tool_call)}
        case StreamDone(reason) | StreamError(reason) | StreamCanceled(reason):
            return {"type": tag, "reason": plain(reason)}
        case _:
            assert_never(event)
    if deltas:
        return {"type": tag, **body}
    return {"type": tag, **body, "partial": message_to_json(event.partial) if partial is None else partial}


def result_to_wire(result: AgentToolResult) -> dict[str, Any]:
    """What a tool answered; `trust` is written only when it is `untrusted`."""
    wire: dict[str, Any] = {"content": [block_to_wire(block) for block in result.content], "details": result.details}
    if result.trust == "untrusted":
        wire["trust"] = "untrusted"
    return wire


def plain(reason: Any) -> Any:
    """A reason as JSON: strings and numbers as they are, tuples as lists, anything else as its text."""
    if reason is None or isinstance(reason, bool | int | float | str):
        return reason
    if isinstance(reason, list | tuple):
        return [plain(part) for part in reason]
    return reason_words(reason)
