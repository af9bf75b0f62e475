"""What being looked at costs: the tree of 5,000 processes by RPC, telemetry that nobody hears, everything counted.

The tree is asked for through the control socket by a client of its own, as the prompt does. "Host time" is what
the program spends on it on all its threads, and the loop's share of it is what everybody else waits. The bare walk
visits as many plain objects, linked in the same shape, and reads of each what a line of the tree shows.
"""

import asyncio
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benches.agent import NOOP, TURNS, Tools, in_agent_tree, new_agent, one_run
from benches.observer import STEP_EVENTS
from coding_agent import event_names
from coding_agent.measuring.flight_recorder import EVENTS
from coding_agent.metrics import Metrics, series
from coding_agent.repl.ledger import Ledger
from lemon_agent import Agent
from lemon_otp import DynamicSupervisor, GenServer, Runtime, introspect, recorder, repl, self_pid, telemetry

Row = dict[str, object]

LEDGER_EVENTS = (*STEP_EVENTS, event_names.PERMISSION_ASKED, event_names.PERMISSION_DECIDED)

PROCESSES = 5_000
SUPERVISORS = 50
ASKED = 15
WALK_LIMIT = 40.0
TREE_LIMIT_MS = 50.0
EMPTY_LIMIT = 3.0
SHARE_LIMIT = 0.10
ROUNDS = 25

ASK = """
import json, sys, time
from pathlib import Path
from lemon_otp.repl_shell import Asker
with Asker(Path(sys.argv[1]), timeout_s=60) as asker:
    for _ in range(int(sys.argv[2])):
        began = time.perf_counter()
        answer = asker.ask("tree")
        print(json.dumps([time.perf_counter() - began, len(json.dumps(answer))]), flush=True)
        sys.stdin.readline()
"""


class Idle(GenServer[int, Any, Any, int]):
    async def init(self, arg: int) -> int:
        return arg


async def _grow() -> None:
    for number in range(SUPERVISORS):
        await DynamicSupervisor.start_link(name=f"crowd[{number}]")
    for number in range(PROCESSES - SUPERVISORS - 1):
        spec = Idle.child_spec(number, id=f"session[{number:08d}-0000-7000-8000-000000000000]")
        await DynamicSupervisor.start_child(f"crowd[{number % SUPERVISORS}]", spec)


class Thing:
    """A plain object of the bare walk."""

    __slots__ = ("below", "facts", "id", "module", "number", "state", "waiting")

    def __init__(self, number: int) -> None:
        self.number = number
        self.id = f"session[{number:08d}]"
        self.state = "idle"
        self.module = "benches.introspection"
        self.facts: dict[str, str] = {}
        self.waiting: list[int] = []
        self.below: list[Thing] = []


def _things() -> Thing:
    top = Thing(0)
    top.below = [Thing(number) for number in range(SUPERVISORS)]
    for number in range(PROCESSES - SUPERVISORS - 1):
        top.below[number % SUPERVISORS].below.append(Thing(number))
    return top


def _walk(thing: Thing, found: list[tuple[Any, ...]]) -> None:
    found.append((thing.number, thing.id, thing.state, thing.module, dict(thing.facts), len(thing.waiting)))
    for other in thing.below:
        _walk(other, found)


def _bare_walk_s() -> float:
    top = _things()
    taken = []
    for _ in range(ROUNDS):
        found: list[tuple[Any, ...]] = []
        began = time.perf_counter()
        _walk(top, found)
        taken.append(time.perf_counter() - began)
        assert len(found) == PROCESSES
    return min(taken)


async def _tree() -> list[Row]:
    async with Runtime():
        await _grow()
        assert sum(1 for _ in introspect.walk(introspect.tree())) >= PROCESSES
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run" / "x.sock"
            control = await repl.serve(path)
            gc.collect()
            gc.freeze()
            host_s, loop_s = await _asked(path)
            control.close()
    walk_s = _bare_walk_s()
    host_ms, loop_ms = host_s * 1e3, loop_s * 1e3
    return [
        _row(
            f"tree of {PROCESSES} processes by RPC, host time",
            host_s * 1e6,
            f"{WALK_LIMIT:g}x a bare walk",
            WALK_LIMIT * walk_s * 1e6,
            host_s / walk_s,
            walk_us=round(walk_s * 1e6),
            host_ms=round(host_ms, 1),
            loop_ms=round(loop_ms, 1),
        ),
    ]


