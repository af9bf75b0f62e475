"""Edge. The state of files, taken through the path guard: no link is followed that it does not know of."""

import hashlib
import os
import stat
from typing import Final

from coding_agent.checkpoints.records import ABSENT, FileState
from coding_agent.checkpoints.store import CheckpointStore
from coding_agent.tools.files import Version, open_regular, read_bytes
from coding_agent.tools.paths import PathGuard, Place
from lemon_agent import ToolError

FILE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A larger file cannot be put back, so tools that a checkpoint stands before do not change it either."""


class NotKept(Exception):
    """What stands there cannot be kept; the text says why."""


def keep(place: Place, store: CheckpointStore) -> FileState:
    """The state there, its content in the store.

    Raises:
        NotKept: It is too large, or cannot be read.
    """
    if place.status is None:
        return ABSENT
    if not stat.S_ISREG(place.status.st_mode):
        raise NotKept("not a regular file")
    if place.status.st_size > FILE_BYTES_MAX:
        raise NotKept(f"file_too_large: {place.status.st_size} bytes, at most {FILE_BYTES_MAX} can be kept")
    try:
        data, status = read_bytes(place, FILE_BYTES_MAX)
    except ToolError as error:
        raise NotKept(str(error)) from error
    return FileState(store.put(data), stat.S_IMODE(status.st_mode), len(data))


def look(guard: PathGuard, path: str) -> tuple[FileState | None, Version | None]:
    """The state at a real path now and its version; None for what is no regular file, or not at that path any more."""
    try:
        with guard.locate(path) as place:
            if place.real != path or place.linked or place.kernel:
                return None, None
            if place.status is None:
                return ABSENT, None
            return _hashed(place)
    except ToolError:
        return None, None


def _hashed(place: Place) -> tuple[FileState | None, Version | None]:
    try:
        fd = open_regular(place)
    except ToolError:
        return None, None
    with os.fdopen(fd, "rb", buffering=0) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type, unused-ignore]
        status = os.fstat(fd)
    return FileState(digest, stat.S_IMODE(status.st_mode), status.st_size), Version.of(status)
