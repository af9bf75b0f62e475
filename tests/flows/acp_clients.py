"""The protocol library's own client with a real child process, and an editor behind it: buffers, terminals, a person.

Every message the agent sends is kept and checked against the protocol's schema.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
from acp import schema, spawn_agent_process, text_block
from acp.connection import StreamDirection, StreamEvent
from jsonschema import Draft202012Validator

from tests.coding_agent.tools.support import started
from tests.flows.hosts import ROOT, Machine

SCHEMA = json.loads((ROOT / ".." / "shared" / "samples" / "acp" / "v1" / "schema.json").resolve().read_text())
PATIENCE_S = 30.0
ALL = schema.ClientCapabilities(
    fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
)
NOTHING = schema.ClientCapabilities()


class Checker:
    """Checks what an agent sends against the schema, message by message."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._asked: dict[Any, str] = {}
        self._validators: dict[str, Draft202012Validator] = {}
        self._checked: set[str] = set()

    def see(self, event: StreamEvent) -> None:
        message = event.message
        if event.direction is StreamDirection.OUTGOING:
            if "method" in message and "id" in message:
                self._asked[message["id"]] = message["method"]
            return
        self.messages.append(message)

    def check(self) -> None:
        """Each of them fits; anything else raises with the message."""
        for message in self.messages:
            assert message["jsonrpc"] == "2.0"
            if "method" in message:
                self._fits(
                    _definition(message["method"], "Request" if "id" in message else "Notification"), message["params"]
                )
            elif "result" in message:
                method = self._asked[message["id"]]
                if not method.startswith("_"):
                    self._fits(_definition(method, "Response"), message["result"])
            else:
                self._fits("Error", message["error"])

    def _fits(self, definition: str, value: Any) -> None:
        shape = definition + json.dumps(value, default=str)
        if value.get("update", {}).get("sessionUpdate", "").endswith("_chunk"):  # one like the other, but for the text
            shape = definition + str(value["update"]["sessionUpdate"]) + str(sorted(value["update"]["content"]))
            assert all(isinstance(each, str) for each in value["update"]["content"].values())
        if shape in self._checked:
            return
        self._checked.add(shape)
        if definition not in self._validators:
            whole = {"$ref": f"#/$defs/{definition}", "$defs": SCHEMA["$defs"]}
            self._validators[definition] = Draft202012Validator(whole)
        errors = [error.message for error in self._validators[definition].iter_errors(value)]
        assert not errors, (definition, value, errors[:3])

    def updates(self, kind: str | None = None) -> list[dict[str, Any]]:
        found = [m["params"]["update"] for m in self.messages if m.get("method") == "session/update"]
        return [update for update in found if kind is None or update["sessionUpdate"] == kind]


def _definition(method: str, ending: str) -> str:
    for name, definition in SCHEMA["$defs"].items():
        if definition.get("x-method") == method and name.endswith(ending):
            return name
    raise AssertionError(f"the schema has no {ending} for {method}")


