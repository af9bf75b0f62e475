"""Edge. `python -m coding_agent repl`: look into a running host and act on it; or into a host made for a look.

Exit codes: 0 done, 1 the answer is an error or no host answers, 2 the command cannot be understood.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from coding_agent.command_parser import CommandParser
from coding_agent.errors import BadUsage
from coding_agent.logs import log_file
from lemon_otp import repl_shell


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Attach to a host, or start a demo in this process, for one command or for a prompt; the exit code.

    Raises:
        HostUnreachable: There is no such host, or it cannot be asked.
        BadUsage: The prompt needs what is not installed.
    """
    parser = CommandParser(
        prog="python -m coding_agent repl",
        description="Look into a running host and act on what runs there. Without --attach a busy demo host is started "
        "in this process and ended again.",
    )
    parser.add_argument(
        "--attach",
        metavar="PID|SOCKET",
        nargs="?",
        const="",
        help="the host to look into; without a value the one that runs",
    )
    repl_shell.add_shared_arguments(parser)
    arguments = parser.parse_args(argv)
    if arguments.json and arguments.once is None:
        raise BadUsage("--json goes with --once COMMAND")
    if arguments.attach is None:
        from coding_agent import logs
        from coding_agent.demo.demo_host import DemoThread

        logs.set_up(environ)  # what crashes in the demo is no concern of this terminal
        with DemoThread(unsafe=arguments.unsafe) as demo, repl_shell.Asker(demo.socket) as asker:
            return _look(asker, arguments, "a demo host runs in this process", environ)
    from coding_agent.repl.attaching import attach

    with attach(arguments.attach, environ) as asker:
        return _look(asker, arguments, f"attached to host {asker.hello.get('os_pid')}", environ)


def _look(asker: repl_shell.Asker, arguments: argparse.Namespace, title: str, environ: Mapping[str, str]) -> int:
    from coding_agent.repl.pages import COMMANDS, RENDERERS

    shell = repl_shell.Shell(
        asker,
        repl_shell.drawing(sys.stdout, plain_text=arguments.plain or arguments.json),
        repl_shell.table(COMMANDS),
        RENDERERS,
        unsafe=arguments.unsafe,
        as_json=arguments.json,
    )
    if arguments.once is not None:
        return repl_shell.run_once(shell, arguments.once)
    try:
        return repl_shell.prompt(shell, title, history=history_file(environ))
    except repl_shell.MissingExtra as missing:
        raise BadUsage(str(missing)) from missing


def history_file(environ: Mapping[str, str]) -> Path:
    """Where the lines typed at the prompt are kept: beside the host's log."""
    return log_file(environ).with_name("repl-history")
