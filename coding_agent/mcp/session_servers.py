"""Edge. Servers for a session: what a host calls before it starts one, and what it can ask afterwards.

options = await with_mcp(options, read_servers(settings.cwd, trusted=trusted))
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, frozen

from coding_agent.mcp.config_files import Configured
from coding_agent.mcp.entries import ServerEntry
from coding_agent.mcp.mcp_server import Reconnect
from coding_agent.mcp.mcp_toolbox import WAIT_S, GetServers, Joined, close_toolbox, open_toolbox, settled_tools
from coding_agent.mcp.names import PREFIX, plain_name
from coding_agent.permissions.gate import PermissionGate
from coding_agent.permissions.rules import Rule
from coding_agent.session.options import SessionOptions
from coding_agent.session.protocol import GetOptions
from lemon_otp import Address, CallFailed, NoProcess, Pid, call, cast

if TYPE_CHECKING:
    from coding_agent.mcp.mcp_server import Status

NO_LIBRARY: Final = "MCP servers are configured, but their library is missing: pip install 'lemon-agents[mcp]'"


@frozen
class SessionServers:
    """What goes along with a session that has servers: a companion of `SessionOptions`.

    Attributes:
        toolbox: The registered name of its `mcp_toolbox`; empty when no server runs.
        problems: What could not be used of the configuration.
        waiting: Servers of the repository that run once it is trusted.
    """

    toolbox: str = ""
    problems: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()

    def join(self, session: Pid, _file: Path, _tell: Callable[..., None]) -> Mapping[str, Any]:
        """Go along with a session: its set of tools follows its servers, and they end with it."""
        if self.toolbox:
            cast(self.toolbox, Joined(session))
        return {}


async def with_mcp(
    options: SessionOptions, configured: Configured, *, wait_s: float = WAIT_S, only: frozenset[str] | None = None
) -> SessionOptions:
    """The same options with the tools of these servers, which are started now.

    Args:
        options: Of a session that is about to be started by the calling process.
        configured: What to run; nothing is started when there is nothing.
        wait_s: How long to wait for servers; the tools of late ones come to the session while it runs.
        only: Names of the tools that are offered, now and later; None for all.

    A server that cannot be run never raises; without the library for them, none runs and that is a problem to show.
    """
    if not configured.entries or not library_there():
        missing = (NO_LIBRARY,) if configured.entries else ()
        companion = SessionServers("", (*missing, *configured.problems), configured.waiting)
        return evolve(options, companions=(*options.companions, companion.join))
    _allow(options, configured.entries)
    toolbox = await open_toolbox(configured.entries, str(options.cwd), only=only)
    tools = await settled_tools(toolbox, wait_s=wait_s)
    companion = SessionServers(toolbox, configured.problems, configured.waiting)
    own = tuple(tool for tool in options.tools if not tool.name.startswith(PREFIX))
    return evolve(options, tools=(*own, *tools), companions=(*options.companions, companion.join))


def library_there() -> bool:
    """Is the library installed?"""
    from importlib.util import find_spec

    return find_spec("mcp") is not None


def _allow(options: SessionOptions, entries: Sequence[ServerEntry]) -> None:
    """Let the session's gate know which tools the user's own configuration lets run unasked."""
    rules = [Rule("allow", plain_name(entry.name, tool)) for entry in entries for tool in entry.always_allow]
    gate = options.companion(PermissionGate)
    if rules and gate is not None and gate.policy is not None:
        gate.policy = gate.policy.with_rules(rules)


async def mcp_status(session: Address) -> dict[str, Any]:
    """What a client may know of a session's servers: `get_mcp` of the RPC protocol, and what `/mcp` shows.

    `{"servers": [{name, state, error, tools, resources, prompts, version}], "problems": [...], "waiting": [...]}`
    """
    found = servers_of(await call(session, GetOptions()))
    if found is None:
        return {"servers": [], "problems": [], "waiting": []}
    statuses: tuple[Status, ...] = ()
    if found.toolbox:
        try:
            statuses = await call(found.toolbox, GetServers())
        except (CallFailed, NoProcess):
            statuses = ()
    return {
        "servers": [status_to_json(status) for status in statuses],
        "problems": list(found.problems),
        "waiting": list(found.waiting),
    }


async def notices_of(options: SessionOptions) -> list[str]:
    """What a person should know of the servers of a session that is about to start, a line each."""
    found = servers_of(options)
    if found is None:
        return []
    lines = [f"MCP: {problem}" for problem in found.problems]
    statuses: tuple[Status, ...] = await call(found.toolbox, GetServers()) if found.toolbox else ()
    return lines + [f"MCP: {status.name} is not connected: {status.error}" for status in statuses if status.error]


async def close_servers(options: SessionOptions) -> None:
    """End the servers of a session now, and return when nothing of them is left. They end with it in any case."""
    found = servers_of(options)
    if found is not None and found.toolbox:
        await close_toolbox(found.toolbox)


def reconnect_servers(options: SessionOptions) -> None:
    """Have the servers of a session that are not connected tried again now, also those that were given up."""
    found = servers_of(options)
    if found is not None and found.toolbox:
        cast(found.toolbox, Reconnect())


def servers_of(options: SessionOptions) -> SessionServers | None:
    """The companion of a session that has servers."""
    return options.companion(SessionServers)


def status_to_json(status: "Status") -> dict[str, Any]:
    """One server, for clients; nothing it was configured with."""
    offer = status.offer
    return {
        "name": status.name,
        "state": status.state,
        "error": status.error,
        "tools": [] if offer is None else [tool.name for tool in offer.tools],
        "resources": [] if offer is None else list(offer.resources),
        "prompts": [] if offer is None else list(offer.prompts),
        "version": "" if offer is None else offer.version,
    }
