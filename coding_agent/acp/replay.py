"""Pure. A stored conversation as the updates that show it again, from its beginning, whatever was summarised since."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coding_agent.acp.tool_shapes import block_of, plan_of
from coding_agent.acp.updates import Update, announced, chunk, finished
from coding_agent.messages import message_from_json
from lemon_agent import AgentToolResult
from lemon_ai import AssistantMessage, TextContent, ThinkingContent, ToolCall, ToolResultMessage, UserMessage


def replayed(messages: Iterable[Mapping[str, Any]], cwd: str) -> Iterator[Update]:
    """The updates for messages as a session file holds them."""
    calls: dict[str, ToolCall] = {}
    plan: list[dict[str, str]] | None = None
    for number, stored in enumerate(messages, 1):
        name = f"m{number}"
        match message_from_json(stored):
            case UserMessage(content=content):
                yield from _user(content, name)
            case AssistantMessage(content=blocks):
                for block in blocks:
                    match block:
                        case TextContent(text) if text:
                            yield chunk("agent_message_chunk", text, name)
                        case ThinkingContent(thinking) if thinking:
                            yield chunk("agent_thought_chunk", thinking, name)
                        case ToolCall():
                            calls[block.id] = block
                            yield announced(block.id, block.name, block.arguments, cwd, "pending")
            case ToolResultMessage() as result:
                yield _result(result, calls.pop(result.tool_call_id, None), cwd)
                if result.tool_name == "todo":
                    plan = plan_of(result.details) or plan
    for call_id in calls:  # it was interrupted there
        yield {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": "failed"}
    if plan is not None:
        yield {"sessionUpdate": "plan", "entries": plan}


def _user(content: Any, name: str) -> Iterator[Update]:
    blocks = (TextContent(content),) if isinstance(content, str) else content
    for block in map(block_of, blocks):
        if block is not None:
            yield {"sessionUpdate": "user_message_chunk", "content": block, "messageId": name}


def _result(message: ToolResultMessage, call: ToolCall | None, cwd: str) -> Update:
    details = message.details
    if isinstance(details, Mapping) and "terminal_id" in details:  # that terminal is no more
        details = {name: value for name, value in details.items() if name != "terminal_id"}
    result = AgentToolResult(content=tuple(message.content), details=details)
    args = call.arguments if call is not None else {}
    return finished(message.tool_call_id, message.tool_name, args, result, message.is_error, cwd)
