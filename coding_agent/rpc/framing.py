"""Pure. Bytes to lines and values to bytes: one JSON object a line, ended by LF and by nothing else.

U+2028, U+0085, form feeds and their like are characters of a line, not its end. A line may be long, up to a stated
limit; what is longer is given up as a whole and what follows it is read on.
"""

import json
from collections.abc import Iterator
from math import isfinite
from typing import Any, Final

from attrs import field

from lemon_otp import define, frozen

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""The longest line that is taken."""


@frozen
class TooLong:
    """A line was longer than the limit; none of it was kept.

    Attributes:
        limit: Bytes allowed.
    """

    limit: int


@define
class LineSplitter:
    """Takes bytes in pieces of any size and gives the lines among them, without their ends.

    Attributes:
        limit: The longest line, in bytes.
    """

    limit: int = LINE_BYTES_MAX
    _pieces: list[bytes] = field(factory=list)
    _size: int = 0
    _skipping: bool = False

    def feed(self, data: bytes) -> Iterator[bytes | TooLong]:
        """The lines that are complete now."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            yield from self._line(data[start:end])
            start = end + 1
        if start < len(data):
            self._keep(data[start:])

    def finish(self) -> Iterator[bytes | TooLong]:
        """What was left when nothing more comes: a last line without its end."""
        if self._pieces or self._skipping:
            yield from self._line(b"")

    def _keep(self, piece: bytes) -> None:
        if self._skipping:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self.limit:
            self._pieces.clear()
            self._skipping = True

    def _line(self, rest: bytes) -> Iterator[bytes | TooLong]:
        self._keep(rest)
        pieces, skipped = self._pieces, self._skipping
        self._pieces, self._size, self._skipping = [], 0, False
        if skipped:
            yield TooLong(self.limit)
            return
        line = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        yield line[:-1] if line.endswith(b"\r") else line


class BadLine(ValueError):
    """A line is no JSON object; the text says what is wrong with it."""


class NoObject(BadLine):
    """It is JSON, but a list, a text or a number."""


def decode(line: bytes) -> dict[str, Any]:
    """The object of a line.

    Raises:
        BadLine: It is not UTF-8, not JSON, no object, or nested too deeply.
    """
    try:
        value = json.loads(line.decode("utf-8"), parse_constant=_no_json)
    except UnicodeDecodeError as error:
        raise BadLine(f"not UTF-8 (byte {error.start})") from error
    except RecursionError as error:
        raise BadLine("nested too deeply") from error
    except ValueError as error:
        raise BadLine(str(error)) from error
    if not isinstance(value, dict):
        raise NoObject("not a JSON object")
    return value


def _no_json(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def encode(value: Any) -> bytes:
    """The line of a value, with its end. What JSON has no form for becomes its text, a number that is none null.

    A lone half of a surrogate pair, which UTF-8 has no form for, is written as an escape.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    except (RecursionError, ValueError):
        text = "".join(_flat(value))
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _flat(value: Any) -> Iterator[str]:
    """The JSON of a value, however deeply it is nested; the tree of a session goes deeper than a recursive encoder."""
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, _Written):
            yield item.text
        elif isinstance(item, dict):
            parts: list[Any] = [_Written("{")]
            for number, (key, inner) in enumerate(item.items()):
                parts += [_Written(f"{', ' if number else ''}{json.dumps(str(key), ensure_ascii=False)}: "), inner]
            stack.extend(reversed([*parts, _Written("}")]))
        elif isinstance(item, list | tuple):
            parts = [_Written("[")]
            for number, inner in enumerate(item):
                parts += [_Written(", "), inner] if number else [inner]
            stack.extend(reversed([*parts, _Written("]")]))
        elif isinstance(item, float) and not isfinite(item):
            yield "null"
        else:
            yield json.dumps(item, ensure_ascii=False, default=str)


@frozen
class _Written:
    text: str
