"""A client of the RPC protocol as other programs write them: a child process, lines in, lines out."""

import itertools
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.flows.hosts import PATIENCE_S, Machine

Message = dict[str, Any]


class RpcClient:
    """Starts a host with `--mode rpc` and talks to it.

    Attributes:
        seen: Every object that came, in order.
    """

    def __init__(self, machine: Machine, *arguments: str, model: str = "scripted/echo") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coding_agent", "--mode", "rpc", "--model", model, *arguments],
            cwd=machine.project, env=machine.env(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.seen: list[Message] = []
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._ids = itertools.count(1)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:  # bytes are split at LF alone
            self._lines.put(line)
        self._lines.put(None)

    # Down.

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def post(self, command: str, /, **fields: Any) -> str:
        """Send a command and do not wait; its id."""
        command_id = f"c{next(self._ids)}"
        self.write(json.dumps({"id": command_id, "type": command, **fields}).encode() + b"\n")
        return command_id

    def ask(self, command: str, /, **fields: Any) -> Any:
        """Send a command, wait for its response, which must be a good one; its data."""
        response = self.response(self.post(command, **fields))
        assert response["success"], response
        assert response["command"] == command
        return response.get("data")

    def refused(self, command: str, /, **fields: Any) -> str:
        """Send a command that must be refused; why it was."""
        response = self.response(self.post(command, **fields))
        assert not response["success"], response
        return str(response["error"])

    def answer(self, question: Message, **fields: Any) -> None:
        """Answer an `extension_ui_request`."""
        self.write(json.dumps({"type": "extension_ui_response", "id": question["id"], **fields}).encode() + b"\n")

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    # Up.

    def response(self, command_id: str) -> Message:
        return self.until(lambda message: message.get("id") == command_id and message["type"] == "response")

    def event(self, event_type: str) -> Message:
        """The next event of this type that has not come yet."""
        return self.until(lambda message: message["type"] == event_type)

    def until(self, fits: Callable[[Message], bool]) -> Message:
        while True:
            message = self.next()
            if fits(message):
                return message

    def next(self) -> Message:
        line = self._lines.get(timeout=PATIENCE_S)
        if line is None:
            raise AssertionError(f"the host has ended: {self.finish()}")
        message: Message = json.loads(line)
        self.seen.append(message)
        return message

    def rest(self) -> list[Message]:
        """Everything that still comes, until the host ends."""
        came = []
        while (line := self._lines.get(timeout=PATIENCE_S)) is not None:
            came.append(json.loads(line))
        self.seen += came
        return came

    def run(self, text: str) -> Message:
        """Prompt and read until the run has settled; its end."""
        self.ask("prompt", message=text)
        end = self.event("agent_end")
        self.event("agent_settled")
        return end

    def finish(self) -> tuple[int, str]:
        """Close the input, wait for the end: exit code and complaints."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.close_input()
        code = self.process.wait(timeout=PATIENCE_S)
        assert self.process.stderr is not None
        return code, self.process.stderr.read().decode()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def text_of(message: Message) -> str:
    """The words of a message."""
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
