"""Process. One connection with one server, from its start until it is lost or closed; linked to its `mcp_server`.

Tree:  coding_agent.supervisor / mcp_supervisor / mcp_server[name] / connection
Owns:  the library's client with its tasks, and the server's program; both end with this process

The library's task groups must be entered and left by one coroutine. That is this one, so that a failure inside them
reaches it wherever it waits.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final, TypeAlias

from attrs import field, frozen

from coding_agent.errors import McpServerUnavailable
from coding_agent.mcp.asks import Asks
from coding_agent.mcp.backing import Backing
from coding_agent.mcp.bounded_http import http_client
from coding_agent.mcp.entries import ServerEntry
from coding_agent.mcp.listing import Offer, offer_of
from coding_agent.mcp.oauth import Access, auth_of, login_hint
from coding_agent.mcp.stdio_transport import ServerProgram, program_streams
from coding_agent.release import release
from coding_agent.tools.keeper import Keeper
from lemon_ai import is_loopback, is_offline
from lemon_otp import (
    Pid,
    ProcessExit,
    ReceiveTimeout,
    at_exit,
    exit_process,
    monotonic_s,
    receive,
    self_pid,
    send,
    sleep_s,
    spawn_link,
)

Match: TypeAlias = Callable[[Any], bool]

LIST_S: Final = 30.0
LISTEN_AGAIN_S: Final = 5.0
LOOK_AGAIN_S: Final = 0.5
"""The lists are asked for no more often, however often a server says that they changed."""
LIST_CHANGED: Final = frozenset(f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts"))


@frozen
class Job:
    """What to connect to.

    Attributes:
        server: The process that is told.
        program: For `stdio`; outlives this connection, so that there is never a second one.
        backing: What the server may ask of the session.
        connect_s: How long it may take until the tools are listed.
    """

    server: Pid
    entry: ServerEntry
    program: ServerProgram = field(repr=False)
    keeper: Keeper = field(repr=False)
    backing: Backing = field(repr=False)
    connect_s: float


@frozen
class Connected:
    """The server answered."""

    connection: Pid
    client: Any = field(repr=False)
    offer: Offer = field(repr=False)


@frozen
class Offered:
    """The server's lists have changed."""

    connection: Pid
    offer: Offer = field(repr=False)


@frozen
class Refresh:
    """Ask for the lists again; when that fails the connection is lost."""


@frozen
class Close:
    """End the connection and the program, in peace."""


@frozen
class Lost:
    """The transport ended."""

    why: str


async def hold(job: Job) -> None:
    """Connect, tell the server, stay until closed or lost. Ends with "normal", or with a shutdown that says why."""
    me = self_pid()
    at_exit(me, lambda _pid, _reason: job.program.close())
    quiet_library()
    access = Access(job.entry)
    try:
        failure = await _held(job, me, access)
    except _NoHandshake:
        job.program.handshake = False
        failure = await _held(job, me, access)
    if failure is not None:
        exit_process(("shutdown", failure))


class _NoHandshake(Exception):
    """The server refuses the old greeting, so it may know the new one."""


async def _held(job: Job, me: Pid, access: Access) -> McpServerUnavailable | None:
    """One connection from beginning to end; why it was lost, None when it was closed."""
    failure: McpServerUnavailable | None = None
    try:
        async with AsyncExitStack() as stack:
            client = await _connect(stack, job, me, access)
            failure = await _serve(job, client)
    except ProcessExit:
        raise
    except McpServerUnavailable as lost:
        failure = lost
    except (Exception, BaseExceptionGroup) as error:
        if access.refused:
            return McpServerUnavailable(job.entry.name, login_hint(job.entry))
        if isinstance(error, _NoHandshake):
            raise
        lost_it = await _if_there(lambda message: isinstance(message, Lost))
        why = _with_last_words(lost_it.why, job) if lost_it is not None else _why(error, job)
        failure = McpServerUnavailable(job.entry.name, why)
    return failure


async def _connect(stack: AsyncExitStack, job: Job, me: Pid, access: Access) -> Any:
    from mcp import Client
    from mcp_types import Implementation

    async def heard(message: Any) -> None:
        if getattr(message, "method", "") in LIST_CHANGED:
            send(me, Refresh())

    def lost(why: str) -> None:
        send(me, Lost(why))

    client = Client(
        await _transport(job, lost, access),
        message_handler=heard,
        client_info=Implementation(name="lemon-agents", version=release()),
        cache=None,
        mode="legacy" if job.program.handshake else "auto",
        **Asks(job.entry, job.backing).callbacks(),
    )
    try:
        async with asyncio.timeout(job.connect_s):
            await _greet(stack, job, client)
            offer = await offer_of(client)
    except TimeoutError:
        late = _with_last_words(f"it did not answer within {job.connect_s:g} seconds", job)
        raise McpServerUnavailable(job.entry.name, late) from None
    job.program.answered = True
    _listen(client, me)
    send(job.server, Connected(me, client, offer))
    return client


