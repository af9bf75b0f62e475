"""Value. What a conversation is made of: messages, their content blocks, what they cost.

Sequences are tuples, so a message can be shared between processes without a copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from attrs import field, frozen

from lemon_otp import wall_ms

StopReason: TypeAlias = Literal["stop", "length", "tool_use", "error", "aborted", "redirected"]
"""Why an assistant message ended."""

Trust: TypeAlias = Literal["trusted", "untrusted"]
"""Whether a tool result comes from a place the user controls."""


@frozen
class TextContent:
    """Words.

    Attributes:
        text: The words.
        text_signature: What the provider wants back with them: an item id, a thought signature.
    """

    type: ClassVar[str] = "text"
    text: str = ""
    text_signature: str | None = None


@frozen
class ThinkingContent:
    """What the model thought aloud, or an opaque stand-in for it.

    Attributes:
        thinking: The thought; may be empty.
        thinking_signature: Proof of it for the same model; the opaque payload itself when redacted.
        redacted: The provider hid the thought.
    """

    type: ClassVar[str] = "thinking"
    thinking: str = ""
    thinking_signature: str | None = None
    redacted: bool = False


@frozen
class ImageContent:
    """A picture, base64 encoded."""

    type: ClassVar[str] = "image"
    data: str = field(default="", repr=lambda data: f"<{len(data)} base64 characters>")
    mime_type: str = "image/png"


@frozen
class ToolCall:
    """A tool the model wants run.

    Attributes:
        id: Unique in its message; a result names it.
        name: The tool.
        arguments: Always an object; empty when `invalid` is set.
        thought_signature: What the provider wants back with the call.
        invalid: The raw text when it was not one complete JSON object. Such a call must not run.
    """

    type: ClassVar[str] = "tool_call"
    id: str = ""
    name: str = ""
    arguments: Mapping[str, Any] = field(factory=dict)
    thought_signature: str | None = None
    invalid: str | None = None


UserContent: TypeAlias = TextContent | ImageContent
AssistantContent: TypeAlias = TextContent | ThinkingContent | ToolCall


@frozen
class Cost:
    """US dollars."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0


@frozen
class Usage:
    """Tokens of one call. `input` never includes the cached ones, whichever provider answered."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: Cost = Cost()


NO_USAGE: Usage = Usage()


def _as_tuple(content: Any) -> Any:
    return content if isinstance(content, str) else tuple(content or ())


@frozen
class UserMessage:
    """What a person, or a program in a person's place, said.

    Attributes:
        content: A plain string, or text and image blocks.
        timestamp: Unix milliseconds.
    """

    role: ClassVar[str] = "user"
    content: str | tuple[UserContent, ...] = field(converter=_as_tuple)
    timestamp: int = field(factory=wall_ms)


@frozen
class AssistantMessage:
    """What a model answered.

    Attributes:
        content: Text, thinking and tool calls, in the order they came.
        api, provider, model: Who answered, and in which wire format.
        usage: Tokens and their price.
        stop_reason: Why it ended.
        error_message: One line, when `stop_reason` is "error" or "aborted".
        response_id: The provider's id for the answer.
        timestamp: Unix milliseconds at which the call began.
    """

    role: ClassVar[str] = "assistant"
    content: tuple[AssistantContent, ...] = field(default=(), converter=_as_tuple)
    api: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage = NO_USAGE
    stop_reason: StopReason = "stop"
    error_message: str | None = None
    response_id: str | None = None
    timestamp: int = field(factory=wall_ms)


@frozen
class ToolResultMessage:
    """What running a tool gave.

    Attributes:
        tool_call_id, tool_name: The call it answers.
        content: Text and images for the model.
        details: For people and programs; never sent to a model.
        trust: "untrusted" when the content comes from outside.
        is_error: The tool failed, or never ran.
        usage: Tokens spent by the tool itself, where it called a model.
        added_tool_names: Tools that became available with this result.
        timestamp: Unix milliseconds.
    """

    role: ClassVar[str] = "tool_result"
    tool_call_id: str
    tool_name: str
    content: tuple[UserContent, ...] = field(default=(), converter=_as_tuple)
    details: Any = None
    trust: Trust = "trusted"
    is_error: bool = False
    usage: Usage | None = None
    added_tool_names: tuple[str, ...] = field(default=(), converter=_as_tuple)
    timestamp: int = field(factory=wall_ms)


Message: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage
"""The three kinds a model sees. Packages above add roles of their own and turn them into these."""


def get_text(message: UserMessage | AssistantMessage | ToolResultMessage) -> str:
    """All text of a message, joined with nothing between."""
    if isinstance(message.content, str):
        return message.content
    return "".join(block.text for block in message.content if isinstance(block, TextContent))


def get_thinking(message: AssistantMessage) -> str:
    """All thinking of an answer, joined with nothing between."""
    return "".join(block.thinking for block in message.content if isinstance(block, ThinkingContent))


def get_tool_calls(message: AssistantMessage) -> tuple[ToolCall, ...]:
    """The tool calls of an answer, in the order the model made them."""
    return tuple(block for block in message.content if isinstance(block, ToolCall))
