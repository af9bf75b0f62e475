"""Pure. Roughly how large values are: bounded in work, and no code of the values' own is run."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from lemon_otp.pid import Pid

SIZED_OBJECTS_MAX: Final = 2_000
_ITEMS: Final = (list, tuple, set, frozenset, deque)
_NOT_HELD: Final = (type, Pid, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType)
"""What a value may point at without holding it."""


def size_estimate(*roots: Any, objects_max: int = SIZED_OBJECTS_MAX) -> int:
    """Bytes that these values hold, shared ones counted once; stops counting after so many objects."""
    total = 0
    seen: set[int] = set()
    sizers: dict[int, Callable[[Any], int]] = {}
    waiting: list[Any] = list(roots)
    while waiting and len(seen) < objects_max:
        value = waiting.pop()
        kind = type(value)
        if id(value) in seen or issubclass(kind, type):
            continue
        seen.add(id(value))
        size = sizers.get(id(kind)) or sizers.setdefault(id(kind), _sizer(kind))
        try:
            total += size(value)
            waiting.extend(_held_by(value, kind))
        except Exception:  # changed meanwhile
            continue
    return total


def _sizer(kind: type) -> Callable[[Any], int]:
    """What says how large values of this class are: the first of its line that is no Python code."""
    from lemon_otp.bounded import fields_of, line_of  # few programs are ever looked into

    for owner in line_of(kind):
        found = fields_of(owner).get("__sizeof__")
        if type(found) is types.MethodDescriptorType:
            return found
    return object.__sizeof__


def _held_by(value: Any, kind: type) -> list[Any]:
    if issubclass(kind, str | bytes | bytearray | int | float):
        return []
    if issubclass(kind, dict):
        return [part for pair in islice(dict.items(value), SIZED_OBJECTS_MAX) for part in pair]
    for base in _ITEMS:
        if issubclass(kind, base):
            items: Any = base
            return list(islice(items.__iter__(value), SIZED_OBJECTS_MAX))
    if issubclass(kind, _NOT_HELD):
        return []
    from lemon_otp.bounded import attributes

    return [held for _, held in islice(attributes(value, kind), SIZED_OBJECTS_MAX)]
