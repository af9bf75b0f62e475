"""Value. Roles a session has beyond the three a model knows, and how they are told to a model.

On disk a message is a JSON object in the shape pi writes; `message_to_json` and `message_from_json` are that
translation for every role, the three of lemon_ai included. `convert_to_llm` is the only place where the extra roles
become messages of a model call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, TypeAlias

from attrs import field, frozen

from lemon_ai import (
    AssistantMessage,
    BadMessage,
    ImageContent,
    Message,
    TextContent,
    ToolResultMessage,
    UserMessage,
    message_from_wire,
    message_to_wire,
)

Content: TypeAlias = str | tuple[TextContent | ImageContent, ...]


@frozen
class BashExecutionMessage:
    """A command the user ran from the prompt.

    Attributes:
        exit_code: None when the command was cancelled or killed.
        full_output_path: Where the whole output is, when `output` was truncated.
        exclude_from_context: The user wanted the model not to see it.
        timestamp: Unix milliseconds.
    """

    role: ClassVar[str] = "bashExecution"
    command: str
    output: str = ""
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | None = None
    exclude_from_context: bool = False
    timestamp: int = 0


@frozen
class CustomMessage:
    """What an extension or the host put into the conversation; the model reads it as the user's words.

    Attributes:
        custom_type: Whose it is.
        display: Whether a person is shown it.
        details: For programs; never sent to a model.
    """

    role: ClassVar[str] = "custom"
    custom_type: str
    content: Content = ""
    display: bool = True
    details: Any = None
    timestamp: int = 0


@frozen
class RenderedMessage(CustomMessage):
    """A custom message as a client is told it; never stored, and never sent to a model.

    Attributes:
        shown: What an extension shows in its place, as Markdown.
    """

    shown: str = ""


@frozen
class BranchSummaryMessage:
    """What happened on a branch that the conversation came back from."""

    role: ClassVar[str] = "branchSummary"
    summary: str
    from_id: str = ""
    timestamp: int = 0


@frozen
class CompactionSummaryMessage:
    """Stands in for the part of the conversation that was compacted."""

    role: ClassVar[str] = "compactionSummary"
    summary: str
    tokens_before: int = 0
    timestamp: int = 0


@frozen
class UnknownMessage:
    """A message whose role we do not know: kept as it is, never sent to a model."""

    role: str
    data: Mapping[str, Any] = field(factory=dict)
    timestamp: int = 0


SessionMessage: TypeAlias = (
    Message | BashExecutionMessage | CustomMessage | BranchSummaryMessage | CompactionSummaryMessage | UnknownMessage
)
"""Whatever a session's context may hold."""

ROLE_SPELLINGS: Final[Mapping[str, str]] = {
    "tool_result": "toolResult",
    "bash_execution": "bashExecution",
    "hookMessage": "custom",
    "branch_summary": "branchSummary",
    "compaction_summary": "compactionSummary",
}
"""Older spellings of roles, read and never written."""

BRANCH_PREFIX: Final = "The conversation explored another branch and came back from it. What happened there:"
COMPACTION_PREFIX: Final = "The earlier part of this conversation was compacted. This summary replaces it:"


# Disk.


def message_to_json(message: Any) -> dict[str, Any]:
    """The JSON object of a message, whatever its role."""
    writer = _WRITERS.get(type(message))
    return writer(message) if writer else message_to_wire(message)


def message_from_json(data: Mapping[str, Any]) -> SessionMessage:
    """The message of a JSON object. A role we do not know gives an `UnknownMessage`.

    Raises:
        ValueError: The object cannot be a message of its role.
    """
    role = data.get("role")
    if not isinstance(role, str):
        raise ValueError("a message without a role")
    reader = _READERS.get(role)
    if reader is None:
        return UnknownMessage(role, data, _milliseconds(data))
    try:
        return reader(data)
    except BadMessage as error:
        raise ValueError(str(error)) from error


def content_from_json(content: Any) -> Content:
    """Text and image blocks of a JSON value: a string stays one; what holds no blocks gives none."""
    try:
        message = message_from_wire({"role": "user", "content": content, "timestamp": 0})
    except BadMessage:
        return ()
    return message.content if isinstance(message, UserMessage) else ()


def content_to_json(content: Content) -> Any:
    """The JSON value of text and image blocks."""
    return message_to_wire(UserMessage(content, 0))["content"]


def _milliseconds(data: Mapping[str, Any]) -> int:
    value = data.get("timestamp")
    return value if isinstance(value, int) else 0


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def _write_bash(message: BashExecutionMessage) -> dict[str, Any]:
    data: dict[str, Any] = {"role": "bashExecution", "command": message.command, "output": message.output}
    if message.exit_code is not None:
        data["exitCode"] = message.exit_code
    data |= {"cancelled": message.cancelled, "truncated": message.truncated}
    if message.full_output_path is not None:
        data["fullOutputPath"] = message.full_output_path
    data["timestamp"] = message.timestamp
    if message.exclude_from_context:
        data["excludeFromContext"] = True
    return data


