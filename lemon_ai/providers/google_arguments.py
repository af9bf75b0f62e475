"""Pure. Gemini's streamed arguments: values that arrive one path at a time, put together to one object.

A call announced with `willContinue` is followed by parts whose `partialArgs` name a place by JSON path and bring
its value, strings in pieces: `{"jsonPath": "$.items[0].name", "stringValue": "ap", "willContinue": true}`.
"""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\]""")
_LONGEST_ARRAY = 100_000
_VALUES = ("stringValue", "numberValue", "boolValue", "structValue", "listValue")

Step = str | int


def parse_path(path: str) -> tuple[Step, ...]:
    """The keys and positions of a JSON path; raises ValueError for what is not a plain one."""
    rest = path.removeprefix("$")
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        step = _STEP.match(rest, at)
        if step is None:
            raise ValueError(f"not a plain JSON path: {path!r}")
        name, position, single, double = step.groups()
        if position is not None:
            steps.append(int(position))
        else:
            steps.append(next(text for text in (name, single, double) if text is not None))
        at = step.end()
    return tuple(steps)


class ArgumentsBuilder:
    """The arguments of one call while they arrive. `broken` means a piece had no place to go."""

    def __init__(self) -> None:
        self.broken = False
        self._root: dict[str, Any] = {}
        self._path: str | None = None
        self._pieces: list[str] = []

    def add(self, piece: Mapping[str, Any]) -> None:
        """Take one entry of `partialArgs`."""
        path = str(piece.get("jsonPath") or "$")
        value = next((piece[name] for name in _VALUES if name in piece), None)
        if isinstance(value, str):
            if path != self._path:
                self._flush()
                self._path = path
            self._pieces.append(value)
            if not piece.get("willContinue"):
                self._flush()
            return
        self._flush()
        if value is not None or "nullValue" in piece:
            self._put(path, value)

    def finish(self) -> dict[str, Any]:
        """The arguments as far as they came."""
        self._flush()
        return self._root

    def _flush(self) -> None:
        if self._path is not None:
            self._put(self._path, "".join(self._pieces))
        self._path, self._pieces = None, []

    def _put(self, path: str, value: Any) -> None:
        try:
            steps = parse_path(path)
            if not steps:
                self._root.update(value)
                return
            place: Any = self._root
            for step, following in pairwise(steps):
                place = _child(place, step, [] if isinstance(following, int) else {})
            _assign(place, steps[-1], value)
        except (ValueError, TypeError, IndexError):
            self.broken = True


def _child(place: Any, step: Step, empty: Any) -> Any:
    if isinstance(step, str):
        return place.setdefault(step, empty)
    _grow(place, step)
    if place[step] is None:
        place[step] = empty
    return place[step]


def _assign(place: Any, step: Step, value: Any) -> None:
    if isinstance(step, int):
        _grow(place, step)
    place[step] = value


def _grow(place: Any, position: int) -> None:
    if not isinstance(place, list) or position >= _LONGEST_ARRAY:
        raise TypeError("not a place in an array")
    place.extend([None] * (position + 1 - len(place)))
