"""What processes and servers cost, each against the plain way to do the same in asyncio, measured in the same run.

Base and ours take turns, round after round, and the quickest round of each counts: a busy machine hurts both. Ours runs
in a process of a runtime with everything on. The BEAM is measured when `elixir` is installed; other actor libraries for
Python when `LEMON_PEERS_PYTHON` names a Python that has them (see `otp_peers.py`).
"""

import asyncio
import gc
import json
import os
import shutil
import subprocess
import time
import tracemalloc
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benches.in_process import in_process
from lemon_otp import (
    Caller,
    GenServer,
    NoReply,
    Pid,
    Reply,
    call,
    cast,
    exit_signal,
    receive,
    run,
    self_pid,
    send,
    spawn,
    stop,
)

Row = dict[str, object]
Timed = Callable[[], Awaitable[float]]

ROUNDS = 25
COUNT = 1_000
RING = 100
IDLE = 2_000
MANY = 100_000
FEW = 1_000


class Echo(GenServer[int, Any, Any, int]):
    """Answers with its state, and counts what it is told."""

    async def init(self, arg: int) -> int:
        return arg

    async def handle_call(self, message: Any, caller: Caller, state: int) -> Reply[int]:
        return Reply(state, state)

    async def handle_cast(self, message: Any, state: int) -> NoReply[int]:
        return NoReply(state + 1)


def timer() -> Callable[[], float]:
    """Microseconds since now for one of `COUNT`."""
    began = time.perf_counter()
    return lambda: (time.perf_counter() - began) / COUNT * 1e6


async def echo() -> Pid:
    pid = await Echo.start(0)
    assert pid is not None
    return pid


# Ours.


async def our_cast() -> float:
    pid = await echo()
    us = timer()
    for _ in range(COUNT):
        cast(pid, 1)
    await call(pid, 0)
    taken = us()
    await stop(pid)
    return taken


async def our_call() -> float:
    pid = await echo()
    us = timer()
    for _ in range(COUNT):
        await call(pid, 0)
    taken = us()
    await stop(pid)
    return taken


