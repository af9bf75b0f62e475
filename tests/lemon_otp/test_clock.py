"""Clocks and timers."""

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_otp import (
    ReceiveTimeout,
    Runtime,
    cancel_timer,
    monotonic_s,
    receive,
    run,
    self_pid,
    send_after,
    wall_ms,
)
from lemon_otp.clock import RealClock, Timers
from lemon_otp.testing import FakeClock


class Hand:
    """A clock that only remembers what it was asked for."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.armed_for_s: float | None = None

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return 0

    def arm(self, timers: Timers, when_s: float) -> None:
        self.armed_for_s = when_s


def timers(clock: Hand) -> Timers:
    return Timers(clock, None)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=30))
def test_timers_fire_in_the_order_of_their_moments(plan: list[tuple[int, bool]]) -> None:
    """Those of one moment in the order in which they were added; cancelled ones never."""
    clock, fired = Hand(), []
    pending = timers(clock)
    made = [pending.add(delay, fired.append, (delay, number)) for number, (delay, _) in enumerate(plan)]
    for timer, (_, kept) in zip(made, plan, strict=True):
        if not kept:
            assert pending.cancel(timer)
            assert not pending.cancel(timer)
    while (due_s := pending.next_due_s()) is not None:
        clock.now_s = due_s
        pending.fire()
    wanted = sorted((delay, number) for number, (delay, kept) in enumerate(plan) if kept)
    assert fired == wanted
    assert not any(pending.cancel(timer) for timer in made)


def test_the_clock_is_armed_for_the_next_timer() -> None:
    """Again after each one that has fired."""
    clock = Hand()
    pending = timers(clock)
    pending.add(5, int)
    pending.add(3, int)
    pending.add(9, int)
    assert clock.armed_for_s == 3
    clock.now_s = 5
    pending.fire()
    assert clock.armed_for_s == 9


def test_cancelled_timers_do_not_pile_up() -> None:
    """A million calls that were answered in time leave no million entries behind."""
    pending = timers(Hand())
    kept = pending.add(1, int)
    for _ in range(10_000):
        pending.cancel(pending.add(5, int))
    assert len(pending._heap) < 2 * Timers.PURGE_AT + 2
    assert pending.next_due_s() == kept.when_s
    pending.clear()
    assert pending.next_due_s() is None
    assert not pending.cancel(kept)


def test_outside_a_runtime_time_is_the_machines() -> None:
    """Monotonic seconds and wall milliseconds."""
    assert abs(monotonic_s() - time.monotonic()) < 5
    assert abs(wall_ms() - time.time() * 1000) < 5000


def test_inside_a_runtime_time_is_its_clocks() -> None:
    """A FakeClock moves what `monotonic_s` and `wall_ms` say."""

    async def main() -> tuple[float, float, int]:
        before_s, before_ms = monotonic_s(), wall_ms()
        await clock.advance(1.5)
        return before_s, monotonic_s() - before_s, wall_ms() - before_ms

    clock = FakeClock(now_s=50)
    assert run(main, clock=clock) == (50, 1.5, 1500)


def test_the_real_clock_wakes_the_loop_when_it_should() -> None:
    """An earlier timer replaces the one that was waited for; nothing fires after the end."""

    async def main() -> list[str]:
        clock, fired = RealClock(), []
        pending = Timers(clock, asyncio.get_running_loop())
        pending.add(0.04, fired.append, "late")
        pending.add(0.01, fired.append, "early")
        pending.add(30, fired.append, "never")
        while len(fired) < 2:
            await asyncio.sleep(0.005)
        clock.disarm()
        clock.disarm()
        return fired

    assert asyncio.run(main()) == ["early", "late"]


def test_two_runtimes_may_share_a_fake_clock() -> None:
    """Both see the same time."""

    async def main() -> list[float]:
        clock = FakeClock(now_s=0)
        seen = []
        async with Runtime(clock):
            async with Runtime(clock):
                await clock.advance(2)
                seen.append(monotonic_s())
            seen.append(monotonic_s())
        return seen

    assert asyncio.run(main()) == [2, 2]


def test_a_timer_that_raises_holds_up_no_other() -> None:
    """The clock is armed for the next one all the same."""
    clock = Hand()
    pending = timers(clock)
    fired: list[int] = []
    pending.add(1, [].remove, 0)
    pending.add(1, fired.append, 1)
    pending.add(2, fired.append, 2)
    clock.now_s = 1.0
    with pytest.raises(ValueError, match="not in list"):
        pending.fire()
    assert clock.armed_for_s == 1.0
    pending.fire()
    assert fired == [1]
    assert clock.armed_for_s == 2.0


def test_a_loop_is_not_asked_to_wait_for_ever() -> None:
    """A time that has no end is none that every event loop takes."""

    async def main() -> None:
        with pytest.raises(ReceiveTimeout):
            await receive(timeout_s=0.01)
        ref = send_after(self_pid(), "never", float("inf"))
        assert await asyncio.wait_for(asyncio.sleep(0, "awake"), 1) == "awake"
        assert cancel_timer(ref)

    run(main)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:

        async def root() -> None:
            async with Runtime():
                await main()

        runner.run(root())
