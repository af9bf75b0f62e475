"""What watching a tree of 5,000 processes costs: a look for the page, a scrape, and the page itself in a browser.

Looks and scrapes are CPU time of the host.
Frames are measured inside headless Chromium, while the list is scrolled without a pause and the tree goes on changing.
Without Chromium, or without playwright, those rows say so.
"""

import asyncio
import gc
import json
import shutil
import statistics
import time
from collections.abc import Callable
from typing import Any

from benches.agent import NOOP, TURNS, Tools, in_agent_tree, new_agent, one_run
from coding_agent import event_names
from coding_agent.application import APPLICATION
from coding_agent.measuring.steps import Steps
from coding_agent.metrics import Metrics
from coding_agent.observer.feed import encoded
from coding_agent.observer.observer import observe
from coding_agent.observer.snapshot import Snapshot, changes, look
from lemon_agent import Agent
from lemon_otp import (
    Pid,
    Runtime,
    TaskSupervisor,
    annotate,
    ensure_all_started,
    introspect,
    receive,
    self_pid,
    send,
    sleep_s,
    spawn,
    stop_all,
    telemetry,
)

Row = dict[str, object]

STEP_EVENTS = (
    event_names.RUN_START, event_names.RUN_STATE, event_names.RUN_END,
    event_names.TOOL_START, event_names.TOOL_ENTERED, event_names.TOOL_END, event_names.TOOL_ERROR,
    event_names.CALL_START, event_names.CALL_STOP, event_names.SUBAGENT_START,
)  # fmt: skip
"""What steps are made of."""

PROCESSES = 5_000
POKED = 200
ROUNDS = 15
LOOK_LIMIT_MS = 50.0
SCRAPE_LIMIT_MS = 50.0
STEPS_LIMIT = 0.1
FRAME_LIMIT_MS = 34.0
SLOW_FRAME_LIMIT_MS = 200.0
KEY_LIMIT_MS = 200.0

SCROLL = """async () => {
  const list = document.getElementById("tree"), times = [], until = performance.now() + 5000;
  let last = performance.now(), way = 1;
  while (last < until) {
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - last);
    last = now;
    list.scrollTop += way * 700;
    if (list.scrollTop <= 0) way = 1;
    if (list.scrollTop + list.clientHeight >= list.scrollHeight - 1) way = -1;
  }
  return times;
}"""
TYPE = """async () => {
  const box = document.getElementById("search"), times = [];
  for (const text of ["w", "wo", "wor", "worker", "worker[4", "worker[49", "", "49", "499", ""]) {
    const began = performance.now();
    box.value = text;
    box.dispatchEvent(new Event("input"));
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    times.push(performance.now() - began);
  }
  return times;
}"""


async def _worker(number: int) -> None:
    annotate(phase="tool", job=f"item {number}")
    while True:
        await receive()


async def _grown() -> list[Pid]:
    await TaskSupervisor.start_link(name="workers")
    return [
        await TaskSupervisor.start_child("workers", _worker, number, label=f"worker[{number}]")
        for number in range(PROCESSES)
    ]


async def _poke(workers: list[Pid]) -> None:
    """Keep part of the tree busy, so that every look finds something changed."""
    at = 0
    while True:
        for pid in workers[at : at + POKED]:
            send(pid, "poke")
        at = (at + POKED) % len(workers)
        await sleep_s(0.25)


async def _looks() -> list[Row]:
    async with Runtime():
        workers = await _grown()
        before, _ = look(introspect.tree(), Snapshot(), 1.0)
        taken = []
        for number in range(ROUNDS):
            for pid in workers[:POKED]:
                send(pid, "poke")
            await sleep_s(0)
            gc.collect()
            began = time.process_time()
            now, _ = look(introspect.tree(), before, 2.0 + number)
            encoded("delta", changes(before, now))
            taken.append(time.process_time() - began)
            before = now
        metrics = Metrics.start()
        scraped = [_timed(metrics.exposition) for _ in range(ROUNDS)]
        metrics.stop()
    return [
        _ms(f"a look at {PROCESSES} processes, told to a page", min(taken) * 1e3, LOOK_LIMIT_MS),
        _ms(f"a scrape of the series, {PROCESSES} processes", min(scraped) * 1e3, SCRAPE_LIMIT_MS),
    ]


