"""Value. The lines of a session file, one class each, and their JSON objects.

Every entry has an id, the id of its parent, a time stamp and `extra`: the members this program does not know, which
survive being read and written. A type we do not know becomes an `UnknownEntry` that holds the whole object.

A context is built without these classes; a module of every run that needs one imports them where it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, TypeAlias

from attrs import field, frozen

from coding_agent.storage.header import TYPE_SPELLINGS, Stamp


def _no_extra() -> Mapping[str, Any]:
    return {}


@frozen(kw_only=True)
class _Node:
    id: str
    parent_id: str | None = None
    timestamp: Stamp = None
    extra: Mapping[str, Any] = field(factory=_no_extra)


@frozen(kw_only=True)
class MessageEntry(_Node):
    """One message of the conversation; `message` is its JSON object."""

    type: ClassVar[str] = "message"
    message: Mapping[str, Any]


@frozen(kw_only=True)
class ModelChange(_Node):
    """From here on another model answers."""

    type: ClassVar[str] = "model_change"
    provider: str
    model_id: str


@frozen(kw_only=True)
class ThinkingLevelChange(_Node):
    """From here on the model thinks more, or less."""

    type: ClassVar[str] = "thinking_level_change"
    thinking_level: str


@frozen(kw_only=True)
class ActiveToolsChange(_Node):
    """From here on these tools are offered to the model."""

    type: ClassVar[str] = "active_tools_change"
    active_tool_names: tuple[str, ...]


@frozen(kw_only=True)
class Compaction(_Node):
    """A summary stands in for what came before.

    Attributes:
        summary: The words that replace it.
        tokens_before: Estimated size of the context when it was made.
        first_kept_entry_id: Where the part that was kept begins.
        retained_tail: The kept messages themselves, as JSON objects; None when only the pointer is there.
        details: Files read and modified in the summarised part.
        from_hook: An extension wrote the summary.
        usage: What making it cost.
    """

    type: ClassVar[str] = "compaction"
    summary: str
    tokens_before: int = 0
    first_kept_entry_id: str | None = None
    retained_tail: tuple[Mapping[str, Any], ...] | None = None
    details: Any = None
    from_hook: bool | None = None
    usage: Any = None


@frozen(kw_only=True)
class BranchSummary(_Node):
    """What happened on a branch that was left."""

    type: ClassVar[str] = "branch_summary"
    from_id: str
    summary: str
    details: Any = None
    from_hook: bool | None = None
    usage: Any = None


@frozen(kw_only=True)
class Custom(_Node):
    """State of an extension; a model never sees it."""

    type: ClassVar[str] = "custom"
    custom_type: str
    data: Any = None


@frozen(kw_only=True)
class CustomMessageEntry(_Node):
    """A message of an extension; a model reads it as the user's words. `content` is its JSON value."""

    type: ClassVar[str] = "custom_message"
    custom_type: str
    content: Any = ""
    display: bool = True
    details: Any = None


@frozen(kw_only=True)
class Label(_Node):
    """A bookmark on another entry; no label takes it away."""

    type: ClassVar[str] = "label"
    target_id: str
    label: str | None = None


@frozen(kw_only=True)
class Leaf(_Node):
    """The next entry attaches elsewhere: to `target_id`, or to nothing."""

    type: ClassVar[str] = "leaf"
    target_id: str | None


@frozen(kw_only=True)
class SessionInfo(_Node):
    """The session's name; no name takes it away."""

    type: ClassVar[str] = "session_info"
    name: str | None = None


@frozen(kw_only=True)
class UnknownEntry(_Node):
    """An entry of a type we do not know; `data` is the whole object, kept as it is."""

    type: str
    data: Mapping[str, Any]


Entry: TypeAlias = (
    MessageEntry
    | ModelChange
    | ThinkingLevelChange
    | ActiveToolsChange
    | Compaction
    | BranchSummary
    | Custom
    | CustomMessageEntry
    | Label
    | Leaf
    | SessionInfo
    | UnknownEntry
)

COMMON: Final = ("type", "id", "parentId", "timestamp")

FIELDS: Final[Mapping[type, tuple[tuple[str, str], ...]]] = {
    MessageEntry: (("message", "message"),),
    ModelChange: (("provider", "provider"), ("model_id", "modelId")),
    ThinkingLevelChange: (("thinking_level", "thinkingLevel"),),
    ActiveToolsChange: (("active_tool_names", "activeToolNames"),),
    Compaction: (
        ("summary", "summary"),
        ("first_kept_entry_id", "firstKeptEntryId"),
        ("tokens_before", "tokensBefore"),
        ("details", "details"),
        ("retained_tail", "retainedTail"),
        ("from_hook", "fromHook"),
        ("usage", "usage"),
    ),
    BranchSummary: (
        ("from_id", "fromId"),
        ("summary", "summary"),
        ("details", "details"),
        ("from_hook", "fromHook"),
        ("usage", "usage"),
    ),
    Custom: (("custom_type", "customType"), ("data", "data")),
    CustomMessageEntry: (
        ("custom_type", "customType"),
        ("content", "content"),
        ("display", "display"),
        ("details", "details"),
    ),
    Label: (("target_id", "targetId"), ("label", "label")),
    Leaf: (("target_id", "targetId"),),
    SessionInfo: (("name", "name"),),
}
"""For each class, its attributes and the members they are written as, in the order of the file."""

_CLASSES: Final[Mapping[str, type]] = {cls.type: cls for cls in FIELDS}  # type: ignore[attr-defined]
_NULLABLE: Final = {("leaf", "targetId")}


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """The JSON object of an entry; members without a value are left out, unknown ones come last."""
    if isinstance(entry, UnknownEntry):
        return dict(entry.data)
    data: dict[str, Any] = {
        "type": entry.type,
        "id": entry.id,
        "parentId": entry.parent_id,
        "timestamp": entry.timestamp,
    }
    for attribute, member in FIELDS[type(entry)]:
        value = getattr(entry, attribute)
        if value is not None or (entry.type, member) in _NULLABLE:
            data[member] = list(value) if isinstance(value, tuple) else value
    return {**data, **entry.extra}


def entry_from_json(data: Mapping[str, Any]) -> Entry:
    """The entry of a JSON object; one that misses what its type needs becomes an `UnknownEntry`."""
    kind = data.get("type")
    spelling = TYPE_SPELLINGS.get(kind, kind) if isinstance(kind, str) else ""
    cls = _CLASSES.get(spelling)
    if cls is not None:
        try:
            entry: Entry = cls(**_common(data), **_own(cls, data), extra=_extra(cls, data))
        except (TypeError, ValueError):
            pass
        else:
            return entry
    return UnknownEntry(type=str(kind), data=dict(data), **_common(data))


def _common(data: Mapping[str, Any]) -> dict[str, Any]:
    parent = data.get("parentId")
    return {
        "id": str(data.get("id", "")),
        "parent_id": parent if isinstance(parent, str) else None,
        "timestamp": data.get("timestamp"),
    }


def _own(cls: type, data: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for attribute, member in FIELDS[cls]:
        value = data.get(member)
        if value is None and (cls is not Leaf):
            continue
        found[attribute] = tuple(value) if isinstance(value, list) and attribute in _TUPLES else value
    return found


_TUPLES: Final = frozenset({"active_tool_names", "retained_tail"})


def _extra(cls: type, data: Mapping[str, Any]) -> dict[str, Any]:
    known = {*COMMON, *(member for _, member in FIELDS[cls])}
    return {key: value for key, value in data.items() if key not in known}