class Terminal:
    """A program in a terminal of the editor's."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.output = b""
        self.reading = started(self._read())
        self.killed = False

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while data := await self.process.stdout.read(65536):
            self.output += data


class Editor(acp.Client):
    """What a person sees and does.

    Attributes:
        answers: How permission questions are answered, in order: a kind of option, or None to wait until cancelled.
        buffers: Files as they are in the editor, saved or not.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[Any, list[Any]]] = []
        self.answers: list[str | None] = []
        self.buffers: dict[str, str] = {}
        self.reads: list[str] = []
        self.terminals: dict[str, Terminal] = {}
        self.steps: list[str] = []
        self.cancelled = asyncio.Event()
        self.waiting = asyncio.Event()
        self.seen: list[Any] = []
        self._changed = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_more: Any) -> None:
        self.seen.append(update)
        self._changed.set()

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until an update makes it true."""
        async with asyncio.timeout(PATIENCE_S):
            while not (found := condition()):
                self._changed.clear()
                await self._changed.wait()
        return found

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_more: Any) -> Any:
        self.asked.append((tool_call, options))
        kind = self.answers.pop(0) if self.answers else "allow_once"
        if kind is None:
            self.waiting.set()
            await self.cancelled.wait()
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        option = next(each for each in options if each.kind == kind)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(
        self, session_id: str, path: str, line: Any = None, limit: Any = None, **_more: Any
    ) -> Any:
        self.reads.append(path)
        if path in self.buffers:
            return schema.ReadTextFileResponse(content=self.buffers[path])
        if not Path(path).exists():
            raise acp.RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content=Path(path).read_text())

    async def write_text_file(self, session_id: str, path: str, content: str, **_more: Any) -> Any:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(content)
        self.buffers[path] = content
        return schema.WriteTextFileResponse()

    async def create_terminal(
        self, session_id: str, command: str, args: Any = None, env: Any = None, cwd: Any = None,
        output_byte_limit: Any = None, **_more: Any,
    ) -> Any:  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            command, *(args or []), cwd=cwd, env={**os.environ, **{each.name: each.value for each in env or []}},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        name = f"t{len(self.terminals)}"
        self.terminals[name] = Terminal(process)
        self.steps.append("create")
        return schema.CreateTerminalResponse(terminal_id=name)

    async def terminal_output(self, session_id: str, terminal_id: str, **_more: Any) -> Any:
        self.steps.append("output")
        return schema.TerminalOutputResponse(output=self.terminals[terminal_id].output.decode(), truncated=False)

    async def wait_for_terminal_exit(self, session_id: str, terminal_id: str, **_more: Any) -> Any:
        terminal = self.terminals[terminal_id]
        code = await terminal.process.wait()
        await terminal.reading
        return schema.WaitForTerminalExitResponse(
            exit_code=code if code >= 0 else None, signal=None if code >= 0 else "KILL"
        )

    async def kill_terminal(self, session_id: str, terminal_id: str, **_more: Any) -> Any:
        self.steps.append("kill")
        os.killpg(self.terminals[terminal_id].process.pid, 9)
        return schema.KillTerminalResponse()

    async def release_terminal(self, session_id: str, terminal_id: str, **_more: Any) -> Any:
        self.steps.append("release")
        return schema.ReleaseTerminalResponse()

    def text(self) -> str:
        chunks = [update for update in self.seen if isinstance(update, schema.AgentMessageChunk)]
        return "".join(chunk.content.text for chunk in chunks)


class Acp:
    """An editor connected with an agent."""

    def __init__(self, editor: Editor, connection: Any, process: Any, checker: Checker) -> None:
        self.editor = editor
        self.connection = connection
        self.process = process
        self.checker = checker
        self.session_id = ""

    async def open(self, cwd: Path, can: Any = ALL, **more: Any) -> Any:
        """Shake hands and begin a session."""
        await self.connection.initialize(protocol_version=1, client_capabilities=can)
        session = await self.connection.new_session(cwd=str(cwd), mcp_servers=more.pop("mcp_servers", []), **more)
        self.session_id = session.session_id
        return session

    async def prompt(self, text: str) -> str:
        """Prompt and wait; why it stopped."""
        async with asyncio.timeout(PATIENCE_S):
            answer = await self.connection.prompt(session_id=self.session_id, prompt=[text_block(text)])
        return str(answer.stop_reason)


@asynccontextmanager
async def connected(machine: Machine, *arguments: str, model: str = "scripted/echo") -> AsyncIterator[Acp]:
    """An agent as a real child, with the library's client; at the end every message was checked and it has ended."""
    editor, checker = Editor(), Checker()
    with open(machine.home / "stderr", "wb") as errors:
        async with spawn_agent_process(
            lambda _agent: editor,
            sys.executable, "-m", "coding_agent", "acp", "--model", model, *arguments,
            env=machine.env(), cwd=machine.project, use_unstable_protocol=True,
            transport_kwargs={"stderr": errors, "limit": 1 << 26, "shutdown_timeout": 20.0}, observers=[checker.see],
        ) as (connection, process):  # fmt: skip
            yield Acp(editor, connection, process, checker)
        checker.check()
        assert process.returncode == 0, (machine.home / "stderr").read_text()
