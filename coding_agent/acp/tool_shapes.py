"""Pure. Tool calls as an editor shows them: kind, title, places, content."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from coding_agent.telling_argument import telling_argument
from coding_agent.tools.visible_text import plain
from lemon_agent import AgentToolResult
from lemon_ai import ImageContent, TextContent

KINDS: Final[Mapping[str, str]] = {
    "read": "read",
    "ls": "search",
    "grep": "search",
    "find": "search",
    "write": "edit",
    "edit": "edit",
    "patch": "edit",
    "bash": "execute",
    "process": "execute",
    "execute_code": "execute",
    "web_fetch": "fetch",
    "web_search": "fetch",
    "web_download": "fetch",
    "browser": "fetch",
    "todo": "think",
    "task": "think",
}
PLAN_STATUSES: Final = {"in_progress": "in_progress", "completed": "completed"}
TITLE_MAX: Final = 200
RAW_MAX: Final = 100_000
"""Characters of a raw input or output; more is left out, the content says it."""


def kind_of(tool: str) -> str:
    """What kind of thing a tool does."""
    return KINDS.get(tool, "other")


def title_of(tool: str, args: Mapping[str, Any]) -> str:
    """A call in a line."""
    line = " ".join(plain(telling_argument(args)).split())
    if tool in ("bash", "process") and line:
        text = f"`{line}`"
    else:
        text = f"{tool} {line}".strip()
    return text if len(text) <= TITLE_MAX else text[: TITLE_MAX - 1] + "…"


def locations_of(tool: str, args: Mapping[str, Any], cwd: str) -> list[dict[str, Any]]:
    """The files a call is about, absolute."""
    if kind_of(tool) not in ("read", "edit", "search"):
        return []
    path = args.get("path")
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        return []
    place: dict[str, Any] = {"path": absolute(path, cwd)}
    line = args.get("offset")
    if tool == "read" and isinstance(line, int) and not isinstance(line, bool) and line > 0:
        place["line"] = line
    return [place]


def absolute(path: str, cwd: str) -> str:
    """A path as the editor needs it; relative ones begin at the session's folder."""
    return os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))


def diffs_of(tool: str, args: Mapping[str, Any], cwd: str, before: str | None = None) -> list[dict[str, Any]]:
    """What a call changes in files, as far as its arguments tell; `before` is what a file that is written held."""
    path = args.get("path")
    if not isinstance(path, str) or not path.strip():
        return []
    where = absolute(path, cwd)
    if tool == "write" and isinstance(args.get("content"), str):
        old = {} if before is None else {"oldText": before}
        return [{"type": "diff", "path": where, "newText": args["content"], **old}]
    if tool != "edit":
        return []
    several = args.get("edits")
    pairs = several if isinstance(several, list) and several else [args]
    return [
        {"type": "diff", "path": where, "oldText": pair["old_text"], "newText": pair["new_text"]}
        for pair in pairs
        if isinstance(pair, Mapping) and isinstance(pair.get("old_text"), str) and isinstance(pair.get("new_text"), str)
    ]


def content_of(result: AgentToolResult) -> list[dict[str, Any]]:
    """What a call has to show: its terminal, else its text and pictures."""
    details = result.details if isinstance(result.details, Mapping) else {}
    if isinstance(terminal := details.get("terminal_id"), str):
        return [{"type": "terminal", "terminalId": terminal}]
    return [{"type": "content", "content": block} for block in map(block_of, result.content) if block is not None]


def block_of(block: Any) -> dict[str, Any] | None:
    """A content block of ours as one of the protocol's."""
    match block:
        case TextContent(text):
            return {"type": "text", "text": text} if text else None
        case ImageContent(data, mime_type):
            return {"type": "image", "data": data, "mimeType": mime_type}
        case _:
            return None


def raw(value: Any) -> Any:
    """A value as JSON, or nothing when it is too much or none."""
    try:
        text = json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError):
        return None
    return json.loads(text) if len(text) <= RAW_MAX else None


def plan_of(details: Any) -> list[dict[str, str]] | None:
    """The list of things to do as a plan; None when there is none in a result."""
    todos = details.get("todos") if isinstance(details, Mapping) else None
    if not isinstance(todos, Sequence) or isinstance(todos, str):
        return None
    return [
        {
            "content": str(todo.get("content", "")),
            "priority": str(todo.get("priority", "medium")),
            "status": PLAN_STATUSES.get(str(todo.get("status")), "pending"),
        }
        for todo in todos
        if isinstance(todo, Mapping)
    ]
