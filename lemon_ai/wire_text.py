"""Pure. What may not reach a wire as it is: lone surrogates, numbers JSON does not have, identifiers no vendor takes.

A Python string can hold half of a surrogate pair; UTF-8 cannot, so one bad tool result would make every later
request fail. `clean` is applied by each encoder to every outbound string, whatever road the string came by.
"""

import hashlib
import json
import math
import re
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSAFE_ID = re.compile(r"[^A-Za-z0-9_-]")


def clean(text: object) -> str:
    """`text` as a string that UTF-8 can carry: surrogate pairs joined, lone halves replaced by U+FFFD, None empty."""
    if text is None:
        return ""
    if not isinstance(text, str):
        text = str(text)
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean_json(value: Any) -> Any:
    """A copy of a JSON value that can be sent: every string, mapping keys included, passed through `clean`.

    A number that JSON does not have (infinite, or none) becomes null.
    """
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): clean_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def compact_json(value: Any) -> str:
    """`value` as JSON without spaces, non-ASCII kept; what cannot be written becomes its string form."""
    return json.dumps(clean_json(value), ensure_ascii=False, separators=(",", ":"), default=str)


def short_hash(text: str, length: int = 12) -> str:
    """A name for `text` of `length` (at most 64) hexadecimal digits, the same on every run and machine."""
    return hashlib.sha256(clean(text).encode()).hexdigest()[:length]


def safe_id(identifier: str, limit: int = 64) -> str:
    """`identifier` within the alphabet and length most vendors accept; an empty one gets a name by hash."""
    kept = _UNSAFE_ID.sub("_", clean(identifier))[:limit]
    return kept or f"call_{short_hash(identifier)}"
