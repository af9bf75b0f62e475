"""Rows under keys, compared with a plain list."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_otp.table_rows import Rows, term_order

STEPS = st.lists(
    st.tuples(st.sampled_from(["insert", "take", "remove_row", "clear"]), st.sampled_from("abc"), st.integers(0, 2)),
    max_size=30,
)


@given(steps=STEPS, kind=st.sampled_from(["set", "ordered_set", "bag", "duplicate_bag"]))
def test_rows_agree_with_a_plain_list(steps: Any, kind: Any) -> None:
    """After any steps: the same rows under each key in the order of insertion, the same size, ordered if ordered."""
    rows = Rows(kind)
    model: list[tuple[Any, ...]] = []
    for what, key, number in steps:
        row = (key, number)
        if what == "insert":
            rows.insert(row)
            if kind in ("set", "ordered_set"):
                model = [other for other in model if other[0] != key]
            if kind == "duplicate_bag" or row not in model:
                model.append(row)
        elif what == "take":
            assert rows.take(key) == [other for other in model if other[0] == key]
            model = [other for other in model if other[0] != key]
        elif what == "remove_row":
            rows.remove_row(row)
            model = [other for other in model if other != row]
        elif number == 0:
            rows.clear()
            model = []
        assert rows.size == len(model)
        assert sorted(rows) == sorted(model)
        for a_key in "abc":
            assert rows.lookup(a_key) == [other for other in model if other[0] == a_key]
        if kind == "ordered_set":
            assert [other[0] for other in rows] == sorted(other[0] for other in model)


@given(keys=st.lists(st.integers() | st.text() | st.tuples(st.integers(), st.text()) | st.none(), unique=True))
def test_an_ordered_set_is_walked_key_by_key(keys: list[Any]) -> None:
    """first and after visit every key once, in the order of terms, and end with the default."""
    rows = Rows("ordered_set")
    for key in keys:
        rows.insert((key, "value"))
    walked, key = [], rows.first(default="end of table")
    while key != "end of table" and len(walked) <= len(keys):
        walked.append(key)
        key = rows.after(key, default="end of table")
    assert walked == sorted(keys, key=term_order)


def test_an_unordered_table_is_walked_too_but_only_from_keys_it_has() -> None:
    """KeyError for a key that is not there."""
    rows = Rows("set")
    for key in "ab":
        rows.insert((key, 1))
    assert {rows.first(), rows.after(rows.first())} == {"a", "b"}
    with pytest.raises(KeyError):
        rows.after("z")


def test_terms_of_different_kinds_have_an_order() -> None:
    """Numbers before texts before None before tuples, shorter tuples first."""
    terms: list[Any] = [(1, 2), "a", 3, None, (9,), 1.5]
    assert sorted(terms, key=term_order) == [1.5, 3, "a", None, (9,), (1, 2)]


@pytest.mark.parametrize(
    ("table_type", "expected"),
    [("bag", [3, 2, 1, 4, 8, 6]), ("duplicate_bag", [1, 2, 3, 4, 6, 8])],
)
def test_a_bag_takes_the_rows_of_one_call_last_first(table_type, expected):
    """Recorded on the BEAM (OTP 25): only a bag does, and rows of separate calls stay in their order."""
    rows = Rows(table_type)
    rows.insert_all([("k", 1), ("k", 2), ("k", 3)])
    rows.insert(("k", 4))
    rows.insert_all([("k", 6), ("j", 1), ("k", 8)])

    assert [row[1] for row in rows.lookup("k")] == expected
