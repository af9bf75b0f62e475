"""Values and errors of strangers as text: short, soon, and no more than they tell of themselves."""

import collections
import dataclasses
import enum
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from lemon_otp import (
    Pid,
    SpeaksForItself,
    Via,
    describe,
    error_line,
    error_trace,
    error_words,
    frozen,
    reason_words,
)

SECRET = "canary"


def trap(*_: Any) -> NoReturn:
    raise AssertionError("code of the value ran")


class Plain:
    def __init__(self) -> None:
        self.token = SECRET


class Own:
    __repr__ = __str__ = trap  # type: ignore[assignment]

    def __init__(self) -> None:
        self.token = SECRET


class SecretText(str):
    __repr__ = __str__ = trap  # type: ignore[assignment]


class SecretDict(dict[str, str]):
    __repr__ = trap  # type: ignore[assignment]


class SecretNumber(int):
    __repr__ = trap  # type: ignore[assignment]


@define
class Fields:
    seen: int = 1
    hidden: str = field(repr=False, default=SECRET)
    dressed: str = field(repr=lambda _: "***", default=SECRET)


@define(repr=False)
class NoFields:
    hidden: str = SECRET


@define
class OwnFields:
    hidden: str = SECRET

    def __repr__(self) -> str:
        trap()


class BelowFields(Fields):
    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "added", SECRET)


@frozen
class Late:
    seen: int = 1
    hidden: str = field(repr=False, default=SECRET)


@dataclasses.dataclass
class Data:
    seen: int = 1
    hidden: str = dataclasses.field(repr=False, default=SECRET)


@dataclasses.dataclass
class OwnData:
    hidden: str = SECRET

    def __repr__(self) -> str:
        trap()


class Place(NamedTuple):
    row: int


class OwnPlace(Place):
    __repr__ = trap  # type: ignore[assignment]


class Colour(enum.Enum):
    RED = SECRET


class PlainError(Exception):
    pass


@define(eq=False)
class FieldsError(Exception):
    seen: int = 1
    hidden: str = field(repr=False, default=SECRET)


class OwnError(Exception):
    __repr__ = __str__ = trap  # type: ignore[assignment]


