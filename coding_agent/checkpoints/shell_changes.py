"""Edge. Which files of a folder were changed since a moment: one walk, bounded in entries and in time.

The kernel stamps every change of a file (`ctime`), and nothing a program does takes that back, so one walk afterwards
is enough. Removed files leave a trace only in their directory, which is reported with a slash at its end.
"""

import os
from collections.abc import Iterator
from stat import S_ISDIR
from typing import Final

from attrs import frozen

from lemon_otp import monotonic_s

ENTRIES_MAX: Final = 20_000
SECONDS_MAX: Final = 0.1
REPORTED_MAX: Final = 200
PASSED_OVER: Final = frozenset({".git", ".hg", ".svn", ".lemon", "node_modules", "__pycache__", ".venv", ".mypy_cache"})


@frozen
class Changes:
    """What was found.

    Attributes:
        paths: Absolute; directories, whose entries were added or removed, end in a slash.
        complete: The whole folder was looked at, and all of it is listed.
    """

    paths: tuple[str, ...]
    complete: bool


def changed_since(folder: str, moment_ns: int) -> Changes:
    """What changed in `folder` at or after a moment on the clock of its file system."""
    found: list[str] = []
    deadline = monotonic_s() + SECONDS_MAX
    for count, (path, changed_ns) in enumerate(_walk(folder)):
        if changed_ns >= moment_ns:
            found.append(path)
        if len(found) > REPORTED_MAX or count > ENTRIES_MAX or (count % 256 == 0 and monotonic_s() > deadline):
            return Changes(tuple(found[:REPORTED_MAX]), complete=False)
    return Changes(tuple(found), complete=True)


def _walk(top: str) -> Iterator[tuple[str, int]]:
    """Every file and directory below, with when it was changed last; links are not followed."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if not S_ISDIR(status.st_mode):
                        yield entry.path, status.st_ctime_ns
                    elif entry.name not in PASSED_OVER:
                        yield entry.path + "/", status.st_mtime_ns
                        waiting.append(entry.path)
        except OSError:
            continue
