"""Value and pure. What is shown to a person: tables and lines with a meaning for each cell; and all of it as text.

Whoever has a terminal that can do more draws the same sheets with colours. Every text is made harmless here: what a
terminal would obey is written out.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from attrs import field, frozen

from lemon_otp.introspect import printable

Meaning: TypeAlias = Literal["", "id", "number", "good", "bad", "busy", "dim", "title", "code"]
"""What a cell is: it decides the colour."""
CELL_MAX: Final = 400


@frozen
class Cell:
    """A text and what it means."""

    text: str
    meaning: Meaning = ""


def cell(value: object, meaning: Meaning = "", *, width: int = CELL_MAX) -> Cell:
    """A harmless cell of at most `width` characters; nothing for None."""
    text = printable("" if value is None else str(value))
    return Cell(text if len(text) <= width else text[: width - 1] + "…", meaning)


@frozen
class Table:
    """Rows under headings.

    Attributes:
        headings: Names of the columns; none is shown when all are empty.
        right: Numbers of the columns that stand on the right.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    right: frozenset[int] = frozenset()
    empty: str = "(none)"


@frozen
class Lines:
    """Lines as they are, each of cells beside each other."""

    lines: tuple[tuple[Cell, ...], ...]


Part: TypeAlias = Table | Lines


@frozen
class Page:
    """An answer, ready to be shown.

    Attributes:
        parts: From top to bottom.
        warnings: What is wrong with it, such as that it is partial; shown first.
    """

    parts: tuple[Part, ...] = ()
    warnings: tuple[str, ...] = field(default=())


def lines(*texts: str, meaning: Meaning = "") -> Lines:
    """Plain lines."""
    return Lines(tuple((cell(text, meaning, width=100_000),) for text in texts))


def page(*parts: Part, warnings: Sequence[str] = ()) -> Page:
    """A page of these parts."""
    return Page(parts, tuple(warnings))


def plain(shown: Page) -> str:
    """The page as text."""
    found = [f"! {printable(warning)}" for warning in shown.warnings]
    for part in shown.parts:
        found += _table(part) if isinstance(part, Table) else ["".join(c.text for c in row) for row in part.lines]
    return "\n".join(line.rstrip() for line in found)


def _table(part: Table) -> list[str]:
    if not part.rows:
        return [part.empty]
    headed = any(part.headings)
    texts = [[c.text for c in row] for row in part.rows]
    rows = [list(part.headings), *texts] if headed else texts
    widths = [max(width_of(row[column]) for row in rows if column < len(row)) for column in range(len(part.headings))]
    return ["  ".join(_padded(text, widths[i], i in part.right) for i, text in enumerate(row)) for row in rows]


def _padded(text: str, width: int, right: bool) -> str:
    room = " " * max(0, width - width_of(text))
    return room + text if right else text + room


def width_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
