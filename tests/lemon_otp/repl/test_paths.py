"""Paths into a value."""

from typing import Any, NamedTuple, NoReturn

import pytest
from attrs import frozen

from lemon_otp.repl.operations import Refusal
from lemon_otp.repl.paths import STEPS_MAX, held_at, steps


@frozen
class Inner:
    name: str


class Slotted:
    __slots__ = ("a", "unset")

    def __init__(self) -> None:
        self.a = [1, 2]


class Lying:
    def __init__(self) -> None:
        self.there = 1

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError("asked")

    @property
    def computed(self) -> NoReturn:
        raise AssertionError("computed")


class Pair(NamedTuple):
    left: int


VALUE: dict[str, Any] = {"a": [Inner("x"), (1, 2)], "key with space": 3, 5: "five", None: 0}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", VALUE),
        (".a[0].name", "x"),
        ("a[0].name", "x"),
        ("['a'][1][-1]", 2),
        ('["key with space"]', 3),
        ("[5]", "five"),
        ("[None]", 0),
    ],
)
def test_attributes_keys_and_positions_are_followed(path: str, found: Any) -> None:
    """As Python would write them; a key that is a word may be written like an attribute."""
    assert held_at(VALUE, path) == found


def test_slots_and_named_tuples_are_read() -> None:
    """Where an attribute lies does not matter."""
    assert held_at(Slotted(), "a[1]") == 2
    assert held_at(Pair(7), "left") == 7
    assert held_at(Lying(), "there") == 1


@pytest.mark.parametrize("path", [".b", "[0]", ".a[9]", ".a[0].other", "a.x", "['z']"])
def test_what_is_not_there_is_said(path: str) -> None:
    """With the step that failed."""
    with pytest.raises(Refusal, match="has no"):
        held_at(VALUE, path)


@pytest.mark.parametrize("name", ["missing", "computed"])
def test_no_code_of_the_value_is_run(name: str) -> None:
    """A property is no place where something lies."""
    with pytest.raises(Refusal):
        held_at(Lying(), name)
    with pytest.raises(Refusal):
        held_at(Slotted(), "unset")


@pytest.mark.parametrize(
    "path", ["()", "a()", "__import__('os')", "a[0", "[x]", "a b", "." * 50, "[1]" * (STEPS_MAX + 1)]
)
def test_anything_else_is_no_path(path: str) -> None:
    """Nothing is ever evaluated."""
    with pytest.raises(Refusal, match="no path"):
        steps(path)
