"""Pure. In which order a page shows a tree: the current branch from the top, the others where they leave it.

A branch is followed along its largest child, so branches within branches are never deeper than the logarithm of the
session's size, however its file was made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import define, field, frozen

from coding_agent.storage.tree import ROOT, SessionTree

_HIDDEN: Final = frozenset({"custom", "label", "leaf", "session_info", "active_tools_change"})
"""Kinds that a reader is not shown by themselves."""

_JOINING: Final = _HIDDEN | {"message/toolResult"}
"""Kinds that stay with the answer before them."""


@frozen
class Group:
    """Entries shown together: an answer with the results of its calls, or a single entry."""

    positions: tuple[int, ...]


@define
class Layout:
    """A tree laid out for reading.

    Attributes:
        main: The groups of the current branch, in order.
        outside: Positions that hang on nothing: the rest of a circle of parents.
    """

    tree: SessionTree
    main: list[int]
    outside: list[int]
    _children: Mapping[int, Sequence[int]] = field(repr=False)
    _shown: Mapping[int, int] = field(repr=False)

    def side_branches(self, position: int, following: int | None) -> list[int]:
        """Where other branches start behind an entry, those with nothing to show left out."""
        return [
            child for child in self._children.get(position, ()) if child != following and self._shown.get(child, 0) > 0
        ]

    def shown_below(self, position: int) -> int:
        """How many entries a reader would see from here down."""
        return self._shown.get(position, 0)

    def chain(self, start: int) -> list[int]:
        """The entries of a side branch, along the largest child each time."""
        found, at = [start], start
        while below := self._children.get(at):
            at = max(below, key=lambda child: (self._shown.get(child, 0), child))
            found.append(at)
        return found


def lay_out(tree: SessionTree) -> Layout:
    """The order in which everything is shown."""
    children = {parent: list(below) for parent, below in tree.children().items()}
    order: list[int] = []
    seen: set[int] = set()
    open_ = list(children.get(ROOT, ()))
    while open_:
        position = open_.pop()
        if position in seen:
            continue
        seen.add(position)
        order.append(position)
        open_ += children.get(position, ())
    shown: dict[int, int] = {}
    for position in reversed(order):
        own = 0 if tree.kinds[position] in _HIDDEN else 1
        shown[position] = own + sum(shown.get(child, 0) for child in children.get(position, ()))
    main = tree.path()
    on_main = set(main)
    outside = [position for position in range(len(tree)) if position not in seen and position not in on_main]
    within = {parent: [child for child in below if child in seen] for parent, below in children.items()}
    return Layout(tree, main, outside, within, shown)


def groups(tree: SessionTree, chain: Sequence[int]) -> list[Group]:
    """A chain of entries cut into what is shown together."""
    found: list[list[int]] = []
    for position in chain:
        if found and tree.kinds[position] in _JOINING:
            found[-1].append(position)
        else:
            found.append([position])
    return [Group(tuple(positions)) for positions in found]
