"""Any value in a few words, whatever it does."""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

from lemon_otp.brief import brief, size_estimate

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=30,
)


@given(value=VALUES, limit=st.integers(10, 200))
def test_no_value_is_shown_longer_than_the_limit(value: Any, limit: int) -> None:
    """However it is nested."""
    assert len(brief(value, limit)) <= limit


class Hostile:
    """Its repr raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


@frozen
class Point:
    x: int
    secret: str = field(repr=False, default="hidden")


@pytest.mark.requirement("BR-130")
@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (lambda: "a" * 500, "'aaa"),
        (lambda: b"b" * 10_000_000, "b'bbb"),
        (lambda: 10**100_000, "<int of 332193 bits>"),
        (lambda: list(range(1_000_000)), "[0, 1, 2, 3, 4, 5, 6, 7, … 999992 more]"),
        (lambda: {"k": [1, 2]}, "{'k': [1, 2]}"),
        (lambda: Hostile(), "<Hostile whose repr raised RuntimeError>"),
        (lambda: [[[[["deep"]]]]], "[[[<list>]]]"),
        (lambda: Point(1), "Point(x=1)"),
        (lambda: set(), "{}"),
        (lambda: (1,), "(1)"),
    ],
)
def test_large_deep_and_hostile_values_are_shown_in_a_few_words(make: Callable[[], Any], shown: str) -> None:
    """A repr that raises is told; what a class hides from its repr stays hidden."""
    assert brief(make()).startswith(shown)


def test_a_value_that_holds_itself_has_an_end() -> None:
    """Depth is bounded, for words and for sizes."""
    loop: list[Any] = []
    loop.append(loop)
    assert brief(loop).startswith("[[[")
    assert size_estimate(loop) > 0


def test_sizes_count_what_is_shared_once_and_stop_somewhere() -> None:
    """An estimate, bounded in work."""
    text = "x" * 1000
    assert 1000 < size_estimate([text, text]) < 1500
    assert size_estimate([object() for _ in range(1_000_000)]) > 0
