"""Pure. The entries of a session as a tree: who hangs on whom, where the leaf is, what is called what.

Only the skeleton is kept, a few numbers and two short strings an entry; the words stay in the file. So a session of
any size costs memory in proportion to its entries, not to its text.

A damaged file still gives a tree. A parent that is nowhere in the file makes its child a root, unless a line that could
not be read stands before the child: then the child hangs where that line would have hung. A cycle is cut at the
entry that closes it. An id used twice keeps both entries, the later one under a name of its own.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any, Final

from attrs import define, field

from coding_agent.storage.header import TYPE_SPELLINGS

ROOT: Final = -1
_MISSING: Final = -2
STATE_TYPES: Final = frozenset({"model_change", "thinking_level_change", "active_tools_change"})
"""Types whose small objects are kept in memory, because every context is derived from them."""


@define
class Problems:
    """What had to be bent to make a tree.

    Attributes:
        missing_parents: Entries whose parent is nowhere, and what they hang on now (None: they are roots).
        duplicates: Ids that occur twice with different content.
        repeated: Ids of entries that were stored twice word for word; the second was dropped.
        without_id: How many entries had no id and were given one.
        dangling_leaf: A leaf entry that points nowhere.
        cycles: Entries at which a circle of parents was cut.
    """

    missing_parents: dict[str, str | None] = field(factory=dict)
    duplicates: list[str] = field(factory=list)
    repeated: list[str] = field(factory=list)
    without_id: int = 0
    dangling_leaf: str | None = None
    cycles: list[str] = field(factory=list)

    def any(self) -> bool:
        """Whether there is anything to report."""
        return bool(
            self.missing_parents
            or self.duplicates
            or self.repeated
            or self.without_id
            or self.dangling_leaf
            or self.cycles
        )


class SessionTree:
    """The skeleton of a session. An entry is known by its position: 0 for the first one of the file.

    Attributes:
        ids, parents, kinds: For each position its id, its parent's position and its type; a message's type is
            `message/<role>`.
        offsets, lengths: Where each entry's object stands in the file; -1 for one that is not there yet.
        states: The objects of `STATE_TYPES` entries.
        labels: Labels by the id of what they are on.
        name: The session's name.
        leaf: The position the next entry attaches to.
        bent: Positions whose id or parent here is not what the file says.
        to_be_rewritten: The next append writes the file anew, as this tree has it.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.parents = array("q")
        self.kinds: list[str] = []
        self.offsets = array("q")
        self.lengths = array("q")
        self.states: dict[int, Mapping[str, Any]] = {}
        self.labels: dict[str, str] = {}
        self.name: str | None = None
        self.leaf: int = ROOT
        self.problems = Problems()
        self.bent: set[int] = set()
        self.to_be_rewritten = False
        self._index: dict[str, int] = {}
        self._disk_ids: dict[int, str] = {}
        self._aliases: dict[str, int] = {}
        self._unresolved: dict[int, str] = {}
        self._lost: dict[str, str | None] = {}
        self._damage_before: dict[int, int] = {}
        self._damaged_after: int | None = None
        self._leaf_before_marker: int | None = None

    # Building.

    def add(self, data: Mapping[str, Any], offset: int, length: int) -> int:
        """Hang one entry on its parent and make it the leaf; its position.

        `data` has an id; a duplicate of an id that is there already must have been looked at before (`clash`).
        """
        ids = self.ids
        position = len(ids)
        kind = _kind(data)
        entry_id: str = data["id"]
        parent_id = data.get("parentId")
        if parent_id.__class__ is not str:
            parent = ROOT
        else:
            parent = self._index.get(parent_id, _MISSING)
            if self._aliases:
                parent = self._aliases.get(parent_id, parent)
            if parent == _MISSING:
                self._unresolved[position] = parent_id
                if self._damaged_after is not None:
                    self._damage_before[position] = self._damaged_after
            elif self._disk_ids and parent in self._disk_ids:
                self.bent.add(position)
        ids.append(entry_id)
        self.parents.append(parent)
        self.kinds.append(kind)
        self.offsets.append(offset)
        self.lengths.append(length)
        self._index[entry_id] = position
        self.leaf = position
        if kind[:8] == "message/":
            self._leaf_before_marker = None
        else:
            self._note(kind, position, data)
        return position

    def _note(self, kind: str, position: int, data: Mapping[str, Any]) -> None:
        marker, self._leaf_before_marker = self._leaf_before_marker, None
        if kind == "leaf":
            self._follow_leaf(data.get("targetId"))
        elif kind in STATE_TYPES:
            self.states[position] = data
        elif kind == "label":
            self._relabel(data)
        elif kind == "session_info":
            name = data.get("name")
            self.name = (" ".join(name.split("\n")).strip() or None) if isinstance(name, str) else None
            if marker is not None and self.parents[position] == marker and set(data) <= _MARKER_MEMBERS:
                self.leaf = marker

    def _follow_leaf(self, target: Any) -> None:
        if target is None:
            self.leaf = ROOT
        elif isinstance(target, str) and target in self._index:
            self.leaf = self._aliases.get(target, self._index[target])
        else:
            self.problems.dangling_leaf = str(target)
            own = self.parents[-1]
            self.leaf = own if own >= ROOT else ROOT
        self._leaf_before_marker = self.leaf

    def _relabel(self, data: Mapping[str, Any]) -> None:
        target, label = data.get("targetId"), data.get("label")
        if not isinstance(target, str):
            return
        if isinstance(label, str) and label.strip():
            self.labels[target] = label.strip()
        else:
            self.labels.pop(target, None)

    def clash(self, entry_id: str) -> int | None:
        """The position that has this id already, or None."""
        return self._index.get(entry_id)

    def add_clashing(self, data: Mapping[str, Any], offset: int, length: int) -> int:
        """Add an entry whose id another entry has. Children that follow in the file hang on this one."""
        entry_id: str = data["id"]
        number = 2
        while f"{entry_id}~{number}" in self._index:
            number += 1
        position = self.add({**data, "id": f"{entry_id}~{number}"}, offset, length)
        self._aliases[entry_id] = position
        self._disk_ids[position] = entry_id
        self.bent.add(position)
        self.problems.duplicates.append(entry_id)
        return position

    def note_damage(self, lost: tuple[str, str | None] | None) -> None:
        """A line that could not be read stands here; `lost` is the id it had and its parent, where they are known."""
        self._damaged_after = len(self.ids) - 1
        if lost is not None:
            self._lost.setdefault(*lost)

    def finish(self) -> None:
        """Resolve what pointed forwards or nowhere. Called when the file is read to its end; may be called again."""
        for position, parent_id in self._unresolved.items():
            self.parents[position] = self._resolve(position, parent_id)
            if self.ids[position] in self.problems.missing_parents:
                self.bent.add(position)
        self._unresolved.clear()

    def _resolve(self, position: int, parent_id: str) -> int:
        wanted: str | None = parent_id
        seen: set[str] = set()
        while wanted is not None and wanted not in seen:
            found = self._index.get(wanted)
            if found is not None and found != position:
                if wanted != parent_id:
                    self.problems.missing_parents[self.ids[position]] = wanted
                return found
            seen.add(wanted)
            if wanted not in self._lost:
                break
            wanted = self._lost[wanted]
        bridge = self._damage_before.get(position, ROOT) if wanted is not None else ROOT
        self.problems.missing_parents[self.ids[position]] = self.ids[bridge] if bridge >= 0 else None
        return bridge

    def straighten(self) -> None:
        """The file was written anew and says now what this tree says."""
        self.to_be_rewritten = False
        self.bent.clear()
        self._disk_ids.clear()
        self._aliases.clear()

    # Asking.

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, entry_id: object) -> bool:
        return entry_id in self._index

    def position(self, entry_id: str) -> int:
        """Where an entry is.

        Raises:
            KeyError: No entry has that id.
        """
        return self._index[entry_id]

    def disk_id(self, position: int) -> str | None:
        """The id as it stands in the file that the next append leaves behind; None for `ROOT`."""
        if position < 0:
            return None
        if self.to_be_rewritten:
            return self.ids[position]
        return self._disk_ids.get(position, self.ids[position])

    @property
    def leaf_id(self) -> str | None:
        """Id of the entry the next one attaches to; None before the first."""
        return self.ids[self.leaf] if self.leaf >= 0 else None

    def path(self, position: int | None = None) -> list[int]:
        """Positions from the root to an entry, the leaf by default. A circle of parents ends the walk."""
        at = self.leaf if position is None else position
        walked: list[int] = []
        ascending = True
        parents = self.parents
        while at >= 0:
            walked.append(at)
            parent = parents[at]
            if parent >= at:
                ascending = False
            at = parent
            if not ascending and len(walked) > len(parents):
                walked = self._cut_cycle(walked)
                break
        walked.reverse()
        return walked

    def _cut_cycle(self, walked: list[int]) -> list[int]:
        seen: set[int] = set()
        for step, position in enumerate(walked):
            if position in seen:
                circle = set(walked[walked.index(position) : step])
                cut_here = {self.ids[at] for at in circle} & set(self.problems.cycles)
                if not cut_here:
                    self.problems.cycles.append(self.ids[walked[step - 1]])
                return walked[:step]
            seen.add(position)
        return walked

    def children(self) -> dict[int, list[int]]:
        """The children of every position that has some, `ROOT` included, in the order of the file."""
        found: dict[int, list[int]] = {}
        for position, parent in enumerate(self.parents):
            found.setdefault(parent if parent >= 0 else ROOT, []).append(position)
        return found

    def find_cycles(self) -> list[str]:
        """Every entry at which a circle of parents is cut, one for each circle; they are noted as problems."""
        reachable, seen = bytearray(len(self.ids)), bytearray(len(self.ids))
        children = self.children()
        open_ = list(children.get(ROOT, ()))
        while open_:
            position = open_.pop()
            reachable[position] = 1
            open_ += children.get(position, ())
        for position, reached in enumerate(reachable):
            if not reached and not seen[position]:
                for at in self.path(position):
                    seen[at] = 1
        return list(self.problems.cycles)

    def common_ancestor(self, one: int, other: int) -> int:
        """The deepest entry on both paths; `ROOT` when there is none."""
        on_path = set(self.path(one))
        return next((position for position in reversed(self.path(other)) if position in on_path), ROOT)

    def labelled(self, positions: Iterable[int]) -> dict[str, str]:
        """The labels of some entries, by entry id."""
        wanted = {self.ids[position] for position in positions}
        return {target: label for target, label in self.labels.items() if target in wanted}


def _kind(data: Mapping[str, Any]) -> str:
    kind = data.get("type")
    if kind != "message":
        return intern(TYPE_SPELLINGS.get(kind, kind)) if isinstance(kind, str) else "?"
    message = data.get("message")
    role = message.get("role") if isinstance(message, dict) else None
    return _ROLE_KINDS.get(role) or intern(f"message/{role}") if isinstance(role, str) else "message/None"


_ROLE_KINDS: Final = {role: f"message/{role}" for role in ("user", "assistant", "toolResult")}
_MARKER_MEMBERS: Final = frozenset({"type", "id", "parentId", "timestamp", "name"})
