"""Edge of prompt-toolkit. The windows that show a `Frame`, and between them the texts that are written."""

from collections.abc import Callable

from attrs import frozen
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    VSplit,
    Window,
)
from prompt_toolkit.styles import Style

from coding_agent.terminal.clusters import Graphemes, clustered
from coding_agent.terminal.frame import Frame, Part
from coding_agent.terminal.theme import Theme


def style_of(theme: Theme) -> Style:
    """The styles of prompt-toolkit's with the colours of a theme."""
    warning, accent = _named(theme.warning), _named(theme.accent)
    return Style.from_dict(
        {
            "status": "dim",
            "status.phase": "bold",
            "status.tight": f"fg:{warning} bold",
            "status.hint": f"fg:{warning}",
            "rule": "dim",
            "mark": f"fg:{accent} bold",
            "faint": "dim",
            "ask": f"fg:{warning} bold",
            "typed": "underline",
            "key": f"fg:{warning} bold",
            "chosen": "bold reverse",
            "menu.current": "reverse",
            "menu.note": "dim",
        }
    )


def _named(colour: str) -> str:
    """A colour in prompt-toolkit's words, which call the seventh one grey."""
    if colour.startswith("#"):
        return colour
    return {"white": "ansigray", "bright_white": "ansiwhite"}.get(colour, f"ansi{colour.replace('_', '')}")


@frozen
class Windows:
    """What is on the screen, and what of it can have the cursor beside the texts.

    Attributes:
        panel: The question; it has the cursor while one of several answers is chosen.
    """

    layout: Layout
    panel: Window


def windows(frame: Callable[[], Frame], editor: Buffer, field: Buffer, *, answers: Callable[[], bool]) -> Windows:
    """The windows.

    Args:
        frame: What they show now.
        editor: The prompt that is written.
        field: The answer that is written.
        answers: Whether an answer is written now.
    """
    panel = _shown(lambda: frame().panel, focusable=True)
    root = HSplit(
        [
            _shown(lambda: frame().live),
            Window(height=1, char="─", style="class:rule"),
            ConditionalContainer(panel, Condition(lambda: frame().panel.rows > 0)),
            ConditionalContainer(_written(field, frame, style="class:typed"), Condition(answers)),
            VSplit([_mark(), _written(editor, frame)]),
            ConditionalContainer(_shown(lambda: frame().menu), Condition(lambda: frame().menu.rows > 0)),
            _shown(lambda: frame().status, style="class:status"),
        ]
    )
    return Windows(Layout(root, focused_element=editor), panel)


def _shown(part: Callable[[], Part], *, focusable: bool = False, style: str = "") -> Window:
    def exactly() -> Dimension:
        return Dimension(min=0, max=part().rows, preferred=part().rows)

    control = FormattedTextControl(lambda: clustered(list(part().text)), focusable=focusable, show_cursor=False)
    return Window(control, height=exactly, dont_extend_height=True, style=style)


def _written(buffer: Buffer, frame: Callable[[], Frame], style: str = "") -> Window:
    return Window(
        BufferControl(buffer, input_processors=[Graphemes()], focusable=True),
        height=lambda: Dimension(min=1, max=frame().editor_rows),
        wrap_lines=True,
        dont_extend_height=True,
        style=style,
    )


def _mark() -> Window:
    return Window(FormattedTextControl([("class:mark", "› ")]), width=2, dont_extend_height=True)