class OwnWords(Exception):
    def __str__(self) -> str:
        trap()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Plain(), "<Plain>"),
        (Own(), "<Own>"),
        (SecretText(SECRET), "<SecretText>"),
        (SecretDict(a=SECRET), "<SecretDict>"),
        (SecretNumber(12), "<SecretNumber>"),
        (Fields(), "Fields(seen=1, dressed=…)"),
        (BelowFields(), "BelowFields(seen=1, dressed=…)"),
        (NoFields(), "<NoFields>"),
        (OwnFields(), "<OwnFields>"),
        (Late(), "Late(seen=1)"),
        (Data(), "Data(seen=1)"),
        (OwnData(), "<OwnData>"),
        (Place(1), "Place(row=1)"),
        (OwnPlace(1), "<OwnPlace>"),
        (Colour.RED, "Colour.RED"),
        (FieldsError(), "FieldsError(seen=1)"),
        (OwnError(SECRET), "<OwnError>"),
        (PlainError("no"), "PlainError('no')"),
        (Pid(3, "worker"), "<pid 3 worker>"),
        (Via("names", ("a", 1)), "Via(registry='names', key=('a', 1), value=None)"),
        (("shutdown", [Own()]), "('shutdown', [<Own>])"),
        ((1,), "(1,)"),
        (collections.defaultdict(list, a=[1]), "defaultdict{'a': [1]}"),
        (trap, "<function trap>"),
        (None, "None"),
        ("x", "'x'"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_is_shown_as_far_as_it_shows_itself(value: object, shown: str) -> None:
    """No code of its own runs; a repr that is not known for one a library made gives the name of the class."""
    assert describe(value) == shown


@given(text=st.text(), limit=st.integers(40, 200))
def test_no_text_is_longer_than_the_limit(text: str, limit: int) -> None:
    """Nor is what holds it."""
    assert len(describe(text, limit)) <= limit
    assert len(describe([text] * 9, limit)) <= limit
    assert len(error_words(ValueError(text), limit)) <= limit


@pytest.mark.parametrize(
    "error",
    [
        ValueError(),
        ValueError("boom"),
        ValueError("a", 2),
        KeyError("name"),
        FileNotFoundError(2, "No such file or directory", "/nowhere"),
        PermissionError(13, "Permission denied"),
        OSError("only words"),
        PlainError("no"),
        ExceptionGroup("several", [ValueError("one")]),
    ],
    ids=repr,
)
def test_an_error_of_python_says_what_its_str_says(error: Exception) -> None:
    """For those that have no words of their own making."""
    if isinstance(error, ExceptionGroup):
        assert error_words(error) == "several"
    else:
        assert error_words(error) == str(error)
        assert error_line(error) == traceback.format_exception_only(error)[-1].strip().removeprefix(f"{__name__}.")


def test_an_error_with_words_of_its_own_shows_what_it_holds() -> None:
    """Its `str` is not called; what its class hides stays hidden."""
    assert error_words(OwnWords("a")) == "OwnWords('a')"
    assert error_line(OwnWords("a")) == "OwnWords('a')"
    assert error_words(OwnError(SECRET)) == "<OwnError>"
    assert error_line(FieldsError()) == "FieldsError(seen=1)"
    assert error_words(ValueError(Own())) == "<Own>"


class Speaker(SpeaksForItself):
    def __str__(self) -> str:
        return "short words" if not self.args else str(self.args[0])


def test_a_package_may_speak_for_its_errors() -> None:
    """Those that say so are asked what they say; words that cannot be had, or are long, do no harm."""
    assert error_line(Speaker()) == "Speaker: short words"
    assert error_words(Speaker(Own())) == "Speaker(<Own>)"
    assert len(error_words(Speaker("x" * 10_000))) == 500


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("shutdown", "shutdown"),
        (ValueError("boom"), "ValueError: boom"),
        (("shutdown", Own()), "('shutdown', <Own>)"),
        (None, "None"),
        ("x" * 1_000, "x" * 499 + "…"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_reason_is_told_to_a_person(reason: object, words: str) -> None:
    """A text as it is, an error with its class."""
    assert reason_words(reason) == words


def raised(make: Callable[[], Exception]) -> Exception:
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise make() from error
    except Exception as error:
        return error


def test_a_trace_is_told_as_python_tells_it() -> None:
    """Causes first, then the frames and the words."""
    error = raised(lambda: ValueError("boom"))
    error.add_note("while testing")
    assert error_trace(error) == "".join(traceback.format_exception(error))


def test_a_trace_of_many_errors_ends() -> None:
    """The errors that led to it are bounded, and a circle is walked once."""
    error: Exception = ValueError("last")
    for number in range(1_000):
        after = ValueError(f"{number}")
        after.__context__ = error
        error = after
    assert error_trace(error).count("ValueError") == 8
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert error_trace(one).count("ValueError") == 2
    group = ExceptionGroup("many", [ValueError(str(number)) for number in range(1_000)])
    assert error_trace(group).count("ValueError") < 10


def test_a_trace_of_a_deep_recursion_is_short() -> None:
    """The frames nearest to the error are shown."""

    def down(depth: int) -> None:
        if depth == 0:
            raise ValueError("deep")
        down(depth - 1)

    try:
        down(500)
    except ValueError as error:
        text = error_trace(error)
    assert len(text) < 20_000
    assert 'raise ValueError("deep")' in text


def test_huge_values_cost_no_more_than_small_ones() -> None:
    """Neither as a value nor as what an error says."""
    huge = "x" * 100_000_000
    began = time.process_time()
    told = [describe(huge), describe({"a": [huge] * 1000}), error_words(ValueError(huge)), error_line(OSError(1, huge))]
    assert time.process_time() - began < 0.1
    assert all(len(text) <= 1_100 for text in told)


def test_a_program_that_tells_nothing_unusual_does_not_pay_for_it() -> None:
    """What looks into values is read when it is first needed."""
    code = "import sys, lemon_otp; lemon_otp.describe('shutdown'); print('lemon_otp.discreet' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
