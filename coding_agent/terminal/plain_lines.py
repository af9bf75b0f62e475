"""Pure. What a terminal says in words, however it is drawn."""

from collections.abc import Mapping
from typing import Any, Final

from coding_agent.terminal.screen_text import one_line

MAIN_ARGUMENTS: Final = ("command", "path", "file_path", "pattern", "query", "url", "name", "action", "description")


def main_argument(args: Any) -> str:
    """The argument that says most about a call, on one line."""
    if not isinstance(args, Mapping):
        return one_line(str(args)[:2_000]) if args else ""
    for name in MAIN_ARGUMENTS:
        if isinstance(args.get(name), str) and args[name].strip():
            return one_line(args[name][:2_000])
    for value in args.values():
        if isinstance(value, str) and value.strip():
            return one_line(value[:2_000])
    return ""


def elapsed(seconds: float | None) -> str:
    """Time as a person says it; nothing for what took no time worth telling."""
    if seconds is None or seconds < 1:
        return ""
    if seconds < 60:
        return f"{int(seconds)}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02d}m"


def thousands(count: int) -> str:
    """`128k`."""
    if count >= 1_000_000:
        return f"{count / 1_000_000:.3g}M"
    return f"{round(count / 1_000)}k" if count >= 1_000 else str(count)
