"""Process. The servers of one session: starts them, names their tools, and keeps the session's set of tools up to date.

Tree:  coding_agent.supervisor / mcp_supervisor / mcp_toolbox[id], transient
Owns:  its servers, which end with it. It ends with its session; before one has joined, with whoever started it
"""

import itertools
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from attrs import define, field, frozen

from coding_agent.events import CommandsUpdate
from coding_agent.mcp import mcp_supervisor
from coding_agent.mcp.backing import Backing
from coding_agent.mcp.entries import ServerEntry
from coding_agent.mcp.mcp_server import CONNECT_S, Changed, Start, start_server
from coding_agent.mcp.names import PREFIX
from coding_agent.mcp.server_tools import agent_tools
from coding_agent.mcp.standing import Reachable, Standing, Status
from coding_agent.mcp.stdio_transport import ServerProgram
from coding_agent.session.protocol import OfferTools, Tell
from coding_agent.tools.keeper import Keeper
from lemon_agent import AgentTool
from lemon_otp import (
    Address,
    Caller,
    CallFailed,
    CallTimeout,
    Down,
    DynamicSupervisor,
    GenServer,
    Init,
    MonitorRef,
    NoProcess,
    NoReply,
    NotFound,
    OtpError,
    Pid,
    ReceiveTimeout,
    Reply,
    Request,
    Stop,
    call,
    cast,
    demonitor,
    down_of,
    is_orderly,
    monitor,
    receive,
    reply,
    self_pid,
    send,
    send_after,
    whereis,
)

AGAIN_S: Final = 5.0
"""How long a crashed session is given to come back."""
GONE_S: Final = 15.0
"""How long servers of a toolbox that was killed are given to end."""
_ids: Final = itertools.count(1)


@frozen
class Contents:
    """What a toolbox is started with.

    Attributes:
        creator: It ends with this process until a session has joined.
        only: Names of the tools that are offered; None for all.
        backing: What the servers may ask of the session; its `standing` is written here.
        programs: By server; kept across restarts.
    """

    id: str
    entries: tuple[ServerEntry, ...]
    cwd: str
    creator: Pid
    connect_s: float = CONNECT_S
    keeper: Keeper | None = field(default=None, repr=False)
    only: frozenset[str] | None = None
    backing: Backing = field(factory=Backing, repr=False)
    programs: dict[str, ServerProgram] = field(factory=dict, repr=False)

    @property
    def name(self) -> str:
        """What the process is registered as."""
        return f"mcp_toolbox[{self.id}]"

    def server_name(self, entry: ServerEntry) -> str:
        """What a server's process is registered as."""
        return f"mcp_server[{self.id}/{entry.name}]"


@frozen
class GetTools(Request[tuple[AgentTool, ...]]):
    """All tools there are now."""


@frozen
class GetServers(Request[tuple[Status, ...]]):
    """How the servers stand."""


@frozen
class WhenSettled(Request[None]):
    """Answered once every server has answered or failed its first attempt."""


@frozen
class Joined:
    """This session has the tools; the first one is whose end counts."""

    session: Pid


@frozen
class NobodyCame:
    """The session crashed, and no other has come."""

    session: Pid


@define
class Held:
    """The toolbox as it is now.

    Attributes:
        returning: It was started again: the session keeps the tools it has until all servers have answered.
    """

    contents: Contents
    tools: dict[str, AgentTool] = field(factory=dict)
    session: Pid | None = None
    returning: bool = False
    watched: MonitorRef | None = None
    waiting: list[Caller] = field(factory=list)

    @property
    def standing(self) -> Standing:
        return self.contents.backing.standing


class McpToolbox(GenServer[Contents, Any, Any, Held]):
    """Keeps the servers of a session together."""

    trap_exit = True

    async def init(self, contents: Contents) -> Init[Held]:
        standing = contents.backing.standing
        standing.servers = {entry.name: Reachable(entry, contents.server_name(entry)) for entry in contents.entries}
        standing.statuses, standing.settled = {}, False
        state = Held(contents, watched=monitor(contents.creator))
        if standing.session is not None and standing.session.alive:  # it was there before this process
            state.returning = True
            _watch(state, standing.session)
        return Init(state, continue_="start")

    async def handle_continue(self, _term: Any, state: Held) -> NoReply[Held]:
        contents = state.contents
        for entry in contents.entries:
            program = contents.programs.setdefault(entry.name, ServerProgram(entry, contents.cwd))
            start = Start(entry, self_pid(), program, contents.connect_s, contents.keeper, contents.backing)
            await _gone(contents.server_name(entry))
            try:
                await start_server(start, contents.server_name(entry))
            except OtpError as error:
                failed = Status(entry.name, "failed", f"it could not be started: {error}")
                state.standing.statuses[entry.name] = failed
        _answer_when_settled(state)
        return NoReply(state)

    async def handle_call(self, message: Any, caller: Caller, state: Held) -> Reply[Held] | NoReply[Held]:
        match message:
            case GetTools():
                return Reply(tuple(state.tools.values()), state)
            case GetServers():
                return Reply(tuple(map(state.standing.status, state.standing.servers)), state)
            case _:
                state.waiting.append(caller)
                _answer_when_settled(state)
                return NoReply(state)

    async def handle_cast(self, message: Any, state: Held) -> NoReply[Held]:
        match message:
            case Joined(session) if state.session is None or not state.session.alive:
                _watch(state, session)
                _hand_over(state)
        return NoReply(state)

    async def handle_info(self, message: Any, state: Held) -> NoReply[Held] | Stop[Held]:
        match message:
            case Changed(_, status):
                _note(state, status)
                _refresh(state)
                _answer_when_settled(state)
            case Down(ref=ref, reason=reason) if ref is state.watched:
                if state.session is None or is_orderly(reason):
                    return Stop("shutdown", state)
                send_after(self_pid(), NobodyCame(state.session), AGAIN_S)
            case NobodyCame(session) if session == state.session:
                return Stop("shutdown", state)
        return NoReply(state)


