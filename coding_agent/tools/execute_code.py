"""Edge. The tool `execute_code`: Python scripts in one process that keeps their variables, with our tools at hand."""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from coding_agent.tools.arguments import optional_flag, optional_number, required_text
from coding_agent.tools.updates import Updates
from coding_agent.tools.workspace import Workspace, workspace_for
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, OnUpdate, ToolError, check_abort, text_result

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from coding_agent.tools.kernel import Ended, Kernel
    from coding_agent.tools.program_output import ProgramOutput

TIMEOUT_MS: Final = 120_000
TIMEOUT_MS_MAX: Final = 600_000
OUTPUT_BYTES: Final = 50_000
HEAD_SHARE: Final = 0.4
CALLS_MAX: Final = 100
RESULT_BYTES_MAX: Final = 5 * 1024 * 1024
WAITING_MAX: Final = 8
SCRIPT_MAX: Final = 200_000

PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "script": {"type": "string", "description": "Python. The value of a last expression is shown."},
        "timeout_ms": {"type": "integer", "description": f"At least 1000; {TIMEOUT_MS} if not given."},
        "reset": {"type": "boolean", "description": "Begin with a new process, without earlier variables."},
    },
    "required": ["script"],
}

DESCRIPTION: Final = (
    "Run a Python script. Variables and imports stay for the next script, until one times out, is aborted or crashes. "
    "Scripts may call read(path), grep(pattern), find(pattern), ls(path) and web_fetch(url), with the options of the "
    "tools by name; they return text and raise ToolFailed. There is no input."
)


def execute_code_tool(cwd: str, **options: Any) -> AgentTool:
    """The tool `execute_code` for a working directory; see `Workspace` for the options. Not among the default tools.

    `python` is the interpreter; `bridge_tools` are those that scripts may call, by default the five of the description;
    `permit`, an async function of a tool's name and arguments, gives the reason why such a call is not permitted.
    """
    python, permit = str(options.pop("python", "python3")), options.pop("permit", None)
    tools = options.pop("bridge_tools", None)
    workspace = workspace_for(cwd, options)
    desk: list[Desk] = []

    async def execute(
        _id: str, params: dict[str, Any], signal: AbortSignal | None = None, on_update: OnUpdate | None = None
    ) -> AgentToolResult:
        check_abort(signal)
        script = required_text(params, "script", "script is required")
        if len(script) > SCRIPT_MAX:
            raise ToolError(f"The script is longer than {SCRIPT_MAX} characters; write it to a file and run that")
        timeout_s = optional_number(params, "timeout_ms", TIMEOUT_MS, least=1000, most=TIMEOUT_MS_MAX) / 1000
        if not desk:
            desk.append(Desk(workspace, python, tools or default_bridge(cwd, workspace), permit))
        return await desk[0].run(script, timeout_s, optional_flag(params, "reset"), signal, on_update)

    return AgentTool(
        name="execute_code",
        label="Python",
        description=DESCRIPTION,
        parameters=PARAMETERS,
        execute=execute,
        main_argument="script",
    )


def default_bridge(cwd: str, workspace: Workspace) -> list[AgentTool]:
    """The tools that scripts may call."""
    from coding_agent.tools.find import find_tool
    from coding_agent.tools.grep import grep_tool
    from coding_agent.tools.ls import ls_tool
    from coding_agent.tools.read import read_tool
    from coding_agent.tools.web_fetch import web_fetch_tool

    return [make(cwd, workspace=workspace) for make in (read_tool, grep_tool, find_tool, ls_tool, web_fetch_tool)]


