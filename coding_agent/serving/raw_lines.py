"""Edge. `attach --mode rpc`: lines of standard input to a host and its lines to standard output, as they are.

Neither side is parsed. When input ends the host is told, answers what was asked, and closes; when nobody reads the
output this ends without a word; when the host goes this ends with an error.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from coding_agent.errors import HostUnreachable

_PIECE: Final = 1 << 16
_GREETING_MAX: Final = 1 << 20


def pump(path: Path, request: Mapping[str, Any], *, incoming: int = 0, outgoing: int = 1) -> int:
    """Be a client until input has ended and everything was answered; 0 then, 1 when the host went first.

    Args:
        path: The host's socket.
        request: Which session, as the operation `rpc` takes it.
        incoming: Descriptor of the lines to send.
        outgoing: Descriptor for the lines that come.

    Raises:
        HostUnreachable: Nobody listens there, or the host refused.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(path))
            connection.sendall(json.dumps({**request, "op": "rpc"}).encode() + b"\n")
            rest = _greeting(connection, path)
        except OSError as error:
            raise HostUnreachable(f"no host answers at {path}: {error.strerror or error}") from error
        ended = threading.Event()
        threading.Thread(target=_send, args=(incoming, connection, ended), name="attach input", daemon=True).start()
        try:
            _write(outgoing, rest)
            while data := connection.recv(_PIECE):
                _write(outgoing, data)
        except BrokenPipeError:
            return 0  # nobody reads any more
        except OSError:
            pass  # the host was killed
        if ended.is_set():
            return 0
        print("error: the host has ended", file=sys.stderr)
        return 1


def _greeting(connection: socket.socket, path: Path) -> bytes:
    received = bytearray()
    while b"\n" not in received:
        data = connection.recv(_PIECE)
        if not data or len(received) > _GREETING_MAX:
            raise HostUnreachable(f"the host behind {path} has closed the connection")
        received += data
    line, _, rest = bytes(received).partition(b"\n")
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or not answer.get("ok"):
        said = answer.get("error") if isinstance(answer, dict) else None
        raise HostUnreachable(str(said or f"the host behind {path} does not say who it is"))
    return rest


def _send(incoming: int, connection: socket.socket, ended: threading.Event) -> None:
    with suppress(OSError):
        while data := os.read(incoming, _PIECE):
            connection.sendall(data)
        ended.set()
        connection.shutdown(socket.SHUT_WR)


def _write(outgoing: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(outgoing, rest) :]
