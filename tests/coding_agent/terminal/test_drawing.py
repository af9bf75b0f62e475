"""Blocks, what is on its way and the status as lines."""

import pytest
from prompt_toolkit.layout.processors import TransformationInput

from coding_agent.terminal.block_lines import block_lines, lines_or_excuse
from coding_agent.terminal.blocks import (
    Asked,
    Banner,
    Fold,
    Notice,
    Prose,
    Report,
    ShellRan,
    Summary,
    Thought,
    ToolRan,
    UserSaid,
)
from coding_agent.terminal.clusters import Graphemes, clustered
from coding_agent.terminal.graphemes import cells
from coding_agent.terminal.line_mode import block_text
from coding_agent.terminal.live import live_lines
from coding_agent.terminal.plain_lines import elapsed
from coding_agent.terminal.render import Renderer, plain_text, trimmed
from coding_agent.terminal.status_line import status_fragments
from coding_agent.terminal.view import Running, View
from tests.coding_agent.terminal.fakes import assistant, delta

HOSTILE = "evil \x1b[2J\x9b1m\x07 日本 👩‍👩‍👧 \u202e end\tof it " + "x" * 150
BLOCKS = [
    UserSaid(HOSTILE, 2), Prose(HOSTILE), Thought(HOSTILE, 3.0),
    ToolRan("bash", {"command": HOSTILE}, HOSTILE, {"exit_code": 1}),
    ToolRan("edit", {"path": HOSTILE}, "", {"diff": f"@@ -1 +1 @@\n-{HOSTILE}\n+{HOSTILE}"}),
    ToolRan("write", {"path": "a", "content": HOSTILE}), ToolRan(HOSTILE, {}, HOSTILE, is_error=True),
    ToolRan("todo", {}, "", {"todos": [{"content": HOSTILE, "status": "completed"}]}),
    ShellRan(HOSTILE, HOSTILE, 2, truncated=True, kept_out=True), Notice(HOSTILE, "error"), Summary(HOSTILE, HOSTILE),
    Asked(HOSTILE, HOSTILE, HOSTILE, (HOSTILE,)), Report(HOSTILE, ((HOSTILE, HOSTILE),), HOSTILE),
    Banner(HOSTILE, HOSTILE, HOSTILE, HOSTILE),
]  # fmt: skip


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: type(block).__name__)
@pytest.mark.parametrize("width", [8, 20, 100])
@pytest.mark.parametrize("folded", [True, False])
def test_every_block_fits_any_width_and_steers_nothing(block, width, folded):
    """Whatever a model or a tool says, in each kind of block: no line too wide, no control character."""
    lines = block_lines(Renderer(width), block, Fold(folded, folded))

    assert all(cells(plain_text(line)) <= width for line in lines)
    for text in ("".join(map(plain_text, lines)), "".join(block_text(block))):
        assert not [char for char in text if (ord(char) < 32 and char not in "\n\t") or 0x7F <= ord(char) < 0xA0]
        assert "\u202e" not in text


def test_a_question_for_permission_shows_all_of_the_call():
    """Nothing of it is shortened, however long; what a carriage return would hide is there."""
    call = "\n".join(f"line {number}" for number in range(300)) + "\nrm -rf /\rls"
    text = "\n".join(plain_text(line) for line in block_lines(Renderer(60), Asked("bash", call, ""), Fold()))

    assert all(f"line {number}\n" in text for number in range(300))
    assert "rm -rf /\\x0dls" in text


def test_a_block_that_cannot_be_drawn_is_a_line_and_harms_nothing():
    """A fault in drawing one thing is logged and said; what comes after it is drawn."""
    (line,) = lines_or_excuse(Renderer(80), Report("t", rows=(("only one",),)), Fold())  # type: ignore[arg-type]

    assert plain_text(line) == "Report cannot be drawn (ValueError); /export shows it"


def test_calls_of_one_line_stand_close_together_and_others_apart():
    """Ten files that were read are ten lines, not twenty."""
    renderer, read = Renderer(80), ToolRan("read", {"path": "a"}, "text")
    ran = ToolRan("bash", {"command": "ls"}, "out")

    assert len(block_lines(renderer, read, Fold(), read)) == 1
    assert len(block_lines(renderer, read, Fold(), ran)) == 2
    assert len(block_lines(renderer, ran, Fold(), read)) == 3


