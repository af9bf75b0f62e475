"""Pure. The lines between a running tree and whoever looks at it.

A connection is lines of JSON that end in LF, one object each. One that begins with `{"op": "hello", "version": 1}`
stays open: every request carries an `id` of the asker's, every answer the same `id`, and requests may overlap. One
that begins with anything else is a single question: it gets one answer and is closed.

An answer is `{"ok": true, ...}` or `{"ok": false, "error": TEXT, "code": CODE}`. A feed answers with any number of
`{"ok": true, "event": ...}` and then `{"ok": true, "end": true}`; `{"op": "cancel", "id": ID}` ends it. An answer that
holds less than was asked for says so in `partial`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

VERSION: Final = 1
REQUEST_BYTES_MAX: Final = 256 * 1024
TEXT_MAX: Final = 500
"""Characters of a value that JSON has no form for."""


class BadRequest(ValueError):
    """A line that is no request; the text says why."""


def parse(line: bytes) -> dict[str, Any]:
    """The request on a line. Raises BadRequest."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRequest("the request is not a line of JSON") from error
    if not isinstance(request, dict):
        raise BadRequest('the request is not an object such as {"op": "tree"}')
    return request


def encode(value: Mapping[str, Any]) -> bytes:
    """One line of JSON; what JSON has no form for is told in a few words."""
    return json.dumps(value, default=_told, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _told(value: Any) -> str:
    from lemon_otp.bounded import bounded  # rarely needed

    return bounded(value, TEXT_MAX)


def failure(text: str, code: str = "failed", **more: Any) -> dict[str, Any]:
    """The answer that says what went wrong."""
    return {"ok": False, "error": text, "code": code, **more}


def skew(asked: Any) -> str | None:
    """What to say to an asker that speaks another version; None when it speaks this one."""
    if asked == VERSION and not isinstance(asked, bool):
        return None
    return (
        f"this host speaks version {VERSION} of the protocol and was asked for {asked!r}; "
        "use the program that the host was started with"
    )
