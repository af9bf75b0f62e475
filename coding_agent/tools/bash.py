"""Edge. The tool `bash`: run a command, show what it printed, leave nothing running that should not be."""

import asyncio
import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from attrs import define

from coding_agent.tools.arguments import optional_flag, optional_number, required_text
from coding_agent.tools.child import Child, ChildNotStarted, first_of, settle
from coding_agent.tools.keeper import Program
from coding_agent.tools.updates import Updates
from coding_agent.tools.workspace import Workspace, workspace_for
from lemon_agent import (
    AbortSignal,
    AgentTool,
    AgentToolResult,
    OnUpdate,
    ToolError,
    is_aborted,
    process_group,
    text_result,
)

if TYPE_CHECKING:
    from coding_agent.tools.program_output import ProgramOutput

TIMEOUT_MS: Final = 60_000
TIMEOUT_MS_MAX: Final = 600_000
GRACE_S: Final = 0.5
"""Between TERM and KILL."""
KILL_S: Final = 2.5
"""How long the end of everything is waited for after the grace; what cannot be killed by then is reported."""
LINGER_S: Final = 0.25
"""How long the last output is waited for once the shell itself has ended."""
LAST_ONES_S: Final = 0.05
LEFT_OUTPUT_BYTES: Final = 1_000_000
"""So much of what a left-behind program prints is kept in a file."""
LONGEST_ARGUMENT: Final = 100_000
"""A longer command goes through a file: the kernel takes 128 kB in one argument."""

PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "The command, for bash."},
        "timeout": {
            "type": "number",
            "description": f"Seconds until it is stopped; {TIMEOUT_MS // 1000} if not given, "
            f"at most {TIMEOUT_MS_MAX // 1000}.",
        },
        "pty": {"type": "boolean", "description": "Run on a pseudo terminal, for programs that insist on one."},
    },
    "required": ["command"],
}

DESCRIPTION: Final = (
    "Run a bash command in the working directory. Standard output and error come together; of long output the "
    "beginning and the end are shown, and all of it is kept in a file that is named. There is no terminal and no "
    "input: use options that make programs ask nothing. What is started in the background goes on running after the "
    "call, until the session ends."
)


@define
class Outcome:
    """How a command ended."""

    code: int | None = None
    how: str = "exited"
    """"exited", "timeout" or "aborted"."""
    left: bool = False
    stuck: int = 0


def bash_tool(cwd: str, **options: Any) -> AgentTool:
    """The tool `bash` for a working directory; see `Workspace` for the options.

    Its result is an error only when the command could not be started. Cancelling the call kills all it started and
    returns when that is done.
    """
    default_timeout_ms = int(options.pop("timeout_ms", TIMEOUT_MS))
    shell = str(options.pop("shell", "bash"))
    prefix = str(options.pop("command_prefix", ""))
    workspace = workspace_for(cwd, options)

    async def execute(
        _id: str, params: dict[str, Any], signal: AbortSignal | None = None, on_update: OnUpdate | None = None
    ) -> AgentToolResult:
        if is_aborted(signal):
            return text_result("Command cancelled.")
        command = required_text(params, "command", "Command is required")
        timeout_s = timeout_of(params, default_timeout_ms)
        run = Run(workspace, on_update)
        program = program_for(workspace, shell, prefix + command, tty=optional_flag(params, "pty"))
        try:
            outcome = await run.until_ended(program, timeout_s, signal)
            return result(run.output, outcome, timeout_s)
        finally:
            run.close()

    return AgentTool(
        name="bash",
        label="Bash",
        description=DESCRIPTION,
        parameters=PARAMETERS,
        execute=execute,
        main_argument="command",
    )


