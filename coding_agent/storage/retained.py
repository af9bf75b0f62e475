"""Pure. The part of a branch that a compaction keeps word for word.

The compaction holds it itself and also points to its beginning: programs that know only one of the two read the same.
The part is taken from the tree at the moment the compaction is appended, so whatever was said while the summary was
being made is in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from coding_agent.messages import message_to_json
from coding_agent.storage.context import Source, project
from coding_agent.storage.tree import SessionTree

_IN_CONTEXT: Final = ("message/", "custom_message", "branch_summary")


def kept_part(tree: SessionTree, path: Sequence[int], first_kept: str | None, as_of: str | None) -> int | None:
    """The step of the path at which the kept part begins; None when what marks it is not on the path.

    Without `first_kept` only what follows `as_of` is kept; without either, nothing is. Entries that hold no words, such
    as a change of model, belong to what follows them.
    """
    if first_kept is None:
        if as_of is None:
            return len(path)
        return _step(tree, path, as_of, after=True)
    start = _step(tree, path, first_kept, after=False)
    while start and not holds_words(tree.kinds[path[start - 1]]):
        start -= 1
    return start


def retained_tail(source: Source, positions: Sequence[int]) -> list[Mapping[str, Any]]:
    """The messages of some entries as JSON objects, members this program does not know included."""
    kinds = source.tree.kinds
    found: list[Mapping[str, Any]] = []
    for position in positions:
        if kinds[position] == "compaction":
            continue
        for at, message in project(source, [position]):
            stored = source.entry_data(at).get("message") if kinds[at].startswith("message/") else None
            found.append(stored if isinstance(stored, dict) else message_to_json(message))
    return found


def _step(tree: SessionTree, path: Sequence[int], entry_id: str, *, after: bool) -> int | None:
    if entry_id not in tree:
        return None
    position = tree.position(entry_id)
    steps = (step for step in range(len(path) - 1, -1, -1) if path[step] == position)
    found = next(steps, None)
    return found if found is None or not after else found + 1


def holds_words(kind: str) -> bool:
    """Whether entries of a type are part of what a model reads, or stand in for such."""
    return kind == "compaction" or kind.startswith(_IN_CONTEXT)
