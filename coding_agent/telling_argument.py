"""Pure. The argument of a tool call that says most about it, for whoever shows calls to a person."""

from collections.abc import Mapping
from typing import Any, Final

NAMES: Final = (
    "command", "pattern", "path", "file_path", "filePath", "query", "url", "prompt", "name", "action", "description",
    "code",
)  # fmt: skip
"""The most telling first: a search by what it looks for, not by where. A call without any is told by its first text."""


def telling_argument(args: Any) -> str:
    """The text of that argument as it stands; empty when the call has no text among its arguments."""
    if not isinstance(args, Mapping):
        return ""
    values = [args[name] for name in NAMES if name in args] + list(args.values())
    return next((value for value in values if isinstance(value, str) and value.strip()), "")
