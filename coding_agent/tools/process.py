"""Edge. The tool `process`: programs in the background, each a supervised process of ours with an owner."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from coding_agent.tools.arguments import optional_flag, optional_number, optional_text, required_text
from coding_agent.tools.bash import program_for
from coding_agent.tools.todo import runs
from coding_agent.tools.workspace import Workspace, workspace_for
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, OnUpdate, ToolError, check_abort, text_result

if TYPE_CHECKING:
    from coding_agent.tools.background_program import Info
    from lemon_otp import Pid

ACTIONS: Final = ("start", "list", "poll", "logs", "write", "kill", "restart", "clear")
RUNNING_MAX: Final = 16
KNOWN_MAX: Final = 64
LINES_MAX: Final = 1_000
WAIT_S: Final = 0.3
"""How long a start waits for the first output, or for the news that it failed at once."""

PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": list(ACTIONS)},
        "command": {"type": "string", "description": "With start: the command, for bash."},
        "id": {"type": "string", "description": "With poll, logs, write, kill, restart: which one, as start named it."},
        "lines": {"type": "integer", "description": "With poll and logs: how many of the last lines; 100, or all."},
        "input": {"type": "string", "description": "With write: what to feed its standard input; add line ends."},
        "end": {"type": "boolean", "description": "With write: end its input afterwards."},
        "signal": {"type": "string", "enum": ["sigterm", "sigkill", "sigint"], "description": "With kill."},
        "timeout": {"type": "integer", "description": "With start: seconds after which it is killed."},
        "pty": {"type": "boolean", "description": "With start: run it on a pseudo terminal."},
    },
    "required": ["action"],
}

DESCRIPTION: Final = (
    "Run programs in the background, such as servers and watchers: start one, poll its status and last output, read "
    "all its logs, write to its input, kill or restart it, list all, clear those that ended. They end with the session."
)


def process_tool(cwd: str, **options: Any) -> AgentTool:
    """The tool `process` for a working directory; see `Workspace` for the options.

    `owner` is the pid of the process whose end ends the programs, or a function that gives it; by default the session
    that the workspace has joined.
    """
    owner = options.pop("owner", None)
    shell = str(options.pop("shell", "bash"))
    workspace = workspace_for(cwd, options)
    desk = Desk(workspace, shell, owner)

    async def execute(
        _id: str, params: dict[str, Any], signal: AbortSignal | None = None, _on_update: OnUpdate | None = None
    ) -> AgentToolResult:
        check_abort(signal)
        action = required_text(params, "action", "action is required")
        if action not in ACTIONS:
            raise ToolError(f"action must be one of {', '.join(ACTIONS)}")
        return await desk.actions[action](params)

    return AgentTool(
        name="process",
        label="Process",
        description=DESCRIPTION,
        parameters=PARAMETERS,
        execute=execute,
        main_argument="command",
    )


class Desk:
    """The programs of one session, by id."""

    def __init__(self, workspace: Workspace, shell: str, owner: Any) -> None:
        self._workspace = workspace
        self._shell = shell
        self._owner = owner
        self._programs: dict[str, Pid] = {}
        self.actions: dict[str, Callable[[dict[str, Any]], Awaitable[AgentToolResult]]] = {
            "start": self._begin,
            "list": self._list,
            "poll": self._poll,
            "logs": self._logs,
            "write": self._write,
            "kill": self._kill,
            "restart": self._restart,
            "clear": self._clear,
        }

    async def _begin(self, params: dict[str, Any]) -> AgentToolResult:
        """Start one, and tell what there is after a moment."""
        command = required_text(params, "command", "command is required with start")
        timeout = optional_number(params, "timeout", 0) or None
        return await self._start(command, timeout, optional_flag(params, "pty"))

    async def _start(
        self, command: str, timeout_s: float | None, tty: bool, restarted_from: "Info | None" = None
    ) -> AgentToolResult:
        from attrs import evolve

        from coding_agent.tools import background_supervisor
        from coding_agent.tools.background_program import BackgroundProgram, Start
        from lemon_otp import StartFailed

        infos = await self._infos()
        if sum(info.status == "running" for info in infos) >= RUNNING_MAX:
            raise ToolError(f"There are {RUNNING_MAX} background programs already; kill one first")
        if not runs(background_supervisor.NAME):
            raise ToolError("Background programs are not available here")
        program = program_for(self._workspace, self._shell, command, tty=tty)
        start = Start(
            id=os.urandom(8).hex(),
            command=command,
            program=program if tty else evolve(program, stdin="pipe"),
            folder=self._workspace.root,
            keeper=self._workspace.keeper,
            owner=self._owner() if callable(self._owner) else self._owner or self._workspace.owner,
            timeout_s=timeout_s,
            restarted_from=None if restarted_from is None else restarted_from.id,
            generation=0 if restarted_from is None else restarted_from.generation + 1,
        )
        try:
            pid = await BackgroundProgram.begin(start)
        except StartFailed as failed:
            raise ToolError(f"Cannot run it: {failed.reason}") from failed
        self._programs[start.id] = pid
        await self._forget_oldest()
        await first_news(pid)
        return await self._shown(start.id, 20)

    async def _list(self, params: dict[str, Any]) -> AgentToolResult:
        """One line each."""
        infos = await self._infos()
        lines = [described(info) for info in infos] or ["No background programs."]
        return text_result("\n".join(lines), {"programs": [as_details(info) for info in infos]})

    async def _poll(self, params: dict[str, Any]) -> AgentToolResult:
        """Status and last output."""
        return await self._shown(self._known(params), optional_number(params, "lines", 100, most=LINES_MAX))

    async def _logs(self, params: dict[str, Any]) -> AgentToolResult:
        """Every line that is kept."""
        return await self._shown(self._known(params), optional_number(params, "lines", LINES_MAX, most=LINES_MAX))

    async def _write(self, params: dict[str, Any]) -> AgentToolResult:
        """Feed its input, and tell what there is after a moment."""
        from coding_agent.tools.background_program import BackgroundProgram

        program_id = self._known(params)
        text = params.get("input")
        if not isinstance(text, str):
            raise ToolError("input is required with write")
        try:
            await BackgroundProgram.write(
                self._programs[program_id], text.encode(errors="replace"), end=optional_flag(params, "end")
            )
        except BrokenPipeError as error:
            raise ToolError(f"Cannot write to {program_id}: {error}") from error
        await first_news(self._programs[program_id])
        return await self._shown(program_id, 20)

    async def _kill(self, params: dict[str, Any]) -> AgentToolResult:
        """End it, or just interrupt it."""
        from coding_agent.tools.background_program import BackgroundProgram

        program_id = self._known(params)
        name = optional_text(params, "signal") or "sigterm"
        if name not in ("sigterm", "sigkill", "sigint"):
            raise ToolError("signal must be sigterm, sigkill or sigint")
        await BackgroundProgram.kill(self._programs[program_id], signal.Signals[name.upper()])
        return await self._shown(program_id, 20)

    async def _restart(self, params: dict[str, Any]) -> AgentToolResult:
        """Start the command of an ended one again, under a new id."""
        from coding_agent.tools.background_program import BackgroundProgram

        info = await BackgroundProgram.info(self._programs[self._known(params)])
        if info.status == "running":
            raise ToolError(f"{info.id} is still running; kill it first")
        return await self._start(info.command, None, optional_flag(params, "pty"), info)

    async def _clear(self, params: dict[str, Any]) -> AgentToolResult:
        """Forget those that ended."""
        ended = [info.id for info in await self._infos() if info.status != "running"]
        for program_id in ended:
            await self._forget(program_id)
        return text_result(f"Cleared {len(ended)}.", {"cleared": ended})

    def _known(self, params: dict[str, Any]) -> str:
        program_id = required_text(params, "id", f"id is required with {params['action']}")
        if program_id not in self._programs:
            raise ToolError(f"Unknown id: {program_id}")
        return program_id

    async def _infos(self) -> "list[Info]":
        """Every program that is still known; one whose process is gone is dropped."""
        from coding_agent.tools.background_program import BackgroundProgram
        from lemon_otp import CallFailed

        infos = []
        for program_id, pid in list(self._programs.items()):
            try:
                infos.append(await BackgroundProgram.info(pid))
            except CallFailed:
                del self._programs[program_id]
        return infos

    async def _forget_oldest(self) -> None:
        ended = [info.id for info in await self._infos() if info.status != "running"]
        for program_id in ended[: max(0, len(self._programs) - KNOWN_MAX)]:
            await self._forget(program_id)

    async def _forget(self, program_id: str) -> None:
        from coding_agent.tools import background_supervisor
        from lemon_otp import DynamicSupervisor, NotFound

        pid = self._programs.pop(program_id)
        try:
            await DynamicSupervisor.terminate_child(background_supervisor.NAME, pid)
        except NotFound:  # gone by itself
            return

    async def _shown(self, program_id: str, lines: int) -> AgentToolResult:
        from coding_agent.tools.background_program import BackgroundProgram
        from coding_agent.tools.truncate import MAX_BYTES, clip_tail
        from lemon_otp import CallFailed

        try:
            info, tail, hidden = await BackgroundProgram.tail(self._programs[program_id], lines)
        except CallFailed:
            del self._programs[program_id]
            raise ToolError(f"{program_id} is gone: its process has ended") from None
        body = clip_tail("\n".join(tail).encode(errors="replace"), MAX_BYTES).decode()
        text = described(info) + (f"\n\n{body}" if body else "\n\n(no output yet)")
        return text_result(text, as_details(info), trust="untrusted" if hidden else "trusted")


async def first_news(pid: "Pid") -> None:
    """Wait a moment for output or an early end."""
    from coding_agent.tools.background_program import BackgroundProgram
    from lemon_otp import CallFailed

    try:
        before = await BackgroundProgram.info(pid)
        for _look in range(10):
            await asyncio.sleep(WAIT_S / 10)
            now = await BackgroundProgram.info(pid)
            if now.status != "running" or now.lines != before.lines:
                return
    except CallFailed:
        return


def described(info: "Info") -> str:
    """One line about a program."""
    state: str = info.status
    if info.error is not None:
        state = f"{info.status} ({info.error})"
    elif info.exit_code is not None and info.status == "error":
        state = f"error (exit code {info.exit_code})"
    left = ", something it started still runs" if info.left else ""
    return f"{info.id} {state}{left}: {info.command.splitlines()[0][:200]}"


def as_details(info: "Info") -> dict[str, Any]:
    """The facts for the screen."""
    from attrs import asdict

    return asdict(info)
