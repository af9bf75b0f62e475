"""Edge. `python -m coding_agent attach [ID]`: a terminal, or a program, on a session of a host that runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import evolve, frozen

from coding_agent.command_parser import CommandParser
from coding_agent.errors import BadUsage, NoSuchSession
from coding_agent.folders import folders
from coding_agent.serving.hosts import LiveHost, hosts_of, live_hosts, with_session
from coding_agent.settings import read_settings, runtime_dir
from coding_agent.storage.finding import MEANT, find_session
from coding_agent.terminal.theme import DARK, Theme, find_theme

START_ONE: Final = "start one with: python -m coding_agent serve --detach"


@frozen
class Target:
    """What to become a client of.

    Attributes:
        host: Whose session it is.
        request: Which one, as the operation `rpc` takes it.
        notice: A line for the person; empty for none.
    """

    host: LiveHost
    request: Mapping[str, Any]
    notice: str = ""


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Look at a session until the person leaves; it goes on without them.

    Raises:
        NoSuchSession: No host runs that session, or none serves this folder and none can.
        HostUnreachable: It ended meanwhile, or refused.
    """
    parser = CommandParser(
        prog="python -m coding_agent attach",
        description="A terminal on a session that a host keeps alive. Leaving it ends nothing.",
        epilog="Without ID: the session of this folder that was opened last, or a new one. Where no host serves the "
        "folder, one that serves another takes it in.",
    )
    parser.add_argument("id", nargs="?", metavar="ID", help="a session's id, its beginning, or its name")
    parser.add_argument("--new", action="store_true", help="a new session in this folder")
    parser.add_argument("--session", metavar="SESSION", help=f"let a host go on with {MEANT}")
    parser.add_argument("--cwd", metavar="DIR", help="the folder (default: this one)")
    parser.add_argument(
        "--mode", choices=("text", "rpc"), default="text", help="rpc: commands in, events out, as lines"
    )
    parser.add_argument(
        "--rpc-deltas", action="store_true", help="with --mode rpc: message_update without the message so far"
    )
    parser.add_argument("--theme", metavar="NAME", help="the colours; of the settings when left out")
    parser.add_argument("--no-colour", action="store_true", help="no colours")
    arguments = parser.parse_args(argv)
    if sum(bool(one) for one in (arguments.id, arguments.new, arguments.session)) > 1:
        raise BadUsage("ID, --new and --session each name a session; give one of them")
    target = chosen(arguments, live_hosts(runtime_dir(environ)), environ)
    if target.notice:
        print(target.notice, file=sys.stderr)
    if arguments.mode == "rpc":
        from coding_agent.serving.raw_lines import pump

        return pump(target.host.socket, {**target.request, "rpcDeltas": arguments.rpc_deltas})
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadUsage("this is no terminal; a program attaches with --mode rpc")
    from lemon_otp import run

    theme = _theme(arguments.theme, environ)
    return run(_terminal, target, environ, theme, arguments.no_colour)


def chosen(arguments: argparse.Namespace, hosts: Sequence[LiveHost], environ: Mapping[str, str] = os.environ) -> Target:
    """The host and the session that are meant.

    Raises:
        NoSuchSession: There is none, or several fit; the text names what there is.
        BadUsage: There is no such folder.
    """
    if arguments.id:
        return _by_id(arguments.id, hosts)
    cwd = Path(arguments.cwd or ".").resolve()
    if not cwd.is_dir():
        raise BadUsage(f"there is no folder {cwd}")
    here = hosts_of(hosts, cwd)
    host = next(iter((*here, *(host for host in hosts if host.takes_folders))), None)
    if host is None:
        others = f"; there are hosts for {', '.join(sorted({host.cwd for host in hosts}))}" if hosts else ""
        raise NoSuchSession(f"no host serves {cwd}{others}; {START_ONE}")
    place = {"cwd": str(cwd)} if host.takes_folders else {}
    notice = "" if here else f"process {host.os_pid}, which serves {host.cwd}, serves {cwd} too from now on"
    if arguments.session:
        kept = read_settings(environ, cwd=str(cwd)).session_dir
        return Target(host, {"file": str(find_session(arguments.session, kept, cwd)), **place}, notice)
    sessions = [session for session in host.sessions if session.cwd == str(cwd)]
    if arguments.new or not sessions:
        return Target(host, place, notice)
    return Target(host, {"session": sessions[-1].id})


def _by_id(wanted: str, hosts: Sequence[LiveHost]) -> Target:
    found = with_session(hosts, wanted)
    if len(found) == 1:
        host, session = found[0]
        return Target(host, {"session": session.id})
    if found:
        raise NoSuchSession(f"{wanted} may be {', '.join(session.id for _, session in found)}; give more of it")
    live = [session.id for host in hosts for session in host.sessions]
    raise NoSuchSession(
        f"no session {wanted} runs; " + (f"these do: {', '.join(live)}" if live else f"no host has any; {START_ONE}")
    )


def _theme(wanted: str | None, environ: Mapping[str, str]) -> Theme:
    """The theme that was asked for, else that of the settings; the usual one where those cannot be used.

    Raises:
        BadUsage: The one asked for is not there.
    """
    folder = folders(environ).config / "themes"
    if wanted is not None:
        return find_theme(wanted, folder)
    try:
        return find_theme(read_settings(environ).display.theme, folder)
    except BadUsage:  # the host says what is wrong with its settings, and this is only a look at it
        return DARK


async def _terminal(target: Target, environ: Mapping[str, str], theme: Theme, no_colour: bool) -> int:
    from coding_agent.serving.socket_channel import SocketChannel
    from coding_agent.terminal.app import run_terminal
    from coding_agent.terminal.options import options_from

    channel = await SocketChannel.open(target.host.socket, {**target.request, "rpcDeltas": True})
    options = evolve(options_from(environ, channel.cwd, no_colour=no_colour, is_guest=True), theme=theme)
    try:
        code = await run_terminal(channel, options=options)
    finally:
        channel.close()
    if channel.host_left:
        print(f"the host has ended; what was said is stored: session {channel.session}", file=sys.stderr)
        return code or 1
    return code
