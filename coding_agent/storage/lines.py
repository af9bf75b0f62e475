"""Pure. One line of a session file: bytes to the records in it, and a record to bytes.

A line is usually one JSON object. After a crash, a bad disk or two writers it may hold two, half of one, zero bytes or
text that is not UTF-8. `read_line` gives back every record it can find and says in words what it could not read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from json.decoder import JSONDecoder
from typing import Any, Final

from attrs import evolve, field, frozen

RAW_DECODE: Final[Callable[..., tuple[Any, int]]] = JSONDecoder().raw_decode
SCAN_ONCE: Final[Callable[..., tuple[Any, int]]] = JSONDecoder().scan_once  # type: ignore[attr-defined]  # not in the stubs
"""The decoder below `RAW_DECODE`; where there is no value it raises `StopIteration`."""

_LENIENT_DECODE: Final[Callable[..., tuple[Any, int]]] = JSONDecoder(strict=False).raw_decode
_WHITESPACE: Final = " \t\r\n\ufeff\0"
_SALVAGE: Final = re.compile(
    r'"id"\s*:\s*"(?P<id>[^"\\]{1,128})"\s*,\s*"parentId"\s*:\s*(?:"(?P<parent>[^"\\]{1,128})"|null)'
)
_RECORD_START: Final = re.compile(r'\{\s*"type"\s*:\s*"')
_RESYNC_TRIES: Final = 200
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@frozen
class Record:
    """A JSON object found on a line, and the bytes of the line it takes up."""

    data: dict[str, Any]
    start: int
    end: int


@frozen
class Line:
    """What a line holds.

    Attributes:
        records: Every object on it, in order.
        problem: What could not be read, in words; None for a good line.
        rest: Where the unreadable part begins, in bytes; None when nothing is left over.
        lost: The id an unreadable record says it has, and its parent, where they can still be seen.
    """

    records: tuple[Record, ...] = ()
    problem: str | None = None
    rest: int | None = None
    lost: tuple[str, str | None] | None = None


@frozen
class BadLine:
    """A line that could not be read, or not wholly. Its bytes stay in the file as they are.

    Attributes:
        number: Counted from 1, the header included.
        offset: Where it begins in the file.
        length: Its bytes, the line end left out.
        reason: What is wrong with it.
        recovered: How many records were found on it all the same.
    """

    number: int
    offset: int
    length: int
    reason: str
    recovered: int = 0
    lost: tuple[str, str | None] | None = field(default=None, repr=False)


def read_line(raw: bytes) -> Line:
    """Every record on a line, in order; a blank line has none and no problem."""
    try:
        return _read(raw.decode("utf-8"), "strict")
    except UnicodeDecodeError:
        # Bytes that are no UTF-8 become lone surrogates first, so that offsets can be counted, then U+FFFD.
        line = _read(raw.decode("utf-8", "surrogateescape"), "surrogateescape")
        records = tuple(evolve(record, data=without_escapes(record.data)) for record in line.records)
        return evolve(line, records=records, problem=f"not UTF-8; {line.problem}" if line.problem else "not UTF-8")


def _read(text: str, errors: str) -> Line:
    at = _skip(text, 0)
    if at == len(text):
        return Line(problem="only zero bytes", rest=0) if "\0" in text else Line()
    records: list[Record] = []
    notes: list[str] = ["zero bytes before the record"] if "\0" in text[:at] else []
    rest: int | None = None
    lost: tuple[str, str | None] | None = None
    while at < len(text):
        decoded = _decode_object(text, at)
        if isinstance(decoded, str):
            notes.append(decoded)
            rest, lost = at, _salvage(text[at:])
            resumed = _next_record(text, at + 1)
            if resumed is None:
                break
            at, rest = resumed, None
            continue
        value, end, note = decoded
        notes += [note] if note else []
        records.append(Record(value, _width(text[:at], errors), _width(text[:end], errors)))
        at = _skip(text, end)
    if len(records) > 1:
        notes.append(f"{len(records)} records on one line")
    return Line(tuple(records), "; ".join(notes) or None, None if rest is None else _width(text[:rest], errors), lost)


def _decode_object(text: str, at: int) -> tuple[dict[str, Any], int, str | None] | str:
    note: str | None = None
    try:
        value, end = RAW_DECODE(text, at)
    except (ValueError, RecursionError) as error:
        try:
            value, end = _LENIENT_DECODE(text, at)
        except (ValueError, RecursionError):
            return f"bad JSON: {error}" if isinstance(error, ValueError) else "nested too deeply"
        note = "control characters in a string"
    return (value, end, note) if isinstance(value, dict) else "not a JSON object"


def _next_record(text: str, at: int) -> int | None:
    """Where a whole record begins behind half of another one, which lost its line end; None when there is none."""
    for _ in range(_RESYNC_TRIES):
        found = _RECORD_START.search(text, at)
        if found is None:
            return None
        at = found.start()
        decoded = _decode_object(text, at)
        if not isinstance(decoded, str) and "timestamp" in decoded[0] and _skip(text, decoded[1]) == len(text):
            return at
        at += 1
    return None


def _salvage(text: str) -> tuple[str, str | None] | None:
    found = _SALVAGE.search(text[:4096])
    return (found["id"], found["parent"]) if found else None


def _width(part: str, errors: str) -> int:
    return len(part.encode("utf-8", errors))


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _WHITESPACE:
        at += 1
    return at


def without_escapes(value: Any) -> Any:
    """A value read from bytes that were not UTF-8, those bytes shown as U+FFFD."""
    if isinstance(value, str):
        return value if value.isascii() else re.sub("[\udc80-\udcff]", "\ufffd", value)
    if isinstance(value, list):
        return [without_escapes(item) for item in value]
    if isinstance(value, dict):
        return {without_escapes(key): without_escapes(item) for key, item in value.items()}
    return value


# Writing.

_strict = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _made_once() -> Callable[[Any], str]:
    """The encoder of the standard library, made once and not for every value: that is a third of its time."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return _strict.encode
    settings = (_strict.default, json.encoder.encode_basestring, None, ":", ",", False, False, False)
    chunks: Callable[[Any, int], tuple[str, ...]] = make(None, *settings)
    return lambda value: "".join(chunks(value, 0))


_encode: Final = _made_once()


def encode(value: Any) -> str:
    """JSON text of a value, never an error: what JSON cannot say is said as text."""
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError):
        return _encode(_plain(value, 0))


def to_bytes(text: str) -> bytes:
    """UTF-8 of JSON text; half a surrogate pair is written as its escape."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode("utf-8")


def _plain(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth > 200:
        return str(type(value))
    if isinstance(value, dict):
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in value]
    return str(value)
