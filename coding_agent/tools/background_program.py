"""Process. One program that runs in the background until it ends, is stopped, or nobody owns it any more.

Tree:  coding_agent.supervisor / background_supervisor / background_program[id], temporary
Owns:  a child of the keeper, with all it starts, and the last lines it printed. Killed with this process; when the
       program ends by itself the process stays and answers, until it is told to go or its owner ends
"""

import asyncio
import os
import signal
from typing import Any, Final, Literal, TypeAlias

from attrs import define, field, frozen

from coding_agent.tools import background_supervisor
from coding_agent.tools.child import Child, ChildNotStarted
from coding_agent.tools.keeper import Keeper, Program
from coding_agent.tools.line_log import LINES_MAX, LineLog
from lemon_ai import redact
from lemon_otp import (
    Address,
    Caller,
    Down,
    DynamicSupervisor,
    GenServer,
    NoReply,
    Pid,
    Reply,
    Request,
    Stop,
    annotate,
    at_exit,
    call,
    cancel_timer,
    monitor,
    self_pid,
    send,
    send_after,
    wall_ms,
)

GRACE_S: Final = 1.0
KILL_S: Final = 3.0

Status: TypeAlias = Literal["running", "completed", "error", "killed"]


@frozen
class Start:
    """What to run.

    Attributes:
        id: Sixteen hexadecimal digits; names the process in the tree.
        command: As the model gave it, for people.
        program: What is started; its `cwd` is not set.
        folder: Where it runs.
        owner: When this process ends, so does the program; None ties it to the tree alone.
        timeout_s: Killed after so long; None lets it run.
        generation: How often the command was started before under another id.
    """

    id: str
    command: str
    program: Program = field(repr=False)
    folder: str
    keeper: Keeper = field(repr=False)
    owner: Pid | None = None
    timeout_s: float | None = None
    max_lines: int = LINES_MAX
    restarted_from: str | None = None
    generation: int = 0


@frozen
class Info:
    """What is known about a program.

    Attributes:
        exit_code: Of an ended one; negative for a signal.
        error: "timeout" when it was killed for that.
        lines: How many it has printed.
        left: The program itself ended, but something it started still runs.
    """

    id: str
    command: str
    status: Status
    pid: int
    exit_code: int | None
    error: str | None
    started_at: int
    ended_at: int | None
    lines: int
    left: bool
    restarted_from: str | None
    generation: int


@frozen
class GetInfo(Request[Info]):
    """How is it?"""


@frozen
class Tail(Request[tuple[Info, tuple[str, ...], bool]]):
    """How is it, and what did it print last? True when invisible characters were shown as escapes."""

    lines: int = 100


@frozen
class Write(Request[BrokenPipeError | None]):
    """Feed its standard input."""

    data: bytes = field(repr=False)
    end: bool = False


@frozen
class Kill(Request[Info]):
    """End it with everything it started, answered when that is done; SIGINT only interrupts its process group."""

    number: int = signal.SIGTERM


@frozen
class Exited:
    """Told by the child: the program itself ended."""


@frozen
class TimeUp:
    """It has run as long as it may."""


@define
class Running:
    """The program as it is now."""

    start: Start
    child: Child
    log: LineLog
    started_at: int
    status: Status = "running"
    exit_code: int | None = None
    error: str | None = None
    ended_at: int | None = None
    timer: Any = None

    @property
    def info(self) -> Info:
        """The facts."""
        return Info(
            id=self.start.id,
            command=self.start.command,
            status=self.status,
            pid=self.child.pid,
            exit_code=self.exit_code,
            error=self.error,
            started_at=self.started_at,
            ended_at=self.ended_at,
            lines=self.log.total,
            left=self.status != "running" and not self.child.gone.done(),
            restarted_from=self.start.restarted_from,
            generation=self.start.generation,
        )


Ask: TypeAlias = GetInfo | Tail | Write | Kill