def _read_bash(data: Mapping[str, Any]) -> BashExecutionMessage:
    code = data.get("exitCode")
    path = data.get("fullOutputPath")
    return BashExecutionMessage(
        command=_text(data, "command"),
        output=_text(data, "output"),
        exit_code=code if isinstance(code, int) else None,
        cancelled=bool(data.get("cancelled")),
        truncated=bool(data.get("truncated")),
        full_output_path=path if isinstance(path, str) else None,
        exclude_from_context=bool(data.get("excludeFromContext")),
        timestamp=_milliseconds(data),
    )


def _write_custom(message: CustomMessage) -> dict[str, Any]:
    data: dict[str, Any] = {
        "role": "custom",
        "customType": message.custom_type,
        "content": content_to_json(message.content),
        "display": message.display,
    }
    if message.details is not None:
        data["details"] = message.details
    data["timestamp"] = message.timestamp
    return data


def _write_rendered(message: RenderedMessage) -> dict[str, Any]:
    return {**_write_custom(message), "shown": message.shown}


def _read_custom(data: Mapping[str, Any]) -> CustomMessage:
    display = data.get("display")
    return CustomMessage(
        custom_type=_text(data, "customType"),
        content=content_from_json(data.get("content")),
        display=True if display is None else bool(display),
        details=data.get("details"),
        timestamp=_milliseconds(data),
    )


def _write_branch(message: BranchSummaryMessage) -> dict[str, Any]:
    return {
        "role": "branchSummary",
        "summary": message.summary,
        "fromId": message.from_id,
        "timestamp": message.timestamp,
    }


def _read_branch(data: Mapping[str, Any]) -> BranchSummaryMessage:
    return BranchSummaryMessage(_text(data, "summary"), _text(data, "fromId"), _milliseconds(data))


def _write_compaction(message: CompactionSummaryMessage) -> dict[str, Any]:
    return {
        "role": "compactionSummary",
        "summary": message.summary,
        "tokensBefore": message.tokens_before,
        "timestamp": message.timestamp,
    }


def _read_compaction(data: Mapping[str, Any]) -> CompactionSummaryMessage:
    before = data.get("tokensBefore")
    return CompactionSummaryMessage(
        _text(data, "summary"), before if isinstance(before, int) else 0, _milliseconds(data)
    )


def _write_unknown(message: UnknownMessage) -> dict[str, Any]:
    return dict(message.data)


_WRITERS: Final[Mapping[type, Callable[[Any], dict[str, Any]]]] = {
    BashExecutionMessage: _write_bash,
    CustomMessage: _write_custom,
    RenderedMessage: _write_rendered,
    BranchSummaryMessage: _write_branch,
    CompactionSummaryMessage: _write_compaction,
    UnknownMessage: _write_unknown,
}
_KNOWN_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], SessionMessage]]] = {
    "bashExecution": _read_bash,
    "custom": _read_custom,
    "branchSummary": _read_branch,
    "compactionSummary": _read_compaction,
    "user": message_from_wire,
    "assistant": message_from_wire,
    "toolResult": message_from_wire,
}
_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], SessionMessage]]] = {
    **_KNOWN_READERS,
    **{old: _KNOWN_READERS[new] for old, new in ROLE_SPELLINGS.items()},
}


# Model.


def convert_to_llm(messages: Iterable[Any]) -> list[Message]:
    """What a model is sent of a session's context, in order.

    The three roles of a model pass unchanged, ours become words of the user, and a role nobody here knows is left out.
    """
    converted = (_to_llm(message) for message in messages)
    return [message for message in converted if message is not None]


def _to_llm(message: Any) -> Message | None:
    match message:
        case UserMessage() | AssistantMessage() | ToolResultMessage():
            return message
        case BashExecutionMessage():
            return None if message.exclude_from_context else _said(describe_command(message), message.timestamp)
        case CustomMessage(content=str() as text):
            return _said(text, message.timestamp)
        case CustomMessage(content=blocks):
            return UserMessage(blocks, message.timestamp)
        case BranchSummaryMessage():
            return _said(_wrapped(BRANCH_PREFIX, message.summary), message.timestamp)
        case CompactionSummaryMessage():
            return _said(_wrapped(COMPACTION_PREFIX, message.summary), message.timestamp)
        case _:
            return None


def describe_command(message: BashExecutionMessage) -> str:
    """A command of the user's and its outcome, as words for a model."""
    parts = [f"Ran `{message.command}`", f"```\n{message.output}\n```" if message.output else "(no output)"]
    if message.cancelled:
        parts.append("(command cancelled)")
    elif message.exit_code:
        parts.append(f"Command exited with code {message.exit_code}")
    if message.truncated and message.full_output_path:
        parts.append(f"[Output truncated. Full output: {message.full_output_path}]")
    return "\n".join(parts)


def _wrapped(prefix: str, summary: str) -> str:
    return f"{prefix}\n\n<summary>\n{summary}\n</summary>"


def _said(text: str, timestamp: int) -> UserMessage:
    return UserMessage((TextContent(text),), timestamp)
