"""Edge. Opens whatever session file it is given, for reading: our own formats, and Claude Code's."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Final

from coding_agent.errors import NotASession
from coding_agent.storage.claude_import import import_claude, looks_like_claude
from coding_agent.storage.record_log import RecordLog
from coding_agent.storage.session_manager import SessionManager

_LOOK_AT_LINES: Final = 50


def open_for_reading(path: str | Path) -> SessionManager:
    """The session in a file; no lock is taken and nothing can be appended.

    Raises:
        SessionError: It is not there, no session, too new or too large; the class says which.
    """
    try:
        return SessionManager.open(path, read_only=True)
    except NotASession as error:
        if error.reason != "invalid_header" or not _is_claude(error.path):
            raise
        imported = import_claude(error.path)
        why = "a session of Claude Code; fork it to go on with it here"
        return SessionManager(RecordLog.imported(error.path, imported.header, imported.entries, imported.problems, why))


def _is_claude(path: Path) -> bool:
    with path.open("rb") as file:
        return looks_like_claude(islice(file, _LOOK_AT_LINES))
