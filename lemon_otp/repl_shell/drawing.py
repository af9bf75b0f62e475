"""Edge. Pages on a terminal: with colours where it has them and `rich` is installed, as plain text elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any, Final, Protocol, TextIO

from lemon_otp.introspect import printable
from lemon_otp.repl_shell.sheets import Cell, Lines, Meaning, Page, Table, plain

STYLES: Final[Mapping[Meaning, str]] = {
    "": "",
    "id": "cyan",
    "number": "",
    "good": "green",
    "bad": "bold red",
    "busy": "yellow",
    "dim": "bright_black",
    "title": "bold",
    "code": "",
}


class Drawing(Protocol):
    """Somewhere to show pages."""

    def show(self, page: Page) -> None:
        """Show the page below what was shown before."""
        ...

    def fitted(self, page: Page) -> str:
        """The page as text of the terminal's height, for a screen of its own."""
        ...


class PlainDrawing:
    """Plain text: for pipes, and where `rich` is missing."""

    def __init__(self, out: TextIO) -> None:
        self.out = out

    def show(self, page: Page) -> None:
        print(plain(page), file=self.out, flush=True)

    def fitted(self, page: Page) -> str:
        width, height = shutil.get_terminal_size()
        return "\n".join(line[:width] for line in plain(page).splitlines()[: height - 1])


class RichDrawing:
    """Colours and columns that fit the terminal."""

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console

        self.console = Console(file=out, highlight=False, markup=False, emoji=False, soft_wrap=False)

    def show(self, page: Page) -> None:
        for part in self._parts(page):
            self.console.print(part)

    def fitted(self, page: Page) -> str:
        height = self.console.size.height
        with self.console.capture() as captured:
            for part in self._parts(page):
                self.console.print(part)
        return "\n".join(captured.get().splitlines()[: height - 1])

    def _parts(self, page: Page) -> list[Any]:
        from rich.text import Text

        found: list[Any] = [Text(f"! {printable(warning)}", STYLES["bad"]) for warning in page.warnings]
        for part in page.parts:
            found += [self._table(part)] if isinstance(part, Table) else self._lines(part)
        return found

    def _lines(self, part: Lines) -> list[Any]:
        from rich.text import Text

        return [Text.assemble(*((shown.text, STYLES[shown.meaning]) for shown in line)) for line in part.lines]

    def _table(self, part: Table) -> Any:
        from rich.table import Table as RichTable
        from rich.text import Text

        if not part.rows:
            return Text(part.empty, STYLES["dim"])
        made = RichTable(box=None, pad_edge=False, show_header=any(part.headings), header_style="bold")
        last = len(part.headings) - 1
        for index, heading in enumerate(part.headings):
            right = index in part.right
            made.add_column(
                heading,
                justify="right" if right else "left",
                no_wrap=right or index != last,
                overflow="ellipsis" if index != last else "fold",
            )
        for row in part.rows:
            made.add_row(*(self._cell(shown) for shown in row))
        return made

    def _cell(self, shown: Cell) -> Any:
        from rich.text import Text

        return Text(shown.text, STYLES[shown.meaning])


def drawing(out: TextIO, *, plain_text: bool = False) -> Drawing:
    """The best way to show pages there."""
    if plain_text or not out.isatty():
        return PlainDrawing(out)
    try:
        return RichDrawing(out)
    except ImportError:
        return PlainDrawing(out)
