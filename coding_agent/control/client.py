"""Ask a running host something through its socket. Plain blocking code: the asker needs no event loop."""

import json
import socket
from pathlib import Path
from typing import Any

from attrs import frozen

from coding_agent.control.protocol import SOCKET_PREFIX, SOCKET_SUFFIX
from coding_agent.errors import HostUnreachable
from lemon_otp import repl


@frozen
class HostAnswer:
    """What one running host said."""

    os_pid: int
    value: dict[str, Any]


def sockets(runtime_dir: Path) -> list[Path]:
    """The sockets in the runtime folder, newest first; a host that was killed may have left one behind."""
    try:
        found = [path for path in runtime_dir.iterdir() if path.name.startswith(SOCKET_PREFIX) and path.is_socket()]
        return sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)
    except OSError:
        return []


def ask(path: Path, request: dict[str, Any], *, timeout_s: float = 5.0) -> dict[str, Any]:
    """Send one request and wait for its answer.

    Raises:
        HostUnreachable: Nobody listens there, the host did not answer in time, or it refused the request.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(path))
            connection.sendall(repl.encode(request))
            connection.shutdown(socket.SHUT_WR)
            answer = json.loads(b"".join(iter(lambda: connection.recv(1 << 16), b"")))
    except TimeoutError as error:
        raise HostUnreachable(f"the host behind {path} did not answer within {timeout_s:g} s") from error
    except (OSError, ValueError) as error:
        raise HostUnreachable(f"no host answers at {path}: {error}") from error
    if not answer.get("ok"):
        raise HostUnreachable(f"the host behind {path} refused: {answer.get('error')}")
    return dict(answer)


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
