"""Edge. Files that only this user can read: made so from the start, in folders that are, and replaced as a whole."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from lemon_otp import make_private

_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


@contextmanager
def appending(path: Path) -> Iterator[IO[bytes]]:
    """While inside, what is written goes to the end of a file, which is made, with its folder, if it is not there.

    Raises:
        OSError: It cannot be opened, or is a link.
    """
    make_private(path.parent)
    with os.fdopen(os.open(path, _APPEND, 0o600), "ab") as file:
        yield file


def replace_file(path: Path, data: bytes, *, mode: int = 0o600, durable: bool = True, locked: bool = False) -> None:
    """Put a whole new file in the place of another: a reader sees the one or the other. The folder must be there.

    Args:
        path: The file.
        data: All of it.
        mode: Who may read and write it.
        durable: It is on the disk before it has the name, so that no crash leaves an empty one.
        locked: Nobody else writes it meanwhile, so what somebody left who was killed is taken away.

    Raises:
        OSError: It cannot be written. The old one is as it was.
    """
    made = path.with_name(f".{path.name}.new" if locked else f".{path.name}-{os.urandom(6).hex()}")
    if locked:
        made.unlink(missing_ok=True)
    descriptor = os.open(made, _NEW, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
            if durable:
                file.flush()
                os.fsync(descriptor)
        made.replace(path)
    except BaseException:
        with suppress(OSError):
            made.unlink()
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Return when what was made, named and removed in a folder is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