class BackgroundProgram(GenServer[Start, Ask, Any, Running]):
    """Runs one command, keeps what it prints, and makes sure that it ends."""

    trap_exit = True

    # Client side: runs in the caller.

    @staticmethod
    async def begin(start: Start, *, supervisor: Address = background_supervisor.NAME) -> Pid:
        """Start a program under the supervisor; returns when it runs.

        Raises:
            StartFailed: It could not be started; the reason is the `ChildNotStarted`.
        """
        spec = BackgroundProgram.child_spec(
            start, id=f"background_program[{start.id}]", restart="temporary", shutdown=GRACE_S + KILL_S + 1
        )
        pid = await DynamicSupervisor.start_child(supervisor, spec)
        assert isinstance(pid, Pid)
        return pid

    @staticmethod
    async def info(program: Address) -> Info:
        """How it is."""
        return await call(program, GetInfo())

    @staticmethod
    async def tail(program: Address, lines: int = 100) -> tuple[Info, tuple[str, ...], bool]:
        """How it is and what it printed last, oldest first."""
        return await call(program, Tail(lines))

    @staticmethod
    async def write(program: Address, data: bytes, *, end: bool = False) -> None:
        """Feed its standard input, and end that if wanted.

        Raises:
            BrokenPipeError: It reads no more.
        """
        refused = await call(program, Write(data, end), timeout_s=10.0)
        if refused is not None:
            raise refused

    @staticmethod
    async def kill(program: Address, number: int = signal.SIGTERM) -> Info:
        """End it with everything it started: asked first, unless the signal is SIGKILL. Returns when it is gone."""
        return await call(program, Kill(number), timeout_s=GRACE_S + KILL_S + 2)

    # Server side: runs in the process.

    async def init(self, start: Start) -> Running | Stop[Running]:
        log = LineLog(start.max_lines)
        try:
            cwd = os.open(start.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                child = await start.keeper.start(start.program.in_directory(cwd), log.feed)
            finally:
                os.close(cwd)
        except ChildNotStarted as error:
            return Stop(error)
        except OSError as error:
            return Stop(ChildNotStarted(error.errno or 0, error.strerror or "no working directory"))
        me = self_pid()
        at_exit(me, lambda _pid, _reason: child.close())  # a kill leaves no time for `terminate`
        child.exited.add_done_callback(lambda _exited: send(me, Exited()))
        if start.owner is not None:
            monitor(start.owner)
        annotate(command=redact(start.command)[:80], pid=child.pid)
        running = Running(start, child, log, wall_ms())
        if start.timeout_s is not None:
            running.timer = send_after(me, TimeUp(), start.timeout_s)
        return running

    async def handle_call(self, message: Ask, caller: Caller, running: Running) -> Reply[Running]:
        match message:
            case GetInfo():
                return Reply(running.info, running)
            case Tail(lines):
                return Reply((running.info, tuple(running.log.tail(lines)), running.log.hidden), running)
            case Write(data, end):
                return Reply(await feed(running.child, data, end), running)
            case Kill(signal.SIGINT):
                running.child.signal(signal.SIGINT)
                return Reply(running.info, running)
            case Kill(number):
                await end_all(running, "killed", None, GRACE_S if number != signal.SIGKILL else 0)
                return Reply(running.info, running)

    async def handle_info(self, message: Any, running: Running) -> NoReply[Running] | Stop[Running]:
        match message:
            case Exited():
                ended(running)
            case TimeUp() if running.status == "running":
                await end_all(running, "error", "timeout", 0)
            case Down():
                return Stop("normal", running)
        return NoReply(running)

    async def terminate(self, reason: Any, running: Running) -> None:
        await end_all(running, "killed", None, GRACE_S)
        running.child.close()


async def feed(child: Child, data: bytes, end: bool) -> BrokenPipeError | None:
    """Write to the program, for a few seconds at most. A full pipe that nobody reads counts as a broken one."""
    try:
        async with asyncio.timeout(5):
            await child.write(data)
    except TimeoutError:
        return BrokenPipeError("the program does not read its input")
    except OSError as error:
        return BrokenPipeError(str(error))
    if end:
        child.close_input()
    return None


def ended(running: Running) -> None:
    """Note that the program itself has ended."""
    running.child.read_what_is_there()
    running.log.feed(b"", final=True)
    if running.timer is not None:
        cancel_timer(running.timer)
    if running.status == "running":
        running.exit_code = running.child.exited.result()
        running.status = "completed" if running.exit_code == 0 else "error"
        running.ended_at = wall_ms()


async def end_all(running: Running, status: Status, error: str | None, grace_s: float) -> None:
    """End the program and everything it started, and note why it ended if it still ran."""
    child = running.child
    if running.status == "running" and not child.exited.done():
        running.status, running.error = status, error
    if not child.gone.done():
        child.kill(grace_s)
        await child.ended_for_certain(grace_s + KILL_S)
    child.read_what_is_there()
    if running.ended_at is None:
        running.ended_at = wall_ms()
        running.exit_code = child.exited.result() if child.exited.done() else None
        if running.status == "running":
            ended(running)
