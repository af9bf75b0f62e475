"""Value. Values of strangers and their errors as text for a log, a report or an error message, always short.

What each function gives is made by `lemon_otp/discreet.py`: bounded in length and in work, without running code of the
value, and without what its class hides. A program in which nothing goes wrong never loads that; this is the way to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from lemon_otp.speaking import TEXT_MAX, Cleaner

CLEANER: Final = "telling.cleaner"
"""Where a runtime keeps the cleaner of its reports."""


def describe(value: object, limit: int = TEXT_MAX, clean: Cleaner = str) -> str:
    """The value in at most `limit` characters, near to its repr; see `lemon_otp/discreet.py` for what is left out."""
    if type(value) is str and len(value) < limit // 4:  # most reasons; no escape is longer than that
        return clean(repr(value))
    from lemon_otp import discreet

    return discreet.shown(value, limit, clean)


def error_words(error: BaseException, limit: int = TEXT_MAX, clean: Cleaner = str) -> str:
    """What the error says, near to its `str`.

    That is called for a `SpeaksForItself` alone; another error that makes words of its own shows its fields.
    """
    from lemon_otp import discreet

    return discreet.words(error, limit, clean)


def error_line(error: BaseException, limit: int = TEXT_MAX, clean: Cleaner = str) -> str:
    """The class of the error and what it says: `ValueError: boom`."""
    from lemon_otp import discreet

    return discreet.line(error, limit, clean)


def reason_words(reason: object, limit: int = TEXT_MAX) -> str:
    """Why something ended, for a person: a text as it is, an error with its class, anything else near to its repr."""
    if type(reason) is str:
        return reason if len(reason) <= limit else reason[: limit - 1] + "…"
    return error_line(reason, limit) if isinstance(reason, BaseException) else describe(reason, limit)


def error_trace(error: BaseException, clean: Cleaner = str) -> str:
    """The tracebacks of the error and of those that led to it, nearly as Python prints them, but bounded."""
    from lemon_otp import discreet

    return discreet.trace(error, clean)


def cleaner_in(store: Mapping[str, Any]) -> Cleaner:
    """What takes the secrets out of the reports of a runtime whose store this is."""
    return cast(Cleaner, store.get(CLEANER, str))
