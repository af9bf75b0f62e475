"""Pure. Messages to the JSON they are kept in, and back.

The shape is the one session files already have: camel case, `toolResult` and `toolUse`, hyphens in the names of apis
and providers. Writing is exact; reading also takes what other writers leave out or shape in a provider's way. A block
of an unknown type is left out.

Written by hand rather than with a conversion library: every run reads or writes a session file, and this imports in
no time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, isfinite
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from lemon_ai.environment import canonical
from lemon_ai.errors import BadMessage
from lemon_ai.messages import (
    NO_USAGE,
    AssistantContent,
    AssistantMessage,
    Cost,
    ImageContent,
    Message,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserContent,
    UserMessage,
)

if TYPE_CHECKING:
    from lemon_ai.models.model import Model

Json = dict[str, Any]
T = TypeVar("T")

_ROLES: Final = {"user": "user", "assistant": "assistant", "toolResult": "tool_result", "tool_result": "tool_result"}
_ANSWER_BLOCKS: Final = (TextContent, ThinkingContent, ToolCall)
_USER_BLOCKS: Final = (TextContent, ImageContent)
_USAGE: Final = (
    ("input", "input"),
    ("output", "output"),
    ("cache_read", "cacheRead"),
    ("cache_write", "cacheWrite"),
    ("total_tokens", "totalTokens"),
)
_COST: Final = (*_USAGE[:4], ("total", "total"))
_COUNTS: Final = itemgetter(*(theirs for _, theirs in _USAGE))
_PRICES: Final = itemgetter(*(theirs for _, theirs in _COST))


def model_to_wire(model: Model) -> Json:
    """A model as a JSON object: what it is and costs, and where it answers; nothing of how it is spoken to."""
    return {
        "id": model.id,
        "name": model.name,
        "api": model.api.replace("_", "-"),
        "provider": model.provider.replace("_", "-"),
        "baseUrl": model.base_url,
        "reasoning": model.reasoning,
        "input": list(model.input),
        "cost": {theirs: getattr(model.cost, ours) for ours, theirs in _USAGE[:4]},
        "contextWindow": model.context_window,
        "maxTokens": model.max_tokens,
    }


def message_to_wire(message: Message) -> Json:
    """A message as a JSON object; what is absent is left out."""
    match message:
        case UserMessage():
            content = message.content if isinstance(message.content, str) else [*map(block_to_wire, message.content)]
            return {"role": "user", "content": content, "timestamp": message.timestamp}
        case AssistantMessage():
            return _assistant_to_wire(message)
        case ToolResultMessage():
            return _result_to_wire(message)


def message_from_wire(wire: Mapping[str, Any]) -> Message:
    """The message in a JSON object.

    Raises:
        BadMessage: It is of a role no model sees, or a field is of the wrong kind.
    """
    role = _ROLES.get(str(wire.get("role")))
    try:
        if role == "user":
            return UserMessage(_user_content(wire.get("content")), timestamp=_count(wire.get("timestamp")))
        if role == "assistant":
            return _assistant_from_wire(wire)
        if role == "tool_result":
            return _result_from_wire(wire)
    except (TypeError, ValueError, AttributeError) as error:
        raise BadMessage(problem=f"a message of the {role} cannot be read: {error}") from error
    raise BadMessage(problem=f"no model sees messages of the role {wire.get('role')!r}")


def block_to_wire(block: UserContent | AssistantContent) -> Json:
    """A content block as a JSON object."""
    match block:
        case TextContent(text, None):
            return {"type": "text", "text": text}
        case TextContent(text, signature):
            return {"type": "text", "text": text, "textSignature": signature}
        case ThinkingContent(thinking, signature, redacted):
            wire: Json = {"type": "thinking", "thinking": thinking, "thinkingSignature": signature}
            return _present({**wire, "redacted": redacted or None})
        case ImageContent(data, mime_type):
            return {"type": "image", "data": data, "mimeType": mime_type}
        case ToolCall():
            wire = {"type": "toolCall", "id": block.id, "name": block.name, "arguments": dict(block.arguments)}
            if block.thought_signature is None and block.invalid is None:
                return wire
            return _present({**wire, "thoughtSignature": block.thought_signature, "invalid": block.invalid})


def block_from_wire(wire: Any) -> UserContent | AssistantContent | None:
    """The content block in a JSON object; None for one of an unknown type."""
    if type(wire) is dict and len(wire) == 2 and wire.get("type") == "text" and type(wire.get("text")) is str:
        return TextContent(wire["text"])  # nearly every block is this one
    if isinstance(wire, str):
        return TextContent(wire)
    if not isinstance(wire, Mapping):
        return None
    match wire.get("type"):
        case "text":
            return TextContent(str(wire.get("text") or ""), _text(_first(wire, "textSignature", "text_signature")))
        case "thinking":
            signature = _text(_first(wire, "thinkingSignature", "thinking_signature", "signature"))
            return ThinkingContent(str(wire.get("thinking") or ""), signature, bool(wire.get("redacted")))
        case "redacted_thinking":
            return ThinkingContent("", _text(wire.get("data")), redacted=True)
        case "image":
            return _image(wire)
        case "toolCall" | "tool_call" | "tool_use":
            return _call(wire)
    return None


def usage_to_wire(usage: Usage) -> Json:
    """Tokens and their price as a JSON object."""
    cost = usage.cost
    return {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "totalTokens": usage.total_tokens,
        "cost": {
            "input": cost.input,
            "output": cost.output,
            "cacheRead": cost.cache_read,
            "cacheWrite": cost.cache_write,
            "total": cost.total,
        },
    }


def usage_from_wire(wire: Any) -> Usage:
    """The tokens in a JSON object; a total that older files leave out is added up."""
    if not isinstance(wire, Mapping):
        return NO_USAGE
    return _usual_usage(wire) or _any_usage(wire)


def _usual_usage(wire: Mapping[str, Any]) -> Usage | None:
    """What this program and pi write, read fast: a long session holds tens of thousands of these."""
    try:
        counts: tuple[int, int, int, int, int] = _COUNTS(wire)
        prices: tuple[float, float, float, float, float] = _PRICES(wire["cost"])
        if not isfinite(sum(prices)):
            return None
    except (KeyError, TypeError, OverflowError):
        return None
    if {*map(type, counts)} != {int} or not {*map(type, prices)} <= {int, float} or min(counts) < 0 or min(prices) < 0:
        return None
    return Usage(*counts, cost=Cost(*[float(price) for price in prices]))


def _any_usage(wire: Mapping[str, Any]) -> Usage:
    counts: dict[str, Any] = {ours: _count(_first(wire, theirs, ours)) for ours, theirs in _USAGE}
    if _first(wire, "totalTokens", "total_tokens") is None:
        counts["total_tokens"] = sum(counts.values())
    cost = wire.get("cost")
    prices = {ours: _price(_first(cost, theirs, ours)) for ours, theirs in _COST} if isinstance(cost, Mapping) else {}
    return Usage(**counts, cost=Cost(**prices))


def _assistant_to_wire(message: AssistantMessage) -> Json:
    wire: Json = {
        "role": "assistant",
        "content": [block_to_wire(block) for block in message.content],
        "api": message.api.replace("_", "-"),
        "provider": message.provider.replace("_", "-"),
        "model": message.model,
        "usage": usage_to_wire(message.usage),
        "stopReason": "toolUse" if message.stop_reason == "tool_use" else message.stop_reason,
    }
    if message.error_message is not None:
        wire["errorMessage"] = message.error_message
    if message.response_id is not None:
        wire["responseId"] = message.response_id
    wire["timestamp"] = message.timestamp
    return wire


def _assistant_from_wire(wire: Mapping[str, Any]) -> AssistantMessage:
    content = wire.get("content")
    blocks = [content] if isinstance(content, str) else content or []
    reason = str(wire.get("stopReason") or wire.get("stop_reason") or "stop")
    return AssistantMessage(
        content=tuple([block for block in map(block_from_wire, blocks) if isinstance(block, _ANSWER_BLOCKS)]),
        api=canonical(str(wire.get("api") or "")),
        provider=canonical(str(wire.get("provider") or "")),
        model=str(wire.get("model") or ""),
        usage=usage_from_wire(wire.get("usage")),
        stop_reason=cast("StopReason", "tool_use" if reason == "toolUse" else reason),
        error_message=_text(_first(wire, "errorMessage", "error_message")),
        response_id=_text(_first(wire, "responseId", "response_id")),
        timestamp=_count(wire.get("timestamp")),
    )


def _result_to_wire(message: ToolResultMessage) -> Json:
    wire: Json = {
        "role": "toolResult",
        "toolCallId": message.tool_call_id,
        "toolName": message.tool_name,
        "content": [block_to_wire(block) for block in message.content],
    }
    if message.details is not None:
        wire["details"] = message.details
    wire["isError"] = message.is_error
    if message.trust == "untrusted":
        wire["trust"] = message.trust
    if message.usage is not None:
        wire["usage"] = usage_to_wire(message.usage)
    if message.added_tool_names:
        wire["addedToolNames"] = list(message.added_tool_names)
    wire["timestamp"] = message.timestamp
    return wire


def _result_from_wire(wire: Mapping[str, Any]) -> ToolResultMessage:
    usage = wire.get("usage")
    content = _user_content(wire.get("content"))
    return ToolResultMessage(
        tool_call_id=str(_first(wire, "toolCallId", "tool_call_id") or ""),
        tool_name=str(_first(wire, "toolName", "tool_name") or ""),
        content=(TextContent(content),) if isinstance(content, str) else content,
        details=wire.get("details"),
        trust="untrusted" if wire.get("trust") == "untrusted" else "trusted",
        is_error=bool(_first(wire, "isError", "is_error")),
        usage=None if usage is None else usage_from_wire(usage),
        added_tool_names=tuple(map(str, _first(wire, "addedToolNames", "added_tool_names") or ())),
        timestamp=_count(wire.get("timestamp")),
    )


def _user_content(content: Any) -> str | tuple[UserContent, ...]:
    if isinstance(content, str):
        return content
    return tuple([block for block in map(block_from_wire, content or ()) if isinstance(block, _USER_BLOCKS)])


def _image(wire: Mapping[str, Any]) -> ImageContent:
    source = wire.get("source")
    holder = source if isinstance(source, Mapping) else wire
    mime = _first(holder, "mimeType", "mime_type", "media_type")
    return ImageContent(str(holder.get("data") or ""), str(mime or "image/png"))


def _call(wire: Mapping[str, Any]) -> ToolCall:
    arguments = _first(wire, "arguments", "input")
    return ToolCall(
        id=str(wire.get("id") or ""),
        name=str(wire.get("name") or ""),
        arguments=dict(arguments) if isinstance(arguments, Mapping) else {},
        thought_signature=_text(_first(wire, "thoughtSignature", "thought_signature")),
        invalid=_text(wire.get("invalid")),
    )


def _present(wire: Json) -> Json:
    return {name: value for name, value in wire.items() if value is not None}


def _first(wire: Mapping[str, Any], *names: str) -> Any:
    for name in names:  # a loop: this is asked a dozen times for every stored message
        value = wire.get(name)
        if value is not None:
            return value
    return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any, kind: Callable[[Any], T], nothing: T) -> T:
    """The number; `nothing` for what is none, or one that nobody can count with: JSON may hold 1e999."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return nothing
    try:
        return kind(value) if isfinite(value) else nothing
    except OverflowError:
        return nothing


def _count(value: Any) -> int:
    return value if type(value) is int and value >= 0 else max(0, _number(value, int, 0))


def _price(value: Any) -> float:
    return value if type(value) is float and 0 <= value < inf else max(0.0, _number(value, float, 0.0))