def _timed(work: Callable[[], Any]) -> float:
    gc.collect()
    began = time.process_time()
    work()
    return time.process_time() - began


async def _stepped() -> Row:
    """What following a run step by step, as traces and the page do, adds to a turn with two tools.

    The events of a run are replayed as they came, with and without the handler: a few microseconds would not show in
    the difference of two whole runs.
    """
    agent = await new_agent(Tools(), tools=(NOOP,))
    await Agent.subscribe(agent)
    said: list[Any] = []
    telemetry.attach_many("bench", STEP_EVENTS, lambda event, measured, told, _: said.append((event, measured, told)))
    await one_run(agent)
    telemetry.detach("bench")
    turns = []
    for _ in range(ROUNDS):
        await Agent.replace_messages(agent, ())
        began = time.process_time()
        await one_run(agent)
        turns.append(time.process_time() - began)
    me = self_pid()
    mine = [
        (event, measured, told | {name: me for name in ("loop", "pid") if name in told})
        for event, measured, told in said
    ]
    off_s = min(_replayed(mine) for _ in range(ROUNDS))
    steps = Steps(lambda _: None, lambda _: None)
    steps.start("bench")
    on_s = min(_replayed(mine) for _ in range(ROUNDS))
    steps.stop()
    turn_us, more_us = min(turns) / TURNS * 1e6, (on_s - off_s) / TURNS * 1e6
    return {
        "metric": "observer: what following a run step by step adds to a turn",
        "value_us": round(more_us, 1),
        "limit": f"{STEPS_LIMIT:g} of a turn",
        "limit_us": round(turn_us * STEPS_LIMIT, 1),
        "ratio": round(more_us / turn_us, 3),
    }


def _replayed(said: list[Any]) -> float:
    began = time.process_time()
    for _ in range(10):
        for event, measured, told in said:
            telemetry.execute(event, dict(measured), dict(told))
    return (time.process_time() - began) / 10


async def _frames() -> list[Row]:
    chromium = shutil.which("chromium")
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        chromium = None
    names = ("the middle frame", "the slowest of 100 frames", "a key typed into the search")
    limits = (FRAME_LIMIT_MS, SLOW_FRAME_LIMIT_MS, KEY_LIMIT_MS)
    metrics = [f"{name}, page with {PROCESSES} nodes" for name in names]
    if chromium is None:
        return [_row(metric, "no browser", limit) for metric, limit in zip(metrics, limits, strict=True)]
    async with Runtime():
        await ensure_all_started(APPLICATION)
        workers = await _grown()
        url = await observe("")
        spawn(_poke, workers)
        async with async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = await browser.new_page(viewport={"width": 1440, "height": 900})
            await page.goto(url)
            while not (await page.text_content("#shown") or "").startswith("5,0"):
                await asyncio.sleep(0.01)
            frames = sorted(await page.evaluate(SCROLL))
            keys = sorted(await page.evaluate(TYPE))
            await browser.close()
        await stop_all()
    values = (statistics.median(frames), frames[int(0.99 * (len(frames) - 1))], statistics.median(keys))
    return [_ms(metric, value, limit) for metric, value, limit in zip(metrics, values, limits, strict=True)]


def _ms(metric: str, value_ms: float, limit_ms: float) -> Row:
    return _row(metric, round(value_ms, 2), limit_ms)


def _row(metric: str, value: float | str, limit_ms: float) -> Row:
    ratio = round(value / limit_ms, 3) if isinstance(value, float) else "-"
    return {
        "metric": f"observer: {metric}",
        "value_us": value,
        "unit": "ms",
        "limit": f"{limit_ms:g} ms",
        "limit_us": limit_ms,
        "ratio": ratio,
    }


def rows() -> list[Row]:
    """All rows of this module."""
    return [*asyncio.run(_looks()), asyncio.run(in_agent_tree(_stepped)), *asyncio.run(_frames())]


if __name__ == "__main__":
    for each in rows():
        print(json.dumps(each))
