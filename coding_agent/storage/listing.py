"""Edge. Which sessions there are, from their first lines alone.

A session file may be huge; nothing here reads past its header. Files that are no sessions are passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from coding_agent.storage.locations import folder_for
from coding_agent.storage.migrate import version_of
from coding_agent.storage.stamps import parse_iso

_BLOCK: Final = 512
_LONGEST_HEADER: Final = 1 << 20


@frozen
class SessionSummary:
    """A session as its header and its file describe it.

    Attributes:
        created_ms: What the header says, in Unix milliseconds; the time of the last write when it says nothing.
        modified_ms: When the file was last written.
        parent_session: File of the session it came out of.
    """

    path: Path
    id: str
    cwd: str
    version: int
    created_ms: int
    modified_ms: int
    size: int
    parent_session: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The summary as a JSON object."""
        return {
            "path": str(self.path),
            "id": self.id,
            "cwd": self.cwd,
            "version": self.version,
            "created": self.created_ms,
            "modified": self.modified_ms,
            "size": self.size,
            "parentSession": self.parent_session,
        }


def list_sessions(session_dir: Path, cwd: str | Path | None = None) -> list[SessionSummary]:
    """The sessions of a folder, newest first; of one working folder when `cwd` is given.

    Looks into the folder itself and into the folders in it. A folder that is not there has no sessions.
    """
    wanted = None if cwd is None else str(cwd)
    found = [summary for path in _candidates(session_dir) if (summary := read_summary(path)) is not None]
    chosen = [summary for summary in found if wanted is None or summary.cwd == wanted]
    return sorted(chosen, key=lambda summary: (summary.created_ms, summary.modified_ms), reverse=True)


def newest_session(cwd: str | Path, session_dir: Path) -> Path | None:
    """The session of a working folder that was written last."""
    folders = (folder_for(session_dir, cwd), session_dir)
    paths = [path for folder in folders for path in _files(folder)]
    for path in sorted(paths, key=_modified_ns, reverse=True):
        summary = read_summary(path)
        if summary is not None and summary.cwd == str(cwd):
            return path
    return None


def children_of(session_dir: Path, parent: Path) -> list[SessionSummary]:
    """The sessions that came out of another one, newest first."""
    return [one for one in list_sessions(session_dir) if one.parent_session == str(parent)]


def read_summary(path: Path) -> SessionSummary | None:
    """What the header of a file says; None when it has none we understand."""
    try:
        with path.open("rb", buffering=0) as file:
            header = json.loads(_first_line(file.fileno()))
            found = os.fstat(file.fileno())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(header, dict) or header.get("type") != "session" or not isinstance(header.get("id"), str):
        return None
    modified = found.st_mtime_ns // 1_000_000
    parent, cwd = header.get("parentSession"), header.get("cwd")
    created = parse_iso(header.get("timestamp"))
    return SessionSummary(
        path=path,
        id=header["id"],
        cwd=cwd if isinstance(cwd, str) else "",
        version=version_of(header),
        created_ms=modified if created is None else created,
        modified_ms=modified,
        size=found.st_size,
        parent_session=parent if isinstance(parent, str) else None,
    )


def _first_line(fd: int) -> bytes:
    line = b""
    while len(line) < _LONGEST_HEADER:
        block = os.read(fd, _BLOCK)
        before, line_end, _ = block.partition(b"\n")
        line += before
        if line_end and line.strip():
            return line
        if not block:
            return line
    raise ValueError("the first line is too long to be a header")


def _candidates(session_dir: Path) -> Iterator[Path]:
    yield from _files(session_dir)
    try:
        folders = sorted(entry.path for entry in os.scandir(session_dir) if entry.is_dir())
    except OSError:
        return
    for folder in folders:
        yield from _files(Path(folder))


def _files(folder: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder) if entry.name.endswith(".jsonl") and entry.is_file()]
    except OSError:
        return []


def _modified_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
