"""Pure but for telemetry. How big a conversation is, and how to make one smaller without breaking it."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from lemon_ai import ImageContent, TextContent, ThinkingContent, ToolCall
from lemon_otp import frozen, telemetry

SIZE: Final = ("lemon_agent", "context", "size")
WARNING_CHARS: Final = 200_000
CRITICAL_CHARS: Final = 400_000
MAX_MESSAGES: Final = 100
MAX_CHARS: Final = 500_000
IMAGE_CHARS: Final = 100
UNENCODABLE_CHARS: Final = 50

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

Level: TypeAlias = Literal["ok", "warning", "critical"]
Strategy: TypeAlias = Literal["sliding_window", "keep_bookends"]


def message_chars(message: Any) -> int:
    """The characters of one message, counted as a model would be shown them."""
    content = getattr(message, "content", None)
    if isinstance(content, str):
        return len(content)
    if type(content) is not tuple and not isinstance(content, Iterable):
        return 0
    return sum(map(_block_chars, content))


def _block_chars(block: object) -> int:
    match block:
        case TextContent(text=text):
            return len(text)
        case ThinkingContent(thinking=thinking):
            return len(thinking)
        case ToolCall(arguments=arguments):
            return _argument_chars(arguments)
        case ImageContent():
            return IMAGE_CHARS
        case _:
            return 0


def _argument_chars(arguments: object) -> int:
    if not isinstance(arguments, Mapping):
        return 0
    try:
        return len(_ENCODER.encode(arguments))
    except (TypeError, ValueError, RecursionError):
        return UNENCODABLE_CHARS


def size_of(messages: Iterable[Any], system_prompt: str | None = None) -> int:
    """The characters of a conversation."""
    return sum(map(message_chars, messages)) + len(system_prompt or "")


def estimated_tokens(chars: int) -> int:
    """About how many tokens so many characters are."""
    return chars // 4


def report_size(chars: int, message_count: int, *, has_system_prompt: bool) -> None:
    """Say how big a conversation is to whoever listens."""
    telemetry.execute(
        SIZE,
        {"char_count": chars, "message_count": message_count},
        {"has_system_prompt": has_system_prompt},
    )


def estimate_size(messages: Sequence[Any], system_prompt: str | None = None) -> int:
    """The characters of a conversation, said to whoever listens."""
    chars = size_of(messages, system_prompt)
    report_size(chars, len(messages), has_system_prompt=bool(system_prompt))
    return chars


def level_of(chars: int, warning: int = WARNING_CHARS, critical: int = CRITICAL_CHARS) -> Level:
    """How worrying a size is. A threshold itself is still below it."""
    if chars > critical:
        return "critical"
    return "warning" if chars > warning else "ok"


def warn_size(chars: int, *, warning: int = WARNING_CHARS, critical: int = CRITICAL_CHARS) -> Level:
    """The level of a size; anything but "ok" is said to whoever listens."""
    level = level_of(chars, warning, critical)
    if level != "ok":
        telemetry.execute(
            ("lemon_agent", "context", "warning"),
            {"char_count": chars, "threshold": critical if level == "critical" else warning},
            {"level": level},
        )
    return level


def check_size(
    messages: Sequence[Any],
    system_prompt: str | None = None,
    *,
    warning: int = WARNING_CHARS,
    critical: int = CRITICAL_CHARS,
) -> Level:
    """How worrying a conversation's size is. Nothing is cut."""
    return warn_size(estimate_size(messages, system_prompt), warning=warning, critical=critical)


def large_context(messages: Sequence[Any], system_prompt: str | None = None, threshold: int = WARNING_CHARS) -> bool:
    """Is it above the threshold?"""
    return size_of(messages, system_prompt) > threshold


@frozen
class Truncated:
    """What is left of a conversation and how many messages are gone."""

    messages: tuple[Any, ...]
    dropped: int


