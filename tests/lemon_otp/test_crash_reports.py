"""What is said when a process ends badly."""

import gc
import logging
import weakref
from typing import Any

import pytest

from lemon_otp import Down, Pid, Runtime, exit_process, monitor, receive, self_pid, spawn, telemetry
from lemon_otp.crash_reports import CrashReport
from tests.lemon_otp.servers import Scripted


@pytest.fixture(autouse=True)
async def entered(clocked_runtime: Runtime) -> Runtime:
    return clocked_runtime


async def ended(pid: Pid) -> Any:
    if pid.alive:
        monitor(pid)
        await receive(lambda message: isinstance(message, Down) and message.process is pid)
    return pid.exit_reason


@pytest.mark.requirement("BR-132")
async def test_a_crash_is_one_log_record_and_one_event(caplog: pytest.LogCaptureFixture) -> None:
    """Structured: pid, initial call, reason, ancestors, traceback."""
    events: list[Any] = []
    telemetry.attach("h", ("lemon_otp", "process", "crash"), lambda *event: events.append(event))

    async def fail() -> None:
        raise ValueError("boom")

    pid = spawn(fail, label="failing")
    error = await ended(pid)
    (record,) = caplog.records
    report: CrashReport = record.crash  # type: ignore[attr-defined]
    assert record.name == "lemon_otp"
    assert record.levelno == logging.ERROR
    assert report.pid == repr(pid)
    assert report.initial_call.endswith("fail")
    assert report.reason == "ValueError('boom')"
    assert report.ancestors == (repr(self_pid()),)
    assert 'raise ValueError("boom")' in report.traceback
    assert "boom" in record.getMessage()
    (_, measurements, metadata, _) = events[0]
    assert measurements == {"count": 1}
    assert metadata["reason"] is error
    assert metadata["pid"] is pid
    assert metadata["report"] == report


async def test_an_exit_with_another_reason_is_a_crash_too(caplog: pytest.LogCaptureFixture) -> None:
    """Without a traceback."""
    await ended(spawn(exit_process, "no config"))
    (record,) = caplog.records
    assert record.crash.reason == "'no config'"  # type: ignore[attr-defined]
    assert record.crash.traceback == ""  # type: ignore[attr-defined]


async def test_a_repr_that_raises_or_is_huge_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    """State and message are shown bounded, and a broken repr is told."""

    class Broken:
        def __repr__(self) -> str:
            raise ValueError("no repr")

    async def make() -> Any:
        return Broken()

    async def fail(state: Any, padding: str = "x" * 10_000) -> Any:
        raise RuntimeError(padding)

    from lemon_otp import cast

    pid = await Scripted.start(make)
    assert pid is not None
    cast(pid, fail)
    await ended(pid)
    (record,) = caplog.records
    assert "Broken whose repr raised" in record.crash.state  # type: ignore[attr-defined]
    assert len(record.crash.reason) < 600  # type: ignore[attr-defined]


async def test_a_reason_does_not_keep_what_the_frames_held() -> None:
    """Whoever holds the exception does not hold the locals of the dead process."""

    class Big:
        pass

    held: list[weakref.ref[Big]] = []

    async def fail() -> None:
        big = Big()
        held.append(weakref.ref(big))
        raise ValueError(big.__class__.__name__)

    error = await ended(spawn(fail))
    gc.collect()
    assert isinstance(error, ValueError)
    assert held[0]() is None
