"""Process. One server of the Model Context Protocol: connected, or on its way to be, for as long as its owner lives.

Tree:  coding_agent.supervisor / mcp_supervisor / mcp_server[name], transient
Emits: telemetry ("coding_agent", "mcp_server", "changed"): its name and state, nothing it was configured with
Owns:  a `connection`, linked; at most one program. A crashed one is started again and connects anew
"""

from typing import Any, Final, TypeAlias

from attrs import define, field, frozen

from coding_agent.errors import McpServerUnavailable
from coding_agent.mcp import mcp_supervisor
from coding_agent.mcp.backing import Backing
from coding_agent.mcp.backoff import STEADY_S, delay_s
from coding_agent.mcp.connection import Close, Connected, Job, Offered, Refresh, hold
from coding_agent.mcp.entries import ServerEntry
from coding_agent.mcp.listing import Offer
from coding_agent.mcp.standing import State, Status
from coding_agent.mcp.stdio_transport import ServerProgram
from coding_agent.tools.keeper import Keeper
from coding_agent.tools.program_keeper import ProgramKeeper
from lemon_otp import (
    Address,
    Caller,
    Down,
    DynamicSupervisor,
    Exit,
    GenServer,
    Init,
    NoReply,
    Pid,
    ReceiveTimeout,
    Reply,
    Request,
    Stop,
    TimerRef,
    annotate,
    call,
    cancel_timer,
    cast,
    demonitor,
    down_of,
    exit_signal,
    monitor,
    monotonic_s,
    receive,
    reply,
    self_pid,
    send,
    send_after,
    spawn_link,
    telemetry,
    wall_ms,
)

CONNECT_S: Final = 30.0
LEAVE_S: Final = 8.0
"""For a connection to end in peace; its program is given less, and then killed."""


@frozen
class Start:
    """What a server process is started with.

    Attributes:
        owner: When this process ends, so does the server. It is sent a `Changed` whenever something changed.
        program: Kept across restarts of the process.
        backing: What the server may ask of the session.
    """

    entry: ServerEntry
    owner: Pid
    program: ServerProgram = field(repr=False)
    connect_s: float = CONNECT_S
    keeper: Keeper | None = field(default=None, repr=False)
    backing: Backing = field(factory=Backing, repr=False)


@frozen
class Changed:
    """Sent to the owner: the server stands otherwise now."""

    server: Pid
    status: Status


@frozen
class GetClient(Request["Any"]):
    """The library's client, once connected; a `McpServerUnavailable` when it is not and will not be soon."""


@frozen
class Reconnect:
    """Connect anew now, whatever was decided before; a connection that stands is closed first."""


@frozen
class Suspect:
    """A call failed as if the connection were gone: find out."""

    client: Any = field(repr=False)


@frozen
class TryNow:
    """Told by the timer."""


@define
class Running:
    """The server as it is now."""

    start: Start
    keeper: Keeper
    state: State = "connecting"
    connection: Pid | None = None
    client: Any = None
    offer: Offer | None = None
    error: str | None = None
    failures: int = 0
    connect_again: bool = False
    ready_at_s: float = 0.0
    timer: TimerRef | None = None
    waiting: list[Caller] = field(factory=list)

    @property
    def may_be_soon(self) -> bool:
        """Is it worth waiting for? Also after the first failure: a server that crashed mostly comes back."""
        return self.state in ("connecting", "checking") or (self.state == "waiting" and self.failures == 1)

    @property
    def status(self) -> Status:
        return Status(self.start.entry.name, self.state, self.error, self.offer, self.start.program.pid)


Told: TypeAlias = NoReply[Running] | Stop[Running]


