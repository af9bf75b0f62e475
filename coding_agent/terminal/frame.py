"""Pure. What stands below the scrollback, worked out from what is known: each part as lines, and how high it is.

Top to bottom: what is on its way, a rule, the question that is asked, the editor, what is offered for it, the status.
"""

from collections.abc import Sequence
from typing import Final

from attrs import frozen

from coding_agent.terminal.graphemes import clip
from coding_agent.terminal.panel import panel_fragments, panel_height
from coding_agent.terminal.questions import Question
from coding_agent.terminal.screen_text import one_line
from coding_agent.terminal.status_line import status_fragments
from coding_agent.terminal.view import View

Fragments = list[tuple[str, str]]

MENU_ROWS: Final = 8
EDITOR_ROWS: Final = 12
PANEL_ROWS: Final = 14
RULE_AND_STATUS: Final = 2


@frozen
class Size:
    """Of the terminal, and how many lines of it are written in."""

    columns: int
    rows: int
    written: int = 1

    @property
    def editor_rows(self) -> int:
        """How high the editor may become."""
        return max(1, min(EDITOR_ROWS, self.rows // 3))

    @property
    def panel_rows(self) -> int:
        """How high a question may become."""
        return max(1, min(PANEL_ROWS, self.rows - 4))

    def live_rows(self, question: Question | None) -> int:
        """How many lines there are for what is on its way."""
        taken = min(self.written, self.editor_rows) + RULE_AND_STATUS
        if question is not None:
            taken += panel_height(question, self.panel_rows)
        return max(0, self.rows - taken - 1)


@frozen
class Offer:
    """Something that can stand where the cursor is."""

    text: str
    note: str = ""


@frozen
class Part:
    """Some lines of the screen."""

    text: Fragments
    rows: int


NOTHING: Final = Part([], 0)


@frozen
class Frame:
    """Everything below the scrollback but the editor itself."""

    live: Part = NOTHING
    panel: Part = NOTHING
    menu: Part = NOTHING
    status: Part = NOTHING
    editor_rows: int = 1


def frame_of(
    view: View, size: Size, live: Part, *, offers: Sequence[Offer] = (), at: int | None = None, hint: str = ""
) -> Frame:
    """The screen as it is to be.

    Args:
        view: What is known of the conversation.
        size: What there is room for.
        live: What is on its way, as it was drawn last; it is cut where there is less room by now.
        offers: What can stand where the cursor is.
        at: Which of them is marked.
        hint: Said before the status.
    """
    question = view.questions[0] if view.questions else None
    return Frame(
        live=Part(live.text, min(live.rows, size.live_rows(question))),
        panel=NOTHING if question is None else panel_of(question, size),
        menu=menu_of(offers, at, size),
        status=Part(status_fragments(view, size.columns - 1, hint), 1),
        editor_rows=size.editor_rows,
    )


def panel_of(question: Question, size: Size) -> Part:
    """The question that is asked."""
    return Part(panel_fragments(question, size.columns, size.panel_rows), panel_height(question, size.panel_rows))


def menu_of(offers: Sequence[Offer], at: int | None, size: Size) -> Part:
    """What is offered, around what is marked."""
    rows = min(MENU_ROWS, len(offers), max(1, size.rows - 4))
    first = max(0, min((at or 0) - rows // 2, len(offers) - rows))
    shown = offers[first : first + rows]
    column = min(max((len(each.text) for each in shown), default=0), size.columns // 2) + 2
    fragments: Fragments = []
    for number, offer in enumerate(shown):
        if number:
            fragments.append(("", "\n"))
        name = clip(offer.text, max(1, size.columns - 4))
        fragments.append(("class:menu.current" if at == first + number else "", f"  {name}".ljust(column)))
        note = one_line(offer.note)
        if note and size.columns - column > 12:
            fragments.append(("class:menu.note", clip(f"  {note}", size.columns - column - 1)))
    return Part(fragments, rows)
