"""Edge. A Unix socket that only this user can reach: mode 0600, in a folder of mode 0700."""

from __future__ import annotations

import os
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path

from lemon_otp.private_folders import make_private


class UnsafeFolder(Exception):
    """The folder cannot hold a private socket; the text says why."""


def bind_private(path: Path) -> socket.socket:
    """A socket bound to `path`; one that was left there is taken away.

    Raises:
        UnsafeFolder: The folder lets others in, or takes no sockets; or something else is there, such as a file or a
            socket that somebody listens at. Nothing is left behind, and nothing of others is taken away.
    """
    private_folder(path.parent)
    with suppress(FileNotFoundError):
        _make_room(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(bound.fileno(), 0o600)  # before it has a name: nobody connects in between
        bound.bind(str(path))
        path.chmod(0o600)
    except OSError as error:  # the path is longer than a socket's may be, or the folder takes no sockets
        bound.close()
        raise UnsafeFolder(str(error)) from error
    return bound


def _make_room(path: Path) -> None:
    """Take away what a killed program has left."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise UnsafeFolder("there is something else, which is no socket")
        if _is_listened_at(path):
            raise UnsafeFolder("somebody listens there already")
        path.unlink()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnsafeFolder(str(error)) from error


def _is_listened_at(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asker:
        asker.setblocking(False)
        try:
            asker.connect(str(path))
        except BlockingIOError:  # many ask at once
            return True
        except OSError:
            return False
    return True


def private_folder(path: Path) -> None:
    """Make the folder that only this user can enter, or make sure that it is one.

    Raises:
        UnsafeFolder: It is a link, belongs to somebody else, or is one that everybody keeps files in.
    """
    try:
        make_private(path)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise UnsafeFolder("it is not a folder")
        if found.st_uid != os.getuid():
            raise UnsafeFolder("it belongs to another user")
        if found.st_mode & stat.S_ISVTX:  # such as /tmp: others have files there
            raise UnsafeFolder("it is shared with other users; give a folder of its own")
        if found.st_mode & 0o077:
            path.chmod(0o700)
    except OSError as error:
        raise UnsafeFolder(str(error)) from error


def peer_uid(connection: socket.socket) -> int | None:
    """The user at the other end, where the system tells (Linux); elsewhere the folder's mode is the guard."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return int(uid)
