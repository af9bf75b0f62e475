"""Process. Answers whoever asks this host about itself, through a Unix socket.

Tree:  coding_agent.supervisor / listener, permanent
Emits: nothing
Owns:  the socket file `host-<os pid>.sock`, mode 0600, in a folder of mode 0700; removed when the process ends
"""

import asyncio
import os
import socket
import stat
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from attrs import frozen

from coding_agent.control.protocol import (
    REQUEST_BYTES_MAX,
    SOCKET_PREFIX,
    SOCKET_SUFFIX,
    Operation,
    answer,
    failure,
)
from coding_agent.errors import BadUsage, UnsafeRuntimeDir
from coding_agent.metrics import METRICS
from lemon_otp import GenServer, NoReply, Reply, Request, get_env, introspect


@frozen
class SocketPath(Request[str]):
    """Where the socket is."""


@frozen
class Listening:
    """A bound socket and the server behind it."""

    path: Path
    server: asyncio.AbstractServer


class Listener(GenServer[Path, SocketPath, None, Listening]):
    """Serves the control socket of this host; started with the runtime folder."""

    trap_exit: ClassVar[bool] = True  # so that `terminate` removes the socket file

    async def init(self, runtime_dir: Path) -> Listening:
        private_folder(runtime_dir)
        path = runtime_dir / f"{SOCKET_PREFIX}{os.getpid()}{SOCKET_SUFFIX}"
        with suppress(OSError):  # what cannot be removed cannot be bound either, which says why
            path.unlink()
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.fchmod(bound.fileno(), 0o600)  # before it has a name: nobody connects in between
            bound.bind(str(path))
            path.chmod(0o600)
            server = await asyncio.get_running_loop().create_unix_server(Connection, sock=bound)
        except BaseException as error:
            bound.close()
            if isinstance(error, OSError):  # the path is longer than a socket's may be, or the folder takes no sockets
                raise UnsafeRuntimeDir(runtime_dir, str(error)) from error
            raise
        return Listening(path, server)

    async def handle_call(self, message: SocketPath, caller: object, state: Listening) -> Reply[Listening]:
        return Reply(str(state.path), state)

    async def handle_info(self, message: object, state: Listening) -> NoReply[Listening]:
        return NoReply(state)

    async def terminate(self, reason: object, state: Listening) -> None:
        state.server.close()
        with suppress(OSError):  # somebody has taken the folder away
            state.path.unlink()


class Connection(asyncio.Protocol):
    """One asker: one line in, one line out. Everything is answered at once, so no task is needed."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if peer_uid(transport) not in (None, os.getuid()):
            self._finish(failure("this host belongs to another user"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        line, end, _ = self._received.partition(b"\n")
        if end:
            self._finish(answer(bytes(line), OPERATIONS))
        elif len(self._received) > REQUEST_BYTES_MAX:
            self._finish(failure(f"a request is at most {REQUEST_BYTES_MAX} bytes"))

    def eof_received(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def _finish(self, line: bytes) -> None:
        assert self._transport is not None
        self._transport.pause_reading()
        self._transport.write(line)
        self._transport.close()


def peer_uid(transport: asyncio.BaseTransport) -> int | None:
    """The user at the other end, where the system tells (Linux); elsewhere the folder's mode is the guard."""
    connection = transport.get_extra_info("socket")
    if connection is None or not hasattr(socket, "SO_PEERCRED"):
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return int(uid)


def private_folder(path: Path) -> None:
    """Make the folder that only this user can enter, or make sure that it is one.

    Raises:
        UnsafeRuntimeDir: It is a link, belongs to somebody else or lets others in.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise UnsafeRuntimeDir(path, str(error)) from error
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafeRuntimeDir(path, "it is not a folder")
    if found.st_uid != os.getuid():
        raise UnsafeRuntimeDir(path, "it belongs to another user")
    if found.st_mode & 0o077:
        path.chmod(0o700)


def _tree(_: Mapping[str, Any]) -> Mapping[str, Any]:
    nodes = introspect.tree()
    return {
        "os_pid": os.getpid(),
        "text": introspect.render(nodes),
        "tree": [introspect.to_json(node) for node in nodes],
    }


def _metrics(_: Mapping[str, Any]) -> Mapping[str, Any]:
    counted = get_env("coding_agent", METRICS)
    if counted is None:
        raise BadUsage("this host counts nothing; start it with --metrics")
    return {"text": counted.exposition()}


OPERATIONS: Mapping[str, Operation] = {"tree": _tree, "metrics": _metrics}
