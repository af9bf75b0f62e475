"""Edge. `python -m tests.conformance.fuzz --seeds N`: fresh random scenarios on the BEAM and on lemon_otp, compared.

The first seed follows from the date, so every day tries others. A difference that the BEAM itself shows between two
of its runs (which partition of a registry a process belongs to depends on its number there) is counted apart.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from attrs import frozen

from tests.conformance.beam import NoBeam, differences, generate, is_stable, read_lines, record
from tests.conformance.pool import Options, processors, run_all

RESERVED_FROM: Final = 900_000
"""Seeds from here on are not used in development."""
FIRST: Final = 1_000
"""The seeds below are recorded."""
A_DAY: Final = 997
"""How far apart the first seeds of two days are."""


@frozen
class Outcome:
    """What a comparison found.

    Attributes:
        equal: Scenarios whose traces agree.
        different: Those that differ, each with what the comparison says.
        unstable: Names of those on which the BEAM does not agree with itself.
    """

    equal: int
    different: dict[str, list[str]]
    unstable: list[str]


def seeds_of_today(how_many: int) -> int:
    """The first of today's seeds."""
    today = datetime.now(UTC).toordinal()
    return FIRST + today * A_DAY % (RESERVED_FROM - FIRST - how_many)


def fuzz(first: int, how_many: int, options: Options) -> Outcome:
    """Run the scenarios of these seeds on both sides. Raises NoBeam."""
    with TemporaryDirectory() as folder:
        source, want = Path(folder, "scenarios.jsonl"), Path(folder, "want.jsonl")
        generate(first, how_many, source)
        record(source, want)
        scenarios, recorded = read_lines(source), read_lines(want)
    different: dict[str, list[str]] = {}
    unstable: list[str] = []
    for scenario, expected, actual in zip(scenarios, recorded, run_all(scenarios, options), strict=True):
        if told := differences(expected, actual):
            if is_stable(scenario, expected):
                different[scenario["name"]] = told
            else:
                unstable.append(scenario["name"])
    return Outcome(len(scenarios) - len(different) - len(unstable), different, unstable)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz and tell; the exit status: 0 no difference, 1 some, 2 it could not be done."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.fuzz", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, metavar="N", help="how many (300)")
    parser.add_argument("--start", type=int, metavar="SEED", help="the first; by default it follows from the date")
    parser.add_argument("--clock", choices=("virtual", "real"), default="virtual")
    parser.add_argument("--uvloop", action="store_true")
    chosen = parser.parse_args(arguments)
    first = seeds_of_today(chosen.seeds) if chosen.start is None else chosen.start
    if chosen.seeds < 1 or first < 0 or first + chosen.seeds > RESERVED_FROM:
        print(f"seeds run from 0 to {RESERVED_FROM - 1}; the others are reserved", file=sys.stderr)
        return 2
    try:
        outcome = fuzz(first, chosen.seeds, Options(chosen.clock, chosen.uvloop, processors()))
    except NoBeam as error:
        print(error, file=sys.stderr)
        return 2
    for name, told in outcome.different.items():
        print(f"DIFFERENT {name}", *told, sep="\n  ")
    for name in outcome.unstable:
        print(f"{name}: two runs of the BEAM differ here")
    print(
        f"seeds {first} to {first + chosen.seeds - 1}: {outcome.equal} equal, {len(outcome.different)} different, "
        f"{len(outcome.unstable)} on which the BEAM differs from itself"
    )
    return 1 if outcome.different else 0


if __name__ == "__main__":
    sys.exit(main())
