"""Pure. When a conversation is compacted, and where it is cut.

The older part becomes a summary and the newer part stays word for word. A cut never parts a tool call from its result,
whoever made the result and however far down it stands: where the size asks for such a cut, the cut moves. A cut inside
a turn is allowed; the beginning of that turn is then summarised by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import frozen

from coding_agent.errors import NoHeadroom, NothingToCompact
from coding_agent.messages import BashExecutionMessage, BranchSummaryMessage, CompactionSummaryMessage, CustomMessage
from coding_agent.session.file_operations import NO_FILES, FileOperations, track
from coding_agent.session.token_estimate import estimate, estimate_message
from lemon_ai import AssistantMessage, ToolCall, ToolResultMessage, UserMessage

Item: TypeAlias = tuple[str | None, Any]
"""A message of the context and the entry it comes from; None when only a compaction holds it."""

MIN_KEEP_FORCED: Final = 5
"""How many messages a forced compaction of a short conversation leaves alone."""


@frozen
class CompactionSettings:
    """How compaction is set.

    Attributes:
        enabled: Compact without being asked.
        reserve_tokens: Room left for the answer; compaction is due when less is left.
        keep_recent_tokens: About how much of the newest part stays word for word.
        branch_reserve_tokens: Room left for the answer when a branch that is left is summarised.
        max_fruitless: Automatic compactions in a row that gave no room, after which there is no further one.
    """

    enabled: bool = True
    reserve_tokens: int = 16_384
    keep_recent_tokens: int = 20_000
    max_fruitless: int = 2
    branch_reserve_tokens: int = 16_384

    def usable(self, window: int) -> int:
        """Tokens a request may have before compaction is due. A small window reserves half of itself at most."""
        return window - min(self.reserve_tokens, window // 2)

    def kept(self, window: int, overhead: int) -> int:
        """Tokens to keep: what is set, but never more than half of what is left beside the overhead."""
        return max(0, min(self.keep_recent_tokens, (self.usable(window) - overhead) // 2))


def is_due(tokens: int, window: int, settings: CompactionSettings) -> bool:
    """Whether a conversation of this size is to be compacted without being asked."""
    return settings.enabled and window > 0 and tokens > settings.usable(window)


def check_headroom(parts: Mapping[str, int], window: int, settings: CompactionSettings) -> None:
    """Return when a compacted conversation would have room beside what is sent with every request.

    Args:
        parts: Tokens of what no compaction can make smaller: the system prompt, the tools.
        window: Tokens the model takes.
        settings: How compaction is set.

    Raises:
        NoHeadroom: The parts fill the window by themselves; it says which is how large.
    """
    usable = settings.usable(window)
    if sum(parts.values()) >= usable:
        raise NoHeadroom(tuple(sorted(parts.items(), key=lambda part: -part[1])), usable)


@frozen
class CompactionPlan:
    """What is summarised and what stays.

    Attributes:
        summarised: The messages of whole turns that the summary replaces.
        turn_prefix: The beginning of the turn that was cut through; empty when none was.
        kept: The messages that stay.
        previous_summary: The summary the conversation begins with, to be carried forward.
        first_kept_entry_id: The entry `kept` begins with; None when nothing is kept or only a compaction holds it.
        leaf_id: The leaf when the plan was made.
        tokens_before: Size of the conversation until now.
        files: Files read and changed in what is summarised, earlier summaries included.
    """

    summarised: tuple[Any, ...]
    turn_prefix: tuple[Any, ...]
    kept: tuple[Any, ...]
    previous_summary: str | None
    first_kept_entry_id: str | None
    leaf_id: str | None
    tokens_before: int
    files: FileOperations

    def removed(self) -> int:
        """How many messages go."""
        return len(self.summarised) + len(self.turn_prefix)

    def tokens_after(self, summary: str) -> int:
        """A guess at the size of the conversation with this summary."""
        return estimate_message(CompactionSummaryMessage(summary)) + estimate(self.kept)


def plan_compaction(
    items: Sequence[Item],
    *,
    keep_recent_tokens: int,
    tokens_before: int,
    leaf_id: str | None = None,
    earlier_files: FileOperations = NO_FILES,
    nothing_new: bool = False,
    force: bool = False,
) -> CompactionPlan:
    """Choose the cut.

    Args:
        items: The context, an earlier summary first.
        keep_recent_tokens: About how much stays.
        tokens_before: Size of the conversation until now.
        leaf_id: The present leaf.
        earlier_files: Files an earlier summary was stored with.
        nothing_new: The branch ends in a compaction.
        force: Cut a conversation that is shorter than what would be kept, and keep nothing when nothing else helps.

    Raises:
        NothingToCompact: Nothing would be summarised.
    """
    first = items[0][1] if items else None
    start = 1 if isinstance(first, CompactionSummaryMessage) else 0
    messages = [message for _, message in items]
    if not messages[start:] or (nothing_new and not force):
        raise NothingToCompact("Nothing to compact: the conversation is empty or was compacted just now")
    cut = _choose(messages, start, keep_recent_tokens, force=force)
    if cut is None or cut <= start:
        raise NothingToCompact("Nothing to compact: the whole conversation is recent")
    turn = _turn_start(messages, start, cut)
    return CompactionPlan(
        summarised=tuple(messages[start:turn]),
        turn_prefix=tuple(messages[turn:cut]),
        kept=tuple(messages[cut:]),
        previous_summary=first.summary if isinstance(first, CompactionSummaryMessage) else None,
        first_kept_entry_id=items[cut][0] if cut < len(items) else None,
        leaf_id=leaf_id,
        tokens_before=tokens_before,
        files=track(messages[start:cut], earlier_files),
    )


def _choose(messages: Sequence[Any], start: int, keep_recent_tokens: int, *, force: bool) -> int | None:
    valid = valid_cuts(messages, start)
    target = _reached(messages, start, keep_recent_tokens)
    if target is not None:
        later = next((cut for cut in valid if cut >= target), None)
        chosen = later if later is not None else next((cut for cut in reversed(valid) if cut < target), None)
        if chosen is not None:
            return chosen
        return _all(messages, start) if force else None
    if not force:
        return None
    if len(messages) - start < 2:
        return _all(messages, start)
    early = [cut for cut in valid if cut <= len(messages) - MIN_KEEP_FORCED]
    if early:
        return early[-1]
    return valid[0] if valid else _all(messages, start)


def _reached(messages: Sequence[Any], start: int, keep_recent_tokens: int) -> int | None:
    """The newest message from which on at least so many tokens follow; None when there are not as many."""
    total = 0
    for index in range(len(messages) - 1, start - 1, -1):
        total += estimate_message(messages[index])
        if total >= keep_recent_tokens:
            return index
    return None


def _all(messages: Sequence[Any], start: int) -> int | None:
    """Cutting behind everything, unless a call is still being run there."""
    return None if len(messages) in set(_forbidden(messages, start)) else len(messages)


def valid_cuts(messages: Sequence[Any], start: int = 0) -> list[int]:
    """Where a conversation may be cut: the kept part begins with the message of that index.

    It never begins with a tool result, and no call in front of a cut has its result behind it.
    """
    forbidden = set(_forbidden(messages, start))
    return [
        index
        for index in range(start + 1, len(messages))
        if index not in forbidden and isinstance(messages[index], _BEGINNINGS)
    ]


_BEGINNINGS: Final = (UserMessage, AssistantMessage, BashExecutionMessage, CustomMessage, BranchSummaryMessage)
_TURN_BEGINNINGS: Final = (UserMessage, BashExecutionMessage, CustomMessage, BranchSummaryMessage)


def _forbidden(messages: Sequence[Any], start: int) -> Iterator[int]:
    """The cuts that would part a call from its result. The last answer's open calls are still being run."""
    opened: dict[str, int] = {}
    reached: dict[tuple[str, int], int] = {}
    for index in range(start, len(messages)):
        for result in _result_ids(messages[index]):
            if result in opened:
                reached[result, opened[result]] = index
        for call in _call_ids(messages[index]):
            opened[call] = index
    last_answer = _last_answer(messages, start)
    for call, index in opened.items():
        if index == last_answer and (call, index) not in reached:
            reached[call, index] = len(messages)
    for (_, index), end in reached.items():
        yield from range(index + 1, end + 1)


