"""Pure. Keeps one record of a session file small.

What a tool says about its work for programs (`details`) may hold whole files, before and after. A line of a hundred
megabytes makes every later reading of the session slow, so long strings in it are replaced by their length, their hash
and both their ends. What the model was given is never touched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

LIMIT_BYTES: Final = 64 << 10
"""Details above this size are shortened."""

_STRING_BYTES: Final = 4 << 10
_EXCERPT: Final = 512


def bounded_result(message: Mapping[str, Any], limit: int = LIMIT_BYTES) -> Mapping[str, Any]:
    """A tool result's JSON object whose `details` take up about `limit` bytes at most."""
    details = message.get("details")
    if details is None or _size(details) <= limit:
        return message
    allowed = _STRING_BYTES
    shorter = _shortened(details, allowed)
    while _size(shorter) > limit and allowed > 64:
        allowed //= 4
        shorter = _shortened(details, allowed)
    if _size(shorter) > limit:
        shorter = _stand_in(json.dumps(details, ensure_ascii=False, default=str))
    return {**message, "details": shorter}


def _shortened(value: Any, allowed: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= allowed else _stand_in(value)
    if isinstance(value, Mapping):
        return {key: _shortened(item, allowed) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shortened(item, allowed) for item in value]
    return value


def _stand_in(text: str) -> dict[str, Any]:
    raw = text.encode("utf-8", "surrogatepass")
    return {
        "_truncated": True,
        "bytes": len(raw),
        "sha256": sha256(raw).hexdigest(),
        "head": text[:_EXCERPT],
        "tail": text[-_EXCERPT:],
    }


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str))
