"""`python -m tests.cassettes PATH... [--split N | --split random:SEED]`: one JSON line for each cassette.

The exit status is 0 when every cassette gave what was wanted.
"""

import argparse
import asyncio
import json
import re
import sys

from tests.cassettes.recording import find
from tests.cassettes.run import play_all


def _split(text: str) -> str:
    if text == "whole" or re.fullmatch(r"[1-9]\d*|random:.+", text):
        return text
    raise argparse.ArgumentTypeError("a number of bytes, random:SEED, or whole")


async def _main(paths: list[str], split: str | None) -> int:
    failed = 0
    async for line in play_all(find(paths), split):
        print(json.dumps(line, ensure_ascii=False), flush=True)
        failed += not line["ok"]
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.cassettes", description=__doc__)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="cassette files, or folders of them")
    parser.add_argument("--split", type=_split, help="pieces of N bytes, or random:SEED; the whole body if left out")
    arguments = parser.parse_args()
    sys.exit(asyncio.run(_main(arguments.paths, arguments.split)))
