"""Edge. `python -m coding_agent doctor`: every check, what it found, what to do about it."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from coding_agent.command_parser import CommandParser
from coding_agent.doctor import folders, hosts, models, software, surroundings
from coding_agent.doctor.finding import Check, Finding, Place
from coding_agent.errors import BadUsage
from lemon_ai import redact

CHECKS: Final[Mapping[str, Check]] = {
    "python": software.python,
    "packages": software.packages,
    "extras": software.extras,
    "terminal": surroundings.terminal,
    "settings": folders.settings,
    "credentials": models.credentials,
    "local servers": models.local_servers,
    "model": models.model,
    "sandbox": surroundings.sandbox,
    "programs": software.programs,
    "folders": folders.folders,
    "hosts": hosts.hosts,
    "disk": surroundings.disk,
    "limits": surroundings.limits,
}
"""Every check, in the order it is shown."""


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Print what every check found; 0 when nothing failed, 1 when something did.

    Raises:
        BadUsage: The working folder is gone, or a flag is not known.
    """
    parser = CommandParser(
        prog="python -m coding_agent doctor",
        description="Look at everything the program needs here. Nothing is changed, no credential is shown.",
        epilog="exit codes: 0 nothing failed (there may be warnings); 1 something failed; 2 bad usage",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--cwd", metavar="DIR", help="the folder the agent would work in (default: this one)")
    arguments = parser.parse_args(argv)
    try:
        place = Place(environ, Path(arguments.cwd or ".").absolute())
    except FileNotFoundError as error:
        raise BadUsage("the working folder does not exist any more; go to another or give one with --cwd") from error
    if not place.cwd.is_dir():
        raise BadUsage(f"{place.cwd} is not a folder")
    findings = examine(place)
    if arguments.json:
        print(json.dumps(to_json(findings), ensure_ascii=False, indent=2))
    else:
        for line in lines(findings):
            print(line)
    return 1 if any(finding.level == "fail" for finding in findings) else 0


def examine(place: Place, checks: Mapping[str, Check] = CHECKS) -> list[Finding]:
    """Every finding of every check; one that breaks is a finding itself."""
    found: list[Finding] = []
    for area, check in checks.items():
        try:
            found += check(place)
        except Exception as error:  # a doctor that falls ill is no help
            said = redact(f"the check itself failed: {type(error).__name__}: {error}")
            found.append(Finding(area, "fail", said, "report this"))
    return found


def to_json(findings: Iterable[Finding]) -> dict[str, Any]:
    """For programs: `ok`, how many of each level, every finding."""
    listed = list(findings)
    counts = {level: sum(finding.level == level for finding in listed) for level in ("ok", "warn", "fail")}
    return {
        "ok": counts["fail"] == 0,
        "counts": counts,
        "findings": [
            {
                "area": finding.area,
                "level": finding.level,
                "said": finding.said,
                "mend": finding.mend or None,
                "facts": dict(finding.facts),
            }
            for finding in listed
        ],
    }


def lines(findings: Sequence[Finding], *, width: int = 100) -> list[str]:
    """For a person: a line a finding, what to do below it, a summary."""
    shown: list[str] = []
    column = max((len(finding.area) for finding in findings), default=0)
    for finding in findings:
        head = f"{finding.level:<4}  {finding.area:<{column}}  "
        blank = " " * len(head)
        shown += textwrap.wrap(
            finding.said or "-", width, initial_indent=head, subsequent_indent=blank, break_on_hyphens=False,
            break_long_words=False,
        )  # fmt: skip
        if finding.mend and finding.level != "ok":
            shown += textwrap.wrap(
                f"-> {finding.mend}", width, initial_indent=blank, subsequent_indent=blank + "   ",
                break_on_hyphens=False, break_long_words=False,
            )  # fmt: skip
    failed, warned = (sum(finding.level == level for finding in findings) for level in ("fail", "warn"))
    shown.append(f"{failed} failed, {warned} to look at" if failed or warned else "all is well")
    return shown
