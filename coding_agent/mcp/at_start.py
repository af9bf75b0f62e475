"""Edge. What every start of a session asks: are MCP servers configured here? Next to free when there are none."""

import asyncio
import os
from typing import TYPE_CHECKING, Any

from coding_agent.session.options import SessionOptions

if TYPE_CHECKING:
    from coding_agent.hosting.running import HostRun
    from coding_agent.settings import Settings


async def with_configured_servers(options: SessionOptions, settings: "Settings", notices: list[str]) -> SessionOptions:
    """The options with the servers of this person and project, started now and ended with the session.

    Servers of the project are left out until it is trusted. None of them can keep the session from starting; what is
    wrong with one becomes a line of `notices`.
    """
    if not settings.resources.use_mcp or not any_files(settings):
        return options
    from coding_agent.mcp.config_files import read_servers
    from coding_agent.mcp.session_servers import notices_of, with_mcp

    configured = await asyncio.to_thread(read_servers, settings.cwd, os.environ, trusted=settings.trusted)
    options = await with_mcp(options, configured)
    notices += await notices_of(options)
    return options


def any_files(settings: "Settings") -> bool:
    """Is there a file that may name servers?"""
    from coding_agent.mcp.places import project_files, user_files

    return any(path.is_file() for path in user_files(os.environ)) or bool(project_files(settings.cwd))


def servers_extra(host: "HostRun") -> Any:
    """The same for `OpenSessions.extras`."""

    async def extra(options: SessionOptions, _dialogs: Any) -> SessionOptions:
        return await with_configured_servers(options, host.settings, host.notices)

    return extra
