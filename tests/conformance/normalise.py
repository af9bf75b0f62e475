"""Pure. Terms of a trace: from Python values to JSON, and the order in which sorted ones stand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from attrs import frozen

from lemon_otp import Caller, Down, Exit, MonitorRef, Pid, TableTransfer, TimerRef
from tests.conformance.failures import ErrorTerm, Failure, WithDescription, reason_of
from tests.conformance.terms import NIL, Do, is_atom

CONSTANTS: Final = {NIL: None, "true": True, "false": False}


@frozen
class Answer:
    """`{tag: value}`: how calls and awaits show what they returned."""

    tag: str
    value: Any


@frozen
class Sorted:
    """A list whose order means nothing; shown by the JSON text of its elements."""

    items: Iterable[Any]


@frozen
class Shown:
    """Ready JSON with values still to be normalised, keyed by text."""

    fields: Mapping[str, Any]


@frozen
class Streamed:
    """The results of a stream, and whether it shows how many of its bodies ran at once."""

    results: Any
    show_running: bool

    def shown(self, most_running: int) -> Shown:
        """As the trace has it."""
        extra = {"max_running": most_running} if self.show_running else {}
        return Shown({"results": self.results, **extra})


@frozen
class MonitoredName:
    """The object of a DOWN whose monitor was set by name."""

    name: str


def text_of(shown: Any) -> str:
    """Compact JSON with sorted keys, by which sorted lists are ordered."""
    return json.dumps(shown, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class Normaliser:
    """Turns values into JSON; `labels` says which process is which at the time of asking."""

    def __init__(self, labels: Mapping[Pid, str]) -> None:
        self.labels = labels

    def __call__(self, value: Any) -> Any:
        """The JSON of a term."""
        if isinstance(value, str):
            return CONSTANTS.get(value, value)
        if value is None or isinstance(value, int | float):
            return value
        if isinstance(value, tuple):
            return self._tuple(value)
        if isinstance(value, Pid):
            return {"pid": self.labels.get(value, "?")}
        if isinstance(value, BaseException):
            return self(reason_of(value))
        for kind, show in _SHAPES:
            if isinstance(value, kind):
                return show(self, value)
        if callable(value):
            return "$fun"
        raise TypeError(f"no term of a trace: {value!r}")

    def _tuple(self, value: tuple[Any, ...]) -> Any:
        if len(value) == 2 and is_call_description(value[1]):
            return {"t": [self(value[0]), "$mfa"]}
        return {"t": [self(item) for item in value]}

    def sorted_list(self, items: Iterable[Any]) -> list[Any]:
        """The items, normalised and in the order of their JSON text."""
        return sorted(map(self, items), key=lambda shown: text_of(shown).encode())


def is_call_description(term: Any) -> bool:
    """Whether the term looks like `{module, function, args}`."""
    if not (isinstance(term, tuple) and len(term) == 3 and isinstance(term[2], list)):
        return False
    return is_atom(term[0]) and is_atom(term[1]) and term[0] not in CONSTANTS


_SHAPES: Final[tuple[tuple[Any, Callable[[Normaliser, Any], Any]], ...]] = (
    (bytes, lambda n, v: {"s": v.decode()}),
    (list, lambda n, v: [n(item) for item in v]),
    (Mapping, lambda n, v: {"m": {str(key): n(item) for key, item in v.items()}}),
    (Do, lambda n, v: n(v.as_term())),
    (ErrorTerm, lambda n, v: {v.tag: n(v.value)}),
    (Failure, lambda n, v: {v.tag: n(v.value)}),
    (Answer, lambda n, v: {v.tag: n(v.value)}),
    (WithDescription, lambda n, v: {"t": [n(v.reason), v.description]}),
    (Sorted, lambda n, v: n.sorted_list(v.items)),
    (Shown, lambda n, v: {key: n(item) for key, item in v.fields.items()}),
    (MonitoredName, lambda n, v: {"name": v.name}),
    (MonitorRef | TimerRef, lambda n, v: "$ref"),
    (Caller, lambda n, v: {"t": [n(v.pid), "$ref"]}),
    (TableTransfer, lambda n, v: {"t": ["ETS-TRANSFER", n(v.table.name), n(v.former_owner), n(v.data)]}),
    (Exit, lambda n, v: {"t": ["EXIT", n(v.pid), n(v.reason)]}),
    (Down, lambda n, v: {"t": ["DOWN", "$ref", "process", n(v.process), n(v.reason)]}),
)
