"""Bytes to lines and back, however the bytes come."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.rpc.framing import BadLine, LineSplitter, TooLong, decode, encode


def split(pieces: list[bytes], limit: int = 1000) -> list[bytes | TooLong]:
    splitter = LineSplitter(limit)
    found = [line for piece in pieces for line in splitter.feed(piece)]
    return [*found, *splitter.finish()]


@given(st.lists(st.binary(max_size=40)), st.data())
def test_where_the_bytes_are_cut_makes_no_difference(lines: list[bytes], data):
    """Lines end at LF and nowhere else; a CR in front of it is no part of the line."""
    lines = [line.replace(b"\n", b" ").rstrip(b"\r") for line in lines]
    whole = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert split(pieces) == lines


@pytest.mark.requirement("BR-154")
def test_other_separators_are_characters():
    """U+2028, U+2029, U+0085, vertical tab, form feed, and a CR in the middle stay in the line."""
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf\rg"
    assert split([text.encode() + b"\r\n"]) == [text.encode()]


def test_a_line_above_the_limit_is_given_up_as_a_whole():
    """Not a byte of it is kept, and the next line is a line again."""
    assert split([b"x" * 11, b"x\ny\n"], limit=10) == [TooLong(10), b"y"]
    assert split([b"x" * 10 + b"\n"], limit=10) == [b"x" * 10]
    assert split([b"x" * 30], limit=10) == [TooLong(10)]


def test_the_rest_without_an_end_is_a_line():
    """Half a line at the end of the input is taken for a whole one; nothing is none."""
    assert split([b"a\n{"]) == [b"a", b"{"]
    assert split([]) == []


@pytest.mark.parametrize(
    "line", [b"", b"[]", b"1", b'"x"', b"{", b"\xff", b"{}{}", b"[" * 200_000, b'{"x": NaN}', b'{"x": -Infinity}']
)
def test_what_is_no_object_is_a_bad_line(line: bytes):
    """Whatever is wrong with it, it is one kind of error with a text."""
    with pytest.raises(BadLine) as caught:
        decode(line)
    assert str(caught.value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
        max_leaves=20,
    )
)
def test_what_is_written_is_one_line_that_reads_the_same(value):
    """No value has an LF in its line, half a surrogate pair included."""
    line = encode({"value": value})
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert json.loads(line) == {"value": value}


def test_half_a_surrogate_pair_is_written_as_an_escape():
    """UTF-8 has no form for it, JSON has."""
    assert json.loads(encode({"text": "a\ud800b"})) == {"text": "a\ud800b"}


def test_a_value_nested_more_deeply_than_a_recursive_encoder_goes_is_written():
    """The tree of a long session is as deep as the session is long."""
    value: dict = {"leaf": [1, "zwei", None, {"x": True}]}
    for number in range(20_000):
        value = {"entry": {"n": number}, "children": [value, []]}
    line = encode(value)
    assert line.count(b'"entry"') == 20_000
    assert line.startswith(b'{"entry": {"n": 19999}, "children": [{"entry": {"n": 19998}, "children": [')
    assert line.endswith(b', "children": [{"leaf": [1, "zwei", null, {"x": true}]}, []]}' + b", []]}" * 19_999 + b"\n")


def test_a_number_that_is_none_is_null():
    """What a tool reports may hold anything; a reader of JSON may not."""
    assert json.loads(encode({"a": [float("nan"), float("inf"), 1.5], "b": object})) == {
        "a": [None, None, 1.5], "b": "<class 'object'>",
    }  # fmt: skip
