"""Edge. Pages on a terminal: with colours where it has them and `rich` is installed, as plain text elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any, Final, Protocol, TextIO

from lemon_otp.introspect import printable
from lemon_otp.repl_shell.sheets import Cell, Meaning, Page, Table, laid_out, plain

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
            table = isinstance(part, Table)
            rows = laid_out(part, self.console.size.width) if isinstance(part, Table) else part.lines
            found += [self._line(row, whole=table) for row in rows]
        return found

    def _line(self, row: tuple[Cell, ...], *, whole: bool) -> Any:
        """One line; a row of a table is never wrapped."""
        from rich.text import Text

        line = Text.assemble(*((shown.text, STYLES[shown.meaning]) for shown in row), no_wrap=whole)
        if whole:
            line.rstrip()
            line.overflow = "crop"
        return line


def drawing(out: TextIO, *, plain_text: bool = False) -> Drawing:
    """The best way to show pages there."""
    if plain_text or not out.isatty():
        return PlainDrawing(out)
    try:
        return RichDrawing(out)
    except ImportError:
        return PlainDrawing(out)
