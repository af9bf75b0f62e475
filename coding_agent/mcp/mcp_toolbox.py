"""Process. The servers of one session: starts them, names their tools, and keeps the session's set of tools up to date.

Tree:  coding_agent.supervisor / mcp_supervisor / mcp_toolbox[id], transient
Owns:  its servers, which end with it. It ends with its session; before one has joined, with whoever started it
"""

import itertools
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from attrs import define, field, frozen

from coding_agent.mcp import mcp_supervisor
from coding_agent.mcp.entries import ServerEntry
from coding_agent.mcp.mcp_server import CONNECT_S, Changed, Reconnect, Start, Status, start_server
from coding_agent.mcp.names import PREFIX
from coding_agent.mcp.server_tools import agent_tools
from coding_agent.mcp.stdio_transport import ServerProgram
from coding_agent.session.protocol import OfferTools
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
    send_after,
    whereis,
)

WAIT_S: Final = 10.0
"""How long a session waits for its servers before it begins without the late ones."""
AGAIN_S: Final = 5.0
"""How long a crashed session is given to come back."""
_ids: Final = itertools.count(1)


@frozen
class Contents:
    """What a toolbox is started with.

    Attributes:
        creator: It ends with this process until a session has joined.
        only: Names of the tools that are offered; None for all.
        programs: By server; kept across restarts.
    """

    id: str
    entries: tuple[ServerEntry, ...]
    cwd: str
    creator: Pid
    connect_s: float = CONNECT_S
    keeper: Keeper | None = field(default=None, repr=False)
    only: frozenset[str] | None = None
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
    """The toolbox as it is now."""

    contents: Contents
    statuses: dict[str, Status] = field(factory=dict)
    tools: dict[str, AgentTool] = field(factory=dict)
    session: Pid | None = None
    watched: MonitorRef | None = None
    waiting: list[Caller] = field(factory=list)

    @property
    def settled(self) -> bool:
        names = [entry.name for entry in self.contents.entries]
        return all(name in self.statuses and self.statuses[name].state != "connecting" for name in names)


class McpToolbox(GenServer[Contents, Any, Any, Held]):
    """Keeps the servers of a session together."""

    trap_exit = True

    async def init(self, contents: Contents) -> Init[Held]:
        return Init(Held(contents, watched=monitor(contents.creator)), continue_="start")

    async def handle_continue(self, _term: Any, state: Held) -> NoReply[Held]:
        contents = state.contents
        for entry in contents.entries:
            program = contents.programs.setdefault(entry.name, ServerProgram(entry, contents.cwd))
            start = Start(entry, self_pid(), program, contents.connect_s, contents.keeper)
            try:
                await start_server(start, contents.server_name(entry))
            except OtpError as error:
                state.statuses[entry.name] = Status(entry.name, "failed", f"it could not be started: {error}")
        _answer_when_settled(state)
        return NoReply(state)

    async def handle_call(self, message: Any, caller: Caller, state: Held) -> Reply[Held] | NoReply[Held]:
        match message:
            case GetTools():
                return Reply(tuple(state.tools.values()), state)
            case GetServers():
                return Reply(tuple(_status(state, entry) for entry in state.contents.entries), state)
            case _:
                state.waiting.append(caller)
                _answer_when_settled(state)
                return NoReply(state)

    async def handle_cast(self, message: Any, state: Held) -> NoReply[Held]:
        match message:
            case Joined(session) if state.session is None or not state.session.alive:
                _watch(state, session)
                cast(session, OfferTools(PREFIX, tuple(state.tools.values())))
            case Reconnect():
                for entry in state.contents.entries:
                    cast(state.contents.server_name(entry), message)
        return NoReply(state)

    async def handle_info(self, message: Any, state: Held) -> NoReply[Held] | Stop[Held]:
        match message:
            case Changed(_, status):
                state.statuses[status.name] = status
                _refresh(state)
                _answer_when_settled(state)
            case Down(ref=ref, reason=reason) if ref is state.watched:
                if state.session is None or is_orderly(reason):
                    return Stop("shutdown", state)
                send_after(self_pid(), NobodyCame(state.session), AGAIN_S)
            case NobodyCame(session) if session == state.session:
                return Stop("shutdown", state)
        return NoReply(state)


def _watch(state: Held, session: Pid) -> None:
    if state.watched is not None:
        demonitor(state.watched, flush=True)
    state.session, state.watched = session, monitor(session)


def _refresh(state: Held) -> None:
    """Name the tools anew; the session is told when they are others than before."""
    contents = state.contents
    offers = [
        (contents.server_name(entry), entry, offer.tools)
        for entry in contents.entries
        if (offer := _status(state, entry).offer) is not None
    ]
    tools = agent_tools(offers, state.tools)
    if contents.only is not None:
        tools = {name: tool for name, tool in tools.items() if name in contents.only}
    changed = list(tools.values()) != list(state.tools.values())
    state.tools = tools
    if changed and state.session is not None:
        cast(state.session, OfferTools(PREFIX, tuple(tools.values())))


def _status(state: Held, entry: ServerEntry) -> Status:
    return state.statuses.get(entry.name) or Status(entry.name, "connecting")


def _answer_when_settled(state: Held) -> None:
    if state.settled:
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
) -> str:
    """Start the servers, and return the toolbox's name at once. It ends with the caller until a session has joined.

    Args:
        entries: The servers.
        cwd: Where programs run that say nothing else.
        connect_s: How long each may take to answer.
        keeper: Starts programs; None is the runtime's own.
        only: Names of the tools that are offered; None for all.
    """
    contents = Contents(f"{next(_ids)}", tuple(entries), cwd, self_pid(), connect_s, keeper, only)
    spec = McpToolbox.child_spec(contents, id=contents.name, name=contents.name, restart="transient", shutdown=5.0)
    await DynamicSupervisor.start_child(mcp_supervisor.NAME, spec)
    return contents.name


async def settled_tools(toolbox: Address, *, wait_s: float = WAIT_S) -> tuple[AgentTool, ...]:
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
