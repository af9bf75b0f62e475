"""Pure. What a terminal says in words, however it is drawn."""

from collections.abc import Mapping
from typing import Any

from coding_agent.telling_argument import telling_argument
from coding_agent.terminal.screen_text import one_line


def main_argument(args: Any) -> str:
    """The argument that says most about a call, on one line; what is no object is shown as it is."""
    said = telling_argument(args) if isinstance(args, Mapping) else str(args) if args else ""
    return one_line(said[:2_000])


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
