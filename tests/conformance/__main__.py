"""Edge. `python -m tests.conformance SCENARIO...`: one trace a line, in input order, and nothing else on stdout."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from tests.conformance.inputs import UnreadableInput, read_scenarios
from tests.conformance.pool import Options, processors, run_all


def main(arguments: Sequence[str] | None = None) -> int:
    """Run scenarios and write their traces; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, metavar="SCENARIO", help=".json, .jsonl or a folder of them")
    parser.add_argument("--jsonl", type=Path, metavar="FILE", help="write there instead of to stdout")
    parser.add_argument("--only", default="", metavar="PREFIX", help="only scenarios whose name begins so")
    parser.add_argument("--clock", choices=("virtual", "real"), default="virtual", help="default: virtual")
    parser.add_argument("--uvloop", action="store_true", help="run on uvloop's event loop")
    parser.add_argument("--jobs", type=int, default=processors(), metavar="N", help="worker processes")
    chosen = parser.parse_args(arguments)
    try:
        scenarios = [scenario for scenario in read_scenarios(chosen.paths) if scenario["name"].startswith(chosen.only)]
    except UnreadableInput as error:
        print(f"cannot read the scenarios: {error}", file=sys.stderr)
        return 2
    options = Options(clock=chosen.clock, uvloop=chosen.uvloop, jobs=chosen.jobs)
    with chosen.jsonl.open("w", encoding="utf-8") if chosen.jsonl else nullcontext(sys.stdout) as out:
        for trace in run_all(scenarios, options):
            print(json.dumps(trace, separators=(",", ":"), ensure_ascii=False), file=out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
