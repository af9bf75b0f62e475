"""Edge. Servers for a session: what a host calls before it starts one, and what it can ask afterwards.

options = await with_mcp(options, read_servers(settings.cwd, trusted=trusted))
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from coding_agent.errors import BadUsage
from coding_agent.mcp.config_files import Configured
from coding_agent.mcp.entries import ServerEntry
from coding_agent.mcp.mcp_toolbox import WAIT_S, GetServers, Joined, open_toolbox, settled_tools
from coding_agent.mcp.names import PREFIX, plain_name
from coding_agent.session.options import SessionOptions
from coding_agent.session.protocol import GetOptions
from lemon_otp import Address, CallFailed, NoProcess, Pid, call, cast

if TYPE_CHECKING:
    from coding_agent.mcp.mcp_server import Status


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


async def with_mcp(options: SessionOptions, configured: Configured, *, wait_s: float = WAIT_S) -> SessionOptions:
    """The same options with the tools of these servers, which are started now.

    Args:
        options: Of a session that is about to be started by the calling process.
        configured: What to run; nothing is started when there is nothing.
        wait_s: How long to wait for servers; the tools of late ones come to the session while it runs.

    Raises:
        BadUsage: Servers are configured, and the library for them is not installed. Nothing was started.
    """
    if not configured.entries:
        companion = SessionServers("", configured.problems, configured.waiting)
        return evolve(options, companions=(*options.companions, companion.join))
    require_library()
    toolbox = await open_toolbox(configured.entries, str(options.cwd))
    tools = await settled_tools(toolbox, wait_s=wait_s)
    companion = SessionServers(toolbox, configured.problems, configured.waiting)
    own = tuple(tool for tool in options.tools if not tool.name.startswith(PREFIX))
    return evolve(options, tools=(*own, *tools), companions=(*options.companions, companion.join))


def require_library() -> None:
    """Return when the library is installed.

    Raises:
        BadUsage: It is not; the text says what to install.
    """
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise BadUsage("MCP servers need the extra `mcp`: pip install 'lemon-agents[mcp]'")


def allow_rules(entries: Sequence[ServerEntry]) -> tuple[str, ...]:
    """Permission rules for the tools that the user's own configuration lets run unasked."""
    return tuple(plain_name(entry.name, tool) for entry in entries for tool in entry.always_allow)


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


def servers_of(options: SessionOptions) -> SessionServers | None:
    """The companion of a session that has servers."""
    owners = (getattr(join, "__self__", None) for join in options.companions)
    return next((owner for owner in owners if isinstance(owner, SessionServers)), None)


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
