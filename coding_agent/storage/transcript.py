"""Pure. A restored conversation made acceptable to a model: every tool call has its result, right behind it.

A host that was killed leaves calls without results. Each gets a synthetic error result. A result that stands further
down moves up to its call; one whose call is nowhere, or which answers a second time, is left out. The file keeps all
of it; only what a model is given changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from lemon_agent import UNFINISHED, with_usable_calls
from lemon_ai import AssistantMessage, TextContent, ToolCall, ToolResultMessage

INTERRUPTED_TEXT: Final = (
    "The tool call was interrupted before a result was recorded. It may or may not have taken effect."
)
INTERRUPTED_DETAILS: Final[Mapping[str, Any]] = {"restored_session_repair": True, "reason": "interrupted_tool_call"}


@frozen
class Repaired:
    """A conversation after its repair.

    Attributes:
        messages: The whole of it.
        added: The synthetic results, in order.
        open_at_end: Those of `added` whose call is in the last answer: a file can still get them at its end.
    """

    messages: tuple[Any, ...]
    added: tuple[ToolResultMessage, ...]
    open_at_end: tuple[ToolResultMessage, ...]


def repair(messages: Sequence[Any]) -> Repaired:
    """Give every tool call exactly one result, directly behind the answer that made it.

    An answer that failed or was aborted made no calls that must be answered. Calls without a usable id are left out.
    """
    if is_well_formed(messages):
        return Repaired(tuple(messages), (), ())
    messages = [with_usable_calls(each) if isinstance(each, AssistantMessage) else each for each in messages]
    results = _results_by_owner(messages)
    repaired: list[Any] = []
    added: list[ToolResultMessage] = []
    open_at_end: tuple[ToolResultMessage, ...] = ()
    for index, message in enumerate(messages):
        if isinstance(message, ToolResultMessage):
            continue
        repaired.append(message)
        open_at_end = ()
        if isinstance(message, AssistantMessage):
            answered, missing = _answers(message, index, results)
            repaired += answered + list(missing)
            added += missing
            open_at_end = missing
    return Repaired(tuple(repaired), tuple(added), open_at_end)


def is_well_formed(messages: Iterable[Any]) -> bool:
    """Whether every call has exactly one result right behind its answer, and nothing else is a result."""
    awaited: set[str] = set()
    required = True
    for message in messages:
        if isinstance(message, ToolResultMessage):
            if message.tool_call_id not in awaited:
                return False
            awaited.remove(message.tool_call_id)
            continue
        if awaited and required:
            return False
        awaited.clear()
        if isinstance(message, AssistantMessage):
            for block in message.content:
                if isinstance(block, ToolCall):
                    if block.id in awaited or not block.id.strip():
                        return False
                    awaited.add(block.id)
            required = message.stop_reason not in UNFINISHED
    return not (awaited and required)


def interrupted(call: ToolCall, timestamp: int) -> ToolResultMessage:
    """The result of a call nobody knows the outcome of."""
    return ToolResultMessage(
        call.id,
        call.name,
        (TextContent(INTERRUPTED_TEXT),),
        details=dict(INTERRUPTED_DETAILS),
        is_error=True,
        timestamp=timestamp,
    )


def _results_by_owner(messages: Iterable[Any]) -> dict[tuple[int, str], tuple[int, ToolResultMessage]]:
    """The first result of each call, by the index of the answer that made the call and the call's id.

    Ids may be used again in a later answer, so a result belongs to the nearest answer before it that made such a call.
    """
    owners: dict[str, int] = {}
    found: dict[tuple[int, str], tuple[int, ToolResultMessage]] = {}
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            owners |= {block.id: index for block in message.content if isinstance(block, ToolCall)}
        elif isinstance(message, ToolResultMessage) and message.tool_call_id in owners:
            found.setdefault((owners[message.tool_call_id], message.tool_call_id), (index, message))
    return found


def _answers(
    message: AssistantMessage,
    index: int,
    results: Mapping[tuple[int, str], tuple[int, ToolResultMessage]],
) -> tuple[list[ToolResultMessage], tuple[ToolResultMessage, ...]]:
    """The results of one answer in the order they were stored, and those made up for calls without one."""
    calls = {block.id: block for block in message.content if isinstance(block, ToolCall)}
    found = (results[index, call_id] for call_id in calls if (index, call_id) in results)
    stored = [result for _, result in sorted(found, key=lambda pair: pair[0])]
    if message.stop_reason in UNFINISHED:
        return stored, ()
    missing = [call for call_id, call in calls.items() if (index, call_id) not in results]
    return stored, tuple(interrupted(call, message.timestamp) for call in missing)
