"""One pattern for two engines."""

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.tools.regex_dialect import BadPattern, literal, pattern


@pytest.mark.parametrize(
    ("text", "finds", "misses"),
    [
        (r"[[:alpha:]]+", "abc", "123"),
        (r"\p{Lu}x", "Éx", "éx"),
        (r"\pN", "٣", "a"),
        (r"[\p{L}_]+$", "é_", "-"),
        (r"(?<word>a)b", "ab", "b"),
        (r"\x{41}\u{42}", "AB", "ab"),
        (r"a{2,3}", "aa", "a"),
        (r"f{x}", "f{x}", "fx"),
        (r"end\z", "the end", "end it"),
    ],
)
def test_what_ripgrep_writes_otherwise_is_translated(text: str, finds: str, misses: str) -> None:
    """Classes, categories, names, codes and counts."""
    form = pattern(text).python
    assert form is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert re.search(form, finds)
        assert not re.search(form, misses)


@pytest.mark.parametrize("text", [r"\p{Greek}", r"[a-z&&[^b]]", r"[[:^alpha:]]"])
def test_what_python_cannot_do_is_left_to_ripgrep(text: str) -> None:
    """There is a form for the one and none for the other."""
    assert pattern(text).python is None
    assert pattern(text).rust is not None


@pytest.mark.parametrize("text", [r"(?=a)", r"(?<!b)a", r"(a)\1", "(?P=n)(?P<n>a)", "a++"])
def test_what_ripgrep_cannot_do_is_left_to_python(text: str) -> None:
    """Looking around, back references, possessive counts."""
    try:
        assert pattern(text).rust is None
    except BadPattern:
        assert text.startswith("(?P=n)")


@given(st.text(max_size=30))
def test_any_text_is_a_pattern_or_a_plain_refusal(text: str) -> None:
    """Never another error; and as a literal it finds itself."""
    try:
        pattern(text)
        form = literal(text).python
    except BadPattern:
        return
    assert form is not None
    assert re.search(form, text)
