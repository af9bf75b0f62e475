"""Nothing that is shown can steer a terminal."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.terminal.screen_text import for_screen, one_line, spelled_out

STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff\u200b]")


@given(st.text())
def test_no_text_has_a_character_left_that_steers(text):
    """Whatever comes in, what goes out holds no control character but newline and tab, and turns no line around."""
    for shown in (for_screen(text), spelled_out(text)):
        assert not STEERING.search(shown)
        shown.encode()
    assert "\n" not in one_line(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b2J", "\\x9b2J"),
        ("a\x07b", "a\\x07b"),
        ("one\r\ntwo", "one\ntwo"),
        ("10%\r20%\r30%", "30%"),
        ("a\tb", "a\tb"),
        ("\u202eabc", "\\u{202e}abc"),
        ("plain é 👩‍👧", "plain é 👩‍👧"),
        ("\ud800", "\\u{d800}"),
    ],
)
def test_what_would_steer_is_written_out(text, shown):
    """It is seen that it is there; a carriage return does what it does on a terminal, within its line."""
    assert for_screen(text) == shown


def test_a_question_shows_what_a_carriage_return_would_hide():
    """`rm -rf /\\rls` is not shown as `ls` to whoever is to allow it."""
    assert spelled_out("rm -rf /\rls") == "rm -rf /\\x0dls"
