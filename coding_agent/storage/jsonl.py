"""Edge. One open session file: whole lines are added at its end, nothing else ever changes in it.

An append is one write of complete lines. Before it, the file is looked at: somebody may have added to it, replaced it
or cut it short since. A last line that a crash left unfinished is cut off, and one that only misses its line end gets
it, by the first append and not by reading.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, EEXIST, EPERM, EROFS
from pathlib import Path
from typing import Final, Literal, TypeAlias

from coding_agent.errors import NotASession, SessionClosed, SessionFileChanged, SessionNotFound, SessionTooLarge
from coding_agent.storage import lock
from coding_agent.storage.files import Files
from coding_agent.storage.report import TornTail

FsyncPolicy: TypeAlias = Literal["none", "turn", "entry"]
"""When bytes are forced to the disk itself: never, at the end of a turn, or with every entry."""

_READ_BUFFER: Final = 1 << 20
_NOT_WRITABLE: Final = frozenset({EACCES, EPERM, EROFS})


class SessionFile:
    """A session file that is open, or that the first append will create."""

    def __init__(self, path: Path, files: Files, fsync: FsyncPolicy = "turn") -> None:
        self.path = path
        self._name = str(path)
        self.size = 0
        self.torn_tail: TornTail | None = None
        self.read_only: str | None = None
        self.stale_lock: int | None = None
        self._files = files
        self._fsync = fsync
        self._fd: int | None = None
        self._identity: tuple[int, int] = (0, 0)
        self._locked = False
        self._half_written = False
        self._unsynced = False

    # Opening and closing.

    def open(self, *, writing: bool, max_bytes: int | None) -> None:
        """Open an existing file; when `writing`, become its one writer.

        Raises:
            SessionNotFound: It is not there.
            NotASession: It is a folder, a pipe or cannot be read.
            SessionTooLarge: It is larger than `max_bytes`.
            SessionLocked: Another writer has it open.
        """
        try:
            found = self._files.stat(self.path)
            if not os.path.isfile(self.path):  # before opening: a pipe would wait for a writer
                raise NotASession(self.path, "not_a_file", "it is a folder or a device, not a session file")
            if max_bytes is not None and found.st_size > max_bytes:
                raise SessionTooLarge(self.path, found.st_size, max_bytes)
            self._fd = self._open_for(writing)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise SessionNotFound(self.path) from error
        except OSError as error:
            raise NotASession(self.path, "unreadable", f"it cannot be read: {error.strerror}") from error
        try:
            if writing and self.read_only is None:
                self._lock_or_only_read()
            self._look()
            overtaken = self._files.stat(self.path).st_ino != self._identity[1]
        except BaseException:
            self.close()
            raise
        if overtaken:  # whoever held the lock a moment ago wrote a successor; that one is the session now
            self._close_descriptor()
            self.open(writing=writing, max_bytes=max_bytes)

    def _open_for(self, writing: bool) -> int:
        if not writing:
            self.read_only = "opened for reading only"
            return self._files.open(self.path, os.O_RDONLY)
        try:
            return self._files.open(self.path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            if error.errno not in _NOT_WRITABLE:
                raise
            self.read_only = f"it cannot be written: {error.strerror}"
            return self._files.open(self.path, os.O_RDONLY)

    def _lock_or_only_read(self) -> None:
        try:
            self._lock()
        except OSError as error:
            self.read_only = f"the file system gives no lock: {error.strerror}"

    def _lock(self) -> None:
        assert self._fd is not None
        self.stale_lock = lock.take(self._fd, self.path)
        self._locked = True

    def _look(self) -> None:
        assert self._fd is not None
        found = self._files.fstat(self._fd)
        self._identity = (found.st_dev, found.st_ino)
        self.size = found.st_size

    def create(self) -> None:
        """Make the file, empty and ours alone, and the folders above it. A file with something in it is refused."""
        self._files.make_folder(self.path.parent)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        self._fd = self._files.open(self.path, flags)
        try:
            self._lock()
            self._look()
            if self.size:
                raise FileExistsError(EEXIST, "a file of that name appeared", str(self.path))
            if self._fsync != "none":
                self._files.sync_folder(self.path.parent)
        except BaseException:
            self.close()
            raise

    def discard_empty(self) -> None:
        """Undo `create` after the first write failed, so that no empty session is left."""
        if self._fd is not None:
            with suppress(OSError):
                self._files.truncate(self._fd, 0)
                self._files.remove(self.path)
        self.close()

    def close(self) -> None:
        """Give up the file and its lock; no lock file is left. Closing twice is allowed."""
        if self._locked:
            lock.release(self.path)
            self._locked = False
        self._close_descriptor()

    def _close_descriptor(self) -> None:
        if self._fd is not None:
            with suppress(OSError):
                self._files.close(self._fd)
            self._fd = None

    @property
    def is_open(self) -> bool:
        """Whether there is a file to read from or write to."""
        return self._fd is not None

    # Reading.

    def lines(self, offset: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The lines of the file from an offset on, line ends included."""
        assert self._fd is not None
        raw = io.BufferedReader(_Part(self._files, self._fd, offset, self.size if end is None else end), _READ_BUFFER)
        yield from raw

    def read_at(self, offset: int, length: int) -> bytes:
        """Some bytes of the file, fewer at its end."""
        if self._fd is None:
            raise SessionClosed(self.path)
        data = self._files.read(self._fd, length, offset)
        while len(data) < length:
            more = self._files.read(self._fd, length - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    # Writing.

    @property
    def syncs_each(self) -> bool:
        """Whether every write is forced to the disk."""
        return self._fsync == "entry"

    def has_changed(self) -> bool:
        """Whether the file is not exactly what we left; `grown` says what has become of it."""
        try:
            found = self._files.stat(self._name)
        except OSError:
            return True
        return found.st_size != self.size or (found.st_dev, found.st_ino) != self._identity

    def grown(self) -> int:
        """Bytes somebody else has added since we last looked.

        Raises:
            SessionFileChanged: The file is not the one we opened, or a part of it is gone.
        """
        if self._fd is None:
            return 0
        try:
            found = self._files.stat(self._name)
        except FileNotFoundError as error:
            raise SessionFileChanged(self.path, change="removed", detail="it is gone") from error
        if found.st_ino != self._identity[1] or found.st_dev != self._identity[0]:
            raise SessionFileChanged(self.path, change="replaced", detail="another file stands in its place")
        if found.st_size == self.size:
            return 0
        if found.st_size < self.size:
            raise SessionFileChanged(self.path, change="truncated", detail="a part of it is gone")
        if self._half_written:
            self._files.truncate(self._fd, self.size)
            self._half_written = False
            return 0
        return found.st_size - self.size

    def append(self, data: bytes) -> int:
        """Add whole lines at the end; when it returns the operating system has them.

        Returns:
            The offset at which they begin.

        Raises:
            OSError: They are not in the file, not even in part.
        """
        assert self._fd is not None
        prefix = b"" if self.torn_tail is None else self._mend(self.torn_tail)
        self._write(prefix + data)
        self.torn_tail = None
        start = self.size + len(prefix)
        self.size = start + len(data)
        self._unsynced = True
        return start

    def _mend(self, torn: TornTail) -> bytes:
        """Cut off an unfinished line; the line end that must come before the next line, if one is missing."""
        assert self._fd is not None
        if torn.length:
            self._files.truncate(self._fd, torn.offset)
            self.size = torn.offset
        self.torn_tail = TornTail(torn.offset, 0)
        if self.size == 0 or self.read_at(self.size - 1, 1) == b"\n":
            return b""
        return b"\n"

    def _write(self, data: bytes) -> None:
        assert self._fd is not None
        written = 0
        try:
            written = self._files.write(self._fd, data)
            while written < len(data):
                written += self._files.write(self._fd, data[written:])
        except BaseException:
            if written:
                self._half_written = True
                with suppress(OSError):
                    self._files.truncate(self._fd, self.size)
                    self._half_written = False
            raise

    def is_due(self, moment: FsyncPolicy) -> bool:
        """Whether the policy asks at this moment for something to be forced to the disk that is not."""
        if self._fd is None or not self._unsynced or self._fsync == "none":
            return False
        return moment == "turn" or self._fsync == "entry"

    def sync(self, moment: FsyncPolicy) -> None:
        """Force what was written to the disk, if the policy says so at this moment.

        Args:
            moment: `entry` after each write, `turn` at the end of a turn.

        Raises:
            OSError: The disk refused; the bytes may or may not be on it.
        """
        if self.is_due(moment) and self._fd is not None:
            self._files.fsync(self._fd)
            self._unsynced = False

    @contextmanager
    def replacing(self) -> Iterator[SessionFile]:
        """Write a successor of this file beside it; at the end of the block it stands in its place, lock included.

        The old file stays beside it as `<name>.bak` (`.bak2` and so on when that is taken). An error in the block
        leaves everything as it was.
        """
        temporary = self.path.with_name(f"{self.path.name}.tmp.{os.urandom(6).hex()}")
        fd = self._files.open(temporary, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        successor = SessionFile(temporary, self._files, self._fsync)
        successor._fd = fd
        try:
            lock.move(fd, temporary)
            successor._look()
            yield successor
            if self._fsync != "none":
                self._files.fsync(fd)
            self._keep_backup()
            self._files.replace(temporary, self.path)
        except BaseException:
            with suppress(OSError):
                self._files.remove(temporary)
            self._files.close(fd)
            raise
        old, self._fd = self._fd, fd
        self._look()
        self.torn_tail = None
        if old is not None:
            self._files.close(old)
        if self._fsync != "none":
            with suppress(OSError):
                self._files.sync_folder(self.path.parent)

    def _keep_backup(self) -> None:
        for number in range(1, 1000):
            backup = self.path.with_name(f"{self.path.name}.bak{'' if number == 1 else number}")
            with suppress(FileExistsError):
                self._files.keep_copy(self.path, backup)
                return
        raise FileExistsError(EEXIST, "too many backups", str(self.path))


class _Part(io.RawIOBase):
    """A stretch of an open file, read without moving the descriptor's own position."""

    def __init__(self, files: Files, fd: int, offset: int, end: int) -> None:
        self._files, self._fd, self._at, self._end = files, fd, offset, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._files.read(self._fd, min(len(buffer), self._end - self._at), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
