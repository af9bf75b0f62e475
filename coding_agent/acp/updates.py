"""Pure. What happens in a session as the updates an editor is sent; holds which tool calls it knows of.

Text and thoughts go out as they come. A call is announced when the model begins to write it and ends exactly once,
whatever becomes of the run.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from attrs import define, field

from coding_agent.acp.tool_shapes import content_of, diffs_of, kind_of, locations_of, plan_of, raw, title_of
from coding_agent.events import SessionEvent, Settled
from lemon_agent import (
    AgentToolResult,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from lemon_ai import AssistantMessage, TextDelta, ThinkingDelta, ToolCall, ToolCallEnd, ToolCallStart

Update: TypeAlias = dict[str, Any]


@define
class Updates:
    """Turns the events of one session into updates.

    Attributes:
        cwd: Relative paths begin here.
        before: What a file held before a call of this id wrote it, when that is known; taken out when asked.
        open_calls: Calls that were announced and have not ended.
        answers: How many messages of the model have begun; pieces of one belong together by this.
    """

    cwd: str
    before: Callable[[str], str | None] = lambda _call_id: None
    open_calls: dict[str, tuple[str, Mapping[str, Any]]] = field(factory=dict)
    answers: int = 0

    def of(self, event: SessionEvent) -> Iterator[Update]:
        """The updates for one event, in order."""
        match event.event:
            case MessageStart(AssistantMessage()):
                self.answers += 1
            case MessageUpdate(TextDelta(delta=delta)) if delta:
                yield chunk("agent_message_chunk", delta, f"a{self.answers}")
            case MessageUpdate(ThinkingDelta(delta=delta)) if delta:
                yield chunk("agent_thought_chunk", delta, f"a{self.answers}")
            case MessageUpdate(ToolCallStart() as begun):
                yield from self._begun(begun)
            case MessageUpdate(ToolCallEnd(tool_call=call)):
                yield from self._written(call)
            case MessageEnd(AssistantMessage() as message) if message.stop_reason in ("error", "aborted"):
                yield from self.close_all()  # what the model did not finish writing is not run
            case ToolExecutionStart(tool_call_id, name, args):
                yield from self._started(tool_call_id, name, args)
            case ToolExecutionUpdate(tool_call_id, name, args, partial):
                yield self._changed(tool_call_id, content=content_of(partial))
            case ToolExecutionEnd(tool_call_id, name, result, is_error):
                yield from self._ended(tool_call_id, name, result, is_error)
            case Settled():
                yield from self.close_all()

    def close_all(self) -> Iterator[Update]:
        """Calls that will never end by themselves end here."""
        for call_id in list(self.open_calls):
            del self.open_calls[call_id]
            yield self._changed(call_id, status="failed")

    def _begun(self, begun: ToolCallStart) -> Iterator[Update]:
        content = begun.partial.content
        call = content[begun.index] if begun.index < len(content) else None
        if isinstance(call, ToolCall) and call.id and call.name and call.id not in self.open_calls:
            self.open_calls[call.id] = call.name, {}
            yield {
                "sessionUpdate": "tool_call",
                "toolCallId": call.id,
                "title": title_of(call.name, {}),
                "kind": kind_of(call.name),
                "status": "pending",
            }

    def _written(self, call: ToolCall) -> Iterator[Update]:
        if call.id not in self.open_calls:
            self.open_calls[call.id] = call.name, call.arguments
            yield announced(call.id, call.name, call.arguments, self.cwd, "pending")
            return
        self.open_calls[call.id] = call.name, call.arguments
        whole = announced(call.id, call.name, call.arguments, self.cwd, "pending")
        yield {**whole, "sessionUpdate": "tool_call_update"}

    def _started(self, call_id: str, name: str, args: Any) -> Iterator[Update]:
        arguments = args if isinstance(args, Mapping) else {}
        known = call_id in self.open_calls
        self.open_calls[call_id] = name, arguments
        if not known:
            yield announced(call_id, name, arguments, self.cwd, "in_progress")
            return
        yield self._changed(call_id, status="in_progress")

    def _ended(self, call_id: str, name: str, result: AgentToolResult, is_error: bool) -> Iterator[Update]:
        known = self.open_calls.pop(call_id, None)
        args = known[1] if known else {}
        if known is None:
            yield announced(call_id, name, args, self.cwd, "in_progress")
        yield finished(call_id, name, args, result, is_error, self.cwd, self.before(call_id))
        plan = plan_of(result.details) if name == "todo" and not is_error else None
        if plan is not None:
            yield {"sessionUpdate": "plan", "entries": plan}

    def _changed(self, call_id: str, **fields: Any) -> Update:
        return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **fields}


def chunk(kind: str, text: str, message: str | None = None) -> Update:
    """A piece of text, of a message that others belong to as well when it is named."""
    named = {} if message is None else {"messageId": message}
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **named}


def announced(call_id: str, name: str, args: Mapping[str, Any], cwd: str, status: str) -> Update:
    """A call with all that its arguments say."""
    update: Update = {
        "sessionUpdate": "tool_call",
        "toolCallId": call_id,
        "title": title_of(name, args),
        "kind": kind_of(name),
        "status": status,
        "rawInput": raw(args),
    }
    if places := locations_of(name, args, cwd):
        update["locations"] = places
    return update


def finished(
    call_id: str,
    name: str,
    args: Mapping[str, Any],
    result: AgentToolResult,
    is_error: bool,
    cwd: str,
    before: str | None = None,
) -> Update:
    """The end of a call with what it shows: the change for one that changed a file, else its result."""
    diffs = [] if is_error else diffs_of(name, args, cwd, before)
    update: Update = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": call_id,
        "status": "failed" if is_error else "completed",
        "content": diffs or content_of(result),
    }
    if (output := raw(result.details)) is not None:
        update["rawOutput"] = output
    return update