def truncate(
    messages: Sequence[Any],
    *,
    max_messages: int = MAX_MESSAGES,
    max_chars: int = MAX_CHARS,
    strategy: str = "sliding_window",
    keep_first_user: bool = True,
) -> Truncated:
    """The newest part of a conversation, in order, that fits; a call is never parted from its results.

    Args:
        messages: In order.
        max_messages: How many may stay.
        max_chars: How many characters may stay; "keep_bookends" does not look at them.
        strategy: "sliding_window" keeps the end, "keep_bookends" both ends; any other name counts as the first.
        keep_first_user: Keep the first user message too, within the limits.
    """
    messages = tuple(messages)
    if strategy == "keep_bookends":
        kept = _bookends(messages, max_messages)
    else:
        strategy = "sliding_window"
        kept = _window(messages, max_messages, max_chars, keep_first_user=keep_first_user)
    dropped = len(messages) - len(kept)
    if dropped > 0:
        telemetry.execute(
            ("lemon_agent", "context", "truncated"),
            {"dropped_count": dropped, "remaining_count": len(kept)},
            {"strategy": strategy},
        )
    return Truncated(kept, dropped)


def make_transform(
    *,
    max_messages: int = MAX_MESSAGES,
    max_chars: int = MAX_CHARS,
    strategy: Strategy = "sliding_window",
    keep_first_user: bool = True,
    on_truncation: Callable[[int], None] | None = None,
) -> Callable[[Sequence[Any], Any], Awaitable[tuple[Any, ...]]]:
    """A `transform_context` that truncates; `on_truncation` hears how many messages a call went without."""

    async def transform(messages: Sequence[Any], _signal: Any) -> tuple[Any, ...]:
        cut = truncate(
            messages,
            max_messages=max_messages,
            max_chars=max_chars,
            strategy=strategy,
            keep_first_user=keep_first_user,
        )
        if cut.dropped and on_truncation is not None:
            on_truncation(cut.dropped)
        return cut.messages

    return transform


@frozen
class ContextStats:
    """A conversation in numbers."""

    message_count: int
    char_count: int
    estimated_tokens: int
    by_role: Mapping[str, int]
    system_prompt_chars: int


def stats(messages: Sequence[Any], system_prompt: str | None = None) -> ContextStats:
    """A conversation in numbers."""
    chars = size_of(messages, system_prompt)
    roles = Counter(str(getattr(message, "role", "unknown")) for message in messages)
    return ContextStats(len(messages), chars, estimated_tokens(chars), dict(roles), len(system_prompt or ""))


Group: TypeAlias = tuple[Any, ...]
"""Messages that stay or go together: an assistant message that calls tools, and the results."""


def _groups(messages: Sequence[Any]) -> list[Group]:
    groups: list[list[Any]] = []
    joinable = False
    for message in messages:
        role = getattr(message, "role", None)
        if role == "tool_result" and joinable:
            groups[-1].append(message)
            continue
        groups.append([message])
        joinable = role == "assistant" and any(isinstance(block, ToolCall) for block in message.content)
    return [tuple(group) for group in groups]


def _window(messages: tuple[Any, ...], max_messages: int, max_chars: int, *, keep_first_user: bool) -> tuple[Any, ...]:
    if len(messages) <= max_messages and size_of(messages) <= max_chars:
        return messages
    first = next((m for m in messages if getattr(m, "role", None) == "user"), None) if keep_first_user else None
    count, chars = (0, 0) if first is None else (1, message_chars(first))
    kept: list[Group] = []
    for group in reversed(_groups(messages)):
        holds_first = first is not None and any(message is first for message in group)
        more, longer = (0, 0) if holds_first else (len(group), size_of(group))
        if count + more > max_messages or chars + longer > max_chars:
            break
        count, chars = count + more, chars + longer
        kept.append(group)
    tail = tuple(message for group in reversed(kept) for message in group)
    if first is None or any(message is first for message in tail):
        return tail
    return (first, *tail)


def _bookends(messages: tuple[Any, ...], max_messages: int) -> tuple[Any, ...]:
    if len(messages) <= max_messages:
        return messages
    half = max(0, max_messages // 2)
    head = _fitting(_groups(messages), half)
    tail = _fitting(list(reversed(_groups(messages))), half)
    return tuple(m for group in (*head, *reversed(tail)) for m in group)


def _fitting(groups: Sequence[Group], limit: int) -> list[Group]:
    taken: list[Group] = []
    count = 0
    for group in groups:
        if count + len(group) > limit:
            break
        count += len(group)
        taken.append(group)
    return taken
