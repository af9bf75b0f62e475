"""Waiting that can be cut short, and waiting that never began."""

import asyncio

import pytest

from lemon_agent import AbortSignal
from lemon_agent.loop.interruption import Interrupted, Interruptible, seconds, settled
from lemon_otp import exit_signal, sleep_s, spawn
from lemon_otp.testing import settle


async def at_once():
    return "value"


async def after_a_while():
    await sleep_s(1)
    return "value"


@pytest.mark.parametrize("signal", [None, AbortSignal()])
async def test_what_has_nothing_to_wait_for_is_answered_at_once(runtime, signal):
    """Plain values and coroutines that never wait; the clock does not move."""
    assert await settled(7, signal, 0.0) == 7
    assert await settled(at_once(), signal, 0.0) == "value"


async def test_what_waits_is_waited_for(clocked_runtime, fake_clock):
    """A coroutine that suspends several times gives its value, as `await` would."""
    done = []

    async def body():
        done.append(await settled(after_a_while(), AbortSignal(), 5.0))

    spawn(body)
    await fake_clock.advance(2)
    assert done == ["value"]


async def test_an_error_inside_is_the_callers(runtime):
    """Raised before the first wait or after it, it comes out as it is."""

    async def early():
        raise KeyError("early")

    async def late():
        await asyncio.sleep(0)
        raise KeyError("late")

    for work in (early, late):
        with pytest.raises(KeyError):
            await settled(work(), AbortSignal(), None)


async def test_time_runs_out_and_what_was_awaited_is_cancelled(clocked_runtime, fake_clock):
    """The coroutine sees the cancellation and can clean up."""
    log = []

    async def work():
        try:
            await sleep_s(60)
        finally:
            log.append("cleaned up")

    async def body():
        try:
            await settled(work(), None, 2.0)
        except Interrupted as interrupted:
            log.append(interrupted.cause)

    spawn(body)
    await fake_clock.advance(1.9)
    assert log == []
    await fake_clock.advance(0.2)
    assert log == ["cleaned up", "timeout"]


async def test_an_abort_cuts_the_wait_short_and_one_said_before_lets_nothing_begin(runtime):
    """Said during the wait: interrupted. Said before: the coroutine is not even started."""
    signal = AbortSignal()
    log = []

    async def work():
        log.append("began")
        await asyncio.sleep(60)

    async def body():
        for _ in range(2):
            try:
                await settled(work(), signal, None)
            except Interrupted as interrupted:
                log.append(interrupted.cause)

    spawn(body)
    await settle()
    signal.abort()
    await settle()
    assert log == ["began", "aborted", "aborted"]


async def test_what_is_given_a_moment_after_an_abort_may_use_it_and_no_more(clocked_runtime, fake_clock):
    """Within the grace its answer counts; what is not done by then is cancelled."""
    log = []

    async def work(pause_s):
        await sleep_s(pause_s)
        return f"answered after {pause_s}"

    async def body(signal, pause_s):
        try:
            log.append(await settled(work(pause_s), signal, None, grace_s=0.1))
        except Interrupted as interrupted:
            log.append(interrupted.cause)

    for pause_s in (0.05, 60):
        signal = AbortSignal()
        spawn(body, signal, pause_s)
        await settle()
        signal.abort()
        await fake_clock.advance(0.09)
    assert log == ["answered after 0.05"]
    await fake_clock.advance(0.02)
    assert log == ["answered after 0.05", "aborted"]


async def test_a_redirect_cuts_short_only_where_it_is_asked_for(runtime):
    """Hooks and tools are not disturbed by it, a model call is."""
    signal = AbortSignal()
    log = []

    async def body():
        try:
            with Interruptible(signal, redirect=True):
                await asyncio.sleep(60)
        except Interrupted as interrupted:
            log.append(interrupted.cause)
        with Interruptible(signal):
            await asyncio.sleep(0)
        log.append("undisturbed")

    spawn(body)
    await settle()
    signal.request_redirect()
    await settle()
    assert log == ["redirected", "undisturbed"]


async def test_a_signal_that_comes_when_the_block_is_done_interrupts_nothing_else(runtime):
    """Said from a thread in the very last moment of the block, it is heard after it."""
    signal = AbortSignal()
    go_on = asyncio.Event()
    log = []

    async def body():
        block = Interruptible(signal, redirect=True)
        with block:
            await asyncio.sleep(0)
        block("too late")
        await go_on.wait()
        log.append("undisturbed")

    async def in_the_same_moment():
        with Interruptible(signal):
            signal.abort()
        await go_on.wait()
        log.append("finished")

    spawn(body)
    await settle()
    spawn(in_the_same_moment)
    await settle()
    go_on.set()
    await settle()
    assert log == ["undisturbed", "finished"]


async def test_a_process_that_is_ended_inside_takes_its_coroutine_along(runtime):
    """The end of the process is no interruption: the coroutine is closed and nothing swallows it."""
    log = []

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            log.append("closed")

    async def body():
        await settled(work(), AbortSignal(), None)
        log.append("never")

    pid = spawn(body)
    await settle()
    exit_signal(pid, "shutdown")
    await settle()
    assert log == ["closed"]
    assert not pid.alive


async def test_a_timeout_of_the_awaited_things_own_is_not_ours(runtime):
    """A TimeoutError raised inside stays one."""

    async def work():
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        await settled(work(), AbortSignal(), 60.0)


def test_no_limit_stays_none():
    """Milliseconds become seconds."""
    assert (seconds(None), seconds(1500)) == (None, 1.5)
