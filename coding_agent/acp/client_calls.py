"""Edge. What an agent may ask its client about one session: files as the editor has them, terminals, permission."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import define, frozen

from coding_agent.acp.wire import Refused, Wire

FILE_S: Final = 60.0
"""How long an editor may take to read or write a file."""


@frozen
class Capabilities:
    """What the client said it can do; what it did not say is never asked of it."""

    read_files: bool = False
    write_files: bool = False
    terminals: bool = False
    forms: bool = False
    pages: bool = False
    terminal_login: bool = False
    switches: bool = False

    @classmethod
    def of(cls, told: Any) -> "Capabilities":
        """From the `clientCapabilities` of `initialize`, which may be missing."""
        return cls(
            read_files=bool(_at(told, "fs", "read_text_file")),
            write_files=bool(_at(told, "fs", "write_text_file")),
            terminals=bool(_at(told, "terminal")),
            forms=_at(told, "elicitation", "form") is not None,
            pages=_at(told, "elicitation", "url") is not None,
            switches=_at(told, "session", "config_options", "boolean") is not None,
            terminal_login=bool(_at(told, "auth", "terminal")),
        )


def _at(told: Any, *names: str) -> Any:
    """What stands under these names; None where one of them is missing."""
    for name in names:
        told = getattr(told, name, None)
    return told


@define(eq=False)
class ClientCalls:
    """Requests to the client about one session. Each raises `wire.Refused` when the client answers with an error.

    Attributes:
        session_id: Known once the session is open.
    """

    wire: Wire
    session_id: str = ""

    def update(self, update: Mapping[str, Any]) -> None:
        """Tell the client what happened."""
        self.wire.notify("session/update", {"sessionId": self.session_id, "update": update})

    async def permission(self, tool_call: Mapping[str, Any], options: Sequence[Mapping[str, str]]) -> str | None:
        """The id of the option a person took; None when they took none."""
        answer = await self._ask("session/request_permission", toolCall=tool_call, options=options)
        outcome = answer.get("outcome")
        if not isinstance(outcome, Mapping) or outcome.get("outcome") != "selected":
            return None
        chosen = outcome.get("optionId")
        return chosen if isinstance(chosen, str) else None

    async def elicit(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a person does with a form or a page: `action`, and `content` of an accepted form."""
        return await self._ask("elicitation/create", **asked)

    async def read_file(self, path: str, *, line: int | None = None, limit: int | None = None) -> str:
        """A file as the editor has it, unsaved changes included."""
        bounds = {name: value for name, value in (("line", line), ("limit", limit)) if value is not None}
        async with asyncio.timeout(FILE_S):
            answer = await self._ask("fs/read_text_file", path=path, **bounds)
        content = answer.get("content")
        if not isinstance(content, str):
            raise Refused(0, "the editor answers with no text")
        return content

    async def write_file(self, path: str, content: str) -> None:
        """Have the editor write a file."""
        async with asyncio.timeout(FILE_S):
            await self._ask("fs/write_text_file", path=path, content=content)

    async def create_terminal(
        self, command: str, args: Sequence[str], env: Mapping[str, str], cwd: str, byte_limit: int
    ) -> str:
        """Start a program in a terminal of the client's; its id. It must be released."""
        params = {
            "sessionId": self.session_id,
            "command": command,
            "args": list(args),
            "env": [{"name": name, "value": value} for name, value in env.items()],
            "cwd": cwd,
            "outputByteLimit": byte_limit,
        }

        def unwanted(answer: Mapping[str, Any]) -> None:
            """It was made all the same, after we had given up waiting."""
            self.give_up_terminal(str(answer.get("terminalId", "")))

        answer = await self.wire.send_request("terminal/create", params, late=unwanted)
        terminal = answer.get("terminalId") if isinstance(answer, Mapping) else None
        if not isinstance(terminal, str) or not terminal:
            raise Refused(0, "the editor names no terminal")
        return terminal

    async def terminal_output(self, terminal: str) -> tuple[str, bool]:
        """What a terminal's program printed, and whether some of it was left out."""
        answer = await self._ask("terminal/output", terminalId=terminal)
        return str(answer.get("output", "")), answer.get("truncated") is True

    async def wait_for_exit(self, terminal: str) -> tuple[int | None, str | None]:
        """The exit code and the signal of a terminal's program, once it has ended."""
        answer = await self._ask("terminal/wait_for_exit", terminalId=terminal)
        code, signal = answer.get("exitCode"), answer.get("signal")
        return (code if isinstance(code, int) else None), (signal if isinstance(signal, str) else None)

    async def kill_terminal(self, terminal: str) -> None:
        """End a terminal's program; the terminal stays until it is released."""
        await self._ask("terminal/kill", terminalId=terminal)

    async def release_terminal(self, terminal: str) -> None:
        """Give a terminal up, whatever runs in it."""
        await self._ask("terminal/release", terminalId=terminal)

    def give_up_terminal(self, terminal: str) -> None:
        """End and release a terminal without waiting for the answers."""
        for method in ("terminal/kill", "terminal/release"):
            self.wire.post(method, {"sessionId": self.session_id, "terminalId": terminal})

    async def _ask(self, method: str, **params: Any) -> Mapping[str, Any]:
        answer = await self.wire.send_request(method, {"sessionId": self.session_id, **params})
        return answer if isinstance(answer, Mapping) else {}
