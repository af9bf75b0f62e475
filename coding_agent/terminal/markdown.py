"""Pure, but for rich. Markdown as an answer is read in a terminal: quiet, nothing lost, easy to copy from."""

from typing import Final

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import (
    CodeBlock,
    Heading,
    HorizontalRule,
    ListItem,
    Markdown,
    MarkdownElement,
    TableElement,
)
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from coding_agent.terminal.markdown_stream import parser
from coding_agent.terminal.render import Line, Renderer, plain_text
from coding_agent.terminal.screen_text import for_screen

MARKS: Final = ("**", "__", "`", "~~")


class LeftHeading(Heading):
    """A title where text begins, without a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class QuietCode(CodeBlock):
    """Code with its colours and nothing around it but an indent, so that it can be marked and copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        if self.lexer_name in ("", "text", "default"):
            yield Padding(Text(code, style="markdown.code_block"), (0, 0, 0, 2))
        else:
            syntax = Syntax(
                code, self.lexer_name, theme=self.theme, word_wrap=True, background_color="default", tab_size=4
            )
            yield Padding(syntax, (0, 0, 0, 2))


class NumberedItem(ListItem):
    """An item whose number has its dot, so that it can be spoken of as it was written."""

    def render_number(self, console: Console, options: ConsoleOptions, number: int, last_number: int) -> RenderResult:
        wide = len(str(last_number)) + 3
        lines = console.render_lines(self.elements, options.update(width=max(1, options.max_width - wide)))
        for at, line in enumerate(lines):
            yield Segment(
                f"{number}. ".rjust(wide) if at == 0 else " " * wide, console.get_style("markdown.item.number")
            )
            yield from line
            yield Segment("\n")


class QuietRule(HorizontalRule):
    """A thin line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style="markdown.hr")


class QuietTable(TableElement):
    """A table with a line below its head."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, style="markdown.table.border", show_edge=False)
        if self.header is not None and self.header.row is not None:
            for column in self.header.row.cells:
                heading = column.content.copy()
                heading.stylize("markdown.table.header")
                table.add_column(heading, overflow="fold", justify=column.content.justify or "default")
        if self.body is not None:
            for row in self.body.rows:
                table.add_row(*(cell.content for cell in row.cells))
        yield table


class QuietMarkdown(Markdown):
    """Markdown in the terminal's own colours."""

    elements: "dict[str, type[MarkdownElement]]" = {  # type: ignore[misc]  # noqa: RUF012 - rich's table of kinds
        **Markdown.elements,
        "heading_open": LeftHeading,
        "fence": QuietCode,
        "code_block": QuietCode,
        "hr": QuietRule,
        "list_item_open": NumberedItem,
        "table_open": QuietTable,
    }

    def __init__(self, markup: str, highlight: str) -> None:
        # Not rich's own: that makes a parser of its own each time, which costs more than all the rest.
        self.markup = markup
        self.parsed = parser().parse(markup)
        self.code_theme = highlight
        self.justify = None
        self.style = "none"
        self.hyperlinks = False
        self.inline_code_lexer = None
        self.inline_code_theme = highlight


def markdown_lines(renderer: Renderer, text: str, width: int | None = None) -> list[Line]:
    """The lines of a piece of Markdown, no empty ones at either end."""
    lines = renderer.lines(QuietMarkdown(for_screen(text), renderer.theme.highlight), width)
    while lines and not plain_text(lines[0]).strip():
        del lines[0]
    while lines and not plain_text(lines[-1]).strip():
        del lines[-1]
    return lines


def safe_length(source: str, lines: list[Line], spare: int = 3) -> int:
    """How much of a long paragraph's source stands in its lines but for the last `spare`; 0 where that is not certain.

    What is drawn is what is written without some marks, in the same order, so both are walked side by side. A cut is
    good where a line ends at a blank and no emphasis, code or link is open.
    """
    at = best = 0
    for line in lines[:-spare]:
        for char in plain_text(line):
            if char.isspace():
                continue
            found = source.find(char, at)
            if found < 0:
                return best
            at = found + 1
        end = at
        while end < len(source) and source[end] in "*_`~)]":
            end += 1
        if end < len(source) and source[end].isspace() and _is_balanced(source[:end]):
            best = end
    return best


def _is_balanced(source: str) -> bool:
    if any(source.count(mark) % 2 for mark in MARKS) or source.count("*") % 2:
        return False
    return source.count("[") == source.count("]") and source.count("(") == source.count(")")
