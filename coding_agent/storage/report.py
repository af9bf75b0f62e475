"""Value. What was found wrong with a session file, and what was made of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import asdict, define, field

from coding_agent.storage.lines import BadLine
from coding_agent.storage.tree import Problems


@define
class TornTail:
    """A last line without a line end.

    Attributes:
        offset: Where the unreadable part begins.
        length: Its bytes. Zero: the line is whole and only its line end is missing.
    """

    offset: int
    length: int


@define
class Report:
    """One session file as it was found. Everything here was survived; nothing here was changed on disk by reading.

    Attributes:
        version: Format of the file.
        size: Bytes read.
        lines: Lines read, the header included.
        entries: Entries in the tree.
        bad_lines: Lines that could not be read, or not wholly; they stay in the file.
        torn_tail: What the next append repairs.
        problems: What had to be bent to make a tree.
        undecodable: Message entries whose content makes no message; they are left out of the context.
        foreign_entries: Entries another program stored while this one had the file open.
        stale_lock: The dead process whose lock was taken over.
        read_only: Why nothing can be appended; None when it can.
        notes: Everything else worth saying.
    """

    version: int = 3
    size: int = 0
    lines: int = 0
    entries: int = 0
    bad_lines: list[BadLine] = field(factory=list)
    torn_tail: TornTail | None = None
    problems: Problems = field(factory=Problems)
    undecodable: dict[str, str] = field(factory=dict)
    foreign_entries: int = 0
    stale_lock: int | None = None
    read_only: str | None = None
    notes: list[str] = field(factory=list)

    def __iter__(self) -> Iterator[str]:
        return iter(self.sentences())

    def clean(self) -> bool:
        """Whether the file is as a well-behaved program leaves it."""
        return not (self.bad_lines or self.torn_tail or self.problems.any() or self.undecodable)

    def sentences(self) -> list[str]:
        """Everything that is wrong, one sentence each."""
        said = [f"line {bad.number}: {bad.reason}" + _recovered(bad) for bad in self.bad_lines]
        if self.torn_tail is not None:
            what = (
                f"{self.torn_tail.length} bytes of an unfinished line"
                if self.torn_tail.length
                else "a missing line end"
            )
            said.append(f"the file ends in {what}; the next append repairs it")
        problems = self.problems
        said += [
            f"entry {entry}: its parent is missing; "
            + (f"it was hung on {parent}" if parent else "it begins a new root")
            for entry, parent in problems.missing_parents.items()
        ]
        said += [f"id {entry} is used by two different entries" for entry in problems.duplicates]
        said += [f"entry {entry} is stored twice; the second was dropped" for entry in problems.repeated]
        said += [f"entry {entry}: the parents form a circle, cut here" for entry in problems.cycles]
        if problems.without_id:
            said.append(f"{problems.without_id} entries have no id and were given one")
        if problems.dangling_leaf is not None:
            said.append(f"the leaf points to {problems.dangling_leaf}, which does not exist")
        said += [f"entry {entry}: {reason}" for entry, reason in self.undecodable.items()]
        return said + self.notes

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        data = asdict(self)
        data["clean"] = self.clean()
        data["sentences"] = self.sentences()
        return data


def _recovered(bad: BadLine) -> str:
    if bad.recovered == 0:
        return ""
    return f" ({bad.recovered} {'record' if bad.recovered == 1 else 'records'} recovered)"
