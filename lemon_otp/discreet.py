"""Pure. Values of strangers as text for reports, logs and errors: bounded, and no more than they tell themselves.

The loop writes these texts, so none of a value's own code runs: a `repr` may wait, raise, or build a hundred megabytes.
What a class keeps out of its repr stays out. A repr that attrs, dataclasses or a named tuple made is followed field by
field; a class that inherits the repr of `object`, or wrote one of its own, is shown by its name alone.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field
from itertools import islice
from typing import Any, Final

from attrs import Attribute, define

from lemon_otp.bounded import (
    DEPTH_MAX,
    ITEMS_MAX,
    TOLD_IDS,
    Look,
    args_of,
    attributes,
    fields_of,
    held_dict,
    line_of,
    name_of,
)
from lemon_otp.pid import Pid
from lemon_otp.speaking import TEXT_MAX, Cleaner, SpeaksForItself

MARGIN: Final = 1_000
"""Characters read beyond a cut, so that a secret is known for one even where the cut goes through it."""
TRACE_WORDS_MAX: Final = 8_000
FRAMES_MAX: Final = 60
CHAIN_MAX: Final = 8
"""Errors told of one traceback: causes, contexts and members of groups."""

_OPEN_IDS: Final = frozenset(
    map(
        id,
        (
            *(str, bytes, bytearray, int, dict, list, tuple, set, frozenset, BaseException),
            *(collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter),
        ),
    )
)
"""Classes of Python whose repr shows all that `Look` shows of them."""
_NAMED_TUPLE: Final = collections.namedtuple("_NAMED_TUPLE", "any").__repr__.__code__


def shown(value: object, limit: int, clean: Cleaner) -> str:
    """The value in at most `limit` characters, near to its repr."""
    return _Discreet(limit, ITEMS_MAX, DEPTH_MAX, clean=clean).text_of(value)


def words(error: BaseException, limit: int, clean: Cleaner) -> str:
    """What an error says, near to its `str`; of one with words of its own making, what it holds."""
    kind = type(error)
    if issubclass(kind, SpeaksForItself):
        return _own_words(error, limit, clean)
    speaker = _teller(kind, "__str__")
    if _teller(kind, "__repr__") is not BaseException or type(fields_of(speaker)["__str__"]) is not _BUILT_IN:
        return shown(error, limit, clean)
    args = args_of(error)
    if speaker is not KeyError and len(args) == 1 and type(args[0]) is str:
        return _cut(args[0], limit, clean)
    if issubclass(kind, OSError):
        number, why, name = (fields_of(OSError)[each].__get__(error) for each in ("errno", "strerror", "filename"))
        if type(number) is int and type(why) is str:
            about = "" if name is None else f": {shown(name, limit, clean)}"
            return _cut(f"[Errno {number}] {why[: limit + MARGIN]}{about}", limit, clean)
    if issubclass(kind, BaseExceptionGroup) and args and type(args[0]) is str:
        return shown(args[0], limit, clean)[1:-1]
    told = shown(args, limit, clean)
    return "" if not args else told[1:-2] if len(args) == 1 and told.endswith(",)") else told


def _own_words(error: BaseException, limit: int, clean: Cleaner) -> str:
    try:
        return _cut(str(error), limit, clean)
    except Exception:
        return shown(error, limit, clean)


def line(error: BaseException, limit: int, clean: Cleaner) -> str:
    """The class of an error and what it says."""
    name, told = name_of(type(error)), words(error, limit, clean)
    if told in ("", f"<{name}>"):
        return name
    return told if told.startswith(f"{name}(") else f"{name}: {told}"


def trace(error: BaseException, clean: Cleaner) -> str:
    """The traceback of an error and of those behind it, as Python prints one, but bounded."""
    return clean("".join(_traces(error, clean, [CHAIN_MAX], set())))


def _cut(text: str, limit: int, clean: Cleaner) -> str:
    text = clean(text[: limit + MARGIN])
    return text if len(text) <= limit else text[: limit - 1] + "…"


# Errors.

_BUILT_IN: Final = types.WrapperDescriptorType
_cause_of: Final = fields_of(BaseException)["__cause__"].__get__
_context_of: Final = fields_of(BaseException)["__context__"].__get__
_no_context: Final = fields_of(BaseException)["__suppress_context__"].__get__
_traceback_of: Final = fields_of(BaseException)["__traceback__"].__get__
_members_of: Final = fields_of(BaseExceptionGroup)["exceptions"].__get__


def _traces(error: BaseException, clean: Cleaner, left: list[int], seen: set[int]) -> Iterator[str]:
    left[0] -= 1
    seen.add(id(error))
    cause = _cause_of(error)
    before = cause if cause is not None else None if _no_context(error) else _context_of(error)
    if before is not None and id(before) not in seen and left[0] > 0:
        yield from _traces(before, clean, left, seen)
        yield _BECAUSE if cause is not None else _MEANWHILE
    frames = _traceback_of(error)
    if frames is not None:
        yield "Traceback (most recent call last):\n"
        yield from traceback.TracebackException(_Frames, _Frames(), frames, limit=-FRAMES_MAX).stack.format()
    kind = type(error)
    module = fields_of(kind).get("__module__")
    place = f"{module}." if type(module) is str and module not in ("builtins", "__main__") else ""
    yield place + line(error, TRACE_WORDS_MAX, clean) + "\n"
    for note in _notes(error):
        yield _cut(note, TEXT_MAX, clean) + "\n"
    if issubclass(kind, BaseExceptionGroup):
        for member in islice(_members_of(error), left[0]):
            text = "".join(_traces(member, clean, left, seen))
            yield "".join(f"  | {row}\n" for row in text.splitlines())
            if left[0] <= 0:
                break


def _notes(error: BaseException) -> list[str]:
    notes = held_dict(error, type(error)).get("__notes__")
    return [note for note in notes[:CHAIN_MAX] if type(note) is str] if type(notes) is list else []


class _Frames(Exception):
    """Stands for an error where only its frames are asked for, since the error would be asked what it says."""


_BECAUSE: Final = "\nThe above exception was the direct cause of the following exception:\n\n"
_MEANWHILE: Final = "\nDuring handling of the above exception, another exception occurred:\n\n"

# Values.


@define
class _Discreet(Look):
    clean: Cleaner = str

    def text_of(self, value: Any) -> str:
        text = self.clean(self.shown(value, self.depth))
        return text if len(text) <= self.limit else text[: max(0, self.limit - 1)] + "…"

    def _shown(self, value: Any, kind: type, depth: int) -> str:
        if value is _OTHERWISE:
            return "…"
        if id(kind) in TOLD_IDS or issubclass(kind, _SHOWN_BY_NAME):
            return Look._shown(self, value, kind, depth)
        teller = _teller(kind, "__repr__")
        told = _generated(teller)
        if id(teller) in _OPEN_IDS or _is_named_tuple(teller):
            return Look._shown(self, value, kind, depth)
        if told is None or depth <= 0 or self.visits <= 0:
            return f"<{name_of(kind)}>"
        return self._object(kind, _those(told, attributes(value, kind)), depth - 1)

    def _head(self, value: Any, base: Any, limit: int) -> str:
        head = base.__getitem__(value, slice(0, limit + MARGIN))
        if base is str:
            return str.__repr__(self.clean(head)[:limit])
        return bytes.__repr__(self.clean(bytes(head).decode("latin-1"))[:limit].encode("latin-1", "replace"))


_SHOWN_BY_NAME: Final = (enum.Enum, Pid, type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)


def _teller(kind: type, method: str) -> type:
    """The class that the method comes from."""
    return next(owner for owner in line_of(kind) if method in fields_of(owner))


def _generated(teller: type) -> Mapping[str, bool] | None:
    """The fields that a repr made by a library shows, and whether as they are; None for a repr of another make."""
    method: Any = fields_of(teller)["__repr__"]
    file, fields = _made_in(method), fields_of(teller)
    if file.startswith("<attrs generated ") and "__attrs_attrs__" in fields:
        given = tuple.__iter__(fields["__attrs_attrs__"])
        return {each.name: each.repr is True for each in given if type(each) is Attribute and each.repr}
    if file == _DATACLASS_FILE and _made_in(_function_fields(method).get("__wrapped__")) == "<string>":
        found = dict.items(fields.get("__dataclass_fields__", {}))
        return {str(name): True for name, each in found if type(each) is Field and each.repr}
    return None


_function_fields: Final[Callable[[Any], dict[str, Any]]] = fields_of(types.FunctionType)["__dict__"].__get__


def _made_in(method: object) -> str:
    """The file that the code of a function names."""
    return method.__code__.co_filename if type(method) is types.FunctionType else ""


@dataclasses.dataclass
class _Example:
    any: int


_DATACLASS_FILE: Final = _made_in(fields_of(_Example)["__repr__"])


def _is_named_tuple(teller: type) -> bool:
    method: Any = fields_of(teller)["__repr__"]
    return type(method) is types.FunctionType and method.__code__ is _NAMED_TUPLE


def _those(told: Mapping[str, bool], held: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    found = dict(held)
    for name, as_it_is in told.items():
        if name in found:
            yield name, found[name] if as_it_is else _OTHERWISE


_OTHERWISE: Final = object()
"""Stands for what a class shows in a way of its own."""
