"""lemon_ai/wire_text.py: nothing leaves that UTF-8 or a vendor's alphabet cannot carry."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_ai.wire_text import clean, clean_json, compact_json, safe_id, short_hash

TEXTS = st.text(st.characters(), max_size=40) | st.text(st.characters(categories=["Cs"]), max_size=4)


@given(TEXTS)
def test_whatever_a_string_holds_utf8_can_carry_it_afterwards(text: str):
    """Lone surrogates become U+FFFD; a string without any is handed back as it is."""
    cleaned = clean(text)

    cleaned.encode()
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert cleaned == text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, ""),
        (7, "7"),
        ("a\ud83d", "a\ufffd"),
        ("\ude00b", "\ufffdb"),
        ("\ud83d\ude00", "😀"),
    ],
)
def test_a_lone_half_is_replaced_and_a_split_pair_is_joined(given: object, expected: str):
    """None is empty, other values are their string, and two halves that belong together are one character."""
    assert clean(given) == expected


def test_every_string_of_a_json_value_is_cleaned_keys_included():
    """A tool result may hide a lone surrogate anywhere."""
    value = {"k\ud800": ["a\udfff", {"b": ("\ud800",)}], "n": 1.5, "none": None}

    assert clean_json(value) == {"k\ufffd": ["a\ufffd", {"b": ["\ufffd"]}], "n": 1.5, "none": None}


def test_compact_json_is_one_line_and_can_be_read_back():
    """No spaces, non-ASCII kept, and what JSON cannot write is its string."""
    written = compact_json({"é": [1, {"x": "\ud800"}], "s": {1}.pop})

    assert "\n" not in written
    assert json.loads(written)["é"] == [1, {"x": "\ufffd"}]


@given(TEXTS, st.integers(1, 80))
def test_a_safe_id_is_short_not_empty_and_in_the_common_alphabet(text: str, limit: int):
    """Ids of other vendors hold colons, dots and more; an empty one gets a name."""
    made = safe_id(text, limit)

    assert made
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
    assert len(made) <= max(limit, len("call_") + 12)


def test_a_hash_is_the_same_in_every_run():
    """Ids made from it must match those of an earlier run of the same session."""
    assert short_hash("call_1", 9) == "74196fe72"
    assert short_hash("a") != short_hash("b")


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
def test_a_number_that_json_does_not_have_is_null(number: float) -> None:
    """1e999 is read as one; sent back as `Infinity` it would make every later request fail."""
    assert clean_json({"a": [number, 1.5]}) == {"a": [None, 1.5]}
