"""A host that serves, as a real program, and clients of it on its real socket."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field

from coding_agent.control.client import sockets
from tests.flows.hosts import PATIENCE_S, Machine


@define
class Client:
    """A client that speaks lines. What it has read and not used yet is kept in order."""

    connection: socket.socket
    greeting: dict[str, Any] = field(factory=dict)
    seen: list[dict[str, Any]] = field(factory=list)
    _file: Any = None

    @classmethod
    def to(cls, path: Path, **request: Any) -> "Client":
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(PATIENCE_S)
        connection.connect(str(path))
        client = cls(connection)
        client._file = connection.makefile("rb")
        client.send({"op": "rpc", "rpcDeltas": True, **request})
        client.greeting = client.read()
        return client

    def send(self, message: dict[str, Any]) -> None:
        self.connection.sendall(json.dumps(message).encode() + b"\n")

    def read(self) -> dict[str, Any]:
        line = self._file.readline()
        if not line:
            raise EOFError("the host closed the connection")
        return json.loads(line)

    def until(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read until such an object comes; everything read is in `seen`."""
        while True:
            self.seen.append(self.read())
            if fits(self.seen[-1]):
                return self.seen[-1]

    def event(self, kind: str) -> dict[str, Any]:
        return self.until(lambda message: message.get("type") == kind)

    def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The response to a command."""
        number = f"t{len(self.seen)}-{kind}"
        self.send({"type": kind, "id": number, **fields})
        return self.until(lambda message: message.get("type") == "response" and message.get("id") == number)

    def prompt(self, text: str) -> None:
        assert self.ask("prompt", message=text)["success"]

    def answer(self) -> str:
        """Read to the end of the run; what was said last."""
        self.event("agent_settled")
        return self.ask("get_last_assistant_text")["data"]["text"]

    def close(self) -> None:
        self._file.close()
        self.connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@define
class Served:
    """A machine on which a host serves."""

    machine: Machine
    process: "subprocess.Popen[str]"
    socket: Path

    @property
    def os_pid(self) -> int:
        return self.process.pid

    def client(self, **request: Any) -> Client:
        return Client.to(self.socket, **request)

    def live(self) -> list[dict[str, Any]]:
        """The sessions of the host, as `sessions live --json` has them."""
        done = self.machine.run("sessions", "live", "--json")
        return [session for host in json.loads(done.stdout)["hosts"] for session in host["sessions"]]

    def attach(self, *arguments: str, **streams: Any) -> "subprocess.Popen[bytes]":
        """A program on a session: `attach ... --mode rpc`."""
        return subprocess.Popen(
            [sys.executable, "-m", "coding_agent", "attach", "--mode", "rpc", "--rpc-deltas", *arguments],
            cwd=self.machine.project, env=self.machine.env(),
            **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
        )  # fmt: skip


@contextmanager
def served(machine: Machine, *arguments: str) -> Iterator[Served]:
    """Start `serve` in the foreground and wait until clients may come; it is killed in the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "coding_agent", "serve", "--model", "scripted/echo", *arguments],
        cwd=machine.project, env=machine.env(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if line.startswith("serving "):
                break
        else:
            raise AssertionError(f"it did not serve: {process.wait(PATIENCE_S)}")
        (path,) = sockets(machine.runtime_dir)
        yield Served(machine, process, path)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE_S)
        process.stderr.close()


ASKING = '@text I ask.\n@tool bash {"command": "printf done > made.txt"}\n@turn\n@text It was done.'
"""A prompt whose one tool call needs a yes."""


def sleeping(marker: str) -> str:
    """A prompt whose one tool call lasts; the marker tells its processes from all others."""
    return f'@text Waiting.\n@tool bash {{"command": "exec -a {marker} sleep 600"}}\n@turn\n@text Never said.'
