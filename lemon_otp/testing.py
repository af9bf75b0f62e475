"""Edge. What tests of processes need: a clock that is moved by hand, a runtime, and an end to waiting.

Import `runtime` into a conftest to have it as a fixture.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest_asyncio

from lemon_otp.child_spec import ChildSpec
from lemon_otp.clock import Timers
from lemon_otp.pid import Pid
from lemon_otp.process import current_process, current_runtime
from lemon_otp.runtime import Runtime

QUIET_PASSES: Final = 4
"""Passes of the event loop without a turn of any process after which nothing more will happen by itself."""


class FakeClock:
    """A clock that stands still until it is moved.

    Attributes:
        now_s: Monotonic seconds.
    """

    def __init__(self, *, now_s: float = 1000.0, wall_ms: int = 1_700_000_000_000) -> None:
        self.now_s = now_s
        self._wall_ms_at_0 = wall_ms - round(now_s * 1000)
        self._armed: list[Timers] = []

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return self._wall_ms_at_0 + round(self.now_s * 1000)

    def arm(self, timers: Timers, when_s: float) -> None:
        if timers not in self._armed:
            self._armed.append(timers)
        if when_s <= self.now_s:
            timers.loop.call_soon(timers.fire)

    async def advance(self, seconds: float) -> None:
        """Move on by `seconds`, firing every timer at its own moment and letting processes run in between."""
        until_s = self.now_s + seconds
        await settle()
        while (due_s := self._next_due_s()) is not None and due_s <= until_s:
            self.now_s = max(self.now_s, due_s)
            for timers in self._armed:
                timers.fire()
            await settle()
        self.now_s = until_s

    def _next_due_s(self) -> float | None:
        due = [due_s for timers in self._armed if (due_s := timers.next_due_s()) is not None]
        return min(due, default=None)


async def settle() -> None:
    """Return when no process of this runtime can run: all wait, and nothing is on its way between them.

    Timers, sockets and threads that may wake a process later are not waited for.
    """
    runtime = current_runtime()
    own_turns = 1 if current_process().is_main_line() else 0
    quiet = 0
    while quiet < QUIET_PASSES:
        before = runtime.turns
        await asyncio.sleep(0)
        quiet = 0 if runtime.queue or runtime.later or runtime.turns > before + own_turns else quiet + 1


async def start_supervised(spec: ChildSpec) -> Pid:
    """Start a child as a supervisor would, linked to the calling process, and return its pid."""
    started: Any = await spec.start()
    pid = started[0] if isinstance(started, tuple) else started
    if not isinstance(pid, Pid):
        raise AssertionError(f"{spec.id!r} declined to run: {started!r}")
    return pid


@pytest_asyncio.fixture
async def runtime() -> AsyncIterator[Runtime]:
    """A runtime for the length of the test, with the test as a process in it."""
    async with Runtime() as entered:
        yield entered


@pytest_asyncio.fixture
async def fake_clock() -> FakeClock:
    """The clock of `clocked_runtime`."""
    return FakeClock()


@pytest_asyncio.fixture
async def clocked_runtime(fake_clock: FakeClock) -> AsyncIterator[Runtime]:
    """A runtime whose time is `fake_clock`."""
    async with Runtime(fake_clock) as entered:
        yield entered


def linked_to_test() -> list[Pid]:
    """What is linked to the calling process."""
    return list(current_process().links or ())
