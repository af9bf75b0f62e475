"""Edge. `python -m coding_agent tree`: print the supervision tree of every host of this user that runs now."""

import json
import os
import sys
from collections.abc import Mapping, Sequence

from coding_agent.command_parser import CommandParser
from coding_agent.control.client import ask_all
from coding_agent.settings import runtime_dir


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Print the trees; 0 when a host answered, 1 when none runs."""
    parser = CommandParser(
        prog="python -m coding_agent tree", description="The supervision tree of every host that runs now."
    )
    parser.add_argument("--json", action="store_true", help="one line of JSON a host")
    arguments = parser.parse_args(argv)
    folder = runtime_dir(environ)
    answers = ask_all(folder, {"op": "tree", "text": not arguments.json})
    if not answers:
        print(f"no host is running (looked in {folder}); start one with python -m coding_agent", file=sys.stderr)
        return 1
    for answer in answers:
        if arguments.json:
            print(json.dumps({"os_pid": answer.os_pid, "tree": answer.value["tree"]}, ensure_ascii=False))
        else:
            print(f"host {answer.os_pid}\n{answer.value['text']}")
    return 0
