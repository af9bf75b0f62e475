"""Pure. How large a conversation is for a model: what the provider last counted, and a guess at what came after."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from coding_agent.messages import (
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    describe_command,
)
from lemon_ai import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)

CHARACTERS_PER_TOKEN: Final = 4
IMAGE_CHARACTERS: Final = 4_800


@frozen
class ContextSize:
    """How many tokens a conversation takes up.

    Attributes:
        tokens: All of it.
        counted: The part a provider counted; 0 when none did since the last compaction.
        estimated: The part that is a guess.
    """

    tokens: int
    counted: int
    estimated: int


def context_size(messages: Sequence[Any], *, overhead: Callable[[], int] | None = None) -> ContextSize:
    """The size of a conversation.

    The last answer whose provider counted tokens is taken at its word; it counted the system prompt and the tools as
    well. What follows it is estimated. Without such an answer all is estimated, and `overhead` is added.

    Args:
        messages: The conversation; answers from before a compaction summary in it count for nothing.
        overhead: Tokens of the system prompt and the tools; asked only when they are added.
    """
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, CompactionSummaryMessage):
            break
        if isinstance(message, AssistantMessage) and (counted := counted_tokens(message)):
            if _summarised_since(messages, message):
                break
            later = estimate(messages[index + 1 :])
            return ContextSize(counted + later, counted, later)
    guessed = estimate(messages) + (0 if overhead is None else overhead())
    return ContextSize(guessed, 0, guessed)


def _summarised_since(messages: Sequence[Any], answer: AssistantMessage) -> bool:
    """Whether an answer was given before the compaction whose kept part it is in: it counted what is gone now."""
    summaries = (message.timestamp for message in messages if isinstance(message, CompactionSummaryMessage))
    return any(answer.timestamp < timestamp for timestamp in summaries)


def counted_tokens(message: AssistantMessage) -> int:
    """What the provider counted for an answer and its request; 0 for one that failed or was not counted."""
    if message.stop_reason in ("error", "aborted"):
        return 0
    usage: Usage = message.usage
    return usage.total_tokens or usage.input + usage.output + usage.cache_read + usage.cache_write


def estimate(messages: Iterable[Any]) -> int:
    """A guess at the tokens of some messages."""
    return sum(estimate_message(message) for message in messages)


def estimate_message(message: Any) -> int:
    """A guess at the tokens of one message: a quarter of its characters, rounded up."""
    return -(-_characters(message) // CHARACTERS_PER_TOKEN)


def estimate_text(text: str) -> int:
    """A guess at the tokens of a text."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def _characters(message: Any) -> int:
    match message:
        case UserMessage(content=content) | CustomMessage(content=content):
            return _content(content)
        case AssistantMessage(content=content) | ToolResultMessage(content=content):
            return _content(content)
        case BashExecutionMessage():
            return 0 if message.exclude_from_context else len(describe_command(message))
        case BranchSummaryMessage(summary=summary) | CompactionSummaryMessage(summary=summary):
            return len(summary)
        case _:
            return 0


def _content(content: str | Iterable[Any]) -> int:
    return len(content) if isinstance(content, str) else sum(_block(block) for block in content)


def _block(block: Any) -> int:
    match block:
        case TextContent(text=text):
            return len(text)
        case ThinkingContent(thinking=thinking):
            return len(thinking)
        case ImageContent():
            return IMAGE_CHARACTERS
        case ToolCall(name=name, arguments=arguments):
            return len(name) + _arguments(arguments)
        case _:
            return 0


def _arguments(arguments: Mapping[str, Any]) -> int:
    try:
        return len(json.dumps(dict(arguments), ensure_ascii=False))
    except (TypeError, ValueError):
        return len(str(arguments))
