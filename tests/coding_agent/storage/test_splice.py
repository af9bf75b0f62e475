import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.storage.splice import REMOVE, Raw, members, splice
from tests.coding_agent.storage.test_lines import JSON_VALUES

TEXT = '{"a": 1.10, "b" : {"x":0.000009,"y":[1,2.0]}, "c":"\\u00e9"}'


def test_members_tells_where_each_one_stands():
    """
    From the quote of a key to the end of its value, white space between them included.
    """
    assert [TEXT[m.start : m.end] for m in members(TEXT)] == [
        '"a": 1.10',
        '"b" : {"x":0.000009,"y":[1,2.0]}',
        '"c":"\\u00e9"',
    ]


def test_a_change_leaves_the_bytes_of_the_others_alone():
    """
    Numbers keep the form they were written in.
    """
    assert splice(TEXT, {"c": None, "d": 1}) == '{"a": 1.10,"b" : {"x":0.000009,"y":[1,2.0]},"c":null,"d":1}'


def test_a_member_can_be_taken_out_and_one_that_is_not_there_stays_out():
    """
    Removing is idempotent.
    """
    assert splice('{"a":1,"b":2}', {"a": REMOVE, "z": REMOVE}) == '{"b":2}'


def test_raw_text_is_put_in_as_it_is():
    """
    A nested object that was spliced itself goes in as text.
    """
    assert splice('{"a":1}', {"a": Raw("1e3")}) == '{"a":1e3}'


@pytest.mark.parametrize("text", ["[]", "1", "{", '{"a":1', '{"a":1,}', "", "{a:1}"])
def test_what_is_no_object_is_refused(text):
    """
    Splicing never guesses.
    """
    with pytest.raises(ValueError):
        splice(text, {"a": 2})


@given(st.dictionaries(st.text(), JSON_VALUES, max_size=5), st.text(), JSON_VALUES)
def test_splicing_says_what_changing_the_value_would_say(data, key, value):
    """
    The text after a splice reads as the object with that member changed.
    """
    assert json.loads(splice(json.dumps(data), {key: value})) == {**data, key: value}
