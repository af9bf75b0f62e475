"""Edge. Ask a running host something through its socket. Plain blocking code: the asker needs no event loop."""

import json
import os
import re
import socket
import time
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from coding_agent.control.protocol import SOCKET_PREFIX, SOCKET_SUFFIX
from coding_agent.errors import HostUnreachable
from lemon_otp import repl

ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
SOCKET_NAME: Final = re.compile(rf"{SOCKET_PREFIX}\d{{1,10}}{re.escape(SOCKET_SUFFIX)}")


@frozen
class HostAnswer:
    """What one running host said."""

    os_pid: int
    value: dict[str, Any]


def sockets(runtime_dir: Path) -> list[Path]:
    """The sockets in the runtime folder, newest first; a host that was killed may have left one behind."""
    try:
        found = [path for path in runtime_dir.iterdir() if SOCKET_NAME.fullmatch(path.name) and path.is_socket()]
        return sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)
    except OSError:
        return []


def ask(path: Path, request: dict[str, Any], *, timeout_s: float = 5.0) -> dict[str, Any]:
    """Send one request and wait for its answer.

    Raises:
        HostUnreachable: Nobody listens there, it belongs to another user, the host did not answer in time, or it
            refused the request.
    """
    until_s = time.monotonic() + timeout_s
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(path))
            if repl.peer_uid(connection) not in (None, os.getuid()):
                raise HostUnreachable(f"the host behind {path} belongs to another user")
            connection.sendall(repl.encode(request))
            connection.shutdown(socket.SHUT_WR)
            answer = json.loads(_everything(connection, until_s))
    except TimeoutError as error:
        raise HostUnreachable(f"the host behind {path} did not answer within {timeout_s:g} s") from error
    except (OSError, ValueError, RecursionError) as error:
        raise HostUnreachable(f"no host answers at {path}: {error}") from error
    if not isinstance(answer, dict):
        raise HostUnreachable(f"whoever listens at {path} is no host")
    if not answer.get("ok"):
        raise HostUnreachable(f"the host behind {path} refused: {answer.get('error')}")
    return answer


def _everything(connection: socket.socket, until_s: float) -> bytes:
    """What is said until the other side has said all. Raises TimeoutError, and ValueError for too much."""
    found = bytearray()
    while True:
        connection.settimeout(max(0.001, until_s - time.monotonic()))
        data = connection.recv(1 << 16)
        if not data:
            return bytes(found)
        found += data
        if len(found) > ANSWER_BYTES_MAX:
            raise ValueError("it does not come to an end")


def ask_all(runtime_dir: Path, request: dict[str, Any], *, timeout_s: float = 5.0) -> list[HostAnswer]:
    """Ask every host that runs; a socket nobody listens at is passed over."""
    answers = []
    for path in sockets(runtime_dir):
        try:
            value = ask(path, request, timeout_s=timeout_s)
        except HostUnreachable:
            continue
        answers.append(HostAnswer(os_pid_of(path), value))
    return answers


def os_pid_of(path: Path) -> int:
    """The process id of the host behind a socket."""
    return int(path.name[len(SOCKET_PREFIX) : -len(SOCKET_SUFFIX)])
