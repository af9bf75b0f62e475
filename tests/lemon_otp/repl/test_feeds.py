"""Following processes: what they take and answer, what is said of them, what is logged."""

import logging
from typing import Any

import pytest

from lemon_otp import Pid, call, exit_signal, repl, send, sleep_s, spawn, telemetry
from lemon_otp.recorder import Recorder
from lemon_otp.server_process import ServerProcess
from tests.lemon_otp.repl.conftest import keeper, passes

pytestmark = pytest.mark.usefixtures("top")


def follow(op: str, **parameters: Any) -> tuple[Pid, list[Any], list[Any]]:
    """A feed in a process of its own, its events so far, and its last word."""
    events: list[Any] = []
    last: list[Any] = []

    async def run() -> None:
        operation = repl.find_operation(op)
        assert operation is not None
        try:
            last.append(await operation.run(parameters, events.append))  # type: ignore[misc]
        except repl.Refusal as refusal:
            last.append(refusal)

    return spawn(run), events, last


async def test_a_trace_shows_what_a_server_takes_and_answers_and_ends_with_it() -> None:
    """Calls without their envelope; the reason when the server ends."""
    _, events, last = follow("trace", target="keeper")
    await passes()
    await call("the_keeper", "question")
    send("the_keeper", ("line", 1))
    await passes()
    assert [(event["what"], event["text"]) for event in events] == [
        ("in", "'question'"),
        ("out", "'question'"),
        ("in", "('line', 1)"),
    ]
    exit_signal(keeper(), "kill")
    await passes()
    assert last == [{"text": "keeper ended: 'killed'"}]


async def test_a_trace_that_is_left_leaves_nothing_behind() -> None:
    """The server is not watched any more, and no handler stays attached."""
    pid = keeper()
    assert isinstance(pid, ServerProcess)
    feed, events, _ = follow("trace", target="keeper", events=True)
    await passes()
    assert pid.sys is not None
    assert pid.sys.watcher is not None
    _, _, second = follow("trace", target="keeper")
    await passes()
    assert isinstance(second[0], repl.Refusal)
    assert pid.sys.watcher is not None
    exit_signal(feed, "kill")
    await passes()
    assert pid.sys.watcher is None
    assert telemetry.list_handlers() == []
    send("the_keeper", "x")
    await passes()
    assert events == []


async def test_events_that_concern_a_process_are_followed() -> None:
    """Those it executes and those that name it, and no others."""
    telemetry.attach("somebody", ("app", "work", "done"), lambda *_: None)
    other = spawn(sleep_s, 100)
    _, events, _ = follow("trace", target=str(other.id), events=True)
    await passes()
    telemetry.execute(("app", "work", "done"), {"count": 1}, {"pid": other})
    telemetry.execute(("app", "work", "done"), {"count": 1}, {"pid": keeper()})
    assert [event["what"] for event in events] == ["app.work.done"]
    assert "count=1" in events[0]["text"]


async def test_a_plain_process_has_no_messages_to_trace() -> None:
    """What can be followed of it is said."""
    plain = spawn(sleep_s, 100)
    _, _, last = follow("trace", target=str(plain.id))
    await passes()
    assert "--events" in str(last[0])


async def test_the_log_is_followed_until_it_is_left() -> None:
    """Records of all, or of one process; the loggers are as before in the end."""
    logger = logging.getLogger("lemon_otp")
    before = list(logger.handlers)
    feed, events, _ = follow("follow_log")
    pid = keeper()
    one, of_one, _ = follow("follow_log", target=str(pid.id))
    await passes()
    logger.warning("nothing to do with it")
    logger.warning("%r is tired", pid)
    assert [event["text"] for event in events] == ["nothing to do with it", f"{pid!r} is tired"]
    assert [event["text"] for event in of_one] == [f"{pid!r} is tired"]
    exit_signal(feed, "kill")
    exit_signal(one, "kill")
    await passes()
    assert logger.handlers == before


async def test_a_recorder_beside_a_feed_is_not_disturbed() -> None:
    """Both hear the same."""
    kept = Recorder.start()
    pid = keeper()
    _, events, _ = follow("trace", target=str(pid.id), events=True)
    await passes()
    send(pid, "boom")
    await passes(20)
    assert "lemon_otp.process.crash" in [event["what"] for event in events]
    assert "lemon_otp.process.crash" in [entry["event"] for entry in kept.entries()]