class Desk:
    """The kernel of one session, its queue, and the bridge to the tools."""

    def __init__(
        self,
        workspace: Workspace,
        python: str,
        tools: "list[AgentTool]",
        permit: "Callable[[str, Mapping[str, Any]], Awaitable[str | None]] | None",
    ) -> None:
        self._workspace = workspace
        self._python = python
        self._tools = {tool.name: tool for tool in tools}
        self._permit = permit
        self._kernel: Kernel | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def run(
        self, script: str, timeout_s: float, reset: bool, signal: AbortSignal | None, on_update: OnUpdate | None
    ) -> AgentToolResult:
        """Run a script when its turn comes, and tell how it ended.

        Raises:
            ToolError: Too many wait already, or Python cannot be started.
        """
        if self._waiting >= WAITING_MAX:
            raise ToolError(f"{WAITING_MAX} scripts are waiting already")
        self._waiting += 1
        try:
            async with self._turn:
                check_abort(signal)
                return await self._run(script, timeout_s, reset, signal, on_update)
        finally:
            self._waiting -= 1

    async def _run(
        self, script: str, timeout_s: float, reset: bool, signal: AbortSignal | None, on_update: OnUpdate | None
    ) -> AgentToolResult:
        from coding_agent.tools.program_output import ProgramOutput
        from lemon_otp import monotonic_s

        kernel = self._kernel or self._new_kernel()
        if reset:
            await kernel.stop()
        fresh = not kernel.running
        output = ProgramOutput(
            lambda: self._workspace.output_file("script-output"), OUTPUT_BYTES, head_share=HEAD_SHARE
        )

        updates = Updates(on_update, output.so_far)

        def take(data: bytes) -> None:
            output.feed(data)
            updates.more()

        bridge = Bridge(self._tools, self._permit, signal)
        began = monotonic_s()
        try:
            ended = await kernel.run(script, take, bridge.call, timeout_s, signal)
        finally:
            updates.close()
            output.close()
        report_run(ended, bridge, monotonic_s() - began)
        return told(ended, output, bridge, timeout_s, fresh)

    def _new_kernel(self) -> "Kernel":
        from coding_agent.tools.keeper import Program
        from coding_agent.tools.kernel import Kernel

        workspace = self._workspace
        program = Program(argv=(self._python,), env=workspace.environment())
        self._kernel = Kernel(lambda: workspace.keeper, program, workspace.root, workspace.keep)
        return self._kernel


class Bridge:
    """Answers the tool calls of one script, a bounded number, of bounded size, each permitted by itself.

    Attributes:
        calls: How many were made.
        denied: How many were refused.
    """

    def __init__(
        self,
        tools: "Mapping[str, AgentTool]",
        permit: "Callable[[str, Mapping[str, Any]], Awaitable[str | None]] | None",
        signal: AbortSignal | None,
    ) -> None:
        self.calls = 0
        self.denied = 0
        self.untrusted = False
        self._size = 0
        self._tools = tools
        self._permit = permit
        self._signal = signal

    async def call(self, name: str, arguments: "Mapping[str, Any]") -> str:
        """What the tool answers, as text.

        Raises:
            ToolError: It may not be called, or failed.
        """
        self.calls += 1
        tool = self._tools.get(name)
        if tool is None:
            raise ToolError(f"there is no tool {name!r} for scripts")
        if self.calls > CALLS_MAX:
            self.denied += 1
            raise ToolError(f"a script may call tools {CALLS_MAX} times")
        reason = None if self._permit is None else await self._permit(name, arguments)
        if reason is not None:
            self.denied += 1
            raise ToolError(reason)
        result = await tool.execute("script", dict(arguments), self._signal, None)
        text = "".join(getattr(block, "text", "") for block in result.content)
        self.untrusted = self.untrusted or result.trust == "untrusted"
        self._size += len(text.encode(errors="replace"))
        if self._size > RESULT_BYTES_MAX:
            self.denied += 1
            raise ToolError(f"the tools' answers to this script are larger than {RESULT_BYTES_MAX} bytes together")
        return text


def report_run(ended: "Ended", bridge: Bridge, taken_s: float) -> None:
    """Telemetry about one script."""
    from lemon_otp import telemetry

    telemetry.execute(
        ("coding_agent", "execute_code", "stop"),
        {"count": 1, "duration_us": int(taken_s * 1e6)},
        {"rpc_calls": bridge.calls, "rpc_denied": bridge.denied, "exit_code": ended.code, "how": ended.how},
    )


def told(ended: "Ended", output: "ProgramOutput", bridge: Bridge, timeout_s: float, fresh: bool) -> AgentToolResult:
    """What the model is told."""
    shown = output.finished()
    notes = [output.note(shown)] if shown.truncated else []
    lost = "Its process was ended; variables of earlier scripts are gone."
    if ended.how == "timeout":
        notes.append(f"The script timed out after {timeout_s:g} seconds. {lost}")
    elif ended.how == "aborted":
        notes.append(f"The script was cancelled. {lost}")
    elif ended.how == "crashed":
        notes.append(f"The Python process ended with code {ended.code}. {lost}")
    text = "\n\n".join(filter(None, [shown.text.rstrip("\n"), *notes])) or "(no output)"
    details: dict[str, Any] = {
        "how": ended.how,
        "exit_code": ended.code,
        "fresh": fresh,
        "truncated": shown.truncated,
        "tool_calls": bridge.calls,
        "tool_calls_denied": bridge.denied,
    }
    if output.path is not None:
        details["full_output_path"] = str(output.path)
    untrusted = bridge.untrusted or output.hidden
    return text_result(text, details, trust="untrusted" if untrusted else "trusted")
