"""Edge of prompt-toolkit. What stands below the scrollback: what is on its way, a question, the editor, the status."""

from typing import TYPE_CHECKING

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

from coding_agent.terminal.clusters import Graphemes, clustered
from coding_agent.terminal.graphemes import clip
from coding_agent.terminal.panel import panel_fragments, panel_height
from coding_agent.terminal.screen_text import one_line
from coding_agent.terminal.status_line import status_fragments

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text.base import StyleAndTextTuples

    from coding_agent.terminal.screen import Screen

MENU_ROWS = 8


def make_layout(screen: "Screen") -> Layout:
    """The windows, drawn from what the screen knows."""
    asking = Condition(lambda: screen.question is not None)
    field = Condition(lambda: screen.question is not None and screen.question.is_field)
    offering = Condition(
        lambda: screen.editor.complete_state is not None and bool(screen.editor.complete_state.completions)
    )
    editor = Window(
        BufferControl(screen.editor, input_processors=[Graphemes()], focusable=True),
        height=lambda: Dimension(min=1, max=screen.editor_rows()),
        wrap_lines=True,
        dont_extend_height=True,
    )
    mark = Window(FormattedTextControl(lambda: [("class:mark", "› ")]), width=2, dont_extend_height=True)
    written = Window(
        BufferControl(screen.field, input_processors=[Graphemes()]),
        height=lambda: Dimension(min=1, max=screen.editor_rows()),
        wrap_lines=True,
        dont_extend_height=True,
        style="class:typed",
    )
    panel = Window(
        FormattedTextControl(lambda: _panel(screen), focusable=True, show_cursor=False),
        height=lambda: _exactly(_panel_rows(screen)),
        dont_extend_height=True,
    )
    root = HSplit(
        [
            Window(
                FormattedTextControl(lambda: clustered(list(screen.live_fragments()))),
                height=lambda: _exactly(min(screen.live_height, screen.live_room())),
                dont_extend_height=True,
            ),
            Window(height=1, char="─", style="class:rule"),
            ConditionalContainer(panel, asking),
            ConditionalContainer(written, field),
            VSplit([mark, editor]),
            ConditionalContainer(
                Window(
                    FormattedTextControl(lambda: _menu(screen)),
                    height=lambda: _exactly(_menu_rows(screen)),
                    dont_extend_height=True,
                ),
                offering,
            ),
            Window(
                FormattedTextControl(lambda: _status(screen)), height=1, dont_extend_height=True, style="class:status"
            ),
        ]
    )
    screen.panel_window = panel
    return Layout(root, focused_element=editor)


def _exactly(rows: int) -> Dimension:
    return Dimension(min=0, max=rows, preferred=rows)


def _panel(screen: "Screen") -> "StyleAndTextTuples":
    question = screen.question
    if question is None:
        return []
    return clustered(list(panel_fragments(question, screen.renderer.width, screen.panel_rows())))


def _panel_rows(screen: "Screen") -> int:
    return 0 if screen.question is None else panel_height(screen.question, screen.panel_rows())


def _status(screen: "Screen") -> "StyleAndTextTuples":
    return clustered(list(status_fragments(screen.talk.view, screen.renderer.width - 1, screen.hint)))


def _menu_rows(screen: "Screen") -> int:
    state = screen.editor.complete_state
    return 0 if state is None else min(MENU_ROWS, len(state.completions), max(1, screen.rows - 4))


def _menu(screen: "Screen") -> "StyleAndTextTuples":
    """The completions around the chosen one."""
    state = screen.editor.complete_state
    if state is None:
        return []
    width, rows = screen.renderer.width, _menu_rows(screen)
    at = state.complete_index or 0
    first = max(0, min(at - rows // 2, len(state.completions) - rows))
    shown = state.completions[first : first + rows]
    column = min(max((len(each.display_text) for each in shown), default=0), width // 2) + 2
    fragments: StyleAndTextTuples = []
    for number, completion in enumerate(shown):
        if number:
            fragments.append(("", "\n"))
        is_current = state.complete_index == first + number
        name = clip(completion.display_text, max(1, width - 4))
        fragments.append(("class:menu.current" if is_current else "", f"  {name}".ljust(column)))
        note = one_line(completion.display_meta_text)
        if note and width - column > 12:
            fragments.append(("class:menu.note", clip(f"  {note}", width - column - 1)))
    return clustered(fragments)