async def _greet(stack: AsyncExitStack, job: Job, client: Any) -> None:
    from mcp.shared.exceptions import MCPError
    from mcp_types import INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION

    try:
        await stack.enter_async_context(client)
    except Exception as error:
        refused = (METHOD_NOT_FOUND, INVALID_REQUEST, UNSUPPORTED_PROTOCOL_VERSION)
        root = _root(error)
        if job.program.handshake and isinstance(root, MCPError) and root.code in refused:
            raise _NoHandshake from error
        raise


async def _serve(job: Job, client: Any) -> McpServerUnavailable | None:
    """Until it is over; why it was lost, None when it was closed."""
    me = self_pid()
    looked_at_s = monotonic_s()
    while True:
        match await receive():
            case Close():
                return None
            case Lost(why):
                return McpServerUnavailable(job.entry.name, _with_last_words(why, job))
            case Refresh():
                await sleep_s(max(0.0, looked_at_s + LOOK_AGAIN_S - monotonic_s()))
                while await _if_there(lambda message: isinstance(message, Refresh)):
                    pass  # one look is enough for all of them
                looked_at_s = monotonic_s()
                try:
                    async with asyncio.timeout(LIST_S):
                        offer = await offer_of(client)
                except TimeoutError:
                    return McpServerUnavailable(job.entry.name, _with_last_words("it does not answer any more", job))
                send(job.server, Offered(me, offer))


async def _if_there(match: Match) -> Any:
    """A message that has come already; None when there is none."""
    try:
        return await receive(match, timeout_s=0)
    except ReceiveTimeout:
        return None


def _listen(client: Any, me: Pid) -> None:
    """Newer servers tell of changes only to those who listen."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    can = client.server_capabilities
    kinds = {"tools": can.tools, "resources": can.resources, "prompts": can.prompts}
    changing = {f"{kind}_list_changed": True for kind, has in kinds.items() if has is not None and has.list_changed}
    if client.protocol_version in MODERN_PROTOCOL_VERSIONS and changing:
        spawn_link(_hear, client, me, changing, label="listener")


async def _hear(client: Any, me: Pid, changing: dict[str, bool]) -> None:
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
    from mcp.shared.exceptions import MCPError

    while True:
        try:
            async with client.listen(**changing) as changes:
                send(me, Refresh())  # what changed before it listened is told to nobody
                async for _change in changes:
                    send(me, Refresh())
        except ListenNotSupportedError:
            return
        except (SubscriptionLost, MCPError, TimeoutError):
            pass
        await sleep_s(LISTEN_AGAIN_S)


async def _transport(job: Job, lost: Any, access: Access) -> Any:
    entry = job.entry
    if entry.kind == "stdio":
        return program_streams(job.program, job.keeper, lost)
    if is_offline() and not is_loopback(entry.url):
        raise McpServerUnavailable(entry.name, "it is on another machine, and this program was started offline")
    client = partial(http_client, auth=await auth_of(access), on_status=access.note)
    if entry.kind == "http":
        return _http_streams(entry, client)
    from mcp.client.sse import sse_client

    def for_sse(headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        return client(headers, timeout)

    return sse_client(entry.url, headers=dict(entry.headers), httpx_client_factory=for_sse)


@asynccontextmanager
async def _http_streams(entry: ServerEntry, client: Callable[..., Any]) -> AsyncIterator[tuple[Any, Any]]:
    from mcp.client.streamable_http import streamable_http_client

    async with (
        client(dict(entry.headers)) as http,
        streamable_http_client(entry.url, http_client=http) as streams,
    ):
        yield streams


def _why(error: BaseException, job: Job) -> str:
    """What went wrong, in a line without secrets."""
    error = _root(error)
    if isinstance(error, OSError) and job.entry.kind == "stdio" and error.strerror:
        return _with_last_words(f"it could not be started: {error.strerror}", job)
    said = " ".join(str(error).split()) or type(error).__name__
    return _with_last_words(job.entry.masked(said)[:300], job)


def _root(error: BaseException) -> BaseException:
    """What went wrong, without the groups that tasks wrap it in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _with_last_words(why: str, job: Job) -> str:
    words = job.program.last_words if job.entry.kind == "stdio" else ""
    return f"{why}; it said: {words}" if words else why


def quiet_library() -> None:
    """Keep the library's own warnings from standard error, where a person works."""
    for name in ("mcp", "client", "httpx2", "httpcore2"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
