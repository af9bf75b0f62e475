"""Edge. `trust show|yes|no|forget|list`: what in a project waits for the person's trust, and what they say to it."""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coding_agent.command_parser import CommandParser, or_first
from coding_agent.folders import folders
from coding_agent.tools.visible_text import plain
from coding_agent.trust.check import Trust, decide, forget
from coding_agent.trust.store import TrustStore

_EPILOG = """\
trust show     what in this project waits for your trust, and what you said
trust yes      trust it as it is now; a change to one of these files takes that back
trust no       do not, and do not ask again
trust forget   be asked again
trust list     every project you have said something about
"""


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run the command; 0, or for `show` 1 when something waits for trust.

    Raises:
        BadUsage: The command line cannot be used, or the decision cannot be kept. Nothing was changed.
    """
    asked = _parser().parse_args(or_first(argv, "show"))
    if asked.what == "list":
        return _list(environ, as_json=asked.json)
    trust = _trust_of(asked.cwd, environ)
    match asked.what:
        case "yes" | "no":
            trust = decide(trust, asked.what == "yes")
        case "forget":
            trust = forget(trust)
    print(json.dumps(as_json(trust), indent=2, ensure_ascii=False) if asked.json else _shown(trust))
    return 1 if asked.what == "show" and trust.state in ("unknown", "changed") else 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m coding_agent trust", epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("show", "yes", "no", "forget", "list"), metavar="show|yes|no|forget|list")
    parser.add_argument("--cwd", metavar="DIR", help="the project (default: this folder)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _trust_of(cwd: str | None, environ: Mapping[str, str]) -> Trust:
    from coding_agent.settings import read_settings

    trust = read_settings(environ, cwd=cwd).trust
    assert trust is not None
    return trust


def as_json(trust: Trust) -> dict[str, Any]:
    """How things stand, for a program."""
    return {
        "project": str(trust.project),
        "state": trust.state,
        "trusted": trust.trusted,
        "waiting": list(trust.found.lines),
        "changed": list(trust.changed),
        "problem": trust.problem,
    }


_WORDS = {
    "nothing": "nothing here waits for your trust",
    "unknown": "not trusted; you have not said anything",
    "changed": "not trusted any more",
    "declined": "not trusted, as you said",
    "trusted": "trusted",
    "once": "trusted for this start",
}


def _shown(trust: Trust) -> str:
    lines = [f"{trust.project}: {_WORDS[trust.state]}"]
    lines += [f"  changed: {name}" for name in trust.changed]
    lines += [f"  {line}" for line in trust.found.lines]
    if trust.problem:
        lines.append(f"  {trust.problem}")
    return "\n".join(map(plain, lines))


def _list(environ: Mapping[str, str], *, as_json: bool) -> int:
    kept = TrustStore(folders(environ).state / "trust.json").read()
    if as_json:
        listed = [
            {"project": name, "trusted": each.trusted, "decidedMs": each.decided_ms} for name, each in kept.items()
        ]
        print(json.dumps(listed, indent=2, ensure_ascii=False))
        return 0
    for name, each in kept.items():
        print(plain(f"{'yes' if each.trusted else 'no '}  {name}{'' if Path(name).is_dir() else '  (gone)'}"))
    return 0
