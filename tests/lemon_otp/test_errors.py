"""The tree of errors, as it is drawn where it is defined."""

import inspect
import re

from lemon_otp import errors
from lemon_otp.errors import BadReturn, CallFailed, CallTimeout, OtpError, ProcessExit, StartFailed


def drawn() -> dict[str, int]:
    """The classes of the drawing and how deep they stand."""
    assert errors.__doc__ is not None
    found = {}
    for line in errors.__doc__.splitlines():
        match = re.match(r"^([│ ]*[├└]── )(\w+)", line)
        if match:
            found[match[2]] = len(match[1]) // 4
    return found


def test_the_drawing_shows_every_class_where_it_stands() -> None:
    """As many steps below OtpError as its bases say."""
    classes = {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, OtpError) and kind is not OtpError
    }
    assert set(drawn()) == set(classes)
    for name, depth in drawn().items():
        bases = [base for base in classes[name].__mro__ if isinstance(base, type) and issubclass(base, OtpError)]
        assert len(bases) - 1 == depth, name


def test_every_class_has_a_docstring() -> None:
    """A line that says what happened."""
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and kind.__module__ == errors.__name__:
            assert kind.__doc__, name


def test_an_exit_is_not_caught_by_except_exception() -> None:
    """It would keep processes alive that want to end."""
    assert not issubclass(ProcessExit, Exception)
    assert ProcessExit("x").reason == "x"


def test_a_timeout_is_a_failed_call() -> None:
    """One except clause is enough for those who do not care why."""
    late = CallTimeout("server", 5.0)
    assert isinstance(late, CallFailed)
    assert (late.reason, late.timeout_s) == ("timeout", 5.0)


def test_a_failure_that_is_passed_on_stays_short() -> None:
    """Each server of a chain quotes the failure of the next; quotes in quotes would double with every one."""
    reason: object = ValueError('it\'s "this"')
    for _ in range(200):
        reason = StartFailed(CallFailed(reason, "server"))
    assert len(str(reason)) < 2000
    assert len(str(CallFailed("x" * 1_000_000))) < 2000
    assert len(str(BadReturn("init", "x" * 1_000_000, "a state"))) < 2000


def test_a_reason_that_cannot_be_shown_does_no_harm() -> None:
    """The error is made all the same."""

    class Shy(Exception):
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert "Shy" in str(CallFailed(Shy()))
