"""Edge. `python -m coding_agent metrics`: print the Prometheus series of the hosts of this user that count."""

import os
import sys
from collections.abc import Mapping, Sequence

from coding_agent.command_parser import CommandParser
from coding_agent.control.client import ask, sockets
from coding_agent.errors import HostUnreachable
from coding_agent.settings import runtime_dir


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Print the series; 0 when a host answered, 1 when none runs or none counts."""
    parser = CommandParser(
        prog="python -m coding_agent metrics", description="The Prometheus series of every host started with --metrics."
    )
    parser.parse_args(argv)
    folder = runtime_dir(environ)
    refusals = []
    printed = False
    for path in sockets(folder):
        try:
            print(ask(path, {"op": "metrics"})["text"], end="")
            printed = True
        except HostUnreachable as refusal:
            refusals.append(str(refusal))
    if not printed:
        print(
            refusals[0] if refusals else f"no host is running (looked in {folder}); start one with --metrics",
            file=sys.stderr,
        )
    return 0 if printed else 1
