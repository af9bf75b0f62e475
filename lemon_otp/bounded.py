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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field
from itertools import islice
from typing import Any, Final

from attrs import Attribute, define

from lemon_otp.pid import Pid

TEXT_MAX: Final = 2_000
DEPTH_MAX: Final = 4
ITEMS_MAX: Final = 12
VISITS_MAX: Final = 400
NUMBER_BITS_MAX: Final = 512
INNER_MIN: Final = 60
"""Characters that a text inside something else has at least, where the whole may be short."""

_TOLD: Final = (
    float, complex, bool, type(None), type(...), type(NotImplemented), decimal.Decimal, fractions.Fraction, uuid.UUID,
    dt.date, dt.datetime, dt.time, dt.timedelta, range, pathlib.PurePath, pathlib.PurePosixPath,
    pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath,
)  # fmt: skip
TOLD_IDS: Final = frozenset(map(id, _TOLD))
"""Kinds whose own repr is short and runs no foreign code, when the class is exactly one of theirs. By identity: classes
may have their own idea of what they are equal to."""
_ROUND: Final[dict[Any, tuple[str, str]]] = {
    tuple: ("(", ")"),
    list: ("[", "]"),
    set: ("{", "}"),
    frozenset: ("{", "}"),
    collections.deque: ("[", "]"),
}


def bounded(value: Any, limit: int = TEXT_MAX, *, depth: int = DEPTH_MAX, items: int = ITEMS_MAX) -> str:
    """The value in at most `limit` characters."""
    return Look(limit, items, depth).text_of(value)


def type_name(value: Any) -> str:
    """The name of a value's class, as its author gave it."""
    return name_of(type(value))


# Classes, read as they lie: a metaclass may have its own idea of these, too.

line_of: Final[Callable[[type], tuple[type, ...]]] = type.__dict__["__mro__"].__get__
"""The classes that a class inherits from, itself first."""
fields_of: Final[Callable[[type], Mapping[str, Any]]] = type.__dict__["__dict__"].__get__
"""What a class itself defines."""
name_of: Final[Callable[[type], str]] = type.__dict__["__qualname__"].__get__
_module_fields: Final[Callable[[Any], Any]] = fields_of(types.ModuleType)["__dict__"].__get__
args_of: Final[Callable[[BaseException], tuple[Any, ...]]] = BaseException.__dict__["args"].__get__


