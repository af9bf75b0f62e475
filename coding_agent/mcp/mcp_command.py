"""Edge. `mcp list|check`: the servers that are configured for a folder, and whether they answer."""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from coding_agent.command_parser import CommandParser
from coding_agent.errors import BadUsage, LoginRefused
from coding_agent.mcp.config_files import Configured, read_servers
from coding_agent.mcp.entries import ServerEntry
from coding_agent.tools.visible_text import plain

EXIT_BAD: Final = 1

_EPILOG = """\
mcp list     every server that is configured here, with the file it stands in; starts nothing
mcp check    start each server, list its tools, and end it again; 1 when one of them does not answer

Servers of the project wait until you trust it: see `trust show`, or give --trust for this once.
"""


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run the command; 1 when `check` found a server that does not answer, or a file cannot be used.

    Raises:
        BadUsage: The command line cannot be used, or the library is missing.
    """
    from coding_agent.settings import read_settings
        LoginRefused, BadCredentialFile: There is no login. Nothing was changed.

    asked = _parser().parse_intermixed_args(list(argv))
    settings = read_settings(environ, cwd=asked.cwd, trust_once=asked.trust)
    configured = read_servers(settings.cwd, environ, trusted=settings.trusted)
    if asked.what == "list":
        rows = [_row(entry) for entry in configured.entries]
    else:
        rows = _checked(configured, str(settings.cwd), asked.names, asked.timeout)
    _print(rows, configured, as_json=asked.json)
    return EXIT_BAD if configured.problems or any(row.get("error") for row in rows) else 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m coding_agent mcp", epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("list", "check", "login", "logout"), metavar="list|check|login|logout")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these servers")
    parser.add_argument("--cwd", metavar="DIR", help="the project (default: this folder)")
    parser.add_argument("--trust", action="store_true", help="the project's own servers too, for this once")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="SECONDS", help="for each server to answer")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _row(entry: ServerEntry) -> dict[str, Any]:
    return {"name": entry.name, "kind": entry.kind, "scope": entry.scope, "source": entry.source}


def _checked(configured: Configured, cwd: str, names: Sequence[str], timeout_s: float) -> list[dict[str, Any]]:
    """Each server with how it stands once it has answered, or not."""
    from coding_agent.application import APPLICATION
    from coding_agent.mcp.mcp_toolbox import GetServers, close_toolbox, open_toolbox, settled_tools
    from coding_agent.mcp.session_servers import NO_LIBRARY, library_there, status_to_json
    from lemon_otp import call, ensure_all_started, run, stop_all

    entries = [entry for entry in configured.entries if not names or entry.name in names]
    if unknown := set(names) - {entry.name for entry in entries}:
        raise BadUsage(f"no server {', '.join(sorted(unknown))} is configured here; see mcp list")
    if entries and not library_there():
        raise BadUsage(NO_LIBRARY)

    async def check() -> list[dict[str, Any]]:
        await ensure_all_started(APPLICATION)
        try:
            toolbox = await open_toolbox(entries, cwd, connect_s=timeout_s)
            await settled_tools(toolbox, wait_s=timeout_s + 10.0)
            statuses = {status.name: status_to_json(status) for status in await call(toolbox, GetServers())}
            await close_toolbox(toolbox)
        finally:
            await stop_all()
        return [{**_row(entry), **statuses[entry.name]} for entry in entries]

    return run(check) if entries else []


def _print(rows: Sequence[Mapping[str, Any]], configured: Configured, *, as_json: bool) -> None:
    if as_json:
        whole = {"servers": rows, "problems": list(configured.problems), "waiting": list(configured.waiting)}
        print(json.dumps(whole, indent=2, ensure_ascii=False))
        return
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        state = row.get("error") or (f"ready, {_counted(row)}" if "state" in row else row["kind"])
        print(plain(f"{row['name']:<{width}}  {state}  ({row['scope']}: {row['source']})"))
    if not rows:
        print("no servers are configured here")
    if configured.waiting:
        print(f"waiting for your trust in this project: {plain(', '.join(configured.waiting))}", file=sys.stderr)
    for problem in configured.problems:
        print(f"problem: {plain(problem)}", file=sys.stderr)


def _counted(row: Mapping[str, Any]) -> str:
    parts = [(row["tools"], "tool"), (row["resources"], "resource"), (row["prompts"], "prompt")]
    return (
        ", ".join(f"{len(items)} {name}{'' if len(items) == 1 else 's'}" for items, name in parts if items) or "empty"
    )
