"""Edge. `sessions live` and `sessions stop ID`: the sessions that run now, in whichever host of this user."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence

from coding_agent.command_parser import CommandParser
from coding_agent.control.client import ask
from coding_agent.errors import NoSuchSession
from coding_agent.serving.hosts import live_hosts, with_session
from coding_agent.settings import runtime_dir


def live(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """List them; 0 when there is one, 1 when none runs."""
    parser = CommandParser(prog="python -m coding_agent sessions live", description="The sessions that run now.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(argv)
    hosts = live_hosts(runtime_dir(environ))
    sessions = [(host, session) for host in hosts for session in host.sessions]
    if arguments.json:
        listed = [
            {
                "osPid": host.os_pid,
                "cwd": host.cwd,
                "folders": list(host.folders),
                "serving": host.serving,
                "sessions": [dict(s.facts) for s in host.sessions],
            }
            for host in hosts
        ]
        print(json.dumps({"hosts": listed}, ensure_ascii=False, indent=2))
        return 0 if sessions else 1
    for host, session in sessions:
        lookers = "nobody looks" if not session.clients else f"{session.clients} looking"
        name = f"  {session.name}" if session.name else ""
        print(f"{session.id}  {session.state:<10}  {lookers:<12}  {host.os_pid:>7}  {session.cwd}{name}")
    if not sessions:
        print(
            "no session runs" if hosts else "no host runs; start one with: python -m coding_agent serve --detach",
            file=sys.stderr,
        )
    return 0 if sessions else 1


def stop(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """End one session of a host that runs; what it was doing is stored.

    Raises:
        NoSuchSession: None of that id or name runs, or several do.
        HostUnreachable: Its host ended meanwhile.
    """
    parser = CommandParser(
        prog="python -m coding_agent sessions stop", description="End a session that runs; it is stored."
    )
    parser.add_argument("id", metavar="ID", help="a session's id, its beginning, or its name")
    wanted = parser.parse_args(argv).id
    found = with_session(live_hosts(runtime_dir(environ)), wanted)
    if len(found) != 1:
        raise NoSuchSession(f"{'several sessions are' if found else 'no session runs that is'} called {wanted}")
    host, session = found[0]
    answer = ask(host.socket, {"op": "end_session", "session": session.id}, timeout_s=60.0)
    print(f"stored in {answer['file']}", file=sys.stderr)
    return 0