def _last_answer(messages: Sequence[Any], start: int) -> int | None:
    """The last answer, if only results follow it."""
    for index in range(len(messages) - 1, start - 1, -1):
        if isinstance(messages[index], AssistantMessage):
            return index
        if not isinstance(messages[index], ToolResultMessage):
            return None
    return None


def _call_ids(message: Any) -> Iterator[str]:
    """The calls a message makes, those a provider runs on its own side included."""
    for block in _blocks(message):
        if isinstance(block, ToolCall):
            yield block.id
        elif isinstance(block, Mapping) and str(block.get("type", "")).endswith("tool_use"):
            yield str(block.get("id"))


def _result_ids(message: Any) -> Iterator[str]:
    if isinstance(message, ToolResultMessage):
        yield message.tool_call_id
    for block in _blocks(message):
        if isinstance(block, Mapping) and str(block.get("type", "")).endswith("tool_result"):
            yield str(block.get("tool_use_id"))


def _blocks(message: Any) -> Sequence[Any]:
    content = getattr(message, "content", ())
    return content if isinstance(content, list | tuple) else ()


def _turn_start(messages: Sequence[Any], start: int, cut: int) -> int:
    """Where the turn that the cut goes through begins; the cut itself when it lies between two turns."""
    if cut >= len(messages) or isinstance(messages[cut], _TURN_BEGINNINGS):
        return cut
    for index in range(cut - 1, start - 1, -1):
        if isinstance(messages[index], _TURN_BEGINNINGS):
            return index
    return start
