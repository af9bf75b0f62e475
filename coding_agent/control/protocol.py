"""Pure. The lines between a running host and whoever looks at it: one JSON request, one JSON answer, both ending in LF.

A request is `{"op": NAME, ...}`; the answer is `{"ok": true, ...}` or `{"ok": false, "error": TEXT}`.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

REQUEST_BYTES_MAX: Final = 64 * 1024
SOCKET_PREFIX: Final = "host-"
SOCKET_SUFFIX: Final = ".sock"

Operation = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def answer(line: bytes, operations: Mapping[str, Operation]) -> bytes:
    """The answer to one request line; whatever is wrong with the line becomes an `error` answer, never an exception."""
    try:
        request = json.loads(line)
    except ValueError:
        return failure("the request is not a line of JSON")
    if not isinstance(request, dict):
        return failure('the request is not an object such as {"op": "tree"}')
    operation = operations.get(str(request.get("op")))
    if operation is None:
        return failure(f"unknown operation {request.get('op')!r}; there are: {', '.join(sorted(operations))}")
    try:
        return encode({"ok": True, **operation(request)})
    except Exception as error:
        return failure(f"{type(error).__name__}: {error}")


def failure(text: str) -> bytes:
    """The answer that says what went wrong."""
    return encode({"ok": False, "error": text})


def encode(value: Mapping[str, Any]) -> bytes:
    """One line of JSON; what JSON has no form for becomes its text."""
    return json.dumps(value, default=str, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
