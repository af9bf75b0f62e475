"""Who holds the event loop is named."""

import asyncio
import time
from typing import Any

import pytest

from lemon_otp import BadArgument, Runtime, cast, receive, self_pid, send, spawn, telemetry
from lemon_otp.watchdog import Watchdog
from tests.lemon_otp.servers import Scripted


def hold(seconds: float) -> None:
    """Block without giving the loop a chance, as a careless handler does."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


@pytest.mark.requirement("BR-150")
async def test_a_handler_that_holds_the_loop_is_named_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    """It is reported while it does, and an event says for how long when it is over; it is not taken for dead."""
    events: list[Any] = []

    async def busy(state: Any) -> Any:
        from lemon_otp import NoReply

        hold(0.3)
        return NoReply(state)

    async with Runtime(watchdog_s=0.05) as runtime:
        telemetry.attach("h", ("lemon_otp", "watchdog", "held"), lambda *event: events.append(event))
        pid = await Scripted.start(0, name="busy_server")
        assert pid is not None
        cast(pid, busy)
        async with asyncio.timeout(5):
            while not events:
                await asyncio.sleep(0.01)
        assert pid.alive
        assert runtime.watchdog is not None
        (report,) = runtime.watchdog.reports
    assert report.holder is pid
    assert "hold" in report.stack
    assert 0.1 < report.held_s < 3
    assert "busy_server" in caplog.text
    assert events[0][1]["held_s"] == report.held_s
    assert events[0][2]["holder"] is pid


async def test_a_loop_that_is_busy_in_small_steps_is_not_reported() -> None:
    """Many short turns are no reason to complain."""

    async def count(back: Any) -> None:
        for _ in range(200):
            hold(0.001)
            await asyncio.sleep(0)
        send(back, "done")

    async with Runtime(watchdog_s=0.2) as runtime:
        spawn(count, self_pid())
        await receive(timeout_s=10)
        assert runtime.watchdog is not None
        assert runtime.watchdog.reports == []


@pytest.mark.parametrize("limit_s", [0, -1, float("nan"), "1", None, True])
async def test_a_limit_that_is_none_is_refused(limit_s: Any, runtime: Runtime) -> None:
    """BadArgument, with what was expected."""
    with pytest.raises(BadArgument, match="positive"):
        Watchdog(runtime.scheduler, limit_s)
