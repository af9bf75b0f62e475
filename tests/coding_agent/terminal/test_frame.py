"""What stands below the scrollback, at any size."""

import pytest

from coding_agent.terminal.frame import Frame, Offer, Part, Size, frame_of
from coding_agent.terminal.questions import Option, Question
from coding_agent.terminal.view import View


def lines(part: Part) -> list[str]:
    return "".join(text for _, text in part.text).split("\n")


def height(frame: Frame, size: Size) -> int:
    parts = (frame.live, frame.panel, frame.menu, frame.status)
    return sum(part.rows for part in parts) + 1 + min(size.written, frame.editor_rows)


@pytest.mark.parametrize("rows", [5, 6, 8, 10, 24, 60])
@pytest.mark.parametrize("written", [1, 3, 40])
@pytest.mark.parametrize("asked", [False, True])
def test_everything_fits_however_low_the_terminal_is(rows, written, asked):
    """What is on its way gets what the editor, the rule, the status and a question leave; a line stays free."""
    question = Question("permit", "bash", tuple(Option(word, word, key=word[0]) for word in ("yes", "always", "no")))
    view, size = View(questions=[question] if asked else []), Size(40, rows, written)
    frame = frame_of(view, size, Part([("", "x\n" * 99)], 100))
    assert height(frame, size) <= max(rows, 6)
    assert height(frame, size) < rows or frame.live.rows == 0
    assert frame.live.rows <= size.live_rows(question if asked else None)
    assert len(lines(frame.panel)) == max(1, frame.panel.rows)


def test_the_menu_shows_what_is_around_the_marked_offer():
    """Eight of many; notes where there is room for them."""
    offers = [Offer(f"/command{number}", f"what {number} does") for number in range(30)]
    menu = frame_of(View(), Size(60, 24), Part([], 0), offers=offers, at=15).menu
    assert menu.rows == 8
    shown = lines(menu)
    assert "/command15" in shown[4]
    assert "what 15 does" in shown[4]
    assert ("class:menu.current", "  /command15") in menu.text
    assert "does" not in "".join(lines(frame_of(View(), Size(16, 24), Part([], 0), offers=offers).menu))


def test_where_nothing_is_offered_or_asked_there_is_nothing():
    """Only the status is always there."""
    frame = frame_of(View(phase="idle"), Size(80, 24), Part([], 0), hint="Ctrl-C again quits")
    assert (frame.live.rows, frame.panel.rows, frame.menu.rows, frame.status.rows) == (0, 0, 0, 1)
    assert lines(frame.status)[0].startswith("Ctrl-C again quits · ready")