async def _gone(name: str) -> None:
    """Return when the server process of that name has ended, which a toolbox that was killed has left behind."""
    pid = whereis(name)
    if pid is not None:
        with suppress(ReceiveTimeout):
            await receive(down_of(monitor(pid)), timeout_s=GONE_S)


def _watch(state: Held, session: Pid) -> None:
    if state.watched is not None:
        demonitor(state.watched, flush=True)
    state.session, state.watched = session, monitor(session)


def _note(state: Held, status: Status) -> None:
    """Write down how a server stands; the session is told when something else can be typed now."""
    before = state.standing.prompts()
    state.standing.statuses[status.name] = status
    if state.session is not None and state.standing.prompts() != before:
        send(state.session, Tell(CommandsUpdate()))


def _refresh(state: Held) -> None:
    """Name the tools anew; the session is given them when they are others than before."""
    contents = state.contents
    tools = agent_tools(state.standing, state.tools)
    if contents.only is not None:
        tools = {name: tool for name, tool in tools.items() if name in contents.only}
    changed = list(tools.values()) != list(state.tools.values())
    state.tools = tools
    if changed:
        _hand_over(state)


def _hand_over(state: Held) -> None:
    """Give the session the tools there are; then, not before, whoever looks may see that they are others."""
    if state.session is not None and not state.returning:
        cast(state.session, OfferTools(PREFIX, tuple(state.tools.values())))
        state.standing.tools_changed += 1


def _answer_when_settled(state: Held) -> None:
    standing = state.standing
    if standing.settled or all(standing.status(name).state != "connecting" for name in standing.servers):
        standing.settled = True
        if state.returning:
            state.returning = False
            _hand_over(state)
        waiting, state.waiting = state.waiting, []
        for caller in waiting:
            reply(caller, None)


async def open_toolbox(
    entries: Sequence[ServerEntry],
    cwd: str,
    *,
    connect_s: float = CONNECT_S,
    keeper: Keeper | None = None,
    only: frozenset[str] | None = None,
    backing: Backing | None = None,
) -> str:
    """Start the servers, and return the toolbox's name at once. It ends with the caller until a session has joined.

    Args:
        entries: The servers.
        cwd: Where programs run that say nothing else.
        connect_s: How long each may take to answer.
        keeper: Starts programs; None is the runtime's own.
        only: Names of the tools that are offered; None for all.
        backing: What the servers may ask of the session; None is nothing.
    """
    given = Backing() if backing is None else backing
    contents = Contents(f"{next(_ids)}", tuple(entries), cwd, self_pid(), connect_s, keeper, only, given)
    spec = McpToolbox.child_spec(contents, id=contents.name, name=contents.name, restart="transient", shutdown=5.0)
    await DynamicSupervisor.start_child(mcp_supervisor.NAME, spec)
    return contents.name


async def settled_tools(toolbox: Address, *, wait_s: float) -> tuple[AgentTool, ...]:
    """The tools, once every server has answered or failed, or the time is up; late ones reach the session later."""
    with suppress(CallTimeout):
        await call(toolbox, WhenSettled(), timeout_s=wait_s)
    return await call(toolbox, GetTools())


async def close_toolbox(toolbox: str) -> None:
    """End the toolbox with its servers, and return when nothing of them is left."""
    try:
        servers = [status.name for status in await call(toolbox, GetServers())]
    except (CallFailed, NoProcess):
        return
    key = toolbox.removeprefix("mcp_toolbox[").removesuffix("]")
    refs = [monitor(pid) for name in servers if (pid := whereis(f"mcp_server[{key}/{name}]")) is not None]
    pid = whereis(toolbox)
    if pid is not None:
        with suppress(NotFound):
            await DynamicSupervisor.terminate_child(mcp_supervisor.NAME, pid)
    for ref in refs:
        await receive(down_of(ref))
