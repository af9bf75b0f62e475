"""Edge. The shared conformance files, and the real BEAM where it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

SHARED: Final = Path(__file__).resolve().parents[2] / ".." / "shared" / "conformance"
"""Scenarios, expected traces and the tools that go with them; they lie beside the repository."""


class NoBeam(Exception):
    """There is no `elixir` on the PATH; the message says what to do."""


def generate(first_seed: int, how_many: int, out: Path) -> None:
    """Write the random scenarios of these seeds, one a line."""
    tool = SHARED / "generate.py"
    arguments = ["--seed", str(first_seed), "--count", str(how_many), "--jsonl", str(out)]
    subprocess.run([sys.executable, str(tool), *arguments], check=True, stdout=subprocess.DEVNULL)


def record(scenarios: Path, out: Path) -> None:
    """Run scenarios on the BEAM and write their traces, one a line. Raises NoBeam."""
    elixir = shutil.which("elixir")
    if elixir is None:
        raise NoBeam("elixir is not installed; on Debian and Ubuntu: apt-get install elixir")
    runner = SHARED / "beam_runner.exs"
    subprocess.run([elixir, str(runner), str(scenarios), "--jsonl", str(out)], check=True, stdout=subprocess.DEVNULL)


def differences(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    """What the shared comparison says of two traces of one scenario; nothing when they agree."""
    lines: list[str] = _comparison().differences(expected, actual)
    return lines


def compare_files(expected: Path, actual: Path) -> tuple[bool, str]:
    """Whether all traces agree, and what `compare.py`, run as it is, prints."""
    command = [sys.executable, str(SHARED / "compare.py"), str(expected), str(actual)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout + done.stderr


@cache
def _comparison() -> Any:
    spec = spec_from_file_location("conformance_compare", SHARED / "compare.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_stable(scenario: Mapping[str, Any], recorded: Mapping[str, Any], runs: int = 8) -> bool:
    """Whether the BEAM gives the recorded trace again, each time after one more process has run."""
    spawn = {"name": "before", "defs": {"p": {"kind": "proc"}}, "steps": [{"op": "spawn", "def": "p"}]}
    with TemporaryDirectory() as folder:
        source, again = Path(folder, "scenarios.jsonl"), Path(folder, "again.jsonl")
        write_lines(source, [document for _ in range(runs) for document in (scenario, spawn)])
        record(source, again)
        traces = read_lines(again)[::2]
    return not any(differences(recorded, trace) for trace in traces)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file, one a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def write_lines(path: Path, documents: Sequence[Mapping[str, Any]]) -> None:
    """Write JSON objects, one a line."""
    lines = (json.dumps(document, separators=(",", ":"), ensure_ascii=False) + "\n" for document in documents)
    path.write_text("".join(lines), encoding="utf-8")
