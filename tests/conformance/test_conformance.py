"""Every recorded scenario, shared and our own, on both clocks; and what the command line promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance.beam import SHARED, compare_files, differences, read_lines, write_lines
from tests.conformance.fuzz import RESERVED_FROM, seeds_of_today
from tests.conformance.inputs import read_scenarios

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
AREAS: Final = (
    "application", "dynamic_supervisor", "ets_owner", "gen_server", "process", "random", "registry", "supervisor",
    "task",
)  # fmt: skip
SHARED_COUNT: Final = 831
pytestmark = pytest.mark.xdist_group("conformance")  # the traces are made once
NOISE: Final = ("never retrieved", "was destroyed but it is pending", "was never awaited", "Traceback")
SCENARIOS: Final = (SHARED / "scenarios", HERE / "extra" / "scenarios")


def _expected() -> dict[str, Any]:
    files = [path for folder in (SHARED / "expected", HERE / "extra" / "expected") for path in sorted(folder.iterdir())]
    return {trace["name"]: trace for path in files for trace in read_lines(path)}


def _command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.conformance", *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=110, check=False)


def _run(clock: str, out: Path, *scenarios: Path) -> dict[str, Any]:
    done = _command(*map(str, scenarios), "--clock", clock, "--jsonl", str(out))
    assert done.returncode == 0, done.stderr
    return {trace["name"]: trace for trace in read_lines(out)}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """The recorded traces, by name."""
    return _expected()


@pytest.fixture(scope="module", params=["virtual", "real"])
def traces(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, expected: dict[str, Any]
) -> dict[str, Any]:
    """The traces of every scenario, by name.

    On the machine's clock a busy machine may be late by more than the 100 ms that scenarios count on: what differs
    is run once more, with the machine to itself as far as we go.
    """
    folder = tmp_path_factory.mktemp("traces")
    traces = _run(request.param, folder / "traces.jsonl", *SCENARIOS)
    late = {name for name, trace in traces.items() if request.param == "real" and differences(expected[name], trace)}
    if late:
        again = folder / "again.jsonl"
        write_lines(again, [scenario for scenario in read_scenarios(SCENARIOS) if scenario["name"] in late])
        traces |= _run(request.param, folder / "second.jsonl", again)
    return traces


@pytest.mark.parametrize("area", AREAS)
def test_every_scenario_of_an_area_gives_the_trace_that_the_beam_recorded(
    area: str, traces: dict[str, Any], expected: dict[str, Any]
) -> None:
    """
    For each scenario of the area: the same lifecycle, the same observations of every process, the same exit
    reasons and the same survivors as on the BEAM, compared by the shared rules.
    """
    of_area = [name for name in expected if _area_of(name) == area]
    told = {name: differences(expected[name], traces[name]) for name in of_area}
    report = "\n".join("\n  ".join([name, *lines]) for name, lines in told.items() if lines)

    assert of_area
    assert not report, report


def _area_of(name: str) -> str:
    return max((area for area in AREAS if name.startswith(area)), key=len)


def test_no_shared_scenario_is_left_out(traces: dict[str, Any], expected: dict[str, Any]) -> None:
    """
    All 831 shared scenarios are there, and every scenario has a recorded trace and the other way round.
    """
    assert sum(1 for scenario in read_scenarios([SHARED / "scenarios"])) == SHARED_COUNT
    assert set(traces) == set(expected)


@pytest.mark.parametrize("loop", [(), ("--uvloop",)], ids=["asyncio", "uvloop"])
def test_the_command_line_agrees_with_the_beam_in_debug_mode_and_says_nothing_else(
    loop: tuple[str, ...], tmp_path: Path
) -> None:
    """
    `python -m tests.conformance` over all shared scenarios, with asyncio's debug mode, on asyncio's loop and on
    uvloop: exit status 0, agreement by the shared `compare.py`, and no complaint of the event loop.
    """
    out = tmp_path / "got.jsonl"
    done = _command(str(SHARED / "scenarios"), "--jsonl", str(out), *loop, PYTHONASYNCIODEBUG="1", PYTHONDEVMODE="1")
    agrees, told = compare_files(SHARED / "expected", out)

    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert not [noise for noise in NOISE if noise in done.stderr], done.stderr
    assert agrees, told


def test_traces_come_one_a_line_in_the_order_of_the_input(tmp_path: Path) -> None:
    """
    Files and folders are read in the order given, a folder in name order; standard output holds one JSON object
    a line for each scenario, and nothing else.
    """
    first = SHARED / "scenarios" / "task_completed.json"
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "b.json").write_text(json.dumps({"name": "b", "defs": {}, "steps": []}))
    (folder / "a.jsonl").write_text('{"name": "a1", "steps": []}\n\n{"name": "a2", "steps": []}\n')
    (folder / "notes.txt").write_text("not a scenario")
    done = _command(str(first), str(folder))

    assert done.returncode == 0
    assert [json.loads(line)["name"] for line in done.stdout.splitlines()] == ["task_completed", "a1", "a2", "b"]


def test_only_keeps_scenarios_whose_name_begins_so() -> None:
    """`--only PREFIX` leaves the others out of the output."""
    done = _command(str(SHARED / "scenarios"), "--only", "task_stream_take")

    assert [json.loads(line)["name"] for line in done.stdout.splitlines()] == [
        "task_stream_take",
        "task_stream_take_sequential",
    ]


def test_a_scenario_that_cannot_be_run_says_so_and_the_others_still_run(tmp_path: Path) -> None:
    """
    An unknown op, wherever it stands, a step that waits for ever and a malformed definition each give a
    `runner_error` line; the scenario after them runs. The exit status is 0: every line was written.
    """
    unknown = {"op": "fly"}
    scenarios = [
        {"name": "unknown_step", "defs": {}, "steps": [unknown]},
        {"name": "unknown_inside", "defs": {"p": {"kind": "proc", "start": [unknown]}},
         "steps": [{"op": "spawn", "def": "p"}]},
        {"name": "waits_for_ever", "defs": {"a": {"kind": "gen_server", "on": {"call:x": [
            {"op": "return", "how": "noreply"}]}}}, "steps": [
            {"op": "start", "def": "a"}, {"op": "call", "to": "a", "msg": "x", "timeout": "infinity"}]},
        {"name": "malformed", "defs": {"a": {"kind": "what"}}, "steps": [{"op": "start", "def": "a"}]},
        {"name": "fine", "defs": {}, "steps": [{"op": "log", "value": 1}]},
    ]  # fmt: skip
    path = tmp_path / "scenarios.jsonl"
    path.write_text("".join(json.dumps(scenario) + "\n" for scenario in scenarios))
    done = _command(str(path))
    traces = [json.loads(line) for line in done.stdout.splitlines()]

    assert done.returncode == 0
    assert [trace["name"] for trace in traces] == [scenario["name"] for scenario in scenarios]
    assert [set(trace) for trace in traces[:4]] == [{"name", "runner_error"}] * 4
    assert traces[4]["trace"] == [{"i": 0, "op": "log", "obs": {"driver": [["log", 1]]}}]


@pytest.mark.parametrize("content", [None, "{", "[]", '{"steps": []}'])
def test_input_that_cannot_be_read_ends_with_status_2(content: str | None, tmp_path: Path) -> None:
    """A missing file, broken JSON and JSON that is no scenario are told on standard error."""
    path = tmp_path / "scenario.json"
    if content is not None:
        path.write_text(content)
    done = _command(str(path))

    assert done.returncode == 2
    assert done.stdout == ""
    assert "cannot read" in done.stderr


def test_scenarios_do_not_see_each_other(tmp_path: Path) -> None:
    """A name, a table and a registry of one scenario are gone in the next of the same run."""
    leave = [{"op": "register", "pid": "self", "name": "n"}, {"op": "ets_new", "table": "t"}]
    look = [{"op": "whereis", "to": {"name": "n"}}, {"op": "ets_exists", "table": "t"}, {"op": "app_running"}]
    path = tmp_path / "scenarios.jsonl"
    path.write_text(
        "".join(json.dumps({"name": f"s{i}", "defs": {}, "steps": s}) + "\n" for i, s in enumerate([leave, look]))
    )
    done = _command(str(path))
    observed = [step["obs"]["driver"][0][1] for step in json.loads(done.stdout.splitlines()[1])["trace"]]

    assert observed == [None, False, []]


def test_fuzzing_stays_away_from_reserved_seeds() -> None:
    """Whatever the date, the seeds of a day lie below the reserved ones."""
    for how_many in (1, 300, 10_000, 500_000):
        assert 0 <= seeds_of_today(how_many) < RESERVED_FROM - how_many


def test_fuzzing_without_elixir_ends_with_one_clear_line() -> None:
    """Where `elixir` is not on the PATH, fuzzing says so in one line and ends with status 2."""
    command = [sys.executable, "-m", "tests.conformance.fuzz", "--seeds", "1"]
    env = {**os.environ, "PATH": "/nowhere"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "elixir is not installed" in done.stderr
