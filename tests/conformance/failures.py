"""Pure. How operations fail in a scenario, and what a failure is called in a trace."""

from __future__ import annotations

from typing import Any, Final

from attrs import frozen

from lemon_otp import (
    BadReturn,
    CallFailed,
    MaxChildren,
    OtpError,
    ProcessExit,
    StartFailed,
    UnhandledMessage,
)
from tests.conformance.world import UnknownProcess


class Raised(Exception):
    """The op `raise`: an uncaught runtime error with a message."""


class Thrown(Exception):
    """The op `throw`.

    Attributes:
        value: What was thrown.
    """

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


class OpError(Exception):
    """An op refused its arguments in a way that the recorded system has a name for.

    Attributes:
        kind: The name in an event.
        reason: The name when it ends a process, if that differs.
    """

    def __init__(self, kind: str, reason: Any = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.reason = reason or kind


def bad_argument() -> OpError:
    """An argument of the wrong kind, such as a name that nobody has where a process is wanted."""
    return OpError("badarg")


def no_clause() -> OpError:
    """An argument that no clause of the function takes."""
    return OpError("FunctionClauseError", "function_clause")


@frozen
class ErrorTerm:
    """`{tag: value}` in a trace: the reason of what ended with an uncaught error."""

    tag: str
    value: Any


@frozen
class WithDescription:
    """A reason beside the description of the call (`$mfa`) or the child (`$child`) that it is about."""

    reason: Any
    description: str = "$mfa"


DEFAULTS: Final = ("PlainServer",)
"""Servers that leave callbacks to the library; any other that refuses a message has no clause for it."""

FAILURES: Final = (OtpError, ValueError, UnknownProcess, Raised, Thrown, OpError, ProcessExit)
"""What an op may fail with; anything else is a fault of the interpreter or of the library."""


def reason_of(error: BaseException) -> Any:
    """The term of an exception as the exit reason of a process, or of a start, that let it escape."""
    match error:
        case ProcessExit():
            return error.reason
        case Thrown():
            return ("nocatch", error.value)
        case CallFailed():
            return WithDescription(error.reason)
        case BadReturn():
            return ("bad_return_value", error.value)
        case UnhandledMessage(server=server):
            return ErrorTerm("raise", "no_clause") if server in DEFAULTS else ErrorTerm("error", "function_clause")
        case MaxChildren():
            return ErrorTerm("raise", "max_children")
        case StartFailed():
            return error.reason
        case OpError():
            return ErrorTerm("error", error.reason)
        case Raised() | UnknownProcess():
            return ErrorTerm("raise", str(error))
        case OtpError() | ValueError():
            return ErrorTerm("error", "badarg")
        case _:
            return ErrorTerm("error", f"{type(error).__name__}: {error}")


@frozen
class Failure:
    """An op that failed: `{tag: value}` in its event."""

    tag: str
    value: Any


def failure_of(error: BaseException) -> Failure:
    """What the event of an op says when it failed with `error`."""
    if isinstance(error, Thrown):
        return Failure("throw", error.value)
    if isinstance(error, OpError):
        return Failure("error", error.kind)
    term = reason_of(error)
    if isinstance(term, ErrorTerm):
        return Failure("error", term.value)
    return Failure("exit", term)
