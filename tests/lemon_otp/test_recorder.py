"""The flight recorder: what happened lately, in short plain values, in bounded memory."""

import gc
import logging
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from lemon_otp import Supervisor, exit_signal, self_pid, sleep_s, spawn, telemetry, trap_exit
from lemon_otp.recorder import ENTRIES_MAX, LOG_MAX, TEXT_MAX, LogTap, Recorder, recorder
from lemon_otp.testing import FakeClock, settle
from tests.lemon_otp.trees import child, end, pids

pytestmark = pytest.mark.usefixtures("clocked_runtime")
DONE = ("app", "work", "done")


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    """A logger of the test's own."""
    logger = logging.getLogger("tests.recorder")
    logger.setLevel(logging.INFO)
    yield logger
    logger.handlers.clear()


async def test_exits_and_restarts_are_remembered_in_order(fake_clock: FakeClock) -> None:
    """Which child ended, why, and that it was started again, with the time of day."""
    kept = Recorder.start()
    supervisor = await Supervisor.start_link([child([], "a")], name="top")
    await end((await pids(supervisor))["a"], "boom")
    entries = kept.entries()
    assert [entry["event"] for entry in entries] == [
        "lemon_otp.process.crash",
        "lemon_otp.supervisor.child_ended",
        "lemon_otp.supervisor.restart",
    ]
    assert entries[1]["id"] == "a"
    assert entries[1]["reason"] == "'boom'" or entries[1]["reason"] == "boom"
    assert entries[0]["wall_ms"] == fake_clock.wall_ms()


async def test_work_that_is_done_is_no_news() -> None:
    """A child that ends as it should leaves no entry."""
    kept = Recorder.start()
    supervisor = await Supervisor.start_link([child([], "a", restart="transient")], name="top")
    await end((await pids(supervisor))["a"], "normal")
    assert kept.entries() == []


async def test_the_ring_is_bounded() -> None:
    """The oldest goes first; a long text is cut."""
    kept = Recorder.start([DONE])
    for number in range(ENTRIES_MAX + 10):
        telemetry.execute(DONE, {"number": number}, {"text": "x" * 10_000})
    entries = kept.entries()
    assert (len(entries), entries[0]["number"], entries[-1]["number"]) == (ENTRIES_MAX, 10, ENTRIES_MAX + 9)
    assert len(entries[0]["text"]) == TEXT_MAX
    assert [entry["number"] for entry in kept.entries(2)] == [ENTRIES_MAX + 8, ENTRIES_MAX + 9]


class Held:
    """Something that must not be kept alive, and keeps to itself what it holds."""

    def __init__(self) -> None:
        self.secret = "canary"

    def __repr__(self) -> str:
        raise AssertionError("its repr was asked")


async def test_nothing_is_kept_alive_by_being_remembered() -> None:
    """Values of others are told in a few words, without running their code and without what they do not show."""
    kept = Recorder.start([DONE])
    held = Held()
    gone = weakref.ref(held)
    telemetry.execute(DONE, {"what": held}, {"held": held, "pid": self_pid(), "event": 1})
    del held
    gc.collect()
    assert gone() is None
    (entry,) = kept.entries()
    assert entry["held"] == entry["what"] == "<Held>"
    assert entry["event"] == "app.work.done"


async def test_what_concerns_one_process_can_be_asked_for() -> None:
    """What it did itself, and what names it."""
    kept = Recorder.start([DONE])
    one, other = spawn(sleep_s, 100), spawn(sleep_s, 100)
    telemetry.execute(DONE, {}, {"of": one})
    telemetry.execute(DONE, {}, {"of": other})

    async def works() -> None:
        telemetry.execute(DONE, {}, {})

    worker = spawn(works)
    await settle()
    assert len(kept.entries(about=one.id)) == 1
    assert [entry["pid"] for entry in kept.entries(about=worker.id)] == [worker.id]


async def test_a_crash_hands_over_what_led_to_it_and_many_do_not_flood(fake_clock: FakeClock) -> None:
    """At most once in a while; the crash itself is the last entry."""
    dumps: list[list[dict[str, Any]]] = []
    Recorder.start([DONE], on_crash=dumps.append)
    telemetry.execute(DONE, {"number": 1}, {})

    def fails() -> None:
        raise RuntimeError("no")

    for _ in range(3):
        spawn(fails)
        await settle()
    assert [entry["event"] for entry in dumps[0]] == ["app.work.done", "lemon_otp.process.crash"]
    assert len(dumps) == 1
    await fake_clock.advance(6)
    spawn(fails)
    await settle()
    assert len(dumps) == 2


async def test_a_dump_that_fails_takes_only_the_recorder_along() -> None:
    """A telemetry handler that raises is detached; whoever crashed is reported all the same."""

    def fails(_: Any) -> None:
        raise RuntimeError("no disk")

    Recorder.start(on_crash=fails)
    supervisor = await Supervisor.start_link([child([], "a")])
    await end((await pids(supervisor))["a"])
    assert (await pids(supervisor))["a"].alive


async def test_there_is_one_recorder_a_runtime() -> None:
    """Starting again adds to what is remembered, and forgets nothing."""
    first = Recorder.start([DONE])
    telemetry.execute(DONE, {}, {})
    second = Recorder.start([("app", "work", "begun")])
    telemetry.execute(("app", "work", "begun"), {}, {})
    telemetry.execute(DONE, {}, {})
    assert first is second is recorder()
    assert len(first.entries()) == 3
    first.stop()
    assert recorder() is None
    assert telemetry.list_handlers() == []


async def test_log_records_are_remembered_with_their_process(log: logging.Logger) -> None:
    """Bounded, with the number of the process that logged; a message that raises is told."""
    kept = Recorder.start()
    tap = LogTap(kept.heard)
    log.addHandler(tap)
    for number in range(LOG_MAX + 5):
        log.info("line %d", number)
    tap.handle(log.makeRecord(log.name, logging.WARNING, "", 0, "%d", ("no number",), None))
    records = kept.log()
    assert len(records) == LOG_MAX
    assert records[0]["pid"] == self_pid().id
    assert (records[-1]["level"], records[-1]["logger"]) == ("WARNING", "tests.recorder")
    assert "raised" in records[-1]["text"]
    assert len(kept.log(3, about=self_pid().id)) == 3
    assert kept.log(about=self_pid().id + 1000) == []


async def test_killing_is_remembered_with_its_reason() -> None:
    """A child that was killed says so."""
    trap_exit(True)
    kept = Recorder.start()
    supervisor = await Supervisor.start_link([child([], "a")])
    exit_signal((await pids(supervisor))["a"], "kill")
    await settle()
    assert any(entry.get("reason") == "killed" for entry in kept.entries())
