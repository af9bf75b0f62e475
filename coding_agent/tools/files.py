"""Edge. Reading, replacing and removing the file at a checked `Place`; blocking, so for a worker thread."""

import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from attrs import frozen

from coding_agent.tools.paths import Place, path_error
from lemon_agent import ToolError

READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
WRITE_FLAGS: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
TEMPORARY: Final = ".lemon-"
KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}


@frozen
class Version:
    """Which content a file had: another inode, size or time of change is another version."""

    inode: int
    size: int
    changed_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Version":
        """The version a status shows."""
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)


class Fence:
    """Stands between a worker thread and its effect: once put up, nothing more is changed by that thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._up = False

    def put_up(self) -> None:
        """Return once every effect has either happened in full or never will."""
        with self._lock:
            self._up = True

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Around one short effect.

        Raises:
            ToolError: The fence is up; do not do it.
        """
        with self._lock:
            if self._up:
                raise ToolError("Operation aborted")
            yield

    def check(self) -> None:
        """Return while the fence is down; for long work to ask now and then."""
        if self._up:
            raise ToolError("Operation aborted")


def open_regular(place: Place) -> int:
    """A descriptor for reading the regular file there; never waits, whatever stands there.

    Raises:
        ToolError: Nothing is there, it is no regular file, or it may not be read.
    """
    if place.status is None:
        raise ToolError(f"File not found: {place.given}")
    refuse_irregular(place, place.status)
    try:
        fd = os.open(place.name, READ_FLAGS, dir_fd=place.directory)
    except OSError as error:
        raise path_error(error, place.given) from error
    try:
        refuse_irregular(place, os.fstat(fd))
    except ToolError:
        os.close(fd)
        raise
    return fd


def refuse_irregular(place: Place, status: os.stat_result) -> None:
    """Return when it is a regular file.

    Raises:
        ToolError: It is something else.
    """
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"Path is a directory, not a file: {place.given}")
    if not stat.S_ISREG(status.st_mode):
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "no regular file")
        raise ToolError(f"Not a regular file but {kind}: {place.given}")


def read_bytes(place: Place, limit: int) -> tuple[bytes, os.stat_result]:
    """The whole file, and its status when it was opened.

    Raises:
        ToolError: As `open_regular`, or it is larger than `limit` bytes.
    """
    fd = open_regular(place)
    with os.fdopen(fd, "rb", buffering=0) as file:
        status = os.fstat(fd)
        if status.st_size > limit:
            raise ToolError(f"File is too large ({status.st_size} bytes, at most {limit}): {place.given}")
        data = file.read(status.st_size + 1) or b""
        while 0 < len(data) <= limit and (more := file.read(65536)):
            data += more
    if len(data) > limit:
        raise ToolError(f"File grew beyond {limit} bytes while it was read: {place.given}")
    return data, status


def make_parents(place: Place) -> None:
    """Create the directories that are missing, one by one in the open one, and move the place into the last."""
    for name in place.missing:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=place.directory)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        inner = os.open(name, flags, dir_fd=place.directory)
        os.close(place.directory)
        place.directory = inner
    place.missing = ()


def replace(
    place: Place,
    data: Sequence[bytes | memoryview],
    fence: Fence,
    *,
    expected: Version | None = None,
    mode: int | None = None,
) -> os.stat_result:
    """Make `data` the whole content: all of it or nothing, mode and owner kept. Returns the new status.

    A file with several hard links, or in a directory that takes no new file, is written in place instead.

    Args:
        place: Where; missing directories are created.
        data: The new content, in pieces.
        fence: Stops it before the last step.
        expected: Refuse when the file is not this version any more.
        mode: Of a file that did not exist; the user's default if not given.

    Raises:
        ToolError: It could not be done; the file is as it was.
    """
    try:
        fence.check()
        make_parents(place)
        before = place.status
        if before is not None:
            refuse_irregular(place, before)
            if not os.access(place.name, os.W_OK, dir_fd=place.directory):
                raise PermissionError
            if before.st_nlink > 1:
                return _overwrite(place, data, fence, expected)
        try:
            temporary, fd = _temporary(place.directory)
        except PermissionError:
            if before is None:
                raise
            return _overwrite(place, data, fence, expected)
        try:
            with os.fdopen(fd, "wb", buffering=0) as file:
                _write_all(file.write, data)
                if before is not None:
                    _keep_attributes(place, fd, before)
                elif mode is not None:
                    os.fchmod(fd, stat.S_IMODE(mode))
                after = os.fstat(fd)
            with fence.passing():
                _check_version(place, expected)
                os.replace(temporary, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=place.directory)
            raise
    except OSError as error:
        raise path_error(error, place.given) from error
    return after


