"""Pure. Saying no, in a line a person can read, to a value of the wrong class where it comes in."""

from collections.abc import Callable
from typing import Any


def is_a(kind: type, *, or_none: bool = False) -> Callable[[Any, Any, Any], None]:
    """A validator of an attrs field: TypeError unless the value is a `kind`, or None where that is allowed."""

    def check(_instance: Any, attribute: Any, value: Any) -> None:
        if not (isinstance(value, kind) or (or_none and value is None)):
            raise TypeError(f"{attribute.name}: expected {kind.__name__}, not {value!r:.200}")

    return check