def timeout_of(params: dict[str, Any], default_ms: int) -> float:
    """Seconds the command may take."""
    wanted = params.get("timeout")
    if isinstance(wanted, float) and wanted == wanted and wanted > 0:
        return min(wanted, TIMEOUT_MS_MAX / 1000)
    return optional_number(params, "timeout", default_ms // 1000 or 1, most=TIMEOUT_MS_MAX // 1000)


def program_for(workspace: Workspace, shell: str, command: str, *, tty: bool = False) -> Program:
    """The shell with the command.

    Raises:
        ToolError: The working directory is gone, or the command cannot be passed.
    """
    if "\0" in command:
        raise ToolError("The command holds a NUL character")
    argv = [shell, "--noprofile", "--norc"] if os.path.basename(shell) == "bash" else [shell]
    if len(command.encode(errors="replace")) > LONGEST_ARGUMENT:
        script = workspace.keeper.home / f"script-{os.urandom(4).hex()}"
        with open(script, "w", encoding="utf-8", errors="replace") as file:
            file.write(f"rm -f -- '{script}'\n{command}\n")
        argv += [str(script)]
    else:
        argv += ["-c", command]
    return Program(argv=tuple(argv), env=workspace.environment(), tty=tty)


class Run:
    """One command on its way: the child, its output, and the updates about it."""

    def __init__(self, workspace: Workspace, on_update: OnUpdate | None) -> None:
        from coding_agent.tools.program_output import ProgramOutput

        self.workspace = workspace
        self.output = ProgramOutput(lambda: workspace.output_file("output"))
        self.child: Child | None = None
        self._updates = Updates(on_update, self.output.so_far)

    async def until_ended(self, program: Program, timeout_s: float, signal: AbortSignal | None) -> Outcome:
        """Run it to its end, its timeout or its abort.

        Raises:
            ToolError: It could not be started.
        """
        self.child = child = await self._start(program)
        aborted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        undo = signal.on_abort(lambda _reason: settle(aborted, None)) if signal else None
        try:
            with process_group(child.pid) if child.pid else nullcontext():
                await first_of(timeout_s, child.exited, aborted)
            if child.exited.done():
                return await self._ended(child)
            await self._kill(child)
            return Outcome(None, "aborted" if aborted.done() else "timeout", stuck=child.stuck)
        except asyncio.CancelledError:
            await self._kill(child)
            raise
        finally:
            aborted.cancel()
            if undo is not None:
                undo()

    async def _start(self, program: Program) -> Child:
        try:
            cwd = os.open(self.workspace.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ToolError(f"Working directory {self.workspace.root}: {error.strerror}") from error
        try:
            return await self.workspace.keeper.start(program.in_directory(cwd), self._take)
        except ChildNotStarted as error:
            raise ToolError(f"Cannot run {program.argv[0]}: {error.strerror}") from error
        finally:
            os.close(cwd)

    async def _ended(self, child: Child) -> Outcome:
        """The shell is done: wait a moment for the rest of its output, then let go of what stays behind."""
        await first_of(LINGER_S, child.drained, child.gone)
        if child.left:  # what ends together with the shell is not left behind
            await first_of(LAST_ONES_S, child.gone)
        child.read_what_is_there()
        code = child.exited.result()
        left = not child.gone.done() and child.left
        if left:
            child.release(self.output.descriptor(), LEFT_OUTPUT_BYTES)
            self.workspace.keep(child)
        return Outcome(code, left=left)

    async def _kill(self, child: Child) -> None:
        child.kill(GRACE_S)
        await child.ended_for_certain(GRACE_S + KILL_S)
        child.read_what_is_there()

    def _take(self, data: bytes) -> None:
        self.output.feed(data)
        self._updates.more()

    def close(self) -> None:
        """No more updates; whatever was not let go on purpose is killed."""
        self._updates.close()
        if self.child is not None and not self.child.released:
            self.child.close()
        self.output.close()


def result(output: "ProgramOutput", outcome: Outcome, timeout_s: float) -> AgentToolResult:
    """What the model is told."""
    shown = output.finished()
    notes: list[str] = []
    if shown.truncated:
        notes.append(output.note(shown))
    if outcome.how == "exited":
        if outcome.left:
            notes.append(left_note(output))
        if outcome.code:
            notes.append(exit_note(outcome.code))
    elif outcome.how == "timeout":
        notes.append(f"Command timed out after {timeout_s:g} seconds and was stopped.")
    if outcome.stuck:
        notes.append(f"{outcome.stuck} of its processes could not be killed and are still there.")
    parts = [shown.text.rstrip("\n"), *notes]
    if outcome.how == "aborted":
        parts.insert(0, "Command cancelled.")
    text = "\n\n".join(filter(None, parts)) or "(no output)"
    details: dict[str, Any] = {
        "exit_code": outcome.code,
        "truncated": shown.truncated,
        "timed_out": outcome.how == "timeout",
        "cancelled": outcome.how == "aborted",
        "background": outcome.left,
    }
    if output.path is not None:
        details["full_output_path"] = str(output.path)
    return text_result(text, details, trust="untrusted" if output.hidden else "trusted")


def exit_note(code: int) -> str:
    """How it ended, when not well."""
    if code < 0:
        import signal

        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"Command was ended by {name}"
    return f"Command exited with code {code}"


def left_note(output: "ProgramOutput") -> str:
    """What was left behind."""
    where = f" What it prints from now on goes to {output.path}." if output.path is not None else ""
    return f"[Something this command started is still running in the background.{where}]"
