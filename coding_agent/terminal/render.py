"""Pure, but for rich. What is to be shown as lines of styled text, for the scrollback and for what is redrawn."""

from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Final, TypeAlias

from attrs import define, field
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.theme import Theme as RichTheme

from coding_agent.terminal.theme import COLOURS, DARK, Depth, Theme

if TYPE_CHECKING:
    from rich.color import Color

Line: TypeAlias = list[Segment]
Fragment: TypeAlias = tuple[str, str]

STYLES: Final = {
    "markdown.code": "{code}",
    "markdown.code_block": "{code}",
    "markdown.block_quote": "italic",
    "markdown.h1": "bold underline",
    "markdown.h2": "bold",
    "markdown.h3": "bold italic",
    "markdown.h4": "italic",
    "markdown.link": "underline",
    "markdown.link_url": "underline",
    "markdown.item.bullet": "bold",
    "markdown.item.number": "bold",
    "markdown.hr": "dim",
    "markdown.table.border": "dim",
    "markdown.table.header": "bold",
    "faint": "dim",
    "aside": "dim italic",
    "user": "bold",
    "mark.ok": "{success}",
    "mark.bad": "bold {error}",
    "mark.ask": "bold {warning}",
    "mark.tool": "bold {accent}",
    "bad": "{error}",
    "warn": "{warning}",
    "added": "{success}",
    "removed": "{error}",
    "hunk": "{code}",
}
"""What is drawn how, in the colours of a `theme`."""
ANSI_NAMES: Final = (
    "black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray",
    "brightblack", "brightred", "brightgreen", "brightyellow", "brightblue", "brightmagenta", "brightcyan", "white",
)  # fmt: skip


@define
class Renderer:
    """Draws at one width; `width` may be changed at any time."""

    width: int = 80
    colour: bool = True
    theme: Theme = DARK
    depth: Depth = "standard"
    _console: Console | None = field(default=None, init=False)
    _styles: dict[Style, str] = field(factory=dict, init=False)

    def lines(self, renderable: RenderableType, width: int | None = None) -> list[Line]:
        """The lines of it, without blanks at their ends."""
        console = self._the_console()
        options = console.options.update(width=max(1, width or self.width), height=None)
        return [trimmed(line) for line in console.render_lines(renderable, options, pad=False)]

    def ansi(self, lines: Iterable[Line]) -> str:
        """The lines with colours as a terminal takes them, each ended by a carriage return and a newline."""
        system = self._the_console()._color_system
        parts: list[str] = []
        for line in lines:
            for text, style, control in line:
                if control is not None:
                    continue
                if style is not None and not self.colour:
                    style = style.without_color
                parts.append(style.render(text, color_system=system) if style else text)
            parts.append("\r\n")
        return "".join(parts)

    def fragments(self, lines: Sequence[Line]) -> list[Fragment]:
        """The lines for prompt-toolkit, newlines between them."""
        found: list[Fragment] = []
        for number, line in enumerate(lines):
            if number:
                found.append(("", "\n"))
            found.extend((self._style(style), text) for text, style, control in line if control is None)
        return found

    def _style(self, style: Style | None) -> str:
        if style is None:
            return ""
        known = self._styles.get(style)
        if known is None:
            known = self._styles[style] = prompt_style(style, colour=self.colour)
        return known

    def _the_console(self) -> Console:
        if self._console is None:
            self._console = Console(
                file=StringIO(),
                force_terminal=True,
                color_system=self.depth,
                no_color=not self.colour,
                width=self.width,
                height=1000,
                theme=rich_theme(self.theme),
                highlight=False,
                markup=False,
                emoji=False,
                legacy_windows=False,
                _environ={},
            )
        return self._console


def rich_theme(theme: Theme) -> RichTheme:
    """The styles of rich's with these colours."""
    colours = {name: getattr(theme, name) for name in COLOURS}
    return RichTheme({name: style.format(**colours) for name, style in STYLES.items()}, inherit=True)


def trimmed(line: Sequence[Segment]) -> Line:
    """The line without the blanks at its end that nobody sees."""
    kept = [segment for segment in line if segment.text and segment.control is None]
    while kept:
        text, style, _ = kept[-1]
        if style is not None and (style.bgcolor is not None or style.reverse or style.underline):
            break
        if text.rstrip():
            kept[-1] = Segment(text.rstrip(), style)
            break
        kept.pop()
    return kept


def plain_text(line: Sequence[Segment]) -> str:
    """The characters of a line."""
    return "".join(segment.text for segment in line)


def prompt_style(style: Style, *, colour: bool) -> str:
    """A style of rich's in prompt-toolkit's words."""
    words = [
        word
        for word, on in (
            ("bold", style.bold), ("italic", style.italic), ("underline", style.underline),
            ("reverse", style.reverse), ("strike", style.strike), ("dim", style.dim),
        )
        if on
    ]  # fmt: skip
    if colour and style.color is not None and not style.color.is_default:
        words.append(f"fg:{_colour(style.color)}")
    if colour and style.bgcolor is not None and not style.bgcolor.is_default:
        words.append(f"bg:{_colour(style.bgcolor)}")
    return " ".join(words)


def _colour(color: "Color") -> str:
    if color.number is not None and color.number < len(ANSI_NAMES):
        return f"ansi{ANSI_NAMES[color.number]}"
    return color.get_truecolor().hex
