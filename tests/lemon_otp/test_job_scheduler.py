"""Background jobs: bounded, supervised, closed with grace."""

import asyncio
import logging
from contextlib import suppress
from typing import Any

import pytest

from lemon_otp import (
    BadArgument,
    CallFailed,
    JobCounts,
    JobScheduler,
    Pid,
    Runtime,
    Supervisor,
    TooManyJobs,
    exit_process,
    exit_signal,
    self_pid,
    send,
    spawn,
    stop,
    telemetry,
    trap_exit,
    whereis,
)
from lemon_otp.testing import FakeClock, settle

pytestmark = pytest.mark.usefixtures("runtime")


class Gate:
    """A job that waits until it is let through, and notes how it ended."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.ended: list[Any] = []

    async def job(self, number: int = 0) -> int:
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        self.ended.append(number)
        return number


async def test_a_job_returns_its_value_or_raises_its_error_in_whoever_waits() -> None:
    """Plain functions and coroutines alike."""
    jobs = await JobScheduler.start_link()

    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    assert await JobScheduler.run(jobs, double, 4) == 8
    assert await JobScheduler.run(jobs, abs, -3) == 3
    with pytest.raises(ValueError, match="invalid literal"):
        await JobScheduler.run(jobs, int, "x")


async def test_no_more_jobs_run_or_wait_than_allowed() -> None:
    """One more is refused at once with TooManyJobs; when one ends, the next waiting one runs."""
    jobs = await JobScheduler.start_link(limit=2, pending_limit=1)
    gate = Gate()
    for number in range(3):
        await JobScheduler.submit(jobs, gate.job, number)
    assert await JobScheduler.count(jobs) == JobCounts(active=2, pending=1, limit=2, pending_limit=1)
    with pytest.raises(TooManyJobs):
        await JobScheduler.submit(jobs, gate.job)
    with pytest.raises(TooManyJobs):
        await JobScheduler.run(jobs, gate.job)
    gate.opened.set()
    await settle()
    assert sorted(gate.ended) == [0, 1, 2]
    assert (await JobScheduler.count(jobs)).active == 0


async def test_the_failure_of_a_submitted_job_is_logged_and_told(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for it; the scheduler goes on."""
    told: list[Any] = []
    telemetry.attach("t", ("lemon_otp", "job", "stop"), lambda name, measured, about, config: told.append(about))
    jobs = await JobScheduler.start_link()
    caplog.set_level(logging.ERROR)
    await JobScheduler.submit(jobs, int, "x", label="parse")
    await settle()
    assert "job parse failed" in caplog.text
    assert told == [{"label": "parse", "failed": True}]
    assert jobs.alive


async def test_a_scheduler_that_is_stopped_waits_for_its_jobs() -> None:
    """Those that run and those that wait come to their end."""
    jobs = await JobScheduler.start_link(limit=1)
    gate = Gate()
    for number in range(3):
        await JobScheduler.submit(jobs, gate.job, number)
    stopping = spawn(stop, jobs)
    await settle()
    assert stopping.alive
    gate.opened.set()
    await asyncio.get_running_loop().create_task(until_dead(jobs))
    assert gate.ended == [0, 1, 2]


async def test_jobs_that_take_too_long_are_cancelled_at_the_end() -> None:
    """close_timeout_s is all they get; whoever waits for one is told that the scheduler is gone."""
    jobs = await JobScheduler.start_link(limit=1, close_timeout_s=0)
    gate = Gate()
    errors: list[Any] = []

    async def wait() -> None:
        try:
            await JobScheduler.run(jobs, gate.job)
        except CallFailed as failed:
            errors.append(failed.reason)

    spawn(wait)
    await settle()
    await stop(jobs)
    await settle()
    assert gate.ended == ["cancelled"]
    assert errors == ["normal"]


async def test_a_killed_scheduler_leaves_no_job_behind_and_is_restarted() -> None:
    """Its jobs are cancelled although it could not do so itself; its successor starts empty."""
    await Supervisor.start_link([JobScheduler.child_spec(name="jobs", limit=1)])
    gate = Gate()
    for _ in range(2):
        await JobScheduler.submit("jobs", gate.job)
    await settle()
    victim = whereis("jobs")
    assert victim is not None
    exit_signal(victim, "kill")
    for _ in range(20):
        await settle()
    assert gate.ended == ["cancelled"]
    assert whereis("jobs") not in (None, victim)
    assert (await JobScheduler.count("jobs")).active == 0


async def test_a_job_acts_in_the_name_of_its_scheduler() -> None:
    """It can send and call; it is no process of its own."""
    jobs = await JobScheduler.start_link()
    test = self_pid()
    assert await JobScheduler.run(jobs, self_pid) is jobs
    await JobScheduler.run(jobs, send, test, "from a job")


@pytest.mark.parametrize("options", [{"limit": 0}, {"pending_limit": -1}, {"limit": True}, {"close_timeout_s": -1}])
async def test_nonsense_options_are_refused(options: dict[str, Any]) -> None:
    """BadArgument, before anything runs."""
    with pytest.raises(BadArgument):
        await JobScheduler.start_link(**options)


async def until_dead(pid: Pid) -> None:
    while pid.alive:
        await asyncio.sleep(0)


async def test_whoever_waits_for_a_job_that_exits_or_cancels_itself_is_told() -> None:
    """With CallFailed and the reason; the scheduler and its room stay as they were."""
    jobs = await JobScheduler.start_link()

    async def leave() -> None:
        exit_process("boom")

    async def give_up() -> None:
        raise asyncio.CancelledError

    for job, reason in ((leave, "boom"), (give_up, "cancelled")):
        with pytest.raises(CallFailed) as failed:
            await JobScheduler.run(jobs, job, timeout_s=5.0)
        assert failed.value.reason == reason
    await JobScheduler.submit(jobs, leave)
    await settle()

    assert jobs.alive
    assert await JobScheduler.count(jobs) == JobCounts(0, 0, 4, 100)


async def test_a_job_that_swallows_its_cancel_does_not_keep_the_scheduler(
    fake_clock: FakeClock, clocked_runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    """It is given its time, and left behind with a warning; whoever stops the scheduler does not wait for ever."""
    released = asyncio.Event()

    async def stubborn() -> None:
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()

    trap_exit(True)
    jobs = await JobScheduler.start_link(close_timeout_s=0)
    await JobScheduler.submit(jobs, stubborn)
    await settle()
    stopping = spawn(stop, jobs)
    await settle()
    await fake_clock.advance(2.0)

    assert not jobs.alive
    assert not stopping.alive
    assert "do not end when they are cancelled" in caplog.text
    released.set()
    await settle()
