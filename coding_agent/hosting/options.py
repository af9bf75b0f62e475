"""Edge. What a session of this start is opened with, whichever front end opens it."""

from pathlib import Path
from typing import Any

from attrs import evolve

from coding_agent.errors import NoSuchSession, UnknownTool
from coding_agent.hosting.dialogs import Dialogs
from coding_agent.hosting.host_parts import Host, Wanted
from coding_agent.mcp.at_start import end_servers
from coding_agent.permissions.gate import PermissionGate
from coding_agent.safety import Safety
from coding_agent.session.options import SessionOptions
from coding_agent.starting import session_options

SUBAGENT_TOOL = "task"
"""The tool that a session makes for itself when it begins."""


async def options_for(
    host: Host, wanted: Wanted, safety: Safety, gate: PermissionGate, dialogs: Dialogs | None = None
) -> SessionOptions:
    """The options, with what extensions and servers add and what the command line leaves of it.

    Args:
        host: The start it belongs to.
        wanted: Which session, and what it begins with.
        safety: What its tools may do.
        gate: Decides about each call.
        dialogs: Its questions; None where nobody is there.

    Raises:
        BadUsage: There is no such session, no sandbox, or no tool of a name that was given.
    """
    await host.look_again()
    options = session_options(
        host.settings,
        host.choice,
        resume=wanted.resume,
        session=None if wanted.file is None else str(wanted.file),
        gate=gate,
        safety=safety,
        resources=host.resources,
    )
    if wanted.file is not None and not wanted.first:  # a session that was stored goes on as it was
        options = evolve(options, override_model=False, thinking_level=None)
    options = evolve(options, get_api_key=host.known.key_finder, **_given(wanted))
    try:
        for extra in host.all_extras():
            options = await extra(options, dialogs)
        return with_tools(options, host.arguments.tools)
    except Exception:
        await end_servers(options)  # nobody else will
        raise


def with_tools(options: SessionOptions, names: tuple[str, ...] | None) -> SessionOptions:
    """The options with these tools only; None leaves all.

    Raises:
        UnknownTool: There is no tool of such a name.
    """
    if names is None:
        return options
    known = {tool.name for tool in options.tools} | ({SUBAGENT_TOOL} if options.session_tools else set())
    if unknown := [name for name in names if name not in known]:
        raise UnknownTool(unknown, sorted(known))
    tools = tuple(tool for tool in options.tools if tool.name in names)
    return evolve(options, tools=tools, session_tools=options.session_tools if SUBAGENT_TOOL in names else ())


def first_file(host: Host) -> Path | None:
    """The file that `--session` means, or a new one made of the one that `--fork` means; None for neither.

    Raises:
        NoSuchSession: There is no such session, or the word may mean several.
        SessionError: What is to be forked cannot be read.
    """
    arguments = host.arguments
    wanted = arguments.session or arguments.fork
    if wanted is None:
        return None
    from coding_agent.storage.finding import find_session

    source = find_session(wanted, host.settings.session_dir, host.settings.cwd)
    if arguments.fork is None:
        return source
    from coding_agent.storage import copying
    from coding_agent.storage.opening import open_for_reading

    if not source.exists():
        raise NoSuchSession(f"there is no session file {source}")
    with open_for_reading(source) as manager:
        return copying.fork(manager.log, session_dir=host.settings.session_dir, cwd=host.settings.cwd).path


def _given(wanted: Wanted) -> dict[str, Any]:
    given = {"model": wanted.model, "thinking_level": wanted.thinking_level, "parent_session": wanted.parent_session}
    return {name: value for name, value in given.items() if value is not None}