class McpServer(GenServer[Start, GetClient, Any, Running]):
    """Keeps one server connected."""

    trap_exit = True

    # Client side: runs in the caller.

    @staticmethod
    async def client(server: Address, *, timeout_s: float | None = None) -> Any:
        """The library's client for calls; waits while the server is on its way.

        Raises:
            McpServerUnavailable: It is not connected.
            CallTimeout: It takes too long.
        """
        answer = await call(server, GetClient(), timeout_s=timeout_s)
        if isinstance(answer, McpServerUnavailable):
            raise answer
        return answer

    @staticmethod
    def suspect(server: Address, client: Any) -> None:
        """Have the server look whether its connection still stands."""
        cast(server, Suspect(client))

    # Server side: runs in the process.

    async def init(self, start: Start) -> Init[Running]:
        monitor(start.owner)
        return Init(Running(start, start.keeper or ProgramKeeper.shared() or Keeper()), continue_="connect")

    async def handle_continue(self, _term: Any, state: Running) -> NoReply[Running]:
        _connect(state)
        return NoReply(state)

    async def handle_call(
        self, _message: GetClient, caller: Caller, state: Running
    ) -> Reply[Running] | NoReply[Running]:
        if state.state == "ready":
            return Reply(state.client, state)
        if state.may_be_soon:
            state.waiting.append(caller)
            return NoReply(state)
        return Reply(_unavailable(state), state)

    async def handle_cast(self, message: Any, state: Running) -> NoReply[Running]:
        match message:
            case Reconnect():
                state.failures = 0
                if state.connection is None:
                    _connect(state)
                else:
                    state.connect_again = True
                    _leave(state)
                    _become(state, "checking")  # whoever asks for it waits for the new one
            case Suspect(client) if client is state.client and state.connection is not None and state.state == "ready":
                _become(state, "checking")
                send(state.connection, Refresh())
        return NoReply(state)

    async def handle_info(self, message: Any, state: Running) -> Told:
        match message:
            case Connected(connection, client, offer) if connection == state.connection and not state.connect_again:
                state.client, state.offer, state.error = client, offer, None
                state.ready_at_s = monotonic_s()
                _answer(state, client)
                _become(state, "ready")
            case Offered(connection, offer) if connection == state.connection and not state.connect_again:
                state.offer = offer
                _answer(state, state.client)
                _become(state, "ready")
            case Exit(pid, reason) if pid == state.connection:
                await state.start.program.end(0)
                if state.connect_again:
                    state.connect_again, state.connection, state.client = False, None, None
                    _connect(state)
                else:
                    _lost(state, reason)
            case TryNow() if state.state == "waiting":
                _connect(state)
            case Down(process=pid) if pid == state.start.owner:
                return Stop("shutdown", state)
        return NoReply(state)

    async def terminate(self, _reason: Any, state: Running) -> None:
        if state.connection is not None and state.connection.alive:
            ref = monitor(state.connection)
            _leave(state)
            try:
                await receive(down_of(ref), timeout_s=LEAVE_S)
            except ReceiveTimeout:
                demonitor(ref, flush=True)
        await state.start.program.end(0)


async def start_server(start: Start, name: str) -> Pid:
    """Start a server process under the supervisor, registered as `name`; it connects by itself."""
    spec = McpServer.child_spec(
        start, id=f"mcp_server[{start.entry.name}]", name=name, restart="transient", shutdown=LEAVE_S + 6.0
    )
    return await DynamicSupervisor.start_child(mcp_supervisor.NAME, spec)


def _leave(state: Running) -> None:
    """Have the connection end."""
    assert state.connection is not None
    if state.client is None:  # it is waiting for an answer, not for us
        exit_signal(state.connection, "shutdown")
    else:
        send(state.connection, Close())


def _connect(state: Running) -> None:
    if state.timer is not None:
        cancel_timer(state.timer)
    state.timer = None
    start = state.start
    job = Job(self_pid(), start.entry, start.program, state.keeper, start.backing, start.connect_s)
    state.connection = spawn_link(hold, job, label="connection")
    _become(state, "connecting")


def _lost(state: Running, reason: Any) -> None:
    """The connection is over; decide when to try again."""
    was_ready = state.state in ("ready", "checking")
    state.connection = state.client = None
    state.error = _words(reason)
    steady = was_ready and monotonic_s() - state.ready_at_s >= STEADY_S
    state.failures = 1 if steady else state.failures + 1
    delay = delay_s(state.failures)
    if delay is not None:
        state.timer = send_after(self_pid(), TryNow(), delay)
    _become(state, "failed" if delay is None else "waiting")
    if not state.may_be_soon:
        _answer(state, _unavailable(state))


def _words(reason: Any) -> str:
    match reason:
        case ("shutdown", McpServerUnavailable(why=why)):
            return why
        case "killed" | "kill":
            return "its connection was killed"
        case BaseException():
            return f"its connection failed: {type(reason).__name__}"
        case _:
            return "it was closed"


def _unavailable(state: Running) -> McpServerUnavailable:
    again = {"waiting": "; it is tried again soon", "failed": "; it is not tried again by itself"}.get(state.state, "")
    return McpServerUnavailable(state.start.entry.name, f"{state.error or 'it never answered'}{again}")


def _answer(state: Running, answer: Any) -> None:
    waiting, state.waiting = state.waiting, []
    for caller in waiting:
        reply(caller, answer)


def _become(state: Running, now: State) -> None:
    state.state = now
    annotate(server=state.start.entry.name, state=now)
    telemetry.execute(
        ("coding_agent", "mcp_server", "changed"),
        {"system_time": wall_ms(), "failures": state.failures},
        {"server": state.start.entry.name, "state": now},
    )
    send(state.start.owner, Changed(self_pid(), state.status))
