"""Pure. Any value in a few words, and roughly its size: bounded in length and in work, whatever the value does."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from attrs import fields, has

from lemon_otp.pid import Pid

TEXT_MAX: Final = 120
ITEMS_MAX: Final = 8
DEPTH_MAX: Final = 3
SIZED_OBJECTS_MAX: Final = 2_000
BRACKETS: Final[dict[type, tuple[str, str]]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("{", "}"),
}


def brief(value: Any, limit: int = TEXT_MAX) -> str:
    """A repr of at most `limit` characters.

    Looks at no more than the first items of containers and fields, and a few levels deep; a repr that raises is told.
    """
    return _cut(_brief(value, limit, DEPTH_MAX), limit)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"


def _brief(value: Any, limit: int, depth: int) -> str:
    if isinstance(value, str | bytes) and type(value) in (str, bytes):
        return _cut(repr(value[:limit]), limit) if len(value) > limit else repr(value)
    kind = type(value)
    if kind in (int, float, bool, type(None)):
        # A number of a million digits is refused by repr, or takes for ever.
        return (
            repr(value)
            if not isinstance(value, int) or value.bit_length() < 512
            else f"<int of {value.bit_length()} bits>"
        )
    if isinstance(value, Pid):
        return repr(value)
    if depth == 0:
        return f"<{kind.__name__}>"
    if kind in (list, tuple, set, frozenset):
        opening, closing = BRACKETS[kind]
        return opening + _items((_brief(item, limit, depth - 1) for item in islice(value, ITEMS_MAX)), value) + closing
    if isinstance(value, Mapping) and kind is dict:
        shown = (
            f"{_brief(key, limit, depth - 1)}: {_brief(item, limit, depth - 1)}"
            for key, item in islice(value.items(), ITEMS_MAX)
        )
        return "{" + _items(shown, value) + "}"
    if has(kind) and "__attrs_attrs__" in kind.__dict__:
        names = [attribute.name for attribute in fields(kind) if attribute.repr]
        shown = (f"{name}={_brief(getattr(value, name, '?'), limit, depth - 1)}" for name in names[:ITEMS_MAX])
        return f"{kind.__name__}({_items(shown, names)})"
    try:
        return _cut(repr(value), limit)
    except Exception as error:
        return f"<{kind.__name__} whose repr raised {type(error).__name__}>"


def _items(shown: Iterable[str], container: Any) -> str:
    text = ", ".join(shown)
    more = len(container) - ITEMS_MAX
    return f"{text}, … {more} more" if more > 0 else text


def size_estimate(*roots: Any) -> int:
    """Bytes that these values hold, shared ones counted once; stops counting after a few thousand objects."""
    total = 0
    seen: set[int] = set()
    waiting: list[Any] = list(roots)
    while waiting and len(seen) < SIZED_OBJECTS_MAX:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, type):
            continue
        seen.add(id(value))
        try:
            total += sys.getsizeof(value)
        except Exception:
            continue
        waiting.extend(_held_by(value))
    return total


def _held_by(value: Any) -> list[Any]:
    kind = type(value)
    if kind is dict:
        return [part for pair in islice(value.items(), SIZED_OBJECTS_MAX) for part in pair]
    if kind in (list, tuple, set, frozenset) or kind.__name__ == "deque":
        return list(islice(value, SIZED_OBJECTS_MAX))
    if has(kind):
        return [getattr(value, attribute.name, None) for attribute in fields(kind)]
    held = getattr(value, "__dict__", None)
    return list(held.values()) if isinstance(held, dict) and not callable(value) else []
