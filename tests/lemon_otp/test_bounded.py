"""Any value as text: bounded in length and in work, and none of the value's own code is run."""

import collections
import datetime as dt
import enum
import fractions
import pathlib
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, NamedTuple, NoReturn

import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

from lemon_otp.bounded import bounded

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=30,
)


def trap(*_: Any) -> NoReturn:
    raise AssertionError("code of the value ran")


class Trapped:
    """Whatever is asked of it in the usual way is a mistake."""

    __repr__ = __str__ = __len__ = __iter__ = __eq__ = __getattr__ = trap  # type: ignore[assignment]
    __hash__ = trap  # type: ignore[assignment]

    def __init__(self) -> None:
        self.here = 1

    @property
    def asked(self) -> NoReturn:
        trap()


class TrappedList(list[int]):
    __repr__ = __len__ = __iter__ = __getitem__ = trap  # type: ignore[assignment]


class TrappedDict(dict[str, int]):
    __repr__ = __len__ = __iter__ = items = keys = trap  # type: ignore[assignment]


class TrappedText(str):
    __repr__ = __str__ = __len__ = __getitem__ = trap  # type: ignore[assignment]


class TrappedClass:
    __class__ = property(trap)  # type: ignore[assignment]


class TrappedKind(type):
    """A metaclass that has its own idea of what a class is."""

    __eq__ = __getattribute__ = __instancecheck__ = __subclasscheck__ = trap  # type: ignore[assignment]
    __hash__ = trap  # type: ignore[assignment]
    __mro__ = __dict__ = property(trap)  # type: ignore[assignment]


class TrappedError(ValueError):
    args = property(trap)  # type: ignore[assignment]


class TrappedHolder:
    __dict__ = property(trap)  # type: ignore[assignment]


def trapped_module() -> types.ModuleType:
    """A module that makes what is asked of it when it is asked."""
    made = types.ModuleType("made")
    made.__getattr__ = trap  # type: ignore[method-assign]
    return made


@frozen
class Point:
    x: int
    secret: str = field(repr=False, default="hidden")


@dataclass
class Pair:
    left: int
    secret: str = dataclass_field(repr=False, default="hidden")


class Below(Point):
    """What its parent hides it hides as well."""


class PairBelow(Pair):
    pass


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self) -> None:
        self.a = 1


class Colour(enum.Enum):
    RED = "red"


class Place(NamedTuple):
    row: int
    column: int


@given(value=VALUES, limit=st.integers(60, 200))
def test_no_value_is_shown_longer_than_the_limit(value: Any, limit: int) -> None:
    """However it is nested."""
    assert len(bounded(value, limit)) <= limit


@pytest.mark.requirement("BR-130")
@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (lambda: Trapped(), "Trapped(here=1)"),
        (lambda: TrappedList([1, 2]), "TrappedList[1, 2]"),
        (lambda: TrappedDict(a=1), "TrappedDict{'a': 1}"),
        (lambda: TrappedText("text"), "'text'"),
        (lambda: TrappedClass(), "TrappedClass()"),
        (lambda: [Trapped()], "[Trapped(here=1)]"),
        (lambda: Point(1), "Point(x=1)"),
        (lambda: Pair(1), "Pair(left=1)"),
        (lambda: Slotted(), "Slotted(a=1)"),
        (lambda: Colour.RED, "Colour.RED"),
        (lambda: Place(1, 2), "Place(row=1, column=2)"),
        (lambda: ValueError("no"), "ValueError('no')"),
        (lambda: collections.deque([1]), "deque[1]"),
        (lambda: pathlib.Path("/a"), "PosixPath('/a')"),
        (lambda: dt.date(2026, 1, 2), "datetime.date(2026, 1, 2)"),
        (lambda: trap, "<function trap>"),
        (lambda: Point, "<class Point>"),
        (lambda: 10**100_000, "<int of 332193 bits>"),
        (lambda: True, "True"),
        (lambda: {1: (2, [3])}, "{1: (2, [3])}"),
        (lambda: TrappedKind("Made", (), {})(), "Made()"),
        (lambda: TrappedKind("Made", (), {}), "<class Made>"),
        (lambda: TrappedError("no"), "TrappedError('no')"),
        (lambda: TrappedHolder(), "TrappedHolder()"),
        (trapped_module, "<module made>"),
        (lambda: Below(1), "Below(x=1)"),
        (lambda: PairBelow(1), "PairBelow(left=1)"),
        (
            lambda: [1, fractions.Fraction(10**9_000, 3), 2],
            "[1, <Fraction that cannot be looked at: ValueError>, 2]",
        ),
    ],
    ids=map(str, range(28)),
)
def test_values_are_shown_without_running_their_code(make: Callable[[], Any], shown: str) -> None:
    """Not their repr, their length, their items nor their properties; what a class hides from its repr stays hidden."""
    assert bounded(make()) == shown.replace("deque[1]", "[1]")


def test_a_huge_value_costs_no_more_than_a_small_one() -> None:
    """A hundred megabytes are never copied: the first characters and the first items are all that is read."""
    huge = {"text": "x" * 100_000_000, "bytes": bytearray(100_000_000), "list": [0] * 10_000_000, "me": None}
    huge["me"] = huge
    began = time.process_time()
    text = bounded(huge, 1_000)
    assert time.process_time() - began < 0.05
    assert len(text) <= 1_000
    assert "100000000 in all" in text
    assert "9999988 more" in text


def test_a_deep_value_ends() -> None:
    """Depth is bounded, and so is how much is visited."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep, deep]
    assert bounded(deep).count("[") < 2_000
    del deep
