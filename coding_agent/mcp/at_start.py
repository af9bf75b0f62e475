"""Edge. What every start of a session, and every prompt, asks of MCP servers. Next to free when there are none.

Servers are started beside the session, which does not wait for them; its first prompt does, a short time. Whoever is
late, or gets other tools later, reaches the model with its next turn.
"""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from coding_agent.mcp.companion import servers_of, standing_of
from coding_agent.mcp.names import PREFIX
from coding_agent.session.options import SessionOptions
from lemon_otp import CallFailed, NoProcess

if TYPE_CHECKING:
    from coding_agent.hosting.dialogs import Dialogs
    from coding_agent.hosting.host_parts import Host
    from coding_agent.hosting.input import CommandInfo, Images
    from coding_agent.mcp.entries import ServerEntry
    from coding_agent.settings import Settings

FIRST_PROMPT_S: Final = 3.0
"""How long a first prompt waits for servers on their way, where a person is there and others may follow."""
ONLY_PROMPT_S: Final = 10.0
"""The same where there may be no turn in which a late server's tools could still be used, or one is named."""
COMPLETED_MAX: Final = 50


def servers_extra(host: "Host") -> Any:
    """For the extras of a host: the session gets the servers of this person, this project and this client."""

    async def extra(options: SessionOptions, dialogs: "Dialogs | None") -> SessionOptions:
        named = host.arguments.tools
        return await with_configured_servers(
            options,
            host.settings,
            host.notices,
            only=None if named is None else frozenset(named),
            given=host.client_servers,
            folders=host.more_folders,
            dialogs=dialogs,
        )

    return extra


async def with_configured_servers(
    options: SessionOptions,
    settings: "Settings",
    notices: list[str],
    *,
    only: frozenset[str] | None = None,
    given: "tuple[ServerEntry, ...]" = (),
    folders: tuple[Path, ...] = (),
    dialogs: "Dialogs | None" = None,
) -> SessionOptions:
    """The options with the servers of this person and project, started now and ended with the session.

    Servers of the project are left out until it is trusted. None of them can keep the session from starting; what is
    wrong with the configuration becomes a line of `notices`.

    Args:
        options: Of a session that is about to be started by the calling process.
        settings: Of this start.
        notices: Lines for the person.
        only: No other tools are offered; where none of them is of a server, none is started. They are waited for.
        given: Servers that a client has named; they win over configured ones by name.
        folders: Where the session works too.
        dialogs: Its questions to a person; None where nobody is there.
    """
    if only is not None and not any(name.startswith(PREFIX) for name in only):
        return options
    files = settings.resources.use_mcp and any_files(settings)
    if not given and not files:
        return options
    from coding_agent.mcp.config_files import Configured, read_servers
    from coding_agent.mcp.session_servers import with_mcp

    configured = Configured()
    if files:
        configured = await asyncio.to_thread(read_servers, settings.cwd, os.environ, trusted=settings.trusted)
    options = await with_mcp(
        options,
        configured.with_entries(given),
        only=only,
        wait_s=0.0 if only is None else ONLY_PROMPT_S,
        dialogs=dialogs,
        folders=folders,
        sampling=settings.resources.mcp_sampling,
    )
    found = servers_of(options)
    notices += [] if found is None else [f"MCP: {problem}" for problem in found.problems]
    return options


async def end_servers(options: SessionOptions) -> None:
    """End servers that were started for a session that does not begin, and return when nothing of them is left."""
    if servers_of(options) is not None:
        from coding_agent.mcp.session_servers import close_servers

        await close_servers(options)


def any_files(settings: "Settings") -> bool:
    """Is there a file that may name servers?"""
    from coding_agent.mcp.places import project_files, user_files

    return any(path.is_file() for path in user_files(os.environ)) or bool(project_files(settings.cwd))


# What a prompt asks.


def prompts_of_servers(options: SessionOptions) -> "list[CommandInfo]":
    """The prompts of a session's servers, as what can be typed behind a slash."""
    standing = standing_of(options)
    if standing is None:
        return []
    from coding_agent.hosting.input import CommandInfo
    from coding_agent.mcp.server_prompts import usage_of

    return [
        CommandInfo(name, "mcp", " ".join(filter(None, (prompt.description, usage_of(prompt)))))
        for name, (_server, prompt) in standing.prompts().items()
    ]


def addresses_at_servers(options: SessionOptions, beginning: str) -> list[str]:
    """What can be named after an @ that begins so, `SERVER:ADDRESS`; at least the server must be typed."""
    standing = standing_of(options)
    if standing is None or ":" not in beginning:
        return []
    from coding_agent.mcp.server_prompts import addresses

    return addresses(standing, beginning)[:COMPLETED_MAX]


def first_wait_s(options: SessionOptions, text: str) -> float:
    """How long this text waits for servers, when it is the first: longer when it names something of one."""
    standing = standing_of(options)
    named = standing is not None and any(f"@{name}:" in text for name in standing.servers)
    return ONLY_PROMPT_S if named or text.startswith(f"/{PREFIX}") else FIRST_PROMPT_S


async def servers_settled(options: SessionOptions, wait_s: float) -> list[str]:
    """Wait for servers on their way, once and no longer than this; what a person should know by now, a line each.

    Each failure is told once, with the first prompt after it.
    """
    found = servers_of(options)
    if found is None or found.standing is None:
        return []
    standing = found.standing
    if not standing.settled and not standing.waited_for:
        from coding_agent.mcp.mcp_toolbox import settled_tools

        standing.waited_for = True
        try:
            await settled_tools(found.toolbox, wait_s=wait_s)
        except (CallFailed, NoProcess):
            return ["MCP: the servers of this session do not run any more"]
        late = [name for name in standing.servers if standing.status(name).state == "connecting"]
        return standing.news() + [f"MCP: {name} has not answered yet; its tools come when it does" for name in late]
    return standing.news()


async def typed_for_servers(options: SessionOptions, text: str) -> "tuple[str, Images]":
    """The text with a server's prompt in its place when it names one, and what it mentions of servers behind it.

    Raises:
        BadUsage: A prompt's arguments are not what it takes.
        McpRequestFailed: A server did not answer, or refused.
    """
    standing = standing_of(options)
    if standing is None or not (text.startswith(f"/{PREFIX}") or "@" in text):
        return text, ()
    from coding_agent.mcp.server_prompts import with_mentions, with_prompt

    if text.startswith(f"/{PREFIX}"):
        name, _, words = text[1:].partition(" ")
        return await with_prompt(standing, name.strip(), words) or (text, ())
    return await with_mentions(standing, text)
