"""Edge. Servers for a session: what a host calls before it starts one, and what it can ask afterwards.

options = await with_mcp(options, read_servers(settings.cwd, trusted=trusted))
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from coding_agent.errors import BadUsage
from coding_agent.mcp.backing import Backing
from coding_agent.mcp.companion import SessionServers, servers_of, standing_of
from coding_agent.mcp.config_files import Configured
from coding_agent.mcp.entries import ServerEntry
from coding_agent.mcp.mcp_server import Reconnect
from coding_agent.mcp.mcp_toolbox import close_toolbox, open_toolbox, settled_tools
from coding_agent.mcp.names import PREFIX, plain_name, rule_for_server
from coding_agent.mcp.standing import Standing, Status
from coding_agent.permissions.gate import PermissionGate
from coding_agent.permissions.rules import Rule
from coding_agent.session.options import SessionOptions
from coding_agent.session.protocol import GetOptions
from lemon_otp import Address, call, cast

if TYPE_CHECKING:
    from coding_agent.hosting.dialogs import Dialogs

NO_LIBRARY: Final = "MCP servers are configured, but their library is missing: pip install 'lemon-agents[mcp]'"
EVERYTHING: Final = "*"
"""In a list of tools that run unasked: all of the server's."""


async def with_mcp(
    options: SessionOptions,
    configured: Configured,
    *,
    wait_s: float = 0.0,
    only: frozenset[str] | None = None,
    dialogs: "Dialogs | None" = None,
    folders: tuple[Path, ...] = (),
    sampling: bool = False,
) -> SessionOptions:
    """The same options with these servers, which are started now.

    Args:
        options: Of a session that is about to be started by the calling process.
        configured: What to run; nothing is started when there is nothing.
        wait_s: How long to wait for servers; the tools of late ones come to the session while it runs.
        only: Names of the tools that are offered, now and later; None for all.
        dialogs: Where servers may put questions to a person; None declines them.
        folders: Where the session works too; servers that ask are told of them.
        sampling: Servers may have the model answer, each time permission and budget allow it.

    A server that cannot be run never raises; without the library for them, none runs and that is a problem to show.
    """
    if not configured.entries or not library_there():
        missing = (NO_LIBRARY,) if configured.entries else ()
        companion = SessionServers("", (*missing, *configured.problems), configured.waiting)
        return evolve(options, companions=(*options.companions, companion.join))
    gate = options.companion(PermissionGate)
    problems = (*configured.problems, *_allow(gate, configured.entries))
    standing = Standing()
    backing = Backing((options.cwd, *folders), dialogs, gate, sampling, standing)
    toolbox = await open_toolbox(configured.entries, str(options.cwd), only=only, backing=backing)
    tools = await settled_tools(toolbox, wait_s=wait_s) if wait_s > 0 else ()
    companion = SessionServers(toolbox, problems, configured.waiting, standing)
    own = tuple(tool for tool in options.tools if not tool.name.startswith(PREFIX))
    return evolve(options, tools=(*own, *tools), companions=(*options.companions, companion.join))


def library_there() -> bool:
    """Is the library installed?"""
    from importlib.util import find_spec

    return find_spec("mcp") is not None


def _allow(gate: PermissionGate | None, entries: Sequence[ServerEntry]) -> list[str]:
    """Let the gate know what the user's own configuration lets run unasked; what no rule can say, a line each."""
    rules: list[Rule] = []
    problems: list[str] = []
    for entry in entries:
        rules += [Rule("allow", plain_name(entry.name, tool)) for tool in entry.always_allow if tool != EVERYTHING]
        if EVERYTHING in entry.always_allow:
            rule = rule_for_server(entry.name, [each.name for each in entries if each.name != entry.name])
            rules += [] if rule is None else [Rule("allow", rule)]
            if rule is None:
                problems.append(f"{entry.name}: no rule can be about all its tools alone; name them one by one")
    if rules and gate is not None and gate.policy is not None:
        gate.policy = gate.policy.with_rules(rules)
    return problems


async def mcp_status(session: Address) -> dict[str, Any]:
    """What a client may know of a session's servers: `get_mcp` of the RPC protocol, and what `/mcp` shows.

    `{"servers": [{name, state, error, tools, resources, templates, prompts, instructions, version}],
    "problems": [...], "waiting": [...]}`
    """
    found = servers_of(await call(session, GetOptions()))
    if found is None:
        return {"servers": [], "problems": [], "waiting": []}
    standing = found.standing
    return {
        "servers": [] if standing is None else [status_to_json(standing.status(name)) for name in standing.servers],
        "problems": list(found.problems),
        "waiting": list(found.waiting),
    }


async def close_servers(options: SessionOptions) -> None:
    """End the servers of a session now, and return when nothing of them is left. They end with it in any case."""
    found = servers_of(options)
    if found is not None and found.toolbox:
        await close_toolbox(found.toolbox)


def reconnect_servers(options: SessionOptions, server: str | None = None) -> tuple[str, ...]:
    """Have the servers of a session connected anew, also those that were given up; which ones.

    Args:
        options: Of the session.
        server: Only this one; None for all.

    Raises:
        BadUsage: The session has no such server.
    """
    standing = standing_of(options)
    servers = {} if standing is None else standing.servers
    if server is not None and server not in servers:
        raise BadUsage(f"there is no MCP server {server!r} here; known are: {', '.join(servers) or 'none'}")
    wanted = tuple(servers) if server is None else (server,)
    for name in wanted:
        cast(servers[name].address, Reconnect())
    return wanted


def status_to_json(status: Status) -> dict[str, Any]:
    """One server, for clients; nothing it was configured with."""
    offer = status.offer
    resources = () if offer is None else offer.resources
    return {
        "name": status.name,
        "state": status.state,
        "error": status.error,
        "tools": [] if offer is None else [tool.name for tool in offer.tools],
        "resources": [each.uri for each in resources if not each.is_template],
        "templates": [each.uri for each in resources if each.is_template],
        "prompts": [] if offer is None else [prompt.name for prompt in offer.prompts],
        "instructions": "" if offer is None else offer.instructions,
        "version": "" if offer is None else offer.version,
    }
