"""Requirement ids and the tests that show them: `python -m tests.requirements`.

The ids are those of the acceptance checklist and of the field reports. A test names the ones it shows with
`@pytest.mark.requirement("INV-1.2", ...)`. An id that is due and that no test names is a gap and makes the exit code
1; so is a test that names an id nobody has written down. What later work will show is listed by name in `LATER`.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

ROOT: Final = Path(__file__).resolve().parents[1]
SHARED: Final = ROOT.parent / "shared"

LATER: Final[Mapping[str, tuple[str, ...]]] = {
    "protocols": ("BR-154", "BR-155", "BR-161", "BR-162"),
    "terminal": ("BR-165", "BR-166"),
    "local servers": ("BR-173", "BR-174"),
}
"""Ids, beginnings of ids and sections whose tests belong to work that is not due here. A test for one of them is shown
like any other."""

_STATEMENT = re.compile(r"^\d+\. \*\*([A-Z]+-[\d.]+)\*\* (?:\[[^\]]*\] )?(.*)$", re.MULTILINE)
_SECTION = re.compile(r"^## ([A-Z])\. ", re.MULTILINE)
_REPORT = re.compile(r"^\| (BR-\d+) \| (.*?) \|", re.MULTILINE)


@frozen
class Requirement:
    """One thing that must hold."""

    id: str
    text: str
    section: str


def requirements() -> list[Requirement]:
    """Every statement of the checklist and every field report, in their order."""
    checklist = (SHARED / "reference" / "checklist.md").read_text(encoding="utf-8")
    found = [Requirement(match[1], match[2], match[1].split("-")[0]) for match in _STATEMENT.finditer(checklist)]
    reports = (SHARED / "field-reports.md").read_text(encoding="utf-8")
    starts = [(match.start(), match[1]) for match in _SECTION.finditer(reports)]
    for match in _REPORT.finditer(reports):
        letter = next(name for start, name in reversed(starts) if start < match.start())
        found.append(Requirement(match[1], match[2], f"field report {letter}"))
    return found


def ids_shown() -> dict[str, list[str]]:
    """For each id that a test names, the tests that do."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        place = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for marked in _marked(node.decorator_list):
                    found[marked].append(f"{place}::{node.name}")
    return dict(found)


def _marked(decorators: Iterable[ast.expr]) -> Iterable[str]:
    for decorator in decorators:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("mark.requirement"):
            yield from (str(arg.value) for arg in decorator.args if isinstance(arg, ast.Constant))


def later(requirement: Requirement) -> str | None:
    """The later work that a requirement belongs to, if it does."""
    for work, beginnings in LATER.items():
        for beginning in beginnings:
            if requirement.section == beginning or requirement.id == beginning:
                return work
            if beginning.endswith(("-", ".")) and requirement.id.startswith(beginning):
                return work
    return None


def main() -> int:
    """Print the table and say how it stands; the exit code."""
    shown = ids_shown()
    gaps: list[Requirement] = []
    waiting: dict[str, list[str]] = defaultdict(list)
    every = requirements()
    for requirement in every:
        tests = shown.get(requirement.id, [])
        work = later(requirement)
        if tests:
            print(f"{requirement.id:10} {tests[0]}")
            for test in tests[1:]:
                print(f"{'':10} {test}")
        elif work is not None:
            waiting[work].append(requirement.id)
        else:
            gaps.append(requirement)
            print(f"{requirement.id:10} NO TEST: {requirement.text}")
    unknown = sorted(shown.keys() - {requirement.id for requirement in every})
    for work, ids in waiting.items():
        print(f"\nlater, {work}: {' '.join(ids)}")
    for name in unknown:
        print(f"\nnobody has written down {name}, named by {', '.join(shown[name])}")
    with_tests = sum(requirement.id in shown for requirement in every)
    print(f"\n{with_tests} of {len(every)} shown by tests, {len(gaps)} gaps, {sum(map(len, waiting.values()))} later")
    return 1 if gaps or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
