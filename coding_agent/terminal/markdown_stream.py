"""Pure. Markdown that is still being written, cut where it is certain: blocks that cannot change, and a tail that can.

A block is certain once another one has begun behind it. Of what grows long by itself, the beginning is let go before
its end is there: items of a list, lines of code, and lines of a paragraph, so that the tail stays short however long
the answer.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from attrs import define, frozen

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

CODE_LINES_MAX: Final = 24
"""More lines of an open code block are let go."""
CODE_LINES_KEPT: Final = 4
PARAGRAPH_MAX: Final = 1_200
"""Characters; from then on the first lines of a paragraph are let go."""
TAIL_MAX: Final = 8_000
"""Characters; whatever is open then is cut at its last whole line."""
FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})[^\n]*\n")
CLOSED_BY_BLANK: Final = ("paragraph_open", "heading_open", "table_open", "hr")


@frozen
class Piece:
    """A part of an answer that cannot change any more.

    Attributes:
        text: Markdown that stands by itself.
        joined: It goes on where the piece before it ended: no empty line between them.
    """

    text: str
    joined: bool = False


@define
class MarkdownStream:
    """One text of an answer, on its way."""

    tail: str = ""
    joined: bool = False
    """Whether the tail goes on where the last piece ended."""
    _looked_at: int = 0

    def feed(self, delta: str) -> None:
        """There is more."""
        self.tail += delta.replace("\r", "") if "\r" in delta else delta

    def take(self) -> list[Piece]:
        """What has become certain since the last time."""
        pieces: list[Piece] = []
        self.tail = self.tail.lstrip("\n")
        while self._is_worth_a_look():
            cut = self._cut()
            self._looked_at = len(self.tail)
            if cut is None:
                break
            text, rest, joined = cut
            self._let_go(text, rest, joined, pieces)
        return pieces

    def finish(self) -> list[Piece]:
        """Everything that is left; nothing comes after it."""
        pieces = [Piece(self.tail.strip("\n"), self.joined)] if self.tail.strip() else []
        self.tail, self.joined, self._looked_at = "", False, 0
        return pieces

    def take_lines(self) -> list[Piece]:
        """The lines that are whole, for who shows Markdown as it is written."""
        lines, newline, rest = self.tail.rpartition("\n")
        pieces = [Piece(lines, self.joined)] if newline and lines.strip() else []
        if newline:
            self.tail, self.joined, self._looked_at = rest, self.joined or bool(pieces), 0
        return pieces

    def let_go(self, length: int) -> Piece:
        """Take the first `length` characters of an open paragraph, up to where a line of it ends on the screen."""
        piece = Piece(self.tail[:length], self.joined)
        self.tail, self.joined, self._looked_at = self.tail[length:].lstrip(" "), True, 0
        return piece

    @property
    def is_long_paragraph(self) -> bool:
        """Whether the tail is one paragraph that has become too long to be drawn again and again."""
        return len(self.tail) > PARAGRAPH_MAX and "\n\n" not in self.tail and FENCE.match(self.tail) is None

    def _is_worth_a_look(self) -> bool:
        return "\n" in self.tail[self._looked_at :] or (self._looked_at == 0 and "\n" in self.tail)

    def _let_go(self, text: str, rest: str, joined: bool, pieces: list[Piece]) -> None:
        if text.strip():
            pieces.append(Piece(text.strip("\n"), self.joined))
        self.tail, self.joined, self._looked_at = rest, joined, 0

    def _cut(self) -> tuple[str, str, bool] | None:
        """What is certain, what is left, and whether that goes on where the first ends."""
        fence = FENCE.match(self.tail)
        if fence is not None and not self._is_closed(fence):
            return self._cut_code(fence)
        tokens = parser().parse(self.tail)
        starts = [token for token in tokens if token.level == 0 and token.nesting >= 0 and token.map]
        if not starts:
            return None
        last = starts[-1]
        assert last.map is not None
        if len(starts) > 1:
            return *self._at_line(last.map[0]), False
        if self._is_over(last):
            return self.tail, "", False
        items = [token for token in tokens if token.type == "list_item_open" and token.level == 1 and token.map]
        if len(items) > 1 and items[-1].map is not None:
            return *self._at_line(items[-1].map[0]), True
        if len(self.tail) > TAIL_MAX:
            return self._cut_anywhere(last)
        return None

    def _is_over(self, last: "Token") -> bool:
        if last.type == "heading_open" and last.markup.startswith("#"):
            return self.tail.endswith("\n")
        if last.type == "fence":
            fence = FENCE.match(self.tail)
            return fence is not None and self.tail.endswith("\n")
        return last.type in CLOSED_BY_BLANK and self.tail.endswith("\n\n")

    def _is_closed(self, fence: re.Match[str]) -> bool:
        mark = fence[1]
        closing = re.compile(rf"^ {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$", re.MULTILINE)
        return closing.search(self.tail, fence.end()) is not None

    def _cut_code(self, fence: re.Match[str]) -> tuple[str, str, bool] | None:
        body = self.tail[fence.end() :]
        if body.count("\n") <= CODE_LINES_MAX:
            return None
        lines = body.split("\n")
        kept = CODE_LINES_KEPT
        shown = fence[0] + "\n".join(lines[: -kept - 1]) + "\n" + fence[1]
        return shown, fence[0] + "\n".join(lines[-kept - 1 :]), True

    def _cut_anywhere(self, last: "Token") -> tuple[str, str, bool] | None:
        at = self.tail.rfind("\n", 0, len(self.tail) - 1) + 1
        if at <= 0:
            return None
        head = ""
        if last.type == "table_open":  # its rows are a table only below its head
            head = "".join(line + "\n" for line in self.tail.split("\n", 2)[:2])
        return self.tail[:at], head + self.tail[at:], True

    def _at_line(self, line: int) -> tuple[str, str]:
        at = 0
        for _line in range(line):
            at = self.tail.index("\n", at) + 1
        return self.tail[:at], self.tail[at:]


@cache
def parser() -> "MarkdownIt":
    """The Markdown that is read here. HTML is text, and a picture a link: what a model writes is to be seen."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table").disable("image")
