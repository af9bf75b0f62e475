"""PROC. Runs one scenario in a runtime of its own: step by step, settling after each, and writes its trace."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

from lemon_otp import Down, MonitorRef, Pid, ReceiveTimeout, Runtime, receive, self_pid, spawn
from lemon_otp.testing import settle
from tests.conformance.clocks import VirtualClock, clock_named
from tests.conformance.interpreter import Place, run_op
from tests.conformance.messages import event_of
from tests.conformance.ops import applications, load_ops
from tests.conformance.trace import entry_of, trace_of
from tests.conformance.world import DRIVER, Actor, InterpreterFault, World

STUCK_S: Final = 60.0
"""How long a scenario may take."""


class Stuck(Exception):
    """The scenario cannot go on by itself."""


@define(eq=False)
class Driver:
    """The process that executes the steps.

    Attributes:
        settled: What it waits for between two steps; whoever watches the runtime sets it.
        wanted: Set when it waits for `settled`.
        trace: The finished trace.
    """

    scenario: Mapping[str, Any]
    world: World
    settled: asyncio.Event = field(factory=asyncio.Event)
    wanted: asyncio.Event = field(factory=asyncio.Event)
    trace: dict[str, Any] | None = None

    async def run(self) -> None:
        """Execute all steps; the body of the process."""
        world = self.world
        actor = Actor(DRIVER)
        world.came_to_life(actor, self_pid())
        place = Place(world, actor)
        applications.load_applications(place)
        steps = []
        for index, step in enumerate(self.scenario["steps"]):
            await run_op(step, place)
            await self._settle()
            await self._empty_mailbox(place, keep_tasks=True)
            steps.append(entry_of(index, step, world))
        await self._empty_mailbox(place, keep_tasks=False)
        await self._settle()
        rest = entry_of("end", {"op": "end"}, world)
        self.trace = trace_of(self.scenario, steps, rest, world)

    async def _settle(self) -> None:
        self.settled.clear()
        self.wanted.set()
        await self.settled.wait()
        if self.world.fault is not None:
            raise Stuck(self.world.fault)

    async def _empty_mailbox(self, place: Place, *, keep_tasks: bool) -> None:
        """Record what has come; what an unfinished task needs stays, until the end."""
        open_refs = self._open_tasks() if keep_tasks else set()
        try:
            while True:
                message = await receive(lambda waiting: _ref_of(waiting) not in open_refs, timeout_s=0)
                name, terms = event_of(message, "msg")
                place.log(name, *terms)
        except ReceiveTimeout:
            pass

    def _open_tasks(self) -> set[MonitorRef]:
        me = self_pid()
        tasks = self.world.tasks.values()
        return {task.ref for task in tasks if task.owner is me and task.ref not in self.world.dealt_with}


def _ref_of(message: Any) -> Any:
    if isinstance(message, Down):
        return message.ref
    is_pair = isinstance(message, tuple) and len(message) == 2
    return message[0] if is_pair and isinstance(message[0], MonitorRef) else None


async def run_scenario(scenario: Mapping[str, Any], clock: str = "virtual") -> dict[str, Any]:
    """The trace of a scenario, run in a fresh runtime; a scenario that cannot be run says why instead."""
    load_ops()
    name = scenario["name"]
    try:
        async with asyncio.timeout(STUCK_S):
            return await _run(scenario, clock)
    except TimeoutError:
        return {"name": name, "runner_error": "stuck"}
    except Stuck as error:
        return {"name": name, "runner_error": str(error)}
    except Exception as error:
        return {"name": name, "runner_error": "".join(traceback.format_exception(error))}


async def _run(scenario: Mapping[str, Any], clock: str) -> dict[str, Any]:
    time = clock_named(clock)
    world = World(scenario.get("defs", {}))
    driver = Driver(scenario, world)
    async with Runtime(time):
        pid = spawn(driver.run, trap_exit=True, label=DRIVER)
        await _watch(driver, pid, time)
    if driver.trace is not None:
        return driver.trace
    reason = pid.exit_reason
    told = str(reason) if isinstance(reason, Stuck | InterpreterFault) else f"the driver ended: {reason!r}"
    raise Stuck(world.fault or told)


async def _watch(driver: Driver, pid: Pid, time: VirtualClock | None) -> None:
    """Tell the driver when nothing can run any more; move the time on when it waits for that."""
    while pid.alive:
        await settle()
        if driver.world.fault is not None:
            return
        if driver.wanted.is_set():
            driver.wanted.clear()
            if time is not None:
                time.end_step()
            driver.settled.set()
        elif time is None:
            await _wait_for(driver, pid)
        elif not time.move_on() and pid.alive:
            raise Stuck("every process waits and no timer is pending")


async def _wait_for(driver: Driver, pid: Pid) -> None:
    """On the machine's clock: sleep until the driver is through with its op."""
    while pid.alive and not driver.wanted.is_set() and driver.world.fault is None:
        try:
            async with asyncio.timeout(0.05):
                await driver.wanted.wait()
        except TimeoutError:
            pass
