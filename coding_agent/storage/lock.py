"""Edge. One writer a session file: a lock of the operating system on the file, and a note beside it saying whose it is.

The lock is `flock` on the descriptor the session is written through, so it costs no descriptor of its own and ends with
its holder however that ends. The note, `<session>.lock`, only tells the next one who to look for. A note without a
lock is what a killed process leaves: the next writer takes it over and says so.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from errno import EACCES, EAGAIN, EWOULDBLOCK
from pathlib import Path
from typing import Any, Final

from coding_agent.errors import SessionLocked

_CONTENDED: Final = frozenset({EACCES, EAGAIN, EWOULDBLOCK})
_NOTE_TRIES: Final = 25
_NOTE_WAIT_S: Final = 0.002


def note_path(path: Path) -> Path:
    """Where the note about a session's writer lies."""
    return path.with_name(path.name + ".lock")


def take(fd: int, path: Path) -> int | None:
    """Become the one writer of the open file `fd`.

    Returns:
        The process whose left-over note was taken over; None when there was none.

    Raises:
        SessionLocked: Somebody else is. The note of a holder that has just begun is waited for, 50 ms at most.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _CONTENDED:
            raise
        note = _wait_for_note(path)
        raise SessionLocked(path, note.get("pid"), note.get("host")) from error
    left_over = read_note(path).get("pid")
    with suppress(OSError):  # a folder that cannot be written costs the note, not the lock
        _write_note(path)
    return left_over if isinstance(left_over, int) and left_over != os.getpid() else None


def move(fd: int, path: Path) -> None:
    """Hold the lock on a new file that is about to take the place of the one held; the note stays as it is."""
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def release(path: Path) -> None:
    """Take the note away; the lock itself ends when the descriptor is closed."""
    if read_note(path).get("pid") == os.getpid():
        with suppress(OSError):
            note_path(path).unlink()


def read_note(path: Path) -> dict[str, Any]:
    """Who is, or was, writing a session; empty when nobody says so."""
    try:
        note = json.loads(note_path(path).read_bytes())
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def is_alive(pid: object) -> bool:
    """Whether a process of this machine is still there."""
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _host() -> str:
    return os.uname().nodename


def _write_note(path: Path) -> None:
    note_path(path).write_text(json.dumps({"pid": os.getpid(), "host": _host()}), encoding="utf-8")


def _wait_for_note(path: Path) -> dict[str, Any]:
    """The note of the present holder, who takes the lock first and writes the note next."""
    note: dict[str, Any] = {}
    for _ in range(_NOTE_TRIES):
        note = read_note(path)
        if note.get("host") not in (None, _host()) or is_alive(note.get("pid")):
            return note
        time.sleep(_NOTE_WAIT_S)
    return {} if note.get("host") == _host() else note
