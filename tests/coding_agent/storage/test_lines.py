import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.storage.lines import encode, read_line, to_bytes
from tests.coding_agent.storage.support import entry, line

RECORD = entry("e1", None, "one")
OTHER = entry("e2", "e1", "two")
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_a_good_line_is_one_record_and_no_problem():
    """
    One object on a line comes back whole, with the bytes it takes up.
    """
    raw = line(RECORD)
    found = read_line(raw)

    assert found.problem is None
    assert [record.data for record in found.records] == [RECORD]
    assert raw[found.records[0].start : found.records[0].end] == raw[:-1]


@pytest.mark.parametrize("raw", [b"\n", b"", b"  \t \r\n"])
def test_a_blank_line_holds_nothing_and_is_no_problem(raw):
    """
    Blank lines are skipped without a word.
    """
    assert read_line(raw).problem is None
    assert read_line(raw).records == ()


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0c", "\x0b"])
def test_only_a_line_feed_ends_a_line(separator):
    """
    U+2028 and its like inside a string belong to the string.
    """
    data = entry("e1", None, f"a{separator}b")
    assert read_line(json.dumps(data, ensure_ascii=False).encode() + b"\n").records[0].data == data


def test_a_carriage_return_before_the_line_feed_is_not_part_of_the_record():
    """
    A file that went through a program writing CRLF reads the same.
    """
    found = read_line(line(RECORD)[:-1] + b"\r\n")
    assert found.problem is None
    assert found.records[0].data == RECORD


@pytest.mark.requirement("BR-051")
def test_two_records_on_one_line_are_both_found():
    """
    A missing line end between two records loses neither, even where a string holds `}{`.
    """
    tricky = entry("e1", None, "text with }{ in it")
    found = read_line(line(tricky)[:-1] + line(OTHER))

    assert [record.data for record in found.records] == [tricky, OTHER]
    assert found.problem == "2 records on one line"


@pytest.mark.requirement("BR-048")
def test_zero_bytes_are_reported_and_do_not_hide_a_record_beside_them():
    """
    A run of zero bytes is no record; a record on the same line is still found.
    """
    assert read_line(b"\0" * 300 + b"\n").problem == "only zero bytes"
    found = read_line(b"\0" * 300 + line(RECORD))
    assert [record.data for record in found.records] == [RECORD]
    assert found.problem is not None


@pytest.mark.requirement("BR-053")
def test_a_whole_record_behind_half_of_another_is_found():
    """
    A program that does not repair a torn line writes its own record right behind it; that record is not lost, and what
    the torn one said about itself is still known.
    """
    half = line(OTHER)[:-30]
    found = read_line(half + line(RECORD))

    assert [record.data for record in found.records] == [RECORD]
    assert found.problem is not None
    assert found.lost == ("e2", "e1")


def test_half_a_record_alone_says_where_it_begins_and_whose_it_was():
    """
    The unreadable rest is located, so that it can be cut off, and its id and parent are salvaged.
    """
    found = read_line(line(RECORD)[:-1] + line(OTHER)[:-40])

    assert [record.data for record in found.records] == [RECORD]
    assert found.rest == len(line(RECORD)) - 1
    assert found.lost == ("e2", "e1")


def test_bytes_that_are_not_utf8_become_replacement_characters():
    """
    A message with bad bytes in it is still a message, and its bytes are still counted right.
    """
    raw = line(entry("e1", None, "caf?"))[:-1].replace(b"caf?", b"caf\xe9")
    found = read_line(raw + b"\n")

    assert found.records[0].data["message"]["content"] == "caf\ufffd"
    assert found.records[0].end == len(raw)
    assert found.problem == "not UTF-8"


def test_a_raw_control_character_in_a_string_is_let_through():
    """
    A raw tab or zero byte inside a string is wrong JSON and still one clear message.
    """
    found = read_line(line(RECORD).replace(b"one", b"o\0\x01e"))
    assert found.records[0].data["message"]["content"] == "o\0\x01e"
    assert found.problem == "control characters in a string"


@pytest.mark.parametrize(
    "raw", [b"[1]\n", b"12\n", b'"x"\n', b"nonsense\n", b"{\n", b'{"a":}\n', b"[" * 100_000 + b"\n"]
)
def test_what_is_no_object_is_a_problem_and_never_an_error(raw):
    """
    Anything at all may stand on a line.
    """
    found = read_line(raw)
    assert found.records == ()
    assert found.problem


@given(st.binary(max_size=200))
def test_no_bytes_make_reading_fail(raw):
    """
    Reading a line never raises, and the records found lie inside it.
    """
    for record in read_line(raw).records:
        assert 0 <= record.start < record.end <= len(raw)


@given(st.dictionaries(st.text(), JSON_VALUES, max_size=4))
def test_what_is_written_reads_the_same(data):
    """
    Writing and reading keeps every value, half surrogate pairs included, and never makes two lines of one.
    """
    raw = to_bytes(encode(data))

    assert b"\n" not in raw
    assert read_line(raw + b"\n").records[0].data == data


def test_half_a_surrogate_pair_is_written_as_its_escape():
    """
    The file stays UTF-8 whatever a model says.
    """
    raw = to_bytes(encode({"text": "a\ud800b"}))
    assert raw == b'{"text":"a\\ud800b"}'


def test_non_ascii_text_is_written_as_it_is():
    """
    People read these files.
    """
    assert to_bytes(encode({"text": "naïve ✓"})) == '{"text":"naïve ✓"}'.encode()


def test_what_json_cannot_say_is_said_as_text():
    """
    A value a tool put into its details never makes an append fail.
    """
    value = {"nan": math.nan, "path": object, ("a", 1): {1, 2}, "deep": [float("inf")]}
    assert json.loads(encode(value))["nan"] == "nan"
    circle: list[object] = []
    circle.append(circle)
    assert json.loads(encode({"circle": circle}))
