"""Edge. The tool `bash` in a terminal of the client's, where the person can see it run.

The terminal is released however the call ends: done, too late, aborted, or killed with its process.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from attrs import frozen

from coding_agent.acp.client_calls import ClientCalls
from coding_agent.acp.through_client import Call, through_client
from coding_agent.acp.wire import Refused
from coding_agent.tools import Workspace
from coding_agent.tools.aborting import unless_aborted
from coding_agent.tools.arguments import optional_flag, required_text
from coding_agent.tools.bash import LONGEST_ARGUMENT, TIMEOUT_MS, exit_note, timeout_of
from coding_agent.tools.environment import QUIET
from coding_agent.tools.truncate import MAX_BYTES
from coding_agent.tools.visible_text import plain, reveal
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, ToolError, is_aborted, text_result

START_S: Final = 60.0
CLEAN_UP_S: Final = 10.0
"""How long the client is given for each step of an end."""

Announced = Callable[[str], Awaitable[None]]
"""Returns once the client knows of a call."""


@frozen(eq=False)
class ClientTerminal:
    """Runs the commands of one session.

    Attributes:
        announced: Waited for before a terminal is shown with a call.
    """

    calls: ClientCalls
    workspace: Workspace
    announced: Announced

    def running(self, tool: AgentTool) -> AgentTool:
        """`bash` in a terminal; `tool` is the one that runs programs itself, as it still does on a `pty`."""

        async def run(call: Call) -> AgentToolResult | None:
            if is_aborted(call.signal):
                return text_result("Command cancelled.")
            command = required_text(call.params, "command", "Command is required")
            if optional_flag(call.params, "pty") or len(command) > LONGEST_ARGUMENT // 4:
                return None
            return await self._run(call.id, command, timeout_of(call.params, TIMEOUT_MS), call.signal)

        return through_client(tool, run)

    async def _run(self, call_id: str, command: str, timeout_s: float, signal: AbortSignal | None) -> AgentToolResult:
        try:
            asked = self.calls.create_terminal("bash", ["-c", command], QUIET, self.workspace.root, MAX_BYTES)
            async with asyncio.timeout(START_S):
                terminal = await unless_aborted(asked, signal)
        except (Refused, TimeoutError) as error:
            raise ToolError(f"The command could not be started: {error or 'the editor does not answer'}") from error
        released = False
        try:
            await self.announced(call_id)
            shown = [{"type": "terminal", "terminalId": terminal}]
            self.calls.update({"sessionUpdate": "tool_call_update", "toolCallId": call_id, "content": shown})
            how, code, name = await self._until_ended(terminal, timeout_s, signal)
            output, truncated = await self._output(terminal)
            released = True
            await self._quietly(self.calls.release_terminal(terminal))
        finally:
            if not released:  # this process is being ended and cannot wait for answers any more
                self.calls.give_up_terminal(terminal)
        return _result(terminal, output, truncated, how, code, name, timeout_s)

    async def _until_ended(
        self, terminal: str, timeout_s: float, signal: AbortSignal | None
    ) -> tuple[str, int | None, str | None]:
        try:
            async with asyncio.timeout(timeout_s):
                code, name = await unless_aborted(self.calls.wait_for_exit(terminal), signal)
            return "exited", code, name
        except TimeoutError:
            how = "timeout"
        except ToolError:
            how = "aborted"
        except Refused as error:
            raise ToolError(f"The terminal is gone: {error}") from error
        await self._quietly(self.calls.kill_terminal(terminal))
        return how, None, None

    async def _output(self, terminal: str) -> tuple[str, bool]:
        try:
            async with asyncio.timeout(CLEAN_UP_S):
                return await self.calls.terminal_output(terminal)
        except (Refused, TimeoutError):
            return "", False

    async def _quietly(self, asked: Awaitable[None]) -> None:
        with suppress(Refused, TimeoutError, ConnectionError):
            async with asyncio.timeout(CLEAN_UP_S):
                await asked


def _result(
    terminal: str, output: str, truncated: bool, how: str, code: int | None, name: str | None, timeout_s: float
) -> AgentToolResult:
    """What the model is told, in the words of the tool that runs programs itself."""
    text, hidden = reveal(plain(output))
    notes = ["[The beginning of the output was left out.]"] if truncated else []
    if how == "exited" and (code or name):
        notes.append(f"Command was ended by {name}" if name else exit_note(code or 0))
    elif how == "timeout":
        notes.append(f"Command timed out after {timeout_s:g} seconds and was stopped.")
    parts = [*(["Command cancelled."] if how == "aborted" else []), text.rstrip("\n"), *notes]
    details = {
        "exit_code": code,
        "truncated": truncated,
        "timed_out": how == "timeout",
        "cancelled": how == "aborted",
        "background": False,
        "terminal_id": terminal,
    }
    shown = "\n\n".join(filter(None, parts)) or "(no output)"
    return text_result(shown, details, trust="untrusted" if hidden else "trusted")
