"""What is said when a process ends badly."""

import gc
import logging
import time
import weakref
from typing import Any

import pytest
from attrs import field, frozen

from lemon_otp import (
    Down,
    Pid,
    Runtime,
    cast,
    clean_reports,
    exit_process,
    exit_signal,
    monitor,
    receive,
    self_pid,
    sleep_s,
    spawn,
    telemetry,
)
from lemon_otp.crash_reports import VALUE_MAX, CrashReport
from lemon_otp.speaking import TEXT_MAX
from lemon_otp.testing import settle
from tests.lemon_otp.servers import Scripted

SECRET = "canary-0123456789-abcdefghijklmnop"


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


class Broken:
    """What is asked of it in the usual way raises, waits or says what nobody may know."""

    def __init__(self, secret: str = SECRET) -> None:
        self.secret = secret

    def __repr__(self) -> str:
        raise AssertionError(f"asked for {self.secret}")

    __str__ = __repr__


@frozen
class Account:
    name: str
    key: str = field(repr=False, default=SECRET)
    shown_otherwise: str = field(repr=lambda _: "***", default=SECRET)
    inside: Any = None


class BrokenError(Exception):
    def __str__(self) -> str:
        raise AssertionError(f"asked for {SECRET}")

    __repr__ = __str__


async def crashed_with(caplog: pytest.LogCaptureFixture, state: Any, error: BaseException) -> CrashReport:
    async def make() -> Any:
        return state

    async def fail(_state: Any) -> Any:
        raise error

    pid = await Scripted.start(make)
    assert pid is not None
    cast(pid, fail)
    await ended(pid)
    (record,) = caplog.records
    report: CrashReport = record.crash  # type: ignore[attr-defined]
    assert SECRET not in record.getMessage()
    assert SECRET not in str(report)
    return report


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (Broken(), "<Broken>"),
        ([Broken()], "[<Broken>]"),
        (Account("mine", inside=Broken()), "Account(name='mine', shown_otherwise=…, inside=<Broken>)"),
        ({"account": Account("mine")}, "{'account': Account(name='mine', shown_otherwise=…, inside=None)}"),
    ],
)
async def test_what_a_state_does_not_tell_of_itself_no_report_tells(
    caplog: pytest.LogCaptureFixture, state: Any, shown: str
) -> None:
    """Nothing of it is run, fields that its class hides stay hidden, and a repr of its own is not guessed at."""
    report = await crashed_with(caplog, state, RuntimeError("no"))
    assert report.state == shown


async def test_an_error_is_not_asked_what_it_says(caplog: pytest.LogCaptureFixture) -> None:
    """Neither it nor its cause: both may raise, wait, or tell a secret."""
    error = BrokenError()
    error.__cause__ = BrokenError()
    report = await crashed_with(caplog, None, error)
    assert report.reason == "<BrokenError>"
    assert report.traceback.count("BrokenError") >= 2
    assert "raise error" in report.traceback


async def test_a_huge_state_costs_no_more_than_a_small_one(caplog: pytest.LogCaptureFixture) -> None:
    """A crash of a process that holds a hundred megabytes does not hold the others up."""
    state = {"text": "x" * 100_000_000, "rows": [["y" * 1_000] * 1_000] * 100}
    began = time.process_time()
    report = await crashed_with(caplog, state, RuntimeError("z" * 50_000_000))
    assert time.process_time() - began < 0.5
    assert len(report.state) <= VALUE_MAX
    assert len(report.reason) <= TEXT_MAX
    assert "100000000 in all" in report.state
    assert len(report.traceback) < 20_000


async def test_a_secret_is_known_where_a_cut_goes_through_it(caplog: pytest.LogCaptureFixture) -> None:
    """The cleaner of the runtime sees each text beyond the place where it is cut."""
    clean_reports(lambda text: text.replace(SECRET, "[hidden]"))
    half = len(SECRET) // 2
    state = ["s" * (VALUE_MAX // 10 - half) + SECRET + "s" * 500, b"s" * (VALUE_MAX // 10 - half) + SECRET.encode() * 9]
    report = await crashed_with(caplog, state, RuntimeError("s" * (TEXT_MAX - half) + SECRET))
    for text in (report.state, report.reason, report.traceback):
        assert SECRET[:half] not in text


async def test_an_error_of_a_dead_process_is_cleaned_too(caplog: pytest.LogCaptureFixture) -> None:
    """What it raised while it cleaned up goes through the cleaner as a crash does."""
    clean_reports(lambda text: text.replace(SECRET, "[hidden]"))

    async def wait() -> None:
        try:
            await sleep_s(100)
        finally:
            raise ValueError(SECRET)

    pid = spawn(wait)
    await settle()
    exit_signal(pid, "kill")
    await settle()
    assert "[hidden]" in caplog.text
    assert SECRET not in "".join(record.getMessage() for record in caplog.records)


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
