"""Where the text of an edit stands: exactly, loosely, not at all, or in too many places."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.tools.edit_hints import hint
from coding_agent.tools.edits import Edit, EditRefused, exact_spans, loose_spans, plan


def applied(text: str, *edits: Edit) -> str:
    """The text after the edits."""
    for change in reversed(plan(text, edits)):
        text = text[: change.start] + change.new + text[change.end :]
    return text


def refusal(text: str, *edits: Edit) -> EditRefused:
    """Why the edits are not made."""
    with pytest.raises(EditRefused) as caught:
        plan(text, edits)
    return caught.value


def test_exact_text_is_replaced() -> None:
    """Once, where it stands."""
    assert applied("one two three", Edit("two", "2")) == "one 2 three"


@pytest.mark.requirement("BR-090")
def test_all_occurrences_are_counted_apart() -> None:
    """Four letters hold two pairs, not three."""
    changes = plan("aaaa", [Edit("aa", "b", all=True)])

    assert len(changes) == 2
    assert applied("aaaa", Edit("aa", "b", all=True)) == "bb"


@pytest.mark.requirement("BR-092")
@pytest.mark.parametrize("old", [" ", "  ", "\t", "\n\n", " \n "])
def test_blank_text_that_is_not_there_is_not_found(old: str) -> None:
    """It never matches between characters."""
    assert refusal("abc\ndef", Edit(old, "X", all=True)).kind == "not_found"


@pytest.mark.requirement("BR-089")
def test_a_loose_match_changes_only_what_it_matched() -> None:
    """Blanks that differ are tolerated in the text named, and reported; the lines around keep theirs."""
    text = "def f():\n    x = 1\n    y = 2\n"
    changes = plan(text, [Edit("    x  =  1", "    x = 9")])

    assert [change.loose for change in changes] == [True]
    assert applied(text, Edit("    x  =  1", "    x = 9")) == "def f():\n    x = 9\n    y = 2\n"


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("say \u201chello\u201d now", 'say "hello" now'),
        ("it\u2019s", "it's"),
        ("a \u2013 b", "a - b"),
        ("x = 1   \ny = 2\n", "x = 1\ny = 2\n"),
        ("x\u00a0= 1\n", "x = 1\n"),
        ("a\tb", "a    b"),
    ],
)
def test_quotes_dashes_and_blanks_may_be_of_another_kind(text: str, old: str) -> None:
    """Each such difference is found, and reported as loose."""
    (change,) = plan(text, [Edit(old, "new")])

    assert change.loose


def test_text_must_be_unique_in_the_loose_reading_too() -> None:
    """One exact place and one that differs by a blank are two places."""
    refused = refusal("x = 1\nx  = 1\n", Edit("x = 1", "x = 2"))

    assert (refused.kind, refused.count) == ("ambiguous", 2)


@pytest.mark.parametrize(
    ("kind", "edits"),
    [
        ("empty", [Edit("", "x")]),
        ("not_found", [Edit("zzz", "x")]),
        ("ambiguous", [Edit("a", "x")]),
        ("no_change", [Edit("abc", "abc")]),
        ("overlap", [Edit("abc", "x"), Edit("bc d", "y")]),
        ("overlap", [Edit("abc", "x"), Edit("abc", "y")]),
    ],
)
def test_edits_that_do_not_fit_are_refused_by_kind(kind: str, edits: list[Edit]) -> None:
    """And then none of them is made."""
    assert refusal("abc def a", *edits).kind == kind


def test_several_edits_refer_to_the_text_as_it_is() -> None:
    """None sees what another one put there."""
    assert applied("a b", Edit("a", "b"), Edit("b", "a")) == "b a"


@pytest.mark.parametrize("old", ["a\nb", "a\r\nb"])
@pytest.mark.parametrize("text", ["a\nb\nc\n", "a\r\nb\r\nc\r\n", "a\r\nb\nc\r\n", "a\rb\rc\r"])
def test_line_endings_do_not_matter_for_finding(old: str, text: str) -> None:
    """And what is put in has the endings of what was there."""
    ending = text[1 : text.index("b")]

    assert applied(text, Edit(old, "x\ny")).startswith(f"x{ending}y")
    assert not plan(text, [Edit(old, "x\ny")])[0].loose


def test_what_read_shows_as_escapes_is_found_by_the_escapes() -> None:
    """An invisible character copied in the form that read gave it."""
    assert applied("a\u200bb", Edit("a\\u{200b}b", "ab")) == "ab"


PIECES = st.sampled_from(
    ["a", "b", "foo", " ", "  ", "\t", "\n", "\r\n", "'", "\u2019", "-", "\u2013", "x", "{", "}", "\u00a0"]
)
TEXTS = st.lists(PIECES, max_size=30).map("".join)


@given(text=TEXTS, start=st.integers(0, 30), size=st.integers(1, 12))
def test_a_piece_of_the_text_is_always_found(text: str, start: int, size: int) -> None:
    """What was copied from a file stands in it: exactly at least once, and loosely wherever it stands exactly."""
    old = text[start : start + size]
    if not old:
        return
    exact = exact_spans(text, old)
    assert exact
    if old.strip() and "\r" not in old[-1] + text[start + size : start + size + 1]:
        loose = loose_spans(text, old)
        assert all(any(low <= begin and end <= high for low, high in loose) for begin, end in exact)


@given(text=TEXTS, old=TEXTS, new=TEXTS, every=st.booleans())
def test_nothing_but_the_named_places_changes(text: str, old: str, new: str, every: bool) -> None:
    """Whatever the edit: its changes are in order, apart, and what lies between them stays."""
    try:
        changes = plan(text, [Edit(old, new, all=every)])
    except EditRefused:
        return
    at = 0
    for change in changes:
        assert at <= change.start < change.end <= len(text)
        at = change.end


def test_searching_a_large_file_takes_no_longer_than_reading_it() -> None:
    """In ten megabytes a line is found in well under a second, exactly and loosely, and so is its absence."""
    text = "".join(f"line {number} some text here\n" for number in range(400_000))
    began = time.perf_counter()
    plan(text, [Edit("line 200000 some text here\n", "x")])
    plan(text, [Edit("line  200000  some  text", "x")])
    assert refusal(text, Edit("line 999999999 some", "x")).kind == "not_found"

    assert time.perf_counter() - began < 2


def test_a_hint_shows_the_nearest_lines() -> None:
    """Where most of the named lines stand, or what kind of difference it is."""
    text = "def f():\n    a = 1\n    b = 2\n    return a + b\n"

    assert "2:     a = 1" in hint(text, "    a = 1\n    b = 3\n")
    assert "upper and lower case" in hint(text, "DEF F():")
    assert "line numbers" in hint(text, "2:     a = 1\n3:     b = 2")
    assert "4:     return a + b" in hint(text, "    return a - b")
    assert hint(text, "nothing like it whatsoever") == ""
