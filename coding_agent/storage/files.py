"""Edge. The few things that are done to files, behind one object, so that a test can make any of them fail.

Nothing else in `storage` writes. `FaultyFiles` in the tests is the other implementation.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Protocol

from coding_agent.private_files import sync_folder
from lemon_otp import make_private


class Files(Protocol):
    """What storage asks of the operating system; every method raises `OSError` as `os` does."""

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int: ...
    def write(self, fd: int, data: bytes) -> int: ...
    def read(self, fd: int, length: int, offset: int) -> bytes: ...
    def truncate(self, fd: int, size: int) -> None: ...
    def fsync(self, fd: int) -> None: ...
    def close(self, fd: int) -> None: ...
    def stat(self, path: Path | str) -> os.stat_result: ...
    def fstat(self, fd: int) -> os.stat_result: ...
    def make_folder(self, path: Path) -> None: ...
    def replace(self, source: Path, target: Path) -> None: ...
    def keep_copy(self, source: Path, copy: Path) -> None: ...
    def remove(self, path: Path) -> None: ...
    def sync_folder(self, path: Path) -> None: ...


class OsFiles:
    """The operating system itself."""

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def read(self, fd: int, length: int, offset: int) -> bytes:
        return os.pread(fd, length, offset)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def stat(self, path: Path | str) -> os.stat_result:
        return os.stat(path)

    def fstat(self, fd: int) -> os.stat_result:
        return os.fstat(fd)

    def make_folder(self, path: Path) -> None:
        make_private(path)

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def keep_copy(self, source: Path, copy: Path) -> None:
        """Give a file a second name; where the file system has no links, copy it."""
        try:
            os.link(source, copy)
        except FileExistsError:
            raise
        except OSError:
            shutil.copyfile(source, copy)

    def remove(self, path: Path) -> None:
        path.unlink()

    def sync_folder(self, path: Path) -> None:
        sync_folder(path)
