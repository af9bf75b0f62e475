"""Edge. Ids and time stamps of what is stored."""

from __future__ import annotations

import os
from collections.abc import Container
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from random import getrandbits
from uuid import UUID, uuid4

from lemon_otp import wall_ms

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRIES = 100


def iso(milliseconds: int) -> str:
    """A Unix time as the ISO text session files use, such as `2026-01-02T03:04:05.678Z`."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        moment = _EPOCH
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


class Stamper:
    """Writes the present time; the text of a second is made once."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def now(self) -> str:
        """The present time as ISO text."""
        second, millisecond = divmod(wall_ms(), 1000)
        if second != self._second:
            self._second, self._text = second, iso(second * 1000)[:-4]
        return f"{self._text}{millisecond:03d}Z"


def parse_iso(value: object) -> int | None:
    """Unix milliseconds of a time stamp as it is found in a file; None when it is not one."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round((aware - _EPOCH) / timedelta(milliseconds=1))


def file_stamp(text: str) -> str:
    """A time stamp as it stands in a file name."""
    return text.replace(":", "-").replace(".", "-")


def new_session_id() -> str:
    """A UUID of version 7: its text sorts by the time it was made."""
    raw = bytearray(wall_ms().to_bytes(6, "big") + os.urandom(10))
    raw[6] = raw[6] & 0x0F | 0x70
    raw[8] = raw[8] & 0x3F | 0x80
    return str(UUID(bytes=bytes(raw)))


def new_entry_id(taken: Container[str]) -> str:
    """Eight hex digits no other entry has; a whole UUID when a hundred tries did not find some."""
    for _ in range(_TRIES):
        candidate = f"{getrandbits(32):08x}"
        if candidate not in taken:
            return candidate
    return str(uuid4())


def derived_entry_id(session_id: str, number: int, taken: Container[str]) -> str:
    """The id of an entry that was stored without one: the same whenever the file is read."""
    digest = sha256(f"{session_id}/{number}".encode("utf-8", "surrogatepass")).hexdigest()
    for start in range(0, len(digest) - 8, 8):
        if digest[start : start + 8] not in taken:
            return digest[start : start + 8]
    return digest
