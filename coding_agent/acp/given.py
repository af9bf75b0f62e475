"""Pure, but for a look at folders. What a client gives, as ours: folders, servers, prompts, places in a list."""

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coding_agent.acp.prompt_content import BadContent, prompt_of
from coding_agent.errors import BadUsage
from coding_agent.mcp.entries import ServerEntry


def entry_of(server: Any) -> ServerEntry:
    """A server as the client names it. Nothing in it is expanded: the editor has done that."""
    if hasattr(server, "command"):
        env = {each.name: each.value for each in server.env or ()}
        command = str(server.command)
        return ServerEntry(server.name, "stdio", command, tuple(server.args or ()), env, scope="client")
    kind = getattr(server, "type", "http")
    if kind not in ("http", "sse"):
        raise BadUsage(f"the server {server.name} is of a kind that was not offered: {kind}")
    headers = {each.name: each.value for each in server.headers or ()}
    return ServerEntry(
        server.name, "sse" if kind == "sse" else "http", url=str(server.url), headers=headers, scope="client"
    )


def content_of(blocks: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """The text and the pictures of a prompt. Raises `BadUsage` for what cannot be taken."""
    try:
        text, images = prompt_of(blocks)
    except BadContent as error:
        raise BadUsage(str(error)) from error
    if not text.strip() and not images:
        raise BadUsage("the prompt is empty")
    return text, images


def folder_of(cwd: str) -> Path:
    """The folder meant, links followed. Raises `BadUsage` when the path is not absolute."""
    if not os.path.isabs(cwd) or "\0" in cwd:
        raise BadUsage(f"cwd must be an absolute path, not {cwd!r}")
    return Path(os.path.realpath(cwd))


def existing_folder(cwd: str) -> Path:
    """The same; raises `BadUsage` when it is not there, too."""
    folder = folder_of(cwd)
    if not folder.is_dir():
        raise BadUsage(f"the folder {cwd} does not exist")
    return folder


def cursor_after(place: int) -> str:
    """Where a list goes on, as a client hands it back."""
    return base64.urlsafe_b64encode(f"after {place}".encode()).decode()


def start_of(cursor: str | None) -> int:
    """The place that a cursor stands for. Raises `BadUsage` when it is none of ours."""
    if cursor is None:
        return 0
    try:
        word, _, place = base64.urlsafe_b64decode(cursor.encode()).decode().partition(" ")
        if word != "after":
            raise ValueError
        return max(0, int(place))
    except ValueError:
        raise BadUsage("the cursor is none of ours") from None
