"""Edge. A session goes for good: its file, and what is kept beside it: subagents, checkpoints, long output."""

import os
import shutil
from pathlib import Path

from coding_agent.errors import SessionNotFound
from coding_agent.storage import lock


def delete_session(path: Path) -> None:
    """Delete the session of that file, and everything that is kept in the folder beside it.

    Raises:
        SessionNotFound: There is no such file.
        SessionLocked: Somebody writes it. Nothing was deleted.
        OSError: It cannot be deleted; what is left of it is no session any more, or all of it.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError as error:
        raise SessionNotFound(path) from error
    try:
        lock.take(fd, path)
        try:
            path.unlink()
            beside = path.with_suffix("")
            if beside.is_dir() and not beside.is_symlink():
                shutil.rmtree(beside)
        finally:
            lock.release(path)
    finally:
        os.close(fd)