def test_what_is_printed_and_what_is_redrawn_has_no_colour_when_none_is_wanted():
    """Bold and faint stay; colours go."""
    renderer = Renderer(80, colour=False)
    lines = block_lines(renderer, ToolRan("edit", {"path": "a"}, "", {"diff": "-a\n+b"}), Fold())

    assert "\x1b[32m" not in renderer.ansi(lines)
    assert not any("fg:" in style for style, _ in renderer.fragments(lines))
    assert any("fg:ansi" in style for style, _ in Renderer(80).fragments(lines))


@pytest.mark.parametrize("rows", [0, 1, 3, 30])
@pytest.mark.parametrize("width", [10, 80])
def test_what_is_on_its_way_fits_its_place(rows, width):
    """The end of a long answer, tools with long output, a queue: never more lines than there is room for."""
    view = View(steering=("first\x1b[2J",) * 9, follow_up=("then",))
    view.take({"type": "agent_start"}, 0.0)
    view.take({"type": "message_start", "message": assistant("")}, 0.0)
    view.take(delta("a long answer " * 80), 0.0)
    view.tools["1"] = Running("bash", {"command": HOSTILE}, 0.0, f"{HOSTILE}\n" * 50)
    lines = live_lines(Renderer(width), view, Fold(), 12.0, rows)

    assert len(lines) <= rows
    assert all(cells(plain_text(line)) <= width for line in lines)
    assert "\x1b" not in "".join(map(plain_text, lines))
    if rows == 30:
        assert any("12s" in plain_text(line) for line in lines)


@pytest.mark.parametrize("width", [1, 10, 20, 40, 200])
def test_the_status_line_gives_up_what_matters_least(width):
    """It never wraps; who answers is the last thing to go."""
    view = View(
        model="anthropic/claude", context_window=200_000, context_tokens=170_000, cost=1.5, thinking_level="high",
        name="a name", steering=("x",), permission_mode="ask", statuses={"a": "s\x1b[2Jt", "b": "日本"},
    )  # fmt: skip
    text = "".join(part for _, part in status_fragments(view, width))

    assert cells(text) <= width
    assert "\x1b" not in text
    if width >= 20:
        assert "anthropic/claude" in text
    if width == 200:
        assert text == (
            "ready · anthropic/claude · thinking high · 85% of 200k · $1.500 · 1 waiting · ask mode · a name · "
            "s\\x1b[2Jt · 日本"
        )


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (0.4, ""), (1.2, "1s"), (59.9, "59s"), (61, "1m 01s"), (3700, "1h 01m")]
)
def test_time_is_said_as_a_person_says_it(seconds, text):
    """Nothing for what took no time worth telling."""
    assert elapsed(seconds) == text


@pytest.mark.requirement("BR-166")
def test_the_cursor_stands_where_a_letter_begins():
    """A joined emoji is drawn as one letter two columns wide, and places in the text are mapped to it and back."""
    text = "a👩‍👩‍👧b"
    given = TransformationInput(None, None, 0, lambda at: at, [("", char) for char in text], 80, 1)  # type: ignore[arg-type]
    drawn = Graphemes().apply_transformation(given)

    assert [fragment[1] for fragment in drawn.fragments] == ["a", "👩‍👩‍👧", "b"]
    assert [drawn.source_to_display(at) for at in (0, 1, 3, 6, 7)] == [0, 1, 1, 2, 3]
    assert [drawn.display_to_source(at) for at in (0, 1, 2, 3)] == [0, 1, 6, 7]
    assert [text for _, text, *_ in clustered([("", "日e\u0301")])] == ["日", "e\u0301"]


def test_blanks_at_the_end_of_a_line_are_not_printed():
    """What is copied out of the terminal has none."""
    renderer = Renderer(40)

    assert all(plain_text(line) == plain_text(trimmed(line)).rstrip() for line in renderer.lines("a   \nb"))
