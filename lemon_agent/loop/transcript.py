"""Pure. What a well-formed conversation is, and how one that is not becomes one.

The rule: an assistant message that calls tools is followed at once by exactly one result for each call, in any order,
and there are no other results. A message that ended in an error, an abort or a redirect made no calls that count: its
results may be missing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from attrs import evolve

from lemon_agent.errors import InvalidTranscript
from lemon_ai import AssistantMessage, TextContent, ToolCall, ToolResultMessage, UserMessage, get_tool_calls
from lemon_otp import frozen

ViolationKind: TypeAlias = Literal[
    "invalid_messages",
    "invalid_tool_call_id",
    "duplicate_tool_call_id",
    "missing_tool_result",
    "unexpected_tool_result",
    "duplicate_tool_result",
    "orphan_tool_result",
]

UNFINISHED: Final = frozenset({"error", "aborted", "redirected"})
"""Stop reasons of messages whose calls were never meant to run."""

INTERRUPTED: Final = "The tool call was interrupted and left no result."


@frozen
class Violation:
    """One thing wrong with a conversation, and the place of the message it is about."""

    kind: ViolationKind
    index: int
    tool_call_id: str | None = None

    def __str__(self) -> str:
        call = f" ({self.tool_call_id})" if self.tool_call_id else ""
        return f"{self.kind} at message {self.index}{call}"


class Pairing:
    """Reads a conversation message by message and remembers only what the next one needs."""

    __slots__ = ("_answers", "_asked_at", "_found", "_missing_counts", "index")

    def __init__(self) -> None:
        self.index = 0
        self._found: list[Violation] | None = None
        self._asked_at: int | None = None
        self._missing_counts = True
        self._answers: dict[str, int] = {}
        """By call id, how often each call of the latest answer has been answered."""

    def feed(self, message: Any) -> None:
        """Take the next message into account."""
        kind = message.__class__
        if kind is UserMessage or (kind is AssistantMessage and not get_tool_calls(message)):
            if self._asked_at is not None:
                self._close()
            self.index += 1
            return
        role = _role(message)
        if role == "tool_result":
            self._answer(_answered_id(message))
        else:
            self._close()
            if role == "assistant":
                self._ask(message)
        self.index += 1

    def violations(self) -> tuple[Violation, ...]:
        """What is wrong if the conversation ends here. More may be fed afterwards."""
        return (*(self._found or ()), *self._unanswered())

    def _ask(self, message: Any) -> None:
        calls = _calls(message)
        if not calls:
            return
        self._asked_at = self.index
        self._missing_counts = _get(message, "stop_reason", "stopReason") not in UNFINISHED
        answers: dict[str, int] = {}
        for call in calls:
            call_id = _get(call, "id")
            if not isinstance(call_id, str) or not call_id.strip():
                self._violated("invalid_tool_call_id")
            elif call_id in answers:
                self._violated("duplicate_tool_call_id", call_id)
            else:
                answers[call_id] = 0
        self._answers = answers

    def _answer(self, call_id: Any) -> None:
        if self._asked_at is None:
            self._violated("orphan_tool_result", _shown(call_id))
        elif not isinstance(call_id, str) or call_id not in self._answers:
            self._violated("unexpected_tool_result", _shown(call_id))
        elif self._answers[call_id]:
            self._violated("duplicate_tool_result", call_id)
        else:
            self._answers[call_id] = 1

    def _violated(self, kind: ViolationKind, call_id: str | None = None) -> None:
        self._found_too(Violation(kind, self.index, call_id))

    def _found_too(self, *found: Violation) -> None:
        if self._found is None:
            self._found = []
        self._found.extend(found)

    def _unanswered(self) -> tuple[Violation, ...]:
        if self._asked_at is None or not self._missing_counts:
            return ()
        at = self._asked_at
        return tuple(Violation("missing_tool_result", at, call) for call, given in self._answers.items() if not given)

    def _close(self) -> None:
        if self._asked_at is not None:
            self._found_too(*self._unanswered())
            self._asked_at = None
            self._answers = {}


def violations(messages: Any) -> tuple[Violation, ...]:
    """Everything that is wrong with a conversation, in message order. Messages may be ours or plain mappings."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        return (Violation("invalid_messages", 0),)
    pairing = Pairing()
    for message in messages:
        pairing.feed(message)
    return tuple(sorted(pairing.violations(), key=lambda violation: violation.index))


def repaired(messages: Iterable[Any], *, note: str = INTERRUPTED) -> tuple[Any, ...]:
    """The conversation with every call answered once and no other results; one that is well-formed comes back equal.

    A missing answer becomes an error result that says `note`, placed after the answers there are. An answer nobody
    asked for, and a second one, are left out. Calls without a usable id, or with one used twice, are left out too.
    """
    kept: list[Any] = []
    owed: dict[str, ToolCall] = {}
    asked: frozenset[str] = frozenset()
    required = True

    def settle() -> None:
        if required:
            kept.extend(interrupted_result(call, note) for call in owed.values())
        owed.clear()

    for message in messages:
        if isinstance(message, ToolResultMessage):
            if message.tool_call_id in asked and owed.pop(message.tool_call_id, None) is not None:
                kept.append(message)
            continue
        settle()
        if isinstance(message, AssistantMessage):
            message = with_usable_calls(message)
            owed.update((block.id, block) for block in message.content if isinstance(block, ToolCall))
            required = message.stop_reason not in UNFINISHED
        asked = frozenset(owed)
        kept.append(message)
    settle()
    return tuple(kept)


def interrupted_result(call: ToolCall, note: str = INTERRUPTED) -> ToolResultMessage:
    """The answer to a call nobody will answer any more."""
    return ToolResultMessage(tool_call_id=call.id, tool_name=call.name, content=(TextContent(note),), is_error=True)


def dangling_calls(messages: Sequence[Any]) -> tuple[ToolCall, ...]:
    """The calls of the last assistant message that have no result, when nothing but results follows it."""
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolResultMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AssistantMessage) and message.stop_reason not in UNFINISHED:
            return tuple(b for b in message.content if isinstance(b, ToolCall) and b.id not in answered)
        else:
            return ()
    return ()


def with_usable_calls(message: AssistantMessage) -> AssistantMessage:
    """The message without calls that no result can be told to: their id is empty, or came before in it."""
    seen: set[str] = set()
    content = []
    for block in message.content:
        if isinstance(block, ToolCall):
            if not block.id.strip() or block.id in seen:
                continue
            seen.add(block.id)
        content.append(block)
    return message if len(content) == len(message.content) else evolve(message, content=tuple(content))


def _get(value: Any, *names: str) -> Any:
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def _role(message: Any) -> str:
    role = _get(message, "role")
    return "tool_result" if role == "toolResult" else str(role)


def _calls(message: Any) -> list[Any]:
    content = _get(message, "content")
    if isinstance(content, str) or not isinstance(content, Iterable):
        return []
    return [block for block in content if _get(block, "type") in ("tool_call", "toolCall", "tool_use")]


def _answered_id(message: Any) -> Any:
    if isinstance(message, ToolResultMessage):
        return message.tool_call_id
    return _get(message, "tool_call_id", "tool_use_id", "toolCallId")


def _shown(call_id: Any) -> str | None:
    return call_id if isinstance(call_id, str) else None


def checked(messages: Iterable[Any]) -> None:
    """Return when the conversation is well-formed.

    Raises:
        InvalidTranscript: It is not; carries everything that is wrong.
    """
    found = violations(messages)
    if found:
        raise InvalidTranscript(found)