async def _asked(path: Path) -> tuple[float, float]:
    """The least CPU seconds that one tree takes of this program, and the seconds that it holds the loop."""
    asker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ASK, str(path), str(ASKED), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert asker.stdout is not None
    assert asker.stdin is not None
    loop = asyncio.get_running_loop()
    held: list[float] = []
    spent: list[float] = []
    turn = loop._run_once  # type: ignore[attr-defined]

    def timed() -> None:
        before = time.thread_time()
        turn()
        held.append(time.thread_time() - before)

    loop._run_once = timed  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    for _ in range(ASKED):
        held.clear()
        before = time.process_time()
        line = await asker.stdout.readline()
        spent.append(time.process_time() - before)
        assert json.loads(line)[1] > PROCESSES * 100
        asker.stdin.write(b"\n")
    loop._run_once = turn  # type: ignore[attr-defined]
    await asker.wait()
    return statistics.median(spent[2:]), max(held, default=0.0)


# Telemetry that nobody hears.


def _nothing(event: Any, measurements: Any, metadata: Any) -> None:
    """An empty function of the same arguments."""


async def _silence() -> Row:
    async with Runtime():
        event = ("lemon_agent", "loop", "start")
        count = 5_000
        heard, empty = [], []
        for _ in range(20 * ROUNDS):
            heard.append(_timed(telemetry.execute, event, count))
            empty.append(_timed(_nothing, event, count))
    heard_us, empty_us = min(heard) / count * 1e6, min(empty) / count * 1e6
    return _row(
        "telemetry without a handler",
        heard_us,
        f"{EMPTY_LIMIT:g}x an empty function call",
        EMPTY_LIMIT * empty_us,
        heard_us / empty_us,
    )


def _timed(function: Callable[..., None], event: Any, count: int) -> float:
    measured, told = {"count": 1}, {"model": "echo"}
    began = time.perf_counter()
    for _ in range(count):
        function(event, measured, told)
    return time.perf_counter() - began


# Everything counted.


async def _counted() -> Row:
    """What metrics, flight recorder and ledger add to a turn with two tools.

    The events of a run are replayed as they came, with and without the handlers: what they add is a few microseconds,
    which the difference of two whole runs would not show.
    """
    agent = await new_agent(Tools(), tools=(NOOP,))
    await Agent.subscribe(agent)
    said = await _events_of(agent)
    turns = []
    for _ in range(ROUNDS):
        began = time.process_time()
        await one_run(agent)
        turns.append(time.process_time() - began)
        await Agent.replace_messages(agent, ())
    off_s = min(_replayed(said) for _ in range(ROUNDS))
    kept: list[Any] = [Metrics.start(), recorder.Recorder.start(EVENTS), Ledger.start()]
    on_s = min(_replayed(said) for _ in range(ROUNDS))
    for each in kept:
        each.stop()
    turn_us, more_us = min(turns) / TURNS * 1e6, (on_s - off_s) / TURNS * 1e6
    return _row(
        "what metrics, recorder and ledger add to a turn",
        more_us,
        f"{SHARE_LIMIT:g} of a turn",
        SHARE_LIMIT * turn_us,
        more_us / turn_us,
        turn_us=round(turn_us, 1),
        events=len(said) / TURNS,
    )


async def _events_of(agent: Any) -> list[tuple[Any, dict[str, Any], dict[str, Any]]]:
    """Everything that somebody could hear in one run."""
    said: list[tuple[Any, dict[str, Any], dict[str, Any]]] = []
    every = dict.fromkeys((*recorder.LIFECYCLE, *EVENTS, *series.EVENTS, *LEDGER_EVENTS))
    telemetry.attach_many("bench", every, lambda event, measured, told, _: said.append((event, measured, told)))
    await one_run(agent)
    await Agent.replace_messages(agent, ())
    telemetry.detach("bench")
    me = self_pid()
    return [(event, measured, {**told, "loop": me} if "loop" in told else told) for event, measured, told in said]


def _replayed(said: list[tuple[Any, dict[str, Any], dict[str, Any]]]) -> float:
    execute = telemetry.execute
    taken = []
    for _ in range(10):
        began = time.process_time()
        for event, measured, told in said:
            execute(event, dict(measured), dict(told))  # each event comes with dictionaries of its own
        taken.append(time.process_time() - began)
    return min(taken)


def _row(metric: str, value_us: float, limit: str, limit_us: float, ratio: float, **more: object) -> Row:
    return {
        "metric": f"introspection: {metric}",
        "value_us": round(value_us, 3),
        "limit": limit,
        "limit_us": round(limit_us, 3),
        "ratio": round(ratio, 3),
        **more,
    }


def rows() -> list[Row]:
    """All rows of this module."""
    return [*asyncio.run(_tree()), asyncio.run(_silence()), asyncio.run(in_agent_tree(_counted))]


if __name__ == "__main__":
    for each in rows():
        print(json.dumps(each))
