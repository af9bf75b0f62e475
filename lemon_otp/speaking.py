"""Value. What those agree on who tell of errors and values, and those whose errors are told of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

Cleaner: TypeAlias = Callable[[str], str]
"""Gives a text back without the secrets in it; must not raise."""

TEXT_MAX: Final = 500
"""Characters of a value or an error, where nobody asks for more or less."""


class SpeaksForItself(Exception):
    """Base of errors whose `str` is short, quick and fit for a log, made by the package itself."""
