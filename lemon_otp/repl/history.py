"""Edge. What happened lately, and how well the event loop keeps up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from lemon_otp.process import current_runtime
from lemon_otp.recorder import recorder
from lemon_otp.repl.finding import find
from lemon_otp.repl.looks import number
from lemon_otp.repl.operations import Answer, Refusal

PASSES: Final = 20
PAUSE_S: Final = 0.005


def look_at_history(request: Mapping[str, Any]) -> Answer:
    """The last lifecycle events, exits and restarts; with `target` those that concern one process."""
    found = recorder()
    if found is None:
        raise Refusal("nothing is recorded here; `Recorder.start()` begins it", "not_recorded")
    return {"entries": found.entries(number(request, "limit", 100, 2_000), about=_about(request))}


def look_at_log(request: Mapping[str, Any]) -> Answer:
    """The last log records; with `target` those of one process."""
    found = recorder()
    if found is None:
        raise Refusal("nothing is recorded here; `Recorder.start()` begins it", "not_recorded")
    return {"records": found.log(number(request, "limit", 100, 500), about=_about(request))}


def _about(request: Mapping[str, Any]) -> int | None:
    """The number of the process that is meant, which may be long gone."""
    target = request.get("target")
    if target in (None, ""):
        return None
    text = str(target)
    return int(text) if text.isascii() and text.isdigit() else find(target).id


async def measure_lag(_: Mapping[str, Any]) -> Answer:
    """How late the event loop is, measured now over some passes, and the times that it was held up lately."""
    late_ms = []
    for _pass in range(PASSES):
        began_s = time.perf_counter()
        await asyncio.sleep(PAUSE_S)
        late_ms.append(max(0.0, time.perf_counter() - began_s - PAUSE_S) * 1000)
    late_ms.sort()
    runtime = current_runtime()
    found = recorder()
    held = [] if found is None else [e for e in found.entries() if e["event"] == "lemon_otp.watchdog.held"]
    return {
        "median_ms": round(late_ms[PASSES // 2], 3),
        "worst_ms": round(late_ms[-1], 3),
        "passes": PASSES,
        "queue": len(runtime.queue),
        "turns": runtime.turns,
        "held": held[-20:],
    }
