"""Letters, words and widths as a person counts them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.terminal import graphemes

FAMILY = "👩‍👩‍👧"


@pytest.mark.requirement("BR-166")
@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("é", 1), ("e\u0301", 1), ("日本", 4), (FAMILY, 2), ("🇩🇪", 2), ("a\u202fb", 3)]
)
def test_a_letter_is_as_wide_as_it_is_drawn(text, columns):
    """Accents take no column, joined emoji two together."""
    assert graphemes.cells(text) == columns


@pytest.mark.requirement("BR-166")
def test_steps_go_from_letter_to_letter():
    """Left, right and backspace take a joined emoji or a letter with its accent as one."""
    text = f"a{FAMILY}e\u0301z"
    steps, at = [0], 0
    while at < len(text):
        at = graphemes.after(text, at)
        steps.append(at)
    back, at = [len(text)], len(text)
    while at > 0:
        at = graphemes.before(text, at)
        back.append(at)

    assert steps == [0, 1, 6, 8, 9]
    assert back == steps[::-1]


@pytest.mark.requirement("BR-166")
@given(st.text(st.sampled_from("ab \n\u202f\u00a0é👩\u200d👧-_(")), st.data())
def test_every_step_moves_and_stays_inside(text, data):
    """From any place of any text, each step ends, inside the text, and not where it began."""
    at = data.draw(st.integers(0, len(text)))
    if at > 0:
        assert 0 <= graphemes.before(text, at) < at
        assert 0 <= graphemes.word_start(text, at) < at
    if at < len(text):
        assert at < graphemes.after(text, at) <= len(text)
        assert at < graphemes.word_end(text, at) <= len(text)


@pytest.mark.requirement("BR-166")
def test_a_word_ends_at_a_blank_of_any_kind():
    """A narrow no-break space stands between words like any other blank."""
    text = "one\u202ftwo"

    assert text[: graphemes.word_start(text, len(text))] == "one\u202f"
    assert graphemes.word_start(text, 4) == 0


@given(st.text(max_size=40), st.integers(0, 30))
def test_a_clipped_text_fits(text, columns):
    """It is never wider than it may be, and unchanged where it fits."""
    clipped = graphemes.clip(text, columns)

    assert graphemes.cells(clipped) <= columns or graphemes.cells(text) <= columns
    if graphemes.cells(text) <= columns:
        assert clipped == text
