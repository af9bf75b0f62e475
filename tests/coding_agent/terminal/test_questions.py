"""Questions, and when keys begin to count."""

import pytest

from coding_agent.terminal.panel import panel_fragments, panel_height
from coding_agent.terminal.questions import QUIET_S, Option, Question, question_from, response_to
from tests.coding_agent.terminal.fakes import question


def asked(**more) -> Question:
    found = question_from(question(**more), 0.0)
    assert found is not None
    return found


def shown(found: Question, width: int = 60) -> str:
    return "".join(text for _, text in panel_fragments(found, width, 12))


def test_keys_count_only_after_a_moment_without_any_on_the_screen():
    """Somebody who types when it appears answers nothing, however long they type."""
    found = asked()
    assert not found.arm(100.0)  # not on the screen yet
    found.appeared(1.0)
    found.too_early(1.0 + QUIET_S * 0.9)
    assert not found.arm(1.0 + QUIET_S * 1.5)
    assert "keys do not count yet" in shown(found)
    assert found.arm(1.0 + QUIET_S * 2)
    assert "y, a, n, or Enter" in shown(found)


def test_a_question_of_ones_own_takes_keys_at_once():
    """Who typed /model waits for the list."""
    found = Question("pick", "Which?", (Option("a", 1),))
    found.appeared(0.0)

    assert found.arm(0.0)


def test_the_marked_answer_to_a_question_for_permission_is_no():
    """Enter by habit allows nothing."""
    chosen = asked().chosen()

    assert chosen is not None
    assert chosen.value == "Deny"


@pytest.mark.parametrize(
    ("fields", "answer", "response"),
    [
        ({}, "Allow once", {"value": "Allow once"}),
        ({}, None, {"cancelled": True}),
        ({"kind": None, "options": ["a", "b"]}, "b", {"value": "b"}),
        ({"method": "confirm", "message": "sure?"}, False, {"confirmed": False}),
        ({"method": "input"}, "text", {"value": "text"}),
        ({"method": "editor", "prefill": "x"}, "", {"value": ""}),
    ],
)
def test_each_kind_of_question_is_answered_in_its_own_way(fields, answer, response):
    """Select and fields with a value, confirm with yes or no, all with none."""
    assert response_to(asked(**fields), answer) == {"type": "extension_ui_response", "id": "q1", **response}


def test_what_needs_no_answer_is_no_question():
    """A notice or a status is not put to anybody."""
    assert question_from({"method": "notify", "message": "hi"}, 0.0) is None


def test_options_are_narrowed_by_all_words_and_the_cursor_stays_inside():
    """Words in any order; going beyond either end stays there."""
    found = Question(
        "pick", "Which?", tuple(Option(f"model {n}", n, note="big" if n % 2 else "small") for n in range(30))
    )
    found.narrow("big 1")
    assert {option.value for option in found.visible()} == {1, 11, 13, 15, 17, 19, 21}
    found.move(100)
    assert found.chosen() == found.visible()[-1]
    found.move(-100)
    assert found.chosen() == found.visible()[0]
    found.narrow("nothing like it")
    assert found.chosen() is None


def test_where_there_is_one_line_a_question_for_permission_takes_one_line():
    """On a terminal of five lines the keys are still there to be seen."""
    found = asked()
    found.appeared(0.0)
    found.arm(QUIET_S)

    assert panel_height(found, 3) == 1
    assert "".join(text for _, text in panel_fragments(found, 40, 3)) == "y allow · a always · n deny"


@pytest.mark.parametrize("width", [10, 20, 80])
@pytest.mark.parametrize("rows", [1, 3, 12])
def test_a_panel_fits_its_place_and_shows_the_cursor(width, rows):
    """No line is wider than the terminal and no more lines than there are rows; hostile labels cannot steer."""
    from coding_agent.terminal.graphemes import cells

    found = Question(
        "pick", "Which\x1b[2J?", tuple(Option(f"option {n} 日本 \x1b[31m", n, depth=n % 4) for n in range(40)), id="q"
    )
    found.appeared(0.0)
    found.arm(QUIET_S)
    found.move(25)
    fragments = panel_fragments(found, width, panel_height(found, rows))
    lines = "".join(text for _, text in fragments).split("\n")

    assert len(lines) <= rows
    assert all(cells(line) <= width for line in lines), lines
    assert "\x1b" not in "".join(lines)
    if rows > 3:
        assert any(line.startswith("› ") for line in lines)
