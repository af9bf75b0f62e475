"""Edge. Files that anybody may have written are read within bounds: regular ones, UTF-8, so many bytes, no waiting."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from coding_agent.errors import UnreadableFile

FOLDER_DEPTH_MAX: Final = 8
FOLDER_ENTRIES_MAX: Final = 5_000


def read_bytes(path: Path, limit: int) -> tuple[bytes, bool]:
    """Up to `limit` bytes of a regular file, and whether there are more.

    Raises:
        FileNotFoundError: There is none.
        UnreadableFile: It is no regular file, or cannot be read.
    """
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as source:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                raise UnreadableFile(path, "it is no regular file")
            raw = source.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(str(path)) from error
    except (OSError, ValueError) as error:
        raise UnreadableFile(path, getattr(error, "strerror", None) or str(error)) from error
    return raw[:limit], len(raw) > limit


def read_text(path: Path, limit: int) -> str:
    """The text of a file of at most `limit` bytes, every line ended by a line feed.

    Raises:
        FileNotFoundError: There is none.
        UnreadableFile: It is no regular file, too large or no UTF-8.
    """
    raw, more = read_bytes(path, limit)
    if more:
        raise UnreadableFile(path, f"it is larger than {limit} bytes")
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise UnreadableFile(path, f"it is no UTF-8 text (byte {error.start})") from error


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """What lies in a folder, by name; nothing when it cannot be looked into."""
    try:
        with os.scandir(folder) as found:
            listed = [entry for _, entry in zip(range(FOLDER_ENTRIES_MAX), found, strict=False)]
    except (OSError, ValueError):
        return []
    return sorted(listed, key=lambda entry: entry.name)


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Links are followed; one that leads nowhere is no folder."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def is_file(entry: os.DirEntry[str]) -> bool:
    """As `is_folder`, for regular files."""
    try:
        return entry.is_file()
    except OSError:
        return False


def up_to(folder: Path, top: Path) -> Iterator[Path]:
    """The folder and those above it, `top` last; only the folder when `top` is not above it."""
    yield folder
    if top in folder.parents:
        for parent in folder.parents:
            yield parent
            if parent == top:
                return


def git_root(folder: Path) -> Path | None:
    """The nearest folder above, or this one, that holds a `.git`."""
    return next((place for place in (folder, *folder.parents) if os.path.lexists(place / ".git")), None)
