"""Tool arguments while they arrive, and when they are complete."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_ai.partial_json import PartialJson, parse_arguments, parse_partial

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=8), VALUES, max_size=5)


@given(OBJECTS, st.booleans(), st.data())
def test_any_object_in_any_pieces_reads_as_the_object(value: dict[str, Any], plain: bool, data: st.DataObject) -> None:
    """However the text is cut, what was read at the end is the object; escapes and surrogate pairs included."""
    text = json.dumps(value, ensure_ascii=plain)
    reader = PartialJson()
    while text:
        cut = data.draw(st.integers(1, min(len(text), 7)))
        reader.feed(text[:cut])
        text = text[cut:]
    assert reader.value() == value
    assert not reader.broken


@given(OBJECTS, st.data())
def test_every_prefix_reads_as_an_object_that_grows(value: dict[str, Any], data: st.DataObject) -> None:
    """A prefix never fails, always gives an object, and every complete key in it is a key of the whole."""
    text = json.dumps(value)
    known = parse_partial(text[: data.draw(st.integers(0, len(text)))])
    assert set(known) <= set(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("   ", {}),
        ('{"path": "src/ma', {"path": "src/ma"}),
        ('{"a": 1, "b', {"a": 1}),
        ('{"a": 12', {}),
        ('{"a": {"b": [1, "x', {"a": {"b": [1, "x"]}}),
        ('{"a": "tab\\t \\u00e9 \\ud83d', {"a": "tab\t é "}),
        ('{"a": tru', {}),
        ('{"a": "x"} and more', {"a": "x"}),
        ("[1, 2]", {}),
        ('"text"', {}),
        ('{"a": 1,, "b": 2}', {"a": 1}),
    ],
)
def test_what_can_be_read_of_unfinished_arguments(text: str, value: dict[str, Any]) -> None:
    """Complete pairs and the string that is still open; never anything but an object."""
    assert parse_partial(text) == value


def test_a_value_once_given_is_nobody_elses() -> None:
    """Changing what `value` returned changes nothing that comes later."""
    reader = PartialJson()
    reader.feed('{"a": {"b": 1}, ')
    reader.value()["a"]["b"] = 2
    reader.feed('"c": 3}')
    assert reader.value() == {"a": {"b": 1}, "c": 3}


@pytest.mark.parametrize(
    ("raw", "arguments", "invalid"),
    [
        ("", {}, None),
        ("  \n", {}, None),
        ("null", {}, None),
        ("{}", {}, None),
        ('{"a": 1}', {"a": 1}, None),
        ('{"a": "unfinished', {}, '{"a": "unfinished'),
        ('{"{"ids":[1]}', {}, '{"{"ids":[1]}'),
        ("[1]", {}, "[1]"),
        ('"{\\"a\\": 1}"', {"a": 1}, None),
        ('"a"', {}, '"a"'),
        ('{}{"a": 1}', {"a": 1}, None),
        ('{"a": 1} {"a": 1}', {"a": 1}, None),
        ('{"a": 1}{"a": 2}', {}, '{"a": 1}{"a": 2}'),
        ('{"a": 1}{"a"', {}, '{"a": 1}{"a"'),
        ('{"a": NaN}', {}, '{"a": NaN}'),
        ('{"a": -Infinity}', {}, '{"a": -Infinity}'),
        ('{"a": "nul \x00 inside"}', {}, '{"a": "nul \x00 inside"}'),
    ],
)
@pytest.mark.requirement("BR-015", "BR-017")
def test_finished_arguments_are_an_object_or_marked_invalid(
    raw: str, arguments: dict[str, Any], invalid: str | None
) -> None:
    """
    Nothing at all and null are no arguments, and an object said twice, or in a string, is that object. Anything else
    keeps its raw text and runs nothing.
    """
    assert parse_arguments(raw) == (arguments, invalid)
