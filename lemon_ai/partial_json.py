"""Pure. Tool arguments while they still arrive: JSON read piece by piece, each byte once.

A tool call's arguments stream in as fragments of JSON text. `PartialJson` reads each fragment once and can say at
any moment what is there so far: complete pairs, and the string that is still open. What counts in the end is
`parse_arguments`, which is strict.
"""

from __future__ import annotations

import json
import re
from typing import Any

_BLANK = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\]+')
_SCALAR = re.compile(r"[-+.0-9A-Za-z]+")
_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB]")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not JSON, though Python would read it")


_DECODER = json.JSONDecoder(parse_constant=_no_number)


def parse_arguments(raw: str) -> tuple[dict[str, Any], str | None]:
    """The arguments of a finished call, and the raw text when it is not one complete JSON object.

    Nothing at all, and null, are a call without arguments. An object that a server said twice, or behind an empty one,
    or as the text of a string, is that object. Everything else gives an empty one, so that half an argument list can
    never be run by mistake.
    """
    text = raw.strip()
    if text in ("", "null"):
        return {}, None
    found = _object_in(text)
    return ({}, raw) if found is None else (found, None)


def _object_in(text: str) -> dict[str, Any] | None:
    try:
        value = _DECODER.decode(text)
        if isinstance(value, str):
            value = _DECODER.decode(value)
    except ValueError:
        value = _said_again(text)
    except RecursionError:
        return None
    return value if isinstance(value, dict) else None


def _said_again(text: str) -> Any:
    """The last of several values in a row, if those before it are empty objects or the same; None otherwise."""
    objects: list[Any] = []
    at = 0
    try:
        while at < len(text):
            value, end = _DECODER.raw_decode(text, at)
            objects.append(value)
            at = _BLANK.match(text, end).end()  # type: ignore[union-attr]
    except (ValueError, RecursionError):
        return None
    last = objects.pop()
    return last if all(value in ({}, last) for value in objects) else None


def parse_partial(raw: str) -> dict[str, Any]:
    """What can be read of unfinished arguments; always an object."""
    reader = PartialJson()
    reader.feed(raw)
    return reader.value()


class PartialJson:
    """Reads one JSON object in pieces."""

    __slots__ = ("_keys", "_pieces", "_rest", "_root", "_stack", "_state", "broken")

    def __init__(self) -> None:
        self.broken = False
        self._rest = ""
        self._root: dict[str, Any] = {}
        self._stack: list[dict[str, Any] | list[Any]] = []
        self._keys: list[str] = []
        self._pieces: list[str] = []
        self._state = "start"

    def feed(self, fragment: str) -> None:
        """Read more. After something that is no JSON, what was read before stays and the rest is ignored."""
        if self.broken:
            return
        text = self._rest + fragment if self._rest else fragment
        at, end = 0, len(text)
        while at < end and not self.broken:
            if self._state in ("string", "key_string"):
                step = self._in_string(text, at)
            else:
                at = _BLANK.match(text, at).end()  # type: ignore[union-attr]
                step = self._between(text, at) if at < end else at
            if step < 0:
                break
            at = step
        self._rest = text[at:]

    def value(self) -> dict[str, Any]:
        """What is there so far, as a copy of its own."""
        if self._state == "string":
            self._put_open_string()
        copy = _copied(self._root)
        assert isinstance(copy, dict)
        return copy

    def _in_string(self, text: str, at: int) -> int:
        plain = _PLAIN.match(text, at)
        if plain is not None:
            self._pieces.append(plain.group())
            return plain.end()
        if text[at] == '"':
            self._close_string()
            return at + 1
        return self._escape(text, at)

    def _escape(self, text: str, at: int) -> int:
        if at + 1 >= len(text):
            return -1
        kind = text[at + 1]
        if kind != "u":
            if kind not in _ESCAPES:
                return self._break()
            self._pieces.append(_ESCAPES[kind])
            return at + 2
        length = 12 if _HIGH_SURROGATE.match(text, at) else 6
        if at + length > len(text):
            return -1
        try:
            self._pieces.append(json.loads(f'"{text[at : at + length]}"'))
        except ValueError:
            return self._break()
        return at + length

    def _close_string(self) -> None:
        if self._state == "string":
            self._put_open_string()
            self._state = "next"
        else:
            self._keys[-1] = "".join(self._pieces)
            self._state = "colon"
        self._pieces = []

    def _put_open_string(self) -> None:
        joined = "".join(self._pieces)
        self._pieces = [joined]
        top = self._stack[-1]
        if isinstance(top, dict):
            top[self._keys[-1]] = joined
        else:
            top[-1] = joined

    def _between(self, text: str, at: int) -> int:
        char = text[at]
        state = self._state
        if state == "start":
            return self._open(self._root, at) if char == "{" else self._break()
        if state == "colon":
            self._state = "value"
            return at + 1 if char == ":" else self._break()
        if char in "}]" and state in ("next", "key_or_close", "value_or_close"):
            return self._close(char, at)
        if state == "next":
            self._state = "key" if isinstance(self._stack[-1], dict) else "value"
            return at + 1 if char == "," else self._break()
        if state in ("key", "key_or_close"):
            self._state = "key_string"
            return at + 1 if char == '"' else self._break()
        return self._begin_value(text, at) if state != "end" else self._break()

    def _begin_value(self, text: str, at: int) -> int:
        char = text[at]
        if char == '"':
            self._place("")
            self._state = "string"
            return at + 1
        if char == "{" or char == "[":
            child: dict[str, Any] | list[Any] = {} if char == "{" else []
            self._place(child)
            return self._open(child, at)
        token = _SCALAR.match(text, at)
        if token is None:
            return self._break()
        if token.end() == len(text):
            return -1
        try:
            self._place(json.loads(token.group()))
        except ValueError:
            return self._break()
        self._state = "next"
        return token.end()

    def _place(self, value: Any) -> None:
        top = self._stack[-1]
        if isinstance(top, dict):
            top[self._keys[-1]] = value
        else:
            top.append(value)

    def _open(self, container: dict[str, Any] | list[Any], at: int) -> int:
        self._stack.append(container)
        self._keys.append("")
        self._state = "key_or_close" if isinstance(container, dict) else "value_or_close"
        return at + 1

    def _close(self, char: str, at: int) -> int:
        if (char == "}") != isinstance(self._stack[-1], dict):
            return self._break()
        self._stack.pop()
        self._keys.pop()
        self._state = "next" if self._stack else "end"
        return at + 1

    def _break(self) -> int:
        self.broken = True
        return -1


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value
