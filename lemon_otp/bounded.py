"""Pure. Any value as text of a bounded length, made with bounded work and without running any code of the value's own.

`repr` may raise, wait, or build a hundred megabytes first. Here a value of a known kind is read through the methods of
that kind itself, and any other is shown by its class and what its attributes hold.
"""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import fractions
import pathlib
import types
import uuid
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from attrs import define, has

from lemon_otp.pid import Pid

TEXT_MAX: Final = 2_000
DEPTH_MAX: Final = 4
ITEMS_MAX: Final = 12
VISITS_MAX: Final = 400
NUMBER_BITS_MAX: Final = 512
INNER_MIN: Final = 60
"""Characters that a text inside something else has at least, where the whole may be short."""

_PLAIN: Final = (float, complex, bool, type(None), type(...), type(NotImplemented))
_TOLD: Final = (
    decimal.Decimal, fractions.Fraction, uuid.UUID, dt.date, dt.time, dt.timedelta, range,
    pathlib.PurePath,
)  # fmt: skip
"""Kinds whose own repr is short and runs no foreign code, when the class is exactly one of theirs."""
_ROUND: Final[dict[Any, tuple[str, str]]] = {
    tuple: ("(", ")"),
    list: ("[", "]"),
    set: ("{", "}"),
    frozenset: ("{", "}"),
    collections.deque: ("[", "]"),
}


def bounded(value: Any, limit: int = TEXT_MAX, *, depth: int = DEPTH_MAX, items: int = ITEMS_MAX) -> str:
    """The value in at most `limit` characters."""
    try:
        text = _Look(limit, items, depth).shown(value, depth)
    except Exception as error:  # a class that lies even about its own type
        text = f"<a value that cannot be looked at: {type(error).__name__}>"
    return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"


def type_name(value: Any) -> str:
    """The name of a value's class, as its author gave it."""
    return str(type.__getattribute__(type(value), "__qualname__"))


@define
class _Look:
    limit: int
    items: int
    depth: int
    visits: int = VISITS_MAX

    def shown(self, value: Any, depth: int) -> str:
        kind = type(value)
        self.visits -= 1
        if issubclass(kind, str | bytes | bytearray):
            return self._text(value, kind, self.limit if depth == self.depth else max(INNER_MIN, self.limit // 10))
        if issubclass(kind, enum.Enum):
            return f"{kind.__qualname__}.{object.__getattribute__(value, '_name_')}"
        if kind is not bool and issubclass(kind, int):
            bits = int.bit_length(value)
            return int.__repr__(value) if bits < NUMBER_BITS_MAX else f"<int of {bits} bits>"
        if kind in _PLAIN:
            return repr(value)
        if issubclass(kind, Pid) or kind in _TOLD or kind in _CONCRETE_PATHS:
            return self._cut(repr(value))
        if issubclass(kind, type | types.ModuleType | types.FunctionType | types.BuiltinFunctionType):
            return self._named(value)
        if depth <= 0 or self.visits <= 0:
            return f"<{kind.__qualname__}>"
        return self._compound(value, kind, depth - 1)

    def _compound(self, value: Any, kind: type, depth: int) -> str:
        if issubclass(kind, dict):
            return self._label(kind, dict) + "{" + self._pairs(value, depth) + "}"
        for base, (opening, closing) in _ROUND.items():
            if issubclass(kind, base):
                if base is tuple and "_fields" in kind.__dict__:
                    return self._object(kind, zip(kind.__dict__["_fields"], tuple.__iter__(value), strict=False), depth)
                shown = self._list(base.__iter__(value), base.__len__(value), depth)
                return self._label(kind, base) + opening + shown + closing
        if issubclass(kind, BaseException):
            return kind.__qualname__ + "(" + self._list(iter(value.args), len(value.args), depth) + ")"
        return self._object(kind, _attributes(value, kind), depth)

    def _label(self, kind: type, base: type) -> str:
        return "" if kind is base else kind.__qualname__

    def _text(self, value: Any, kind: type, limit: int) -> str:
        base: Any = str if issubclass(kind, str) else bytes if issubclass(kind, bytes) else bytearray
        length = base.__len__(value)
        head = base.__getitem__(value, slice(0, limit))
        shown: str = str.__repr__(head) if base is str else bytes.__repr__(bytes(head))
        more = f"… {length} in all" if length > limit else ""
        return (shown if len(shown) + len(more) <= limit + 2 else shown[: limit - len(more)]) + more

    def _cut(self, text: str) -> str:
        return text if len(text) <= self.limit else text[: self.limit - 1] + "…"

    def _named(self, value: Any) -> str:
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "?")
        word = "class" if isinstance(value, type) else "module" if isinstance(value, types.ModuleType) else "function"
        return f"<{word} {name}>"

    def _pairs(self, value: dict[Any, Any], depth: int) -> str:
        pairs = islice(dict.items(value), self.items)
        shown = [f"{self.shown(key, depth)}: {self.shown(item, depth)}" for key, item in pairs]
        return ", ".join(self._with_rest(shown, dict.__len__(value)))

    def _list(self, values: Iterator[Any], length: int, depth: int) -> str:
        return ", ".join(self._with_rest([self.shown(item, depth) for item in islice(values, self.items)], length))

    def _object(self, kind: type, attributes: Iterable[tuple[str, Any]], depth: int) -> str:
        found = list(islice(attributes, 200))
        shown = [f"{name}={self.shown(value, depth)}" for name, value in found[: self.items]]
        return f"{kind.__qualname__}(" + ", ".join(self._with_rest(shown, len(found))) + ")"

    def _with_rest(self, shown: list[str], length: int) -> list[str]:
        return [*shown, f"… {length - len(shown)} more"] if length > len(shown) else shown


_CONCRETE_PATHS: Final = (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath)


def _attributes(value: Any, kind: type) -> Iterator[tuple[str, Any]]:
    """What an object holds, read where it lies: no property and no `__getattr__` runs."""
    hidden = _hidden(kind)
    seen: set[str] = set()
    try:
        held = object.__getattribute__(value, "__dict__")
    except Exception:
        held = None
    if type(held) is dict:
        for name, item in list(held.items()):
            if isinstance(name, str) and name not in hidden:
                seen.add(name)
                yield name, item
    for owner in kind.__mro__:
        for name, slot in list(owner.__dict__.items()):
            if isinstance(slot, types.MemberDescriptorType) and name not in hidden and name not in seen:
                seen.add(name)
                try:
                    yield name, slot.__get__(value, kind)
                except AttributeError:
                    continue


def _hidden(kind: type) -> set[str]:
    """Fields that the class keeps out of its repr."""
    names = {"__weakref__"}
    if "__attrs_attrs__" in kind.__dict__ and has(kind):
        names |= {attribute.name for attribute in kind.__attrs_attrs__ if not attribute.repr}
    fields = kind.__dict__.get("__dataclass_fields__")
    if type(fields) is dict:
        names |= {name for name, entry in fields.items() if not getattr(entry, "repr", True)}
    return names
