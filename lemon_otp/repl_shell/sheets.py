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
COLUMN_MIN: Final = 14
"""Columns are not cut below this width."""


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
    """The page as text, as wide as it is."""
    found = [f"! {printable(warning)}" for warning in shown.warnings]
    for part in shown.parts:
        rows = laid_out(part) if isinstance(part, Table) else part.lines
        found += ["".join(c.text for c in row) for row in rows]
    return "\n".join(line.rstrip() for line in found)


def laid_out(part: Table, width: int | None = None) -> list[tuple[Cell, ...]]:
    """The rows as lines of cells in columns; where `width` is not enough the widest columns are cut."""
    if not part.rows:
        return [(Cell(part.empty, "dim"),)]
    headed = [tuple(Cell(heading, "title") for heading in part.headings)] if any(part.headings) else []
    rows = [*headed, *part.rows]
    columns = range(len(part.headings))
    widths = _fitted([max(width_of(row[column].text) for row in rows) for column in columns], width)
    return [_line(row, widths, part.right) for row in rows]


def _line(row: Sequence[Cell], widths: Sequence[int], right: frozenset[int]) -> tuple[Cell, ...]:
    found: list[Cell] = []
    for column, shown in enumerate(row):
        text = _padded(_cut(shown.text, widths[column]), widths[column], column in right)
        found += [Cell("  ")] if column else []
        found.append(Cell(text, shown.meaning))
    return tuple(found)


def _fitted(widths: list[int], width: int | None) -> list[int]:
    """These widths, the widest made smaller until all fit, as far as that goes."""
    if width is None:
        return widths
    excess = sum(widths) + 2 * (len(widths) - 1) - width
    while excess > 0:
        widest = max(widths)
        if widest <= COLUMN_MIN:
            break
        widths[widths.index(widest)] -= 1
        excess -= 1
    return widths


def _cut(text: str, width: int) -> str:
    if width_of(text) <= width:
        return text
    kept = text[: max(0, width - 1)]
    while kept and width_of(kept) > width - 1:
        kept = kept[:-1]
    return f"{kept}…"


def _padded(text: str, width: int, right: bool) -> str:
    room = " " * max(0, width - width_of(text))
    return room + text if right else text + room


def width_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
