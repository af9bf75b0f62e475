"""Edge. `python -m lemon_otp.repl --attach SOCKET`: look into a running tree from another terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lemon_otp.repl_shell.asking import Asker, Unreachable
from lemon_otp.repl_shell.commands import table
from lemon_otp.repl_shell.drawing import drawing
from lemon_otp.repl_shell.prompt import MissingExtra, prompt
from lemon_otp.repl_shell.shell import FAILED, USAGE, Shell, run_once


def main(argv: Sequence[str] | None = None) -> int:
    """Attach to a tree that serves a socket, for one command or for a prompt; the exit code.

    0 done, 1 the answer is an error or nobody answers, 2 the command cannot be understood.
    """
    parser = argparse.ArgumentParser(
        prog="python -m lemon_otp.repl", description="Look into a running tree that serves a control socket."
    )
    parser.add_argument("--attach", metavar="SOCKET", type=Path, required=True, help="the socket the tree serves")
    add_shared_arguments(parser)
    arguments = parser.parse_args(argv)
    try:
        with Asker(arguments.attach) as asker:
            plain = arguments.plain or arguments.json
            shell = Shell(
                asker,
                drawing(sys.stdout, plain_text=plain),
                table(),
                unsafe=arguments.unsafe,
                as_json=arguments.json,
            )
            if arguments.once is not None:
                return run_once(shell, arguments.once)
            return prompt(shell, f"attached to process {asker.hello.get('os_pid')}")
    except Unreachable as gone:
        print(f"error: {gone}", file=sys.stderr)
        return FAILED
    except MissingExtra as missing:
        print(f"error: {missing}", file=sys.stderr)
        return USAGE


def add_shared_arguments(parser: argparse.ArgumentParser) -> None:
    """What every program with this prompt takes."""
    parser.add_argument("--once", metavar="COMMAND", help="do one command and end")
    parser.add_argument("--json", action="store_true", help="with --once: answers as lines of JSON")
    parser.add_argument("--plain", action="store_true", help="no colours")
    parser.add_argument("--unsafe", action="store_true", help="offer `eval`, which the host must allow as well")
