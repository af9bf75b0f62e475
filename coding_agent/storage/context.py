"""Pure. A branch of a session as what a model is given: model, thinking level, tools and messages.

The newest compaction on the branch stands in for everything before it: its summary comes first, then the part it kept,
then what followed. The rest is derived from the whole branch, the part before the compaction included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from attrs import frozen

from coding_agent.messages import (
    ROLE_SPELLINGS,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    SessionMessage,
    content_from_json,
    message_from_json,
    message_to_json,
)
from coding_agent.storage.stamps import parse_iso
from coding_agent.storage.tree import SessionTree
from lemon_ai import AssistantMessage, canonical

if TYPE_CHECKING:
    from coding_agent.storage.entries import Custom

INLINE: Final = -1
"""Position of a message that is held by the compaction itself and not by an entry of its own."""

Projector: TypeAlias = "Callable[[Custom], Iterable[SessionMessage]]"
"""Turns the state of an extension into messages a model reads."""


class Source(Protocol):
    """A session whose entries can be read."""

    @property
    def tree(self) -> SessionTree: ...
    @property
    def header(self) -> Mapping[str, Any]: ...
    def entry_data(self, position: int) -> Mapping[str, Any]: ...
    def message_at(self, position: int) -> SessionMessage | None: ...


@frozen
class Chosen:
    """What holds at one leaf beside the conversation.

    Attributes:
        model: `provider/id` of the last model chosen or the last that answered, spelled as lemon_ai does; None when
            there was none yet.
        thinking_level: "off" when none was chosen.
        active_tools: Names of the tools offered; None when none were chosen and the host's own apply.
    """

    model: str | None
    thinking_level: str
    active_tools: tuple[str, ...] | None


@frozen
class SessionContext(Chosen):
    """What a model is given at one leaf.

    Attributes:
        messages: The conversation, oldest first.
    """

    messages: tuple[SessionMessage, ...]


def build_context(
    source: Source, leaf: int | None = None, projectors: Mapping[str, Projector] | None = None
) -> SessionContext:
    """The context at a leaf, by default the current one."""
    path = source.tree.path(leaf)
    messages = tuple(message for _, message in project(source, path, projectors))
    return SessionContext(*_chosen(source, path), messages=messages)


def chosen(source: Source) -> Chosen:
    """What holds at the current leaf; the messages are not looked at."""
    return Chosen(*_chosen(source, source.tree.path()))


def context_json(source: Source, leaf: int | None = None) -> dict[str, Any]:
    """The context at a leaf as a JSON object, its messages as they are stored, members we do not know included."""
    context = build_context(source, leaf)
    provider, _, model_id = (context.model or "").partition("/")
    provider = provider.replace("_", "-")
    return {
        "model": {"provider": provider, "modelId": model_id} if context.model else None,
        "thinking_level": context.thinking_level,
        "active_tools": None if context.active_tools is None else list(context.active_tools),
        "messages": _stored(source, source.tree.path(leaf)),
    }


def _stored(source: Source, path: list[int]) -> list[Mapping[str, Any]]:
    kinds = source.tree.kinds
    found: list[Mapping[str, Any]] = []
    inline: list[Mapping[str, Any]] = []
    for position, message in project(source, path):
        if inline:
            found.append(_normal(inline.pop(0)))
        elif kinds[position][:8] == "message/":
            found.append(_normal(source.entry_data(position)["message"]))
        else:
            found.append(message_to_json(message))
        if isinstance(message, CompactionSummaryMessage) and kinds[position] == "compaction":
            tail = source.entry_data(position).get("retainedTail")
            inline = [stored for stored in tail if _decoded(stored)] if isinstance(tail, list) else []
    return found


def _normal(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    role = stored.get("role")
    if isinstance(role, str) and role in ROLE_SPELLINGS:
        stored = {**stored, "role": ROLE_SPELLINGS[role]}
    return {**stored, "content": []} if stored.get("content", 0) is None else stored


def project(
    source: Source, path: list[int], projectors: Mapping[str, Projector] | None = None
) -> Iterator[tuple[int, SessionMessage]]:
    """The messages of a branch with the positions they come from, compaction applied.

    The summary has the position of its compaction. A kept message that only the compaction holds has `INLINE`.
    """
    kinds = source.tree.kinds
    newest = next((step for step in range(len(path) - 1, -1, -1) if kinds[path[step]] == "compaction"), None)
    if newest is None:
        yield from _messages(source, path, projectors)
        return
    compaction = source.entry_data(path[newest])
    yield path[newest], _summary(compaction)
    kept = _pointed_to(source, path[:newest], compaction.get("firstKeptEntryId"), projectors)
    tail = compaction.get("retainedTail")
    if isinstance(tail, list):
        inline = [message for message in map(_decoded, tail) if message is not None]
        matching = len(kept) == len(tail) == len(inline)
        yield from zip([at for at, _ in kept] if matching else [INLINE] * len(inline), inline, strict=True)
    else:
        yield from kept
    yield from _messages(source, path[newest + 1 :], projectors)


def _pointed_to(
    source: Source, before: list[int], first_kept: Any, projectors: Mapping[str, Projector] | None
) -> list[tuple[int, SessionMessage]]:
    tree = source.tree
    if not isinstance(first_kept, str) or first_kept not in tree:
        return []
    first = tree.position(first_kept)
    start = next((step for step in range(len(before) - 1, -1, -1) if before[step] == first), len(before))
    return list(_messages(source, before[start:], projectors))


def _messages(
    source: Source, path: list[int], projectors: Mapping[str, Projector] | None
) -> Iterator[tuple[int, SessionMessage]]:
    kinds = source.tree.kinds
    for position in path:
        kind = kinds[position]
        if kind[:8] == "message/":
            message = source.message_at(position)
        elif kind == "custom" and projectors:
            yield from ((position, projected) for projected in _projected(source, position, projectors))
            continue
        elif kind == "custom_message":
            message = _custom(source.entry_data(position))
        elif kind == "branch_summary":
            message = _branch(source.entry_data(position))
        else:
            continue
        if message is not None:
            yield position, message


def _projected(source: Source, position: int, projectors: Mapping[str, Projector]) -> Iterable[SessionMessage]:
    from coding_agent.storage.entries import Custom, entry_from_json

    entry = entry_from_json(source.entry_data(position))
    projector = projectors.get(entry.custom_type) if isinstance(entry, Custom) else None
    return projector(entry) if projector is not None and isinstance(entry, Custom) else ()


def _decoded(data: Any) -> SessionMessage | None:
    try:
        return message_from_json(data)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _summary(data: Mapping[str, Any]) -> CompactionSummaryMessage:
    before = data.get("tokensBefore")
    return CompactionSummaryMessage(
        str(data.get("summary") or ""),
        before if isinstance(before, int) else 0,
        parse_iso(data.get("timestamp")) or 0,
    )


def _custom(data: Mapping[str, Any]) -> CustomMessage:
    display = data.get("display")
    return CustomMessage(
        custom_type=str(data.get("customType") or ""),
        content=content_from_json(data.get("content")),
        display=True if display is None else bool(display),
        details=data.get("details"),
        timestamp=parse_iso(data.get("timestamp")) or 0,
    )


def _branch(data: Mapping[str, Any]) -> BranchSummaryMessage | None:
    summary = data.get("summary")
    if not isinstance(summary, str) or not summary:
        return None
    return BranchSummaryMessage(summary, str(data.get("fromId") or ""), parse_iso(data.get("timestamp")) or 0)


# State.


def _chosen(source: Source, path: list[int]) -> tuple[str | None, str, tuple[str, ...] | None]:
    level = _state(source, path, "thinking_level_change", "thinkingLevel") or _initial_level(source)
    return _model(source, path), level, _active_tools(source, path)


def _state(source: Source, path: list[int], kind: str, member: str) -> str | None:
    states, kinds = source.tree.states, source.tree.kinds
    for position in reversed(path):
        if kinds[position] == kind:
            value = states[position].get(member)
            if isinstance(value, str) and value:
                return value
    return None


def _initial_level(source: Source) -> str:
    level = source.header.get("thinkingLevel")
    return level if isinstance(level, str) and level else "off"


def _active_tools(source: Source, path: list[int]) -> tuple[str, ...] | None:
    states, kinds = source.tree.states, source.tree.kinds
    for position in reversed(path):
        if kinds[position] == "active_tools_change":
            names = states[position].get("activeToolNames")
            if isinstance(names, list):
                return tuple(str(name) for name in names)
    return None


def _model(source: Source, path: list[int]) -> str | None:
    tree = source.tree
    for position in reversed(path):
        kind = tree.kinds[position]
        if kind == "model_change":
            data = tree.states[position]
            found = _ref(data.get("provider"), data.get("modelId"))
        elif kind == "message/assistant":
            message = source.message_at(position)
            found = _ref(message.provider, message.model) if isinstance(message, AssistantMessage) else None
        else:
            continue
        if found is not None:
            return found
    return _ref(source.header.get("provider"), source.header.get("modelId"))


def _ref(provider: Any, model_id: Any) -> str | None:
    if isinstance(provider, str) and isinstance(model_id, str) and provider and model_id:
        return f"{canonical(provider)}/{model_id}"
    return None
