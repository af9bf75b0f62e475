"""The data before a text: plain values, bounded, whoever wrote it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.resources.frontmatter import BadFrontmatter, body_of, flag_of, parse, text_of


def test_the_two_parts_of_a_file():
    """Between the first two `---` data, after them words; without a first or a second one it is all words."""
    found = parse("---\na: 1\nb: [x, y]\n---\n\nwords\n---\nmore\n")
    assert dict(found.data) == {"a": 1, "b": ["x", "y"]}
    assert found.body == "words\n---\nmore"
    assert parse("words").body == "words"
    assert parse("---\na: 1\n").body == "---\na: 1\n"
    assert dict(parse("---\n---\nwords").data) == {}


@given(st.text(alphabet="abc:-[]{}&*!|>?,#'\"\n\t 0123456789.~<=@%`\x00\ud800", max_size=200))
def test_any_data_is_plain_values_or_a_problem(source):
    """Nothing else is ever raised."""
    try:
        data = parse(f"---\n{source}\n---\nwords").data
    except BadFrontmatter:
        data = {}
    assert all(isinstance(key, str) for key in data)
    assert isinstance(body_of(f"---\n{source}\n---\nwords"), str)


@pytest.mark.parametrize("bomb", ["a: &x [1]\nb: *x", "a: &x {y: *x}", "? &x a\n: *x", "a: &x 1"])
def test_anchors_and_aliases_are_refused(bomb):
    """A few lines of them can stand for gigabytes, or for themselves."""
    with pytest.raises(BadFrontmatter, match="anchors and aliases"):
        parse(f"---\n{bomb}\n---\n")


def test_scalars_as_text_and_as_a_yes():
    """What a person may write for either."""
    assert [text_of(value) for value in (1, 1.5, True, None, [1], "x")] == ["1", "1.5", "true", "", "", "x"]
    assert [flag_of(value) for value in (True, "TRUE", "yes", 1, None)] == [True, True, False, False, False]
