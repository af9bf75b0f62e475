"""Edge. What every start of a session asks: are MCP servers configured here? Next to free when there are none."""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from coding_agent.mcp.names import PREFIX
from coding_agent.session.options import SessionOptions
from lemon_otp import Pid

if TYPE_CHECKING:
    from coding_agent.hosting.running import HostRun
    from coding_agent.mcp.entries import ServerEntry
    from coding_agent.settings import Settings


async def with_configured_servers(
    options: SessionOptions, settings: "Settings", notices: list[str], *, only: frozenset[str] | None = None
) -> SessionOptions:
    """The options with the servers of this person and project, started now and ended with the session.

    Servers of the project are left out until it is trusted. None of them can keep the session from starting; what is
    wrong with one becomes a line of `notices`. With `only`, no other tools are offered; where none of them is of a
    server, none is started.
    """
    if only is not None and not any(name.startswith(PREFIX) for name in only):
        return options
    given = options.companion(_Given)
    files = settings.resources.use_mcp and any_files(settings)
    if given is None and not files:
        return options
    from coding_agent.mcp.config_files import Configured, read_servers
    from coding_agent.mcp.session_servers import notices_of, with_mcp

    configured = Configured()
    if files:
        configured = await asyncio.to_thread(read_servers, settings.cwd, os.environ, trusted=settings.trusted)
    if given is not None:
        configured = configured.with_entries(given.entries)
        options = evolve(options, companions=tuple(join for join in options.companions if join != given.join))
    options = await with_mcp(options, configured, only=only)
    notices += await notices_of(options)
    return options


def with_given_servers(options: SessionOptions, entries: "tuple[ServerEntry, ...]") -> SessionOptions:
    """The options, with servers that a front end was given for this session; they win over configured ones by name."""
    return evolve(options, companions=(*options.companions, _Given(entries).join))


@frozen
class _Given:
    """Servers that wait to be started with those that are configured."""

    entries: "tuple[ServerEntry, ...]"

    def join(self, _session: Pid, _file: Path, _tell: Callable[..., None]) -> Mapping[str, Any]:
        """They were never started; nothing goes along."""
        return {}


def any_files(settings: "Settings") -> bool:
    """Is there a file that may name servers?"""
    from coding_agent.mcp.places import project_files, user_files

    return any(path.is_file() for path in user_files(os.environ)) or bool(project_files(settings.cwd))


def servers_extra(host: "HostRun") -> Any:
    """The same for `OpenSessions.extras`."""

    async def extra(options: SessionOptions, _dialogs: Any) -> SessionOptions:
        named = host.arguments.tools
        only = None if named is None else frozenset(named)
        return await with_configured_servers(options, host.settings, host.notices, only=only)

    return extra