@define
class Look:
    """One value, read; what is looked at altogether is bounded, too."""

    limit: int
    items: int
    depth: int
    visits: int = VISITS_MAX

    def text_of(self, value: Any) -> str:
        """The whole value in at most `limit` characters."""
        text = self.shown(value, self.depth)
        return text if len(text) <= self.limit else text[: max(0, self.limit - 1)] + "…"

    def shown(self, value: Any, depth: int) -> str:
        """The value, or a part of it, `depth` levels of it."""
        kind = type(value)
        self.visits -= 1
        try:
            return self._shown(value, kind, depth)
        except Exception as error:  # changed meanwhile, or a class that lies even about its own type
            return f"<{name_of(kind)} that cannot be looked at: {type(error).__name__}>"

    def _shown(self, value: Any, kind: type, depth: int) -> str:
        if issubclass(kind, str | bytes | bytearray):
            return self._text(value, kind, self.limit if depth == self.depth else max(INNER_MIN, self.limit // 10))
        if issubclass(kind, enum.Enum):
            name = object.__getattribute__(value, "_name_")
            return f"{name_of(kind)}.{name if type(name) is str else '?'}"
        if kind is not bool and issubclass(kind, int):
            bits = int.bit_length(value)
            return int.__repr__(value) if bits < NUMBER_BITS_MAX else f"<int of {bits} bits>"
        if kind is decimal.Decimal and decimal.Decimal.__sizeof__(value) > NUMBER_BITS_MAX:
            return "<long Decimal>"
        if id(kind) in TOLD_IDS or issubclass(kind, Pid):
            return self._cut(repr(value))
        if issubclass(kind, type | types.ModuleType | types.FunctionType | types.BuiltinFunctionType):
            return self._named(value)
        if depth <= 0 or self.visits <= 0:
            return f"<{name_of(kind)}>"
        return self._compound(value, kind, depth - 1)

    def _compound(self, value: Any, kind: type, depth: int) -> str:
        if issubclass(kind, dict):
            return self._label(kind, dict) + "{" + self._pairs(value, depth) + "}"
        for base, (opening, closing) in _ROUND.items():
            if issubclass(kind, base):
                names = fields_of(kind).get("_fields") if base is tuple else None
                if type(names) is tuple and names:
                    return self._object(kind, zip(map(str, names), tuple.__iter__(value), strict=False), depth)
                length = base.__len__(value)
                shown = self._list(base.__iter__(value), length, depth)
                comma = "," if base is tuple and length == 1 else ""
                return self._label(kind, base) + opening + shown + comma + closing
        if issubclass(kind, BaseException):
            args = args_of(value)
            if len(args) == 1 and type(args[0]) is str:  # what it says, not a part of something
                return f"{name_of(kind)}({self._text(args[0], str, self.limit)})"
            return name_of(kind) + "(" + self._list(iter(args), len(args), depth) + ")"
        hidden = _hidden(kind)
        return self._object(kind, (pair for pair in attributes(value, kind) if pair[0] not in hidden), depth)

    def _label(self, kind: type, base: type) -> str:
        return "" if kind is base else name_of(kind)

    def _text(self, value: Any, kind: type, limit: int) -> str:
        base: Any = str if issubclass(kind, str) else bytes if issubclass(kind, bytes) else bytearray
        length = base.__len__(value)
        shown = self._head(value, base, limit)
        more = f"… {length} in all" if length > limit else ""
        return (shown if len(shown) + len(more) <= limit + 2 else shown[: limit - len(more)]) + more

    def _head(self, value: Any, base: Any, limit: int) -> str:
        head = base.__getitem__(value, slice(0, limit))
        return str.__repr__(head) if base is str else bytes.__repr__(bytes(head))

    def _cut(self, text: str) -> str:
        return text if len(text) <= self.limit else text[: self.limit - 1] + "…"

    def _named(self, value: Any) -> str:
        kind = type(value)
        if issubclass(kind, type):
            return f"<class {name_of(value)}>"
        if issubclass(kind, types.ModuleType):  # one may have a `__getattr__`
            name = _module_fields(value).get("__name__")
            return f"<module {name if type(name) is str else '?'}>"
        return f"<function {value.__qualname__}>"

    def _pairs(self, value: dict[Any, Any], depth: int) -> str:
        pairs = islice(dict.items(value), self.items)
        shown = [f"{self.shown(key, depth)}: {self.shown(item, depth)}" for key, item in pairs]
        return ", ".join(self._with_rest(shown, dict.__len__(value)))

    def _list(self, values: Iterator[Any], length: int, depth: int) -> str:
        return ", ".join(self._with_rest([self.shown(item, depth) for item in islice(values, self.items)], length))

    def _object(self, kind: type, attributes: Iterable[tuple[str, Any]], depth: int) -> str:
        found = list(islice(attributes, 200))
        shown = [f"{name}={self.shown(value, depth)}" for name, value in found[: self.items]]
        return f"{name_of(kind)}(" + ", ".join(self._with_rest(shown, len(found))) + ")"

    def _with_rest(self, shown: list[str], length: int) -> list[str]:
        return [*shown, f"… {length - len(shown)} more"] if length > len(shown) else shown


def attributes(value: Any, kind: type) -> Iterator[tuple[str, Any]]:
    """What an object holds, read where it lies: no property and no `__getattr__` runs."""
    seen: set[str] = {"__weakref__"}
    for name, item in list(held_dict(value, kind).items()):
        if type(name) is str and name not in seen:
            seen.add(name)
            yield name, item
    for owner in line_of(kind):
        for name, slot in list(fields_of(owner).items()):
            if type(slot) is types.MemberDescriptorType and name not in seen:
                seen.add(name)
                try:
                    yield name, slot.__get__(value, kind)
                except AttributeError:
                    continue


def held_dict(value: Any, kind: type) -> dict[str, Any]:
    """An object's own `__dict__`; an empty one where there is none."""
    for owner in line_of(kind):
        found: Any = fields_of(owner).get("__dict__")
        if type(found) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            held = found.__get__(value, kind)
            return held if type(held) is dict else {}
    return {}


def _hidden(kind: type) -> set[str]:
    """Fields that the class, or one that it inherits from, keeps out of its repr."""
    names: set[str] = set()
    for owner in line_of(kind):
        given = fields_of(owner).get("__attrs_attrs__")
        if isinstance(given, tuple):
            names |= {each.name for each in given if type(each) is Attribute and not each.repr}
        given = fields_of(owner).get("__dataclass_fields__")
        if type(given) is dict:
            names |= {str(name) for name, each in given.items() if type(each) is Field and not each.repr}
    return names
