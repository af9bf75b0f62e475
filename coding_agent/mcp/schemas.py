"""Pure. What a server says about its tools, made safe to hand on: bounded, readable, referring to nothing outside."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from coding_agent.tools.truncate import clip_text
from coding_agent.tools.visible_text import plain, reveal

TOOLS_MAX: Final = 256
"""Of one server."""
DESCRIPTION_BYTES_MAX: Final = 4_000
SCHEMA_BYTES_MAX: Final = 64_000
DEPTH_MAX: Final = 40
ANYTHING: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}


def description(text: object) -> str:
    """A description as the model may read it."""
    if not isinstance(text, str):
        return ""
    shown, _hidden = reveal(plain(clip_text(text, DESCRIPTION_BYTES_MAX + 1)))
    return shown if len(shown) <= DESCRIPTION_BYTES_MAX else shown[: DESCRIPTION_BYTES_MAX - 1] + "…"


def parameters(schema: object) -> dict[str, Any]:
    """A schema for a tool's arguments whose root is an object.

    One that is too large, nested too deep or no object stands for anything; references to other documents are dropped,
    because whoever checks arguments might go and fetch them.
    """
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        return dict(ANYTHING)
    try:
        found = _local(schema, 0)
        if len(json.dumps(found)) > SCHEMA_BYTES_MAX:
            return dict(ANYTHING)
    except (ValueError, TypeError, RecursionError):
        return dict(ANYTHING)
    return {"properties": {}, **found, "type": "object"}


def _local(value: Any, depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise ValueError("nested too deep")
    if isinstance(value, Mapping):
        return {
            str(key): _local(each, depth + 1)
            for key, each in value.items()
            if not (key in ("$ref", "$dynamicRef", "$id", "$schema") and _leads_away(key, each))
        }
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_local(each, depth + 1) for each in value]
    return value


def _leads_away(key: str, value: Any) -> bool:
    """A property may be called so too; only a text is a reference."""
    if not isinstance(value, str):
        return False
    return key in ("$id", "$schema") or not value.startswith("#")
