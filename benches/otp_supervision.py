"""What supervision costs: supervised starts, tasks, names, streams, and whether any of it grows with the tree.

Everything runs in a process of a runtime, as code under supervision does. What a limit is a multiple of is measured in
the same run, in turns with it, so that a busy machine hurts both.
"""

import asyncio
import gc
import json
import shutil
import statistics
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from benches.in_process import in_process
from lemon_otp import (
    DynamicSupervisor,
    EventStream,
    GenServer,
    Pid,
    Registry,
    TaskSupervisor,
    Via,
    exit_signal,
    run,
    spawn,
    tree,
)

Row = dict[str, object]

ROUNDS = 7
SPAWN_LIMIT_US = 25.0
BEAM_LIMIT = 0.7
TASK_LIMIT = 2.0
LOOKUP_LIMIT = 3.0
STREAM_LIMIT_US = 2.0
FLAT_LIMIT = 1.5
TREE_LIMIT = 40.0


class Worker(GenServer[None, Any, Any, None]):
    """Does nothing, under a name."""

    def init(self, arg: None) -> None:
        return None


async def each_us(count: int, work: Callable[[], Awaitable[object]]) -> float:
    """Microseconds for one of `count`."""
    gc.collect()
    began = time.perf_counter()
    for _ in range(count):
        await work()
    return (time.perf_counter() - began) / count * 1e6


def row(metric: str, value_us: float, limit: str, limit_us: float, base_us: float | None = None) -> Row:
    """One line of the table; the ratio is to what the limit is a multiple of."""
    return {
        "metric": f"otp: {metric}",
        "value_us": round(value_us, 3),
        "limit": limit,
        "limit_us": round(limit_us, 3),
        "ratio": round(value_us / (limit_us if base_us is None else base_us), 3),
    }


async def supervised_and_registered_us(count: int) -> float:
    """Start a named child under a dynamic supervisor, and stop it."""

    async def once() -> None:
        pid = await DynamicSupervisor.start_child("dynamic", spec)
        await DynamicSupervisor.terminate_child("dynamic", pid)

    spec = Worker.child_spec(None, name=Via("names", "worker"), restart="temporary")
    return await each_us(count, once)


async def spawn_rows() -> list[Row]:
    """Against a fixed limit, and against the BEAM where there is one."""
    metric = "supervised and registered spawn + stop"
    value = min([await supervised_and_registered_us(2_000) for _ in range(3 * ROUNDS)])
    rows = [row(metric, value, "25 us", SPAWN_LIMIT_US)]
    beam = beam_us()
    if beam is not None:
        rows.append(row(f"{metric}, beside the BEAM", value, "0.7x the BEAM", BEAM_LIMIT * beam, beam))
    return rows


def beam_us() -> float | None:
    """What the BEAM takes for the same; None when it is not installed."""
    if shutil.which("elixir") is None:
        return None
    script = Path(__file__).with_name("supervised_spawn.exs")
    ran = subprocess.run(["elixir", str(script)], check=True, capture_output=True, text=True, timeout=60)
    return float(ran.stdout)


async def nothing() -> None:
    """The work of a task that is all overhead."""


async def task_row() -> Row:
    async def ours() -> None:
        await (await TaskSupervisor.async_nolink("tasks", nothing)).await_()

    async def bare() -> None:
        await asyncio.create_task(nothing())

    pairs = [(await each_us(2_000, ours), await each_us(2_000, bare)) for _ in range(ROUNDS)]
    value, base = (statistics.median(column) for column in zip(*pairs, strict=True))
    return row("task async_nolink + await", value, "2x create_task + await", TASK_LIMIT * base, base)


def lookup_rows() -> Iterator[Row]:
    """A held reader, which is what a hot path uses, and the whole way by the registry's name."""
    count = 100_000
    names = {f"k{number}": number for number in range(1_000)}
    for key in names:
        Registry.register("names", key)
    find, lookup = Registry.reader("names"), Registry.lookup

    def timed(work: Callable[[], object]) -> float:
        began = time.perf_counter()
        work()
        return (time.perf_counter() - began) / count * 1e6

    def by_dict() -> None:
        for _ in range(count):
            names["k500"]

    def by_reader() -> None:
        for _ in range(count):
            find("k500")

    def by_name() -> None:
        for _ in range(count):
            lookup("names", "k500")

    rounds = [(timed(by_dict), timed(by_reader), timed(by_name)) for _ in range(ROUNDS)]
    base, reader, named = (min(column) for column in zip(*rounds, strict=True))
    yield row("registry lookup, held reader", reader, "3x dict lookup", LOOKUP_LIMIT * base, base)
    yield row("registry lookup, by registry name", named, "no limit of its own", named, base)
    for key in names:
        Registry.unregister("names", key)


