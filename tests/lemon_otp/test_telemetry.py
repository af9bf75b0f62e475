"""Attach, execute, span; a handler that raises is detached."""

import contextvars
from typing import Any

import pytest

from lemon_otp import AlreadyRegistered, BadArgument, NoRuntime, Runtime, exit_process, telemetry


@pytest.fixture(autouse=True)
async def entered(clocked_runtime: Runtime) -> Runtime:
    return clocked_runtime


Seen = list[tuple[Any, ...]]


def recorder(seen: Seen) -> telemetry.Handler:
    return lambda *event: seen.append(event)


async def test_a_handler_hears_the_events_it_is_attached_to() -> None:
    """With measurements, metadata and its own config; until it is detached."""
    seen: Seen = []
    telemetry.attach("h", ("a", "b"), recorder(seen), config=7)
    telemetry.execute(("a", "b"), {"n": 1}, {"m": 2})
    telemetry.execute(("a",), {}, {})
    assert seen == [(("a", "b"), {"n": 1}, {"m": 2}, 7)]
    assert telemetry.detach("h")
    assert not telemetry.detach("h")
    telemetry.execute(("a", "b"), {}, {})
    assert len(seen) == 1


async def test_whether_an_event_is_heard_can_be_asked_before_it_is_told() -> None:
    """True from the first handler's attaching to the last one's detaching, for this event alone."""
    assert not telemetry.heard(("a",))
    telemetry.attach("h", ("a",), recorder([]))
    assert telemetry.heard(("a",))
    assert not telemetry.heard(("a", "b"))
    telemetry.detach("h")
    assert not telemetry.heard(("a",))
    assert not contextvars.Context().run(telemetry.heard, ("a",))


async def test_one_id_may_be_attached_to_many_events_once() -> None:
    """A second handler of the same id is refused; detaching takes it from all."""
    seen: Seen = []
    telemetry.attach_many("h", [("a",), ("b",)], recorder(seen))
    telemetry.attach("other", ("a",), recorder(seen))
    with pytest.raises(AlreadyRegistered):
        telemetry.attach("h", ("c",), recorder(seen))
    assert [entry.id for entry in telemetry.list_handlers()] == ["h", "other", "h"]
    assert [entry.id for entry in telemetry.list_handlers(("b",))] == ["h"]
    telemetry.detach("h")
    assert [entry.id for entry in telemetry.list_handlers()] == ["other"]


async def test_a_handler_that_raises_is_detached_and_the_others_hear_the_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is logged, and told as an event of its own."""
    seen: Seen = []
    failures: Seen = []

    def fail(*event: Any) -> None:
        raise ValueError("boom")

    telemetry.attach("first", ("a",), fail)
    telemetry.attach("second", ("a",), recorder(seen))
    telemetry.attach("watch", telemetry.HANDLER_FAILED, recorder(failures))
    telemetry.execute(("a",), {}, {})
    telemetry.execute(("a",), {}, {})
    assert len(seen) == 2
    assert [entry.id for entry in telemetry.list_handlers(("a",))] == ["second"]
    assert failures[0][2]["handler_id"] == "first"
    assert len(failures) == 1
    assert "boom" in caplog.text


async def test_a_failing_watcher_of_failures_does_not_go_round_in_circles() -> None:
    """It is detached like any other."""

    def fail(*event: Any) -> None:
        raise ValueError("boom")

    telemetry.attach("bad", ("a",), fail)
    telemetry.attach("worse", telemetry.HANDLER_FAILED, fail)
    telemetry.execute(("a",), {}, {})
    assert telemetry.list_handlers() == []


async def test_a_span_measures_its_block() -> None:
    """start, then stop with the duration and what the block added."""
    seen: Seen = []
    telemetry.attach_many("h", [("job", "start"), ("job", "stop"), ("job", "exception")], recorder(seen))
    with telemetry.span(("job",), {"id": 1}) as more:
        more["rows"] = 5
    assert [event[0][-1] for event in seen] == ["start", "stop"]
    assert seen[1][1] == {"duration_s": 0.0}
    assert seen[1][2] == {"id": 1, "rows": 5}


async def test_a_span_tells_of_the_exception_and_passes_it_on() -> None:
    """exception in place of stop."""
    seen: Seen = []
    telemetry.attach("h", ("job", "exception"), recorder(seen))
    with pytest.raises(KeyError), telemetry.span(("job",), {}):
        raise KeyError("k")
    assert seen[0][2]["kind"] == "KeyError"


async def test_handlers_belong_to_a_runtime() -> None:
    """Another runtime does not hear them, and outside of one nothing happens."""
    seen: Seen = []
    telemetry.attach("h", ("a",), recorder(seen))
    async with Runtime():
        telemetry.execute(("a",), {}, {})
        telemetry.attach("h", ("a",), recorder(seen))
    assert seen == []
    nowhere = contextvars.Context()
    nowhere.run(telemetry.execute, ("a",), {}, {})
    with pytest.raises(NoRuntime):
        nowhere.run(telemetry.attach, "x", ("a",), recorder(seen))
    telemetry.execute(("a",), {}, {})
    assert len(seen) == 1


@pytest.mark.parametrize("event", ["a", (), ("a", 1), ["a"], None])
async def test_an_event_that_is_no_tuple_of_words_is_refused(event: Any) -> None:
    """It would never be heard; nothing is attached, of many events either."""
    with pytest.raises(BadArgument):
        telemetry.attach("h", event, recorder([]))
    with pytest.raises(BadArgument):
        telemetry.attach_many("h", [("a",), event], recorder([]))

    assert telemetry.list_handlers() == []


async def test_a_handler_that_could_not_be_called_is_refused() -> None:
    """What is no function, and a coroutine function, which nobody would await."""

    async def later(*event: Any) -> None:
        """Never awaited."""

    for handler in (None, "h", later):
        with pytest.raises(BadArgument):
            telemetry.attach("h", ("a",), handler)  # type: ignore[arg-type]


async def test_a_handler_that_exits_is_detached_and_the_process_goes_on() -> None:
    """An exit in a handler is a failure of the handler, not the end of whoever executed the event."""
    seen: Seen = []
    telemetry.attach("leaves", ("a",), lambda *event: exit_process("boom"))
    telemetry.attach("stays", ("a",), recorder(seen))
    telemetry.execute(("a",), {}, {})

    assert len(seen) == 1
    assert [entry.id for entry in telemetry.list_handlers()] == ["stays"]
