"""The helpers that tests are written with."""

import asyncio
from typing import Any

import pytest

from lemon_otp import ChildSpec, Pid, Runtime, call, receive, self_pid, send, send_after, sleep_s, spawn
from lemon_otp.testing import FakeClock, linked_to_test, settle, start_supervised
from tests.lemon_otp.servers import Counter, Read


async def test_advance_fires_every_timer_at_its_own_moment(clocked_runtime: Runtime, fake_clock: FakeClock) -> None:
    """Processes run in between, so a timer set by one that woke fires within the same advance."""
    times: list[float] = []

    async def ticker() -> None:
        while True:
            await sleep_s(1)
            times.append(fake_clock.now_s)

    start_s = fake_clock.now_s
    spawn(ticker)
    await fake_clock.advance(3.5)
    assert times == [start_s + 1, start_s + 2, start_s + 3]
    assert fake_clock.now_s == start_s + 3.5


async def test_a_timer_of_no_time_does_not_wait_for_the_clock(clocked_runtime: Runtime) -> None:
    """It fires on the next pass of the loop."""
    send_after(self_pid(), "now", 0)
    await settle()
    assert await receive(timeout_s=0) == "now"


async def test_settle_waits_until_nobody_can_run(runtime: Runtime) -> None:
    """However many hops a message takes."""
    hops: list[int] = []

    async def hop(number: int) -> None:
        hops.append(number)
        if number:
            await asyncio.sleep(0)
            spawn(hop, number - 1)

    spawn(hop, 50)
    await settle()
    assert hops == list(range(50, -1, -1))


async def test_start_supervised_gives_the_pid(runtime: Runtime) -> None:
    """Linked to the test; a child that declines is a failure of the test."""
    pid = await start_supervised(Counter.child_spec(3))
    assert await call(pid, Read()) == 3
    assert linked_to_test() == [pid]

    async def declines() -> None:
        return None

    async def with_info() -> Any:
        return pid, "info"

    assert await start_supervised(ChildSpec("x", with_info)) is pid
    with pytest.raises(AssertionError):
        await start_supervised(ChildSpec("x", declines))


async def test_the_fixture_makes_the_test_a_process(runtime: Runtime) -> None:
    """And the runtime its own."""
    assert isinstance(self_pid(), Pid)
    assert runtime.root is self_pid()
    send(self_pid(), 1)
    assert await receive() == 1