async def stream_row() -> Row:
    """2,000 events from one process to another that keeps up with them, beyond what ending 2,000 turns costs."""
    count = 2_000

    async def produce(stream: EventStream) -> None:
        for number in range(count):
            stream.push(number)
            if number % 10 == 9:
                await asyncio.sleep(0)
        stream.complete(None)

    async def consume(events: AsyncIterator[Any]) -> None:
        async for _ in events:
            pass

    async def once() -> None:
        stream = EventStream.start()
        spawn(produce, stream)
        reader = await TaskSupervisor.async_nolink("tasks", consume, stream.events())
        await reader.await_()

    async def turns() -> None:
        for number in range(count):
            if number % 10 == 9:
                await asyncio.sleep(0)

    pairs = [(await each_us(5, once), await each_us(5, turns)) for _ in range(ROUNDS)]
    value = min((ours - bare) / count for ours, bare in pairs)
    return row("event stream, one event", value, "2 us", STREAM_LIMIT_US)


async def flat_rows() -> list[Row]:
    """Start + stop, lookup and a call by name with 1,000 and with 100,000 children beside."""
    measured: dict[int, dict[str, float]] = {}
    pids: list[Pid] = []
    for size in (1_000, 100_000):
        while len(pids) < size:
            name = Via("names", len(pids))
            spec = Worker.child_spec(None, name=name, restart="temporary")
            pids.append(await DynamicSupervisor.start_child("dynamic", spec))
        gc.collect()
        gc.freeze()
        find = Registry.reader("names")

        async def one_lookup() -> None:
            find(500)  # noqa: B023 - used at once

        measured[size] = {
            "spawn + stop": min([await supervised_and_registered_us(300) for _ in range(3 * ROUNDS)]),
            "lookup": min([await each_us(2_000, one_lookup) for _ in range(3 * ROUNDS)]),
        }
    rows = [
        row(f"{what} among 100000", measured[100_000][what], "1.5x among 1000", FLAT_LIMIT * base, base)
        for what, base in measured[1_000].items()
    ]
    began = time.perf_counter()
    for pid in pids:
        exit_signal(pid, "kill")
    rows.append(row("kill one of 100000", (time.perf_counter() - began) / len(pids) * 1e6, "25 us", SPAWN_LIMIT_US))
    gc.unfreeze()
    return rows


class Node:
    """What a bare walk walks over."""

    __slots__ = ("child", "name", "pid", "state")

    def __init__(self) -> None:
        self.child = self.name = self.pid = self.state = None


async def tree_row() -> Row:
    """The tree of 5,000 processes, against reading four fields of 5,000 objects."""
    count = 5_000
    specs = [Worker.child_spec(None, id=f"worker[{number}]", restart="temporary") for number in range(count)]
    pids = [await DynamicSupervisor.start_child("dynamic", spec) for spec in specs]
    nodes = [Node() for _ in range(count)]

    def bare() -> list[Any]:
        return [(node.child, node.name, node.pid, node.state) for node in nodes]

    async def ours() -> None:
        tree()

    async def walk() -> None:
        bare()

    pairs = [(await each_us(1, ours), await each_us(1, walk)) for _ in range(ROUNDS)]
    value, base = (min(column) for column in zip(*pairs, strict=True))
    for pid in pids:
        exit_signal(pid, "kill")
    return row(f"tree of {count} processes", value, "40x a bare walk", TREE_LIMIT * base, base)


async def all_rows() -> list[Row]:
    """Every row, from inside a process."""
    await Registry.start_link("names")
    await DynamicSupervisor.start_link(name="dynamic")
    await TaskSupervisor.start_link(name="tasks")
    rows = [*await spawn_rows(), await task_row(), *lookup_rows(), await stream_row(), await tree_row()]
    return [*rows, *await flat_rows()]


def rows() -> list[Row]:
    """All rows of this module."""
    return run(in_process, all_rows)


if __name__ == "__main__":
    for line in rows():
        print(json.dumps(line))
