"""Pure. Makes a conversation shorter when it no longer fits a model: the middle goes, both ends stay.

What is kept is the first message and the last few; a call of a tool and its results are never parted. This is the
plain cut for programs that call models directly. Sessions have a better one of their own, which summarises.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from logging import getLogger
from typing import Final, Literal, TypeAlias, get_args

from attrs import evolve

from lemon_ai.codec import message_to_wire
from lemon_ai.errors import CannotCompact
from lemon_ai.messages import Message, ToolResultMessage, UserMessage
from lemon_ai.stream_options import Context
from lemon_otp import frozen

Strategy: TypeAlias = Literal["truncation", "summarization", "hybrid"]

PRESERVE_RECENT: Final = 4
HYBRID_PRESERVE_RECENT: Final = 6
_QUIETLY_DROPPED: Final = 2
"""So few are dropped without a word about it: the word would be as long."""

_log = getLogger(__name__)


@frozen
class Compacted:
    """A shortened conversation, and what was done to it.

    Attributes:
        context: The conversation to send instead.
        strategy: As asked for, except that a summary that was not given leaves a truncation.
        removed: The messages that are no longer there, in their order.
        tokens_saved: About how many tokens shorter it is; see `estimate_tokens`.
        has_summary: Whether the notice says what was in the removed messages.
    """

    context: Context
    strategy: Strategy
    original_count: int
    removed: tuple[Message, ...] = ()
    tokens_saved: int = 0
    has_summary: bool = False

    @property
    def new_count(self) -> int:
        """How many messages there are now, the notice included."""
        return len(self.context.messages)

    @property
    def removed_count(self) -> int:
        """How many messages were dropped."""
        return len(self.removed)


def compact(
    context: Context,
    *,
    strategy: str = "truncation",
    preserve_recent: int | None = None,
    target_tokens: int | None = None,
    summary: str | None = None,
) -> Compacted:
    """`context` without its middle.

    Args:
        context: The conversation that is too long.
        strategy: "truncation" drops; "summarization" puts `summary` in place of what it drops; "hybrid" does so and
            keeps more.
        preserve_recent: How many of the last messages stay; None is 4, and 6 for "hybrid".
        target_tokens: Drop more than that, oldest first, until about this many tokens are left; at least the last
            message stays, with what belongs to it.
        summary: What the dropped messages said. Without one, "summarization" is a truncation.

    Raises:
        CannotCompact: There are no more messages than stay in any case, or no such strategy.
    """
    known = _known(strategy)
    if known == "summarization" and not summary:
        _log.warning("A conversation is truncated: nobody gave a summary of what is left out.")
        known = "truncation"
    kept = preserve_recent or (HYBRID_PRESERVE_RECENT if known == "hybrid" else PRESERVE_RECENT)
    messages = context.messages
    if len(messages) <= kept:
        raise CannotCompact(reason="insufficient_messages")
    head, tail = _ends(messages, kept)
    if target_tokens is not None:
        tail = _tail_within(context, head, tail, target_tokens)
    removed = messages[head:tail]
    if not removed:
        return Compacted(context, known, len(messages))
    told = summary if known != "truncation" else None
    notice = (_notice(len(removed), told),) if told or len(removed) > _QUIETLY_DROPPED else ()
    shorter = evolve(context, messages=(*messages[:head], *notice, *messages[tail:]))
    saved = max(0, estimate_tokens(messages) - estimate_tokens(shorter.messages))
    return Compacted(shorter, known, len(messages), removed, saved, has_summary=bool(told))


def estimate_tokens(messages: Sequence[Message]) -> int:
    """About how many tokens messages are: a quarter of their characters. Good for comparing, never for billing."""
    return sum(len(json.dumps(message_to_wire(message), ensure_ascii=False)) for message in messages) // 4


def _known(strategy: str) -> Strategy:
    for name in get_args(Strategy):
        if name == strategy:
            return name  # type: ignore[no-any-return]  # one of the literal's own values
    raise CannotCompact(reason="unknown_strategy", detail=strategy)


def _ends(messages: tuple[Message, ...], kept: int) -> tuple[int, int]:
    """Where the beginning that stays ends and the end that stays begins."""
    if len(messages) <= kept + 2:
        return len(messages), len(messages)
    head = _after_answers(messages, 0)
    return head, max(head, _before_answers(messages, len(messages) - kept))


def _after_answers(messages: tuple[Message, ...], first: int) -> int:
    """The index behind a message and the results that belong to it."""
    after = first + 1
    while after < len(messages) and isinstance(messages[after], ToolResultMessage):
        after += 1
    return after


def _before_answers(messages: tuple[Message, ...], start: int) -> int:
    """`start`, or the index of the message whose calls the results from there on answer."""
    while start > 0 and isinstance(messages[start], ToolResultMessage):
        start -= 1
    return start


def _tail_within(context: Context, head: int, tail: int, target_tokens: int) -> int:
    """A later beginning of the tail, so that both ends together fit; the last message and its own always stay."""
    messages = context.messages
    if head == tail == len(messages):
        head = tail = _after_answers(messages, 0)
    used = estimate_tokens(messages[:head]) + estimate_tokens(messages[tail:])
    while used > target_tokens:
        following = _after_answers(messages, tail)
        if following >= len(messages):
            break
        used -= estimate_tokens(messages[tail:following])
        tail = following
    return tail


def _notice(count: int, summary: str | None) -> UserMessage:
    text = f"[Context compacted: {count} messages ({count // 2} conversation turns) removed to fit context window]"
    return UserMessage(f"{text}\n\n{summary}" if summary else text)