def remove(place: Place, fence: Fence, *, expected: Version | None = None) -> None:
    """Remove the regular file there.

    Raises:
        ToolError: It could not be done, or it is not the `expected` version.
    """
    if place.status is None:
        raise ToolError(f"File not found: {place.given}")
    refuse_irregular(place, place.status)
    try:
        with fence.passing():
            _check_version(place, expected)
            os.unlink(place.name, dir_fd=place.directory)
    except OSError as error:
        raise path_error(error, place.given) from error


def _temporary(directory: int) -> tuple[str, int]:
    for _attempt in range(100):
        name = f"{TEMPORARY}{os.urandom(6).hex()}.tmp"
        with suppress(FileExistsError):
            return name, os.open(name, CREATE_FLAGS, 0o666, dir_fd=directory)
    raise FileExistsError


def _write_all(write: Callable[[memoryview], int | None], data: Sequence[bytes | memoryview]) -> int:
    for piece in data:
        view = memoryview(piece)
        while view:
            view = view[write(view) or 0 :]
    return sum(map(len, data))


def _keep_attributes(place: Place, fd: int, before: os.stat_result) -> None:
    """Owner, extended attributes, then mode: a change of owner clears some of the mode's bits."""
    if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(OSError):
            os.fchown(fd, before.st_uid, before.st_gid)
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            old = os.open(place.name, READ_FLAGS, dir_fd=place.directory)
            try:
                for name in os.listxattr(old):
                    os.setxattr(fd, name, os.getxattr(old, name))
            finally:
                os.close(old)
    os.fchmod(fd, stat.S_IMODE(before.st_mode))


def _check_version(place: Place, expected: Version | None) -> None:
    if expected is None:
        return
    try:
        now = Version.of(os.stat(place.name, dir_fd=place.directory, follow_symlinks=False))
    except FileNotFoundError:
        raise ToolError(f"File was removed meanwhile: {place.given}") from None
    if now != expected:
        raise ToolError(f"File was changed by somebody else meanwhile; read it again: {place.given}")


def _overwrite(
    place: Place, data: Sequence[bytes | memoryview], fence: Fence, expected: Version | None
) -> os.stat_result:
    with fence.passing():
        _check_version(place, expected)
        fd = os.open(place.name, WRITE_FLAGS, dir_fd=place.directory)
        with os.fdopen(fd, "wb", buffering=0) as file:
            refuse_irregular(place, os.fstat(fd))
            os.ftruncate(fd, _write_all(file.write, data))
            return os.fstat(fd)


class Incoming:
    """A file that arrives in pieces: beside its place until it is whole."""

    def __init__(self, place: Place) -> None:
        """Blocks shortly; the place belongs to this object from now on.

        Raises:
            ToolError: Nothing can be written there.
        """
        import hashlib

        self._place = place
        self._digest = hashlib.sha256()
        self._temporary = ""
        self._fd = -1
        try:
            make_parents(place)
            if place.status is not None:
                refuse_irregular(place, place.status)
            self._temporary, self._fd = _temporary(place.directory)
        except OSError as error:
            place.close()
            raise path_error(error, place.given) from error

    @property
    def sha256(self) -> str:
        """Of what has arrived."""
        return self._digest.hexdigest()

    def write(self, piece: bytes) -> None:
        """Take the next piece; it is small, so this may be done on the event loop.

        Raises:
            ToolError: The disk is full.
        """
        try:
            _write_all(lambda view: os.write(self._fd, view), [piece])
        except OSError as error:
            raise path_error(error, self._place.given) from error
        self._digest.update(piece)

    def put_in_place(self, fence: Fence) -> os.stat_result:
        """Make it the file; returns the new status."""
        try:
            with fence.passing():
                if self._place.status is not None:
                    os.fchmod(self._fd, stat.S_IMODE(self._place.status.st_mode))
                directory = self._place.directory
                os.replace(self._temporary, self._place.name, src_dir_fd=directory, dst_dir_fd=directory)
                self._temporary = ""
                return os.fstat(self._fd)
        except OSError as error:
            raise path_error(error, self._place.given) from error

    def close(self) -> None:
        """Remove what did not come to be the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._temporary:
            with suppress(OSError):
                os.unlink(self._temporary, dir_fd=self._place.directory)
            self._temporary = ""
        self._place.close()

    def __del__(self) -> None:
        self.close()