async def our_ping_pong() -> float:
    async def pong(to: Pid) -> None:
        for _ in range(COUNT // 2):
            send(to, await receive())

    other = spawn(pong, self_pid())
    us = timer()
    for _ in range(COUNT // 2):
        send(other, 1)
        await receive()
    return us()


async def our_ring() -> float:
    async def node(to: Pid) -> None:
        for _ in range(COUNT // RING):
            send(to, await receive())

    first = self_pid()
    for _ in range(RING - 1):
        first = spawn(node, first)
    await asyncio.sleep(0)
    us = timer()
    for _ in range(COUNT // RING):
        send(first, 1)
        await receive()
    return us()


async def our_spawn() -> float:
    """Each process starts the next and ends, as each callback of the base schedules the next."""
    left = COUNT
    done = asyncio.get_running_loop().create_future()

    async def work() -> None:
        nonlocal left
        left -= 1
        if left:
            spawn(work)
        else:
            done.set_result(None)

    us = timer()
    spawn(work)
    await done
    return us()


async def our_spawn_burst() -> float:
    """All started at once, then all run."""
    done = asyncio.get_running_loop().create_future()

    async def work() -> None:
        pass

    async def last() -> None:
        done.set_result(None)

    us = timer()
    for _ in range(COUNT):
        spawn(work)
    spawn(last)
    await done
    return us()


async def our_fan_out() -> float:
    """To subscribers that have heard something before."""
    left = COUNT
    done = asyncio.get_running_loop().create_future()

    async def subscriber() -> None:
        nonlocal left
        while True:
            await receive()
            left -= 1
            if not left:
                done.set_result(None)

    pids = [spawn(subscriber) for _ in range(COUNT)]
    for pid in pids:
        send(pid, 1)
    await done
    left, done = COUNT, asyncio.get_running_loop().create_future()
    us = timer()
    for pid in pids:
        send(pid, 1)
    await done
    taken = us()
    for pid in pids:
        exit_signal(pid, "kill")
    await asyncio.sleep(0.01)
    return taken


# The plain way.


async def queue_hop() -> float:
    queue: asyncio.Queue[int] = asyncio.Queue()

    async def consume() -> None:
        for _ in range(COUNT):
            await queue.get()

    consumer = asyncio.create_task(consume())
    us = timer()
    for _ in range(COUNT):
        queue.put_nowait(1)
    await consumer
    return us()


async def future_round_trip() -> float:
    """Two tasks over a deque of futures."""
    loop = asyncio.get_running_loop()
    inbox: deque[asyncio.Future[int]] = deque()
    waits: asyncio.Future[None] | None = None

    async def serve() -> None:
        nonlocal waits
        for _ in range(COUNT):
            while not inbox:
                waits = loop.create_future()
                await waits
            inbox.popleft().set_result(0)

    server = asyncio.create_task(serve())
    await asyncio.sleep(0)
    us = timer()
    for _ in range(COUNT):
        answer: asyncio.Future[int] = loop.create_future()
        inbox.append(answer)
        if waits is not None and not waits.done():
            waits.set_result(None)
        await answer
    taken = us()
    await server
    return taken


async def queue_ping_pong() -> float:
    there: asyncio.Queue[int] = asyncio.Queue()
    back: asyncio.Queue[int] = asyncio.Queue()

    async def pong() -> None:
        for _ in range(COUNT // 2):
            back.put_nowait(await there.get())

    task = asyncio.create_task(pong())
    us = timer()
    for _ in range(COUNT // 2):
        there.put_nowait(1)
        await back.get()
    taken = us()
    await task
    return taken


async def queue_ring() -> float:
    queues: list[asyncio.Queue[int]] = [asyncio.Queue() for _ in range(RING)]

    async def node(number: int) -> None:
        for _ in range(COUNT // RING):
            queues[number + 1].put_nowait(await queues[number].get())

    tasks = [asyncio.create_task(node(number)) for number in range(RING - 1)]
    us = timer()
    for _ in range(COUNT // RING):
        queues[0].put_nowait(1)
        await queues[RING - 1].get()
    taken = us()
    await asyncio.gather(*tasks)
    return taken


async def call_soon() -> float:
    """Each callback schedules the next."""
    loop = asyncio.get_running_loop()
    left = COUNT
    done = loop.create_future()

    def work() -> None:
        nonlocal left
        left -= 1
        if left:
            loop.call_soon(work)
        else:
            done.set_result(None)

    us = timer()
    loop.call_soon(work)
    await done
    return us()


async def create_task_burst() -> float:
    async def work() -> None:
        pass

    us = timer()
    for task in [asyncio.create_task(work()) for _ in range(COUNT)]:
        await task
    return us()


async def call_soon_burst() -> float:
    """All scheduled at once: what a delivery to each of many subscribers would cost without processes."""
    loop = asyncio.get_running_loop()
    left = COUNT
    done = loop.create_future()

    def work(message: int) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set_result(None)

    us = timer()
    for _ in range(COUNT):
        loop.call_soon(work, 1)
    await done
    return us()


COMPARED: list[tuple[str, Timed, str, float, Timed]] = [
    ("cast", our_cast, "asyncio.Queue hop", 1.5, queue_hop),
    ("call", our_call, "deque + Future round trip", 0.5, future_round_trip),
    ("ping-pong, one hop", our_ping_pong, "asyncio.Queue", 0.35, queue_ping_pong),
    ("ring of 100, one hop", our_ring, "asyncio.Queue", 0.35, queue_ring),
    ("spawn + stop, one after the other", our_spawn, "call_soon", 1.5, call_soon),
    ("spawn + stop, 1000 at once", our_spawn_burst, "create_task", 1.0, create_task_burst),
    ("fan-out to 1000, one delivery", our_fan_out, "call_soon", 1.0, call_soon_burst),
]


async def compared() -> tuple[list[Row], dict[str, float]]:
    """A row for each comparison, and our figures by name."""
    ours: dict[str, float] = {}
    rows = []
    for metric, work, base_name, factor, base_work in COMPARED:
        gc.collect()
        pairs = [(await work(), await asyncio.create_task(base_work())) for _ in range(ROUNDS)]
        value, base = (min(column) for column in zip(*pairs, strict=True))
        ours[metric] = value
        rows.append(row(metric, value, f"{factor:g}x {base_name}", factor * base, base))
    return rows, ours


def row(metric: str, value: float, limit: str, limit_value: float, base: float, **more: object) -> Row:
    """One line of the table."""
    return {
        "metric": f"otp: {metric}",
        "value_us": round(value, 3),
        "limit": limit,
        "limit_us": round(limit_value, 3),
        "ratio": round(value / base, 3),
        **more,
    }


async def idle_rows() -> list[Row]:
    """Bytes that a waiting process holds, counted by tracemalloc, after its first message."""

    async def wait() -> None:
        while True:
            await receive()

    async def measured(start: Callable[[], Awaitable[Pid]], wake: Callable[[Pid], None]) -> float:
        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        pids = [await start() for _ in range(IDLE)]
        for pid in pids:
            wake(pid)
        await asyncio.sleep(2.2)  # what a busy process keeps in reserve is given back after a second or two
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        for pid in pids:
            exit_signal(pid, "kill")
        return (after - before) / IDLE

    async def plain() -> Pid:
        return spawn(wait)

    values = {
        "idle process": await measured(plain, lambda pid: send(pid, 1)),
        "idle server": await measured(echo, lambda pid: cast(pid, 1)),
    }
    return [row(metric, value, "1 KB", 1024, 1024, unit="bytes") for metric, value in values.items()]


async def flat_rows() -> list[Row]:
    """The same with 100,000 waiting processes beside as with 1,000."""

    async def wait() -> None:
        await receive()

    measured: dict[int, dict[str, float]] = {}
    pids: list[Pid] = []
    works = {"spawn + stop": our_spawn, "call": our_call, "ping-pong": our_ping_pong}
    for size in (FEW, MANY):
        pids += [spawn(wait) for _ in range(size - len(pids))]
        await asyncio.sleep(0.5)
        gc.collect()
        gc.freeze()
        measured[size] = {name: min([await work() for _ in range(ROUNDS)]) for name, work in works.items()}
    gc.unfreeze()
    for pid in pids:
        exit_signal(pid, "kill")
    return [
        row(f"{name} beside {MANY} others", measured[MANY][name], f"1.5x beside {FEW}", 1.5 * base, base)
        for name, base in measured[FEW].items()
    ]


def beam_rows(ours: dict[str, float]) -> list[Row]:
    """Beside the BEAM, where there is one: a call has a limit, the others are only told."""
    if shutil.which("elixir") is None:
        return []
    script = Path(__file__).with_name("otp.exs")
    ran = subprocess.run(["elixir", str(script)], check=True, capture_output=True, text=True, timeout=120)
    beam: dict[str, float] = json.loads(ran.stdout)
    return [
        row(
            f"{metric}, beside the BEAM",
            ours[metric],
            "2x the BEAM" if metric == "call" else "told only: the BEAM",
            2 * us if metric == "call" else max(us, ours[metric]),
            us,
        )
        for metric, us in beam.items()
    ]


def peer_rows(ours: dict[str, float]) -> list[Row]:
    """Other actor libraries, where they are: ours is to take at most a third of what the best of them takes."""
    python = os.environ.get("LEMON_PEERS_PYTHON")
    if not python:
        return []
    script = Path(__file__).with_name("otp_peers.py")
    ran = subprocess.run([python, str(script)], check=True, capture_output=True, text=True, timeout=600)
    peers: dict[str, dict[str, float]] = json.loads(ran.stdout)
    return [
        row(f"{metric}, beside {peer}", ours[metric], f"a third of {peer}", us / 3, us)
        for peer, figures in peers.items()
        for metric, us in figures.items()
    ]


async def all_rows() -> list[Row]:
    rows, ours = await compared()
    return [*rows, *await idle_rows(), *await flat_rows(), *beam_rows(ours), *peer_rows(ours)]


def rows() -> list[Row]:
    """All rows of this module, measured in a process of a runtime."""
    return run(in_process, all_rows)


if __name__ == "__main__":
    for line in rows():
        print(json.dumps(line))
