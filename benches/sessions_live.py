"""What sessions cost while they live: memory when idle, and telling an event to many subscribers.

Memory is what the process grows by, measured by the operating system, with 1,000 sessions that have each had a prompt
answered and now wait. The base of the fan-out is 100 bare `deque.append`s of the same event in the same run;
the subscribers read between bursts of 400 events. What waking one that waits costs is the reader's, and not in it.
"""

import gc
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

SESSIONS = 1_000
KB_LIMIT = 100
SUBSCRIBERS = 100
EVENTS = 400
ROUNDS = 25
FAN_OUT_LIMIT = 2.0


def rows() -> list[dict[str, object]]:
    """Idle memory in kilobytes a session, and the time of one event to 100 stream subscribers."""
    memory = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1]
    )
    kb = float(memory.stdout)
    event_s, base_s = fan_out()
    return [
        {
            "metric": f"sessions: memory of one of {SESSIONS} idle ones",
            "value_us": round(kb, 1),
            "limit": f"{KB_LIMIT} KB",
            "limit_us": KB_LIMIT,
            "ratio": round(kb / KB_LIMIT, 2),
            "unit": "KB",
        },
        {
            "metric": f"sessions: one event to {SUBSCRIBERS} streams",
            "value_us": round(event_s * 1e6, 2),
            "limit": f"{FAN_OUT_LIMIT:g}x {SUBSCRIBERS} deque.appends",
            "limit_us": round(base_s * FAN_OUT_LIMIT * 1e6, 2),
            "ratio": round(event_s / base_s, 2),
        },
    ]


def idle_kilobytes() -> float:
    """How much the process grows for each session that had a prompt and waits."""
    from lemon_otp import run

    with tempfile.TemporaryDirectory() as folder:
        return run(_idle, Path(folder))


async def _idle(folder: Path) -> float:
    from coding_agent import (
        APPLICATION,
        SessionOptions,
        default_tools,
        prompt,
        start_session,
        wait_for_idle,
        with_subagents,
    )
    from lemon_ai import find_model
    from lemon_otp import ensure_all_started, stop_all

    await ensure_all_started(APPLICATION)
    model = find_model("scripted/echo")

    async def one(number: int) -> None:
        options = SessionOptions(
            cwd=folder,
            model=model,
            session_file=folder / "sessions" / f"{number}.jsonl",
            session_id=f"s{number}",
            tools=tuple(default_tools(str(folder))),
            fsync="none",
        )
        session = await start_session(with_subagents(options))
        await prompt(session, "hi")
        await wait_for_idle(session)

    for number in range(20):
        await one(-number - 1)
    gc.collect()
    before = resident_kb()
    for number in range(SESSIONS):
        await one(number)
    gc.collect()
    grown = resident_kb() - before
    await stop_all()
    return grown / SESSIONS


def resident_kb() -> float:
    """The memory the process has in use."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return float(line.split()[1])
    raise RuntimeError("no Private_Dirty in smaps_rollup")


def fan_out() -> tuple[float, float]:
    """Seconds of one event to all subscribers, and of as many bare appends."""
    from lemon_otp import run

    return run(_fan_out)


async def _fan_out() -> tuple[float, float]:
    from coding_agent.events import SavePoint, SessionEvent
    from coding_agent.session.notifier import Notifier
    from lemon_agent import TERMINALS
    from lemon_otp import EventStream, receive, self_pid, spawn

    async def idle() -> None:
        await receive(lambda message: message == "never")

    notifier = Notifier("s")
    streams: list[EventStream] = []
    for _ in range(SUBSCRIBERS):
        stream: EventStream = EventStream.start(
            owner=self_pid(), max_queue=1_000, drop_strategy="drop_oldest", timeout_ms=None, terminals=TERMINALS
        )
        notifier.subscribe_stream(spawn(idle), stream)
        streams.append(stream)
    event = SessionEvent("s", SavePoint(False))
    queues: list[deque[SessionEvent]] = [deque(maxlen=1_000) for _ in range(SUBSCRIBERS)]
    ratios = []
    for _ in range(ROUNDS):
        for stream in streams:  # the subscribers read what they have
            stream.take_all()
        began = time.perf_counter()
        for _ in range(EVENTS):
            for queue in queues:
                queue.append(event)
        middle = time.perf_counter()
        for _ in range(EVENTS):
            notifier.broadcast(event)
        ended = time.perf_counter()
        ratios.append(((ended - middle) / EVENTS, (middle - began) / EVENTS))
    return statistics.median(told for told, _ in ratios), statistics.median(base for _, base in ratios)


if __name__ == "__main__":
    print(idle_kilobytes())
