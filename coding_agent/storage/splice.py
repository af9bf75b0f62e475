"""Pure. Changes a member of a JSON object in its text and leaves every other byte as it was.

Reading a value and writing it again may turn `0.000009` into `9e-06` or `1.10` into `1.1`. A file that is rewritten
for one member only must not show that, so the member is cut out of the text and the new one put in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from json.decoder import JSONDecoder
from typing import Any, Final

from attrs import frozen

REMOVE: Final = object()
"""As a change: take the member out."""

_WHITESPACE: Final = " \t\n\r"
_decode = JSONDecoder().raw_decode


@frozen
class Member:
    """Where one member of an object stands in its text: from the quote of its key to the end of its value."""

    key: str
    start: int
    value_start: int
    end: int


def members(text: str) -> list[Member]:
    """The members of the JSON object that `text` is, in order.

    Raises:
        ValueError: The text is not a JSON object.
    """
    at = _skip(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError("not a JSON object")
    found: list[Member] = []
    at = _skip(text, at + 1)
    while text[at : at + 1] == '"':
        key, after_key = _decode(text, at)
        value_start = _skip(text, _skip(text, after_key) + 1)
        _, end = _decode(text, value_start)
        found.append(Member(key, at, value_start, end))
        at = _skip(text, end)
        if text[at : at + 1] != ",":
            break
        at = _skip(text, at + 1)
        if text[at : at + 1] != '"':
            raise ValueError("not a JSON object")
    if text[at : at + 1] != "}":
        raise ValueError("not a JSON object")
    return found


def splice(text: str, changes: Mapping[str, Any]) -> str:
    """The text of an object with some members changed, taken out (`REMOVE`) or, when new, added at its end.

    A change is a value to write, a `Raw` text to write as it is, or `REMOVE`.
    """
    present = members(text)
    kept = [(member.key, text[member.start : member.end]) for member in present]
    pieces = [
        piece if key not in changes else f"{json.dumps(key)}:{_encode(changes[key])}"
        for key, piece in kept
        if changes.get(key) is not REMOVE
    ]
    known = {member.key for member in present}
    pieces += [
        f"{json.dumps(key)}:{_encode(value)}"
        for key, value in changes.items()
        if key not in known and value is not REMOVE
    ]
    return "{" + ",".join(pieces) + "}"


@frozen
class Raw:
    """JSON text that is written as it is."""

    text: str


def _encode(value: Any) -> str:
    return value.text if isinstance(value, Raw) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _WHITESPACE:
        at += 1
    return at
