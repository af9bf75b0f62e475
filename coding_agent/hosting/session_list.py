"""Edge. The stored sessions with what a person tells them apart by: name, first words, how much was said.

Each file is read once from end to end, a line at a time, and only the few lines that matter are parsed.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from coding_agent.storage.listing import SessionSummary, list_sessions
from lemon_otp import frozen

FIRST_WORDS: Final = 200
FILE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Of a larger file only this much is looked at."""
NO_MESSAGES: Final = "(no messages)"


@frozen
class ListedSession:
    """A stored session.

    Attributes:
        updated_ms: When the file was last written.
        first_message: The user's first words.
        live: It runs in this host.
    """

    path: Path
    id: str
    cwd: str
    updated_ms: int
    name: str | None = None
    first_message: str = NO_MESSAGES
    message_count: int = 0
    live: bool = False

    def to_json(self) -> dict[str, Any]:
        """As the protocol lists it."""
        return {
            "path": str(self.path),
            "id": self.id,
            "name": self.name,
            "cwd": self.cwd,
            "updated": self.updated_ms,
            "firstMessage": self.first_message,
            "messageCount": self.message_count,
            "live": self.live,
        }


def listed_sessions(session_dir: Path, cwd: str | None, live: Collection[str]) -> list[ListedSession]:
    """The sessions of a folder, the one written last first; of one working folder when `cwd` is given.

    Args:
        session_dir: Where session files lie.
        cwd: The working folder.
        live: Ids of the sessions that run here.
    """
    found = [listed(summary, live) for summary in list_sessions(session_dir, cwd)]
    return sorted(found, key=lambda one: one.updated_ms, reverse=True)


def listed(summary: SessionSummary, live: Collection[str] = (), *, bytes_max: int = FILE_BYTES_MAX) -> ListedSession:
    """The session with what its file says, of which `bytes_max` are looked at; `live` are the ids of those that run."""
    name, first, count, read = None, None, 0, 0
    try:
        with summary.path.open("rb") as file:
            while line := file.readline(bytes_max):
                read += len(line)
                if read > bytes_max:
                    break
                head = line[:200]
                if b'"message"' in head:
                    count += 1
                    if first is None and b'"user"' in line[:400]:
                        first = _words(line)
                elif b'"session_info"' in head or b'"sessionInfo"' in head:
                    name = _name(line)
    except OSError:
        pass
    return ListedSession(
        summary.path,
        summary.id,
        summary.cwd,
        summary.modified_ms,
        name,
        first or NO_MESSAGES,
        count,
        summary.id in live,
    )


def _words(line: bytes) -> str | None:
    message = _object(line).get("message")
    if not isinstance(message, dict) or message.get("role") != "user":
        return None
    content = message.get("content")
    if isinstance(content, list):
        content = " ".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    return " ".join(content.split())[:FIRST_WORDS] or None if isinstance(content, str) else None


def _name(line: bytes) -> str | None:
    name = _object(line).get("name")
    return name.strip() or None if isinstance(name, str) else None


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
