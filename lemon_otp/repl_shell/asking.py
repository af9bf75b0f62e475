"""Edge. The other end of a control socket: plain blocking code, which needs no event loop."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from lemon_otp.introspect import printable
from lemon_otp.repl.private_socket import peer_uid
from lemon_otp.repl.wire import VERSION, encode

ASK_S: Final = 5.0
AGAIN_S: Final = 0.02
"""Between two tries to connect to a host that is connected to by many others right now."""
GREETING_BYTES_MAX: Final = 64 * 1024
LINE_BYTES_MAX: Final = 256 * 1024 * 1024
"""No host says longer lines; whoever does is none."""


class Unreachable(Exception):
    """Nobody answers there as expected; the text says what is wrong and what to do.

    Attributes:
        code: The same for programs: "dead", "no_answer", "wrong_owner", "version_skew" or "not_a_host".
    """

    def __init__(self, text: str, code: str) -> None:
        super().__init__(printable(text))  # it may hold what the other side said
        self.code = code


class Asker:
    """A connection to a running tree that lasts for many questions.

    Args:
        path: The socket.
        timeout_s: How long an answer may take.

    Raises:
        Unreachable: Nobody listens, it belongs to another user, or it speaks another version.
    """

    def __init__(self, path: Path, *, timeout_s: float = ASK_S) -> None:
        self.path = path
        self.timeout_s = timeout_s
        self.socket = _connected(path, timeout_s)
        self._received = bytearray()
        self._numbers = 0
        self._early: dict[int, list[dict[str, Any]]] = {}
        try:
            self.hello = self._greet()
        except BaseException:
            self.close()
            raise

    def _greet(self) -> dict[str, Any]:
        with suppress(Unreachable):  # one that refuses us may have gone already: it has said why
            self._send({"op": "hello", "version": VERSION})
        hello = self._line(self.timeout_s, GREETING_BYTES_MAX)
        if hello is None:
            raise Unreachable(f"whoever listens at {self.path} is no host: it said nothing", "not_a_host")
        if hello.get("ok"):
            return hello
        if hello.get("code") == "version_skew":
            theirs = hello.get("version")
            text = f"the host behind {self.path} speaks version {theirs} of the protocol, this program {VERSION}"
            raise Unreachable(f"{text}; use the program that the host was started with", "version_skew")
        if "unknown operation" in str(hello.get("error")):
            text = f"the host behind {self.path} is of an older version, which can only be asked for its tree"
            raise Unreachable(f"{text}; start it anew, or use the program that it was started with", "version_skew")
        raise Unreachable(f"the host behind {self.path} refused: {hello.get('error')}", str(hello.get("code")))

    def ask(self, op: str, *, timeout_s: float | None = None, **parameters: Any) -> dict[str, Any]:
        """The answer to one question, whether it is good or bad.

        Raises:
            Unreachable: The host ended, or does not answer in time.
        """
        number = self._ask(op, parameters)
        return self._answer(number, self.timeout_s if timeout_s is None else timeout_s)

    def follow(self, op: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """The events of a feed as they come, until it ends; leaving the loop cancels it.

        Raises:
            Unreachable: The host ended.
        """
        number = self._ask(op, parameters)
        try:
            while True:
                answer = self._answer(number, None)
                yield answer
                if answer.get("end") or not answer.get("ok"):
                    number = 0
                    return
        finally:
            if number:
                with suppress(Unreachable):
                    self._send({"op": "cancel", "id": number})
                    while not self._answer(number, self.timeout_s).get("end"):
                        pass

    def close(self) -> None:
        """Leave."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def _ask(self, op: str, parameters: Mapping[str, Any]) -> int:
        self._numbers += 1
        self._send({"id": self._numbers, "op": op, **parameters})
        return self._numbers

    def _send(self, request: Mapping[str, Any]) -> None:
        try:
            self.socket.settimeout(self.timeout_s)
            self.socket.sendall(encode(request))
        except OSError as error:
            raise Unreachable(f"the host behind {self.path} has ended", "dead") from error

    def _answer(self, number: int, timeout_s: float | None) -> dict[str, Any]:
        early = self._early.get(number)
        if early:
            return early.pop(0)
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            answer = self._line(None if deadline_s is None else max(0.001, deadline_s - time.monotonic()))
            if answer is None:
                raise Unreachable(f"the host behind {self.path} has ended", "dead")
            if answer.get("id") == number:
                return answer
            other = answer.get("id")
            if isinstance(other, int):
                self._early.setdefault(other, []).append(answer)

    def _line(self, timeout_s: float | None, length_max: int = LINE_BYTES_MAX) -> dict[str, Any] | None:
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        looked_at = 0
        while (end := self._received.find(b"\n", looked_at)) < 0:
            looked_at = len(self._received)
            if looked_at > length_max:
                raise Unreachable(f"whoever listens at {self.path} is no host", "not_a_host")
            try:
                self.socket.settimeout(None if until_s is None else max(0.001, until_s - time.monotonic()))
                data = self.socket.recv(1 << 16)
            except TimeoutError as error:
                text = f"the host behind {self.path} did not answer within {timeout_s:g} s"
                raise Unreachable(text, "no_answer") from error
            except OSError:
                data = b""
            if not data:
                return None
            self._received += data
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise Unreachable(f"whoever listens at {self.path} is no host", "not_a_host") from error
        if not isinstance(answer, dict):
            raise Unreachable(f"whoever listens at {self.path} is no host", "not_a_host")
        return answer


def _connected(path: Path, timeout_s: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        _connect(connection, path, time.monotonic() + timeout_s)
    except PermissionError as error:
        connection.close()
        raise Unreachable(f"{path} belongs to another user", "wrong_owner") from error
    except (OSError, ValueError) as error:
        connection.close()
        raise Unreachable(f"no host answers at {path}: {error}", "dead") from error
    if peer_uid(connection) not in (None, os.getuid()):
        connection.close()
        raise Unreachable(f"the host behind {path} belongs to another user", "wrong_owner")
    return connection


def _connect(connection: socket.socket, path: Path, until_s: float) -> None:
    """Connect; wait for room while more connect than the host has accepted yet."""
    while True:
        try:
            connection.connect(str(path))
            return
        except BlockingIOError:
            if time.monotonic() > until_s:
                raise
        time.sleep(AGAIN_S)
