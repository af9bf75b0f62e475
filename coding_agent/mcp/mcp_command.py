"""Edge. `mcp list|check|login|logout`: the servers that are configured here, whether they answer, logins there."""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from coding_agent.command_parser import CommandParser, or_first
from coding_agent.errors import BadUsage, LoginRefused
from coding_agent.mcp.config_files import Configured, read_servers
from coding_agent.mcp.entries import ServerEntry
from coding_agent.tools.visible_text import plain

EXIT_BAD: Final = 1

_EPILOG = """\
mcp list     every server that is configured here, with the file it stands in; starts nothing
mcp check    start each server, list its tools, and end it again; 1 when one of them does not answer
mcp login    log in at a server over HTTP, through a browser; the login is kept and renewed
mcp logout   forget the login at a server

Servers of the project wait until you trust it: see `trust show`, or give --trust for this once.
"""


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run the command; 1 when `check` found a server that does not answer, a file cannot be used, or no login is there.

    Raises:
        BadUsage: The command line cannot be used, or the library is missing.
        LoginRefused, BadCredentialFile: There is no login. Nothing was changed.
    """
    from coding_agent.settings import read_settings

    asked = _parser().parse_intermixed_args(or_first(argv, "list"))
    settings = read_settings(environ, cwd=asked.cwd, trust_once=asked.trust)
    configured = read_servers(settings.cwd, environ, trusted=settings.trusted)
    if asked.what in ("login", "logout"):
        entry = _remote_server(configured, asked.names)
        return (_log_in if asked.what == "login" else _log_out)(entry, environ)
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


def _remote_server(configured: Configured, names: Sequence[str]) -> ServerEntry:
    """The one server over HTTP that is named."""
    remote = {entry.name: entry for entry in configured.entries if entry.kind != "stdio"}
    if len(names) != 1 or names[0] not in remote:
        raise BadUsage(f"name one server that is reached over HTTP: {', '.join(remote) or 'none is configured here'}")
    return remote[names[0]]


def _log_in(entry: ServerEntry, environ: Mapping[str, str]) -> int:
    from coding_agent.mcp.oauth import has_own_credential, log_in
    from coding_agent.mcp.session_servers import NO_LIBRARY, library_there
    from lemon_otp import run

    if not library_there():
        raise BadUsage(NO_LIBRARY)
    if has_own_credential(entry):
        raise BadUsage(f"{entry.name} is given a credential in its headers ({entry.source}); take that out to log in")
    run(log_in, entry, _from_browser, environ)
    print(f"logged in at {plain(entry.name)}; sessions that run take it up with /mcp reconnect", file=sys.stderr)
    return 0


async def _from_browser(url: str, redirect: str) -> Any:
    from urllib.parse import parse_qs, urlsplit

    from mcp.shared.auth import AuthorizationCodeResult

    from coding_agent.credentials.oauth_login import from_browser
    from lemon_ai import AiError
    from lemon_ai.auth import read_code

    (state,) = parse_qs(urlsplit(url).query)["state"]

    def read(answer: str) -> AuthorizationCodeResult:
        issuers = parse_qs(urlsplit(answer).query).get("iss", [None])
        return AuthorizationCodeResult(code=read_code(answer, state), state=state, iss=issuers[0])

    try:
        return await from_browser(url, redirect, read)
    except AiError as error:
        raise LoginRefused(str(error)) from error


def _log_out(entry: ServerEntry, environ: Mapping[str, str]) -> int:
    from coding_agent.credentials.credential_file import CredentialFile, credential_path
    from coding_agent.mcp.oauth_store import login_name

    was_there = CredentialFile(credential_path(environ)).remove(login_name(entry.url))
    print(f"{'forgotten' if was_there else 'nothing is stored'}: {plain(entry.name)}", file=sys.stderr)
    return 0 if was_there else EXIT_BAD


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
