"""Edge. Runs many scenarios: one after the other, side by side on one loop, or over several worker processes."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Final

from attrs import frozen

from tests.conformance.driver import run_scenario

WORTH_WORKERS: Final = 1500
"""Fewer scenarios are done before a worker process has started."""
CHUNK: Final = 250
"""Scenarios that a worker takes at once."""
SIDE_BY_SIDE: Final = 12
"""Scenarios that wait for the machine's clock on one loop at the same time."""


@frozen
class Options:
    """How scenarios are run.

    Attributes:
        clock: "virtual" or "real".
        uvloop: Whether the event loop is uvloop's.
        jobs: Worker processes.
    """

    clock: str = "virtual"
    uvloop: bool = False
    jobs: int = 1


def run_all(scenarios: Sequence[Mapping[str, Any]], options: Options) -> Iterator[dict[str, Any]]:
    """The trace of each scenario, in their order."""
    if options.jobs <= 1 or len(scenarios) < WORTH_WORKERS:
        yield from run_here(scenarios, options)
        return
    chunks = [scenarios[start : start + CHUNK] for start in range(0, len(scenarios), CHUNK)]
    with ProcessPoolExecutor(min(options.jobs, len(chunks)), mp_context=get_context("spawn")) as workers:
        for traces in workers.map(_run_chunk, chunks, [options] * len(chunks)):
            yield from traces


def run_here(scenarios: Sequence[Mapping[str, Any]], options: Options) -> Iterator[dict[str, Any]]:
    """The traces of the scenarios, run in this process."""
    # Scenarios crash on purpose, by the thousand, and forge messages; both are in the traces.
    logging.getLogger("lemon_otp").setLevel(logging.CRITICAL)
    if options.clock == "real":
        yield from _on_new_loop(_side_by_side(scenarios, options), options)
        return
    for scenario in scenarios:
        yield _on_new_loop(run_scenario(scenario, options.clock), options)


def _run_chunk(scenarios: Sequence[Mapping[str, Any]], options: Options) -> list[dict[str, Any]]:
    return list(run_here(scenarios, options))


async def _side_by_side(scenarios: Sequence[Mapping[str, Any]], options: Options) -> list[dict[str, Any]]:
    free = asyncio.Semaphore(SIDE_BY_SIDE)

    async def run(scenario: Mapping[str, Any]) -> dict[str, Any]:
        async with free:
            return await run_scenario(scenario, options.clock)

    return await asyncio.gather(*map(run, scenarios))


def _on_new_loop(work: Coroutine[Any, Any, Any], options: Options) -> Any:
    factory = None
    if options.uvloop:
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
