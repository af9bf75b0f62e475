"""The way between the thread that talks to askers and the event loop."""

import asyncio
import select
import threading
from collections.abc import Iterator
from contextvars import copy_context
from typing import Any

import pytest

from lemon_otp import Runtime, current_runtime, self_pid
from lemon_otp.repl.connections import Pending
from lemon_otp.repl.handover import Handover
from lemon_otp.repl.loop_half import FEED_EVENTS_MAX, LoopHalf
from lemon_otp.repl.operations import Emit, Operation
from lemon_otp.testing import settle


class FakeThread:
    """Keeps what it is told, and where."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        self.places: set[int] = set()

    def answered(self, pending: Pending, answer: Any) -> None:
        self.places.add(threading.get_ident())
        self.told.append(("answered", answer))

    def said(self, pending: Pending, event: Any) -> None:
        self.places.add(threading.get_ident())
        self.told.append(("said", event))


@pytest.fixture
async def handover(runtime: Runtime) -> Any:
    """With the loop's half, and a thread that is not there yet."""
    made = Handover(current_runtime(), copy_context())
    made.loop, made.thread = LoopHalf(made), FakeThread()
    yield made
    made.close()


def pending(operation: Operation) -> Pending:
    nobody: Any = None
    return Pending(nobody, {"op": operation.name}, operation, 0.0)


def taken_by(handover: Handover) -> list[tuple[str, Any]]:
    """What the thread is told, once it comes to it."""

    def take() -> None:
        while (work := handover.next_for_thread()) is not None:
            work()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    told: list[tuple[str, Any]] = handover.thread.told  # type: ignore[attr-defined]
    return told


def rings(handover: Handover) -> bool:
    return bool(select.select([handover.bell], [], [], 0)[0])


async def asked(handover: Handover, *requests: Pending) -> None:
    """Have the loop begin with them, as the thread would."""
    await asyncio.to_thread(lambda: [handover.begin(each) for each in requests])
    await settle()


async def test_what_is_handed_to_the_loop_runs_there_and_the_answer_goes_back_to_the_thread(handover: Handover) -> None:
    """Each half is called in its own place, in order, and the thread is rung for."""
    places: list[int] = []

    def look(_: Any) -> dict[str, Any]:
        places.append(threading.get_ident())
        return {"at": len(places)}

    await asked(handover, *(pending(Operation("look", look)) for _ in range(2)))
    assert set(places) == {threading.get_ident()}
    assert rings(handover)
    handover.heard_bell()
    assert not rings(handover)
    assert taken_by(handover) == [("answered", {"at": 1}), ("answered", {"at": 2})]
    assert threading.get_ident() not in handover.thread.places  # type: ignore[attr-defined]


async def test_a_request_is_answered_by_whichever_half_is_first(handover: Handover) -> None:
    """A look that the thread has begun with is not answered again; an act is done all the same, for it was queued."""
    done: list[str] = []
    look = pending(Operation("look", lambda _: done.append("look") or {}))  # type: ignore[func-returns-value]
    act = pending(Operation("act", lambda _: done.append("act") or {}, "act"))  # type: ignore[func-returns-value]
    assert look.claim.take()
    assert act.claim.take()
    handover.held = True
    await asked(handover, look, act)
    assert done == ["act"]
    assert not handover.held  # it goes on, so it is waited for again


async def test_nothing_is_begun_that_nobody_wants(handover: Handover) -> None:
    """What was cancelled on its way, and whatever comes after the end."""
    done: list[str] = []
    act = Operation("act", lambda _: done.append("act") or {}, "act")  # type: ignore[func-returns-value]
    cancelled = pending(act)
    handover.begin(cancelled)
    handover.end(cancelled)
    await settle()
    handover.stop()
    await asked(handover, pending(act))
    assert done == []
    assert rings(handover)


@pytest.mark.parametrize("stopped", [True, False])
async def test_a_feed_that_nobody_wants_any_more_is_ended_without_a_word(handover: Handover, stopped: bool) -> None:
    """Its process is killed, whether one asker leaves or all."""
    fed: list[Any] = []

    async def feed(_: Any, emit: Emit) -> None:
        fed.append(self_pid())
        emit("begun")
        await asyncio.Event().wait()

    following = pending(Operation("feed", feed, "feed"))
    await asked(handover, following)
    if stopped:
        handover.loop.stop()  # type: ignore[attr-defined]
    else:
        await asyncio.to_thread(handover.end, following)
    await settle()
    assert fed[0].exit_reason == "killed"
    assert taken_by(handover) == [("said", "begun")]


async def test_a_feed_faster_than_the_thread_loses_events_and_counts_them(handover: Handover) -> None:
    """What waits for the thread is bounded; the last word comes all the same."""

    async def feed(_: Any, emit: Emit) -> None:
        for number in range(FEED_EVENTS_MAX + 7):
            emit(number)

    following = pending(Operation("feed", feed, "feed"))
    await asked(handover, following)
    assert (following.emitted, following.lost) == (FEED_EVENTS_MAX, 7)
    assert taken_by(handover)[-1] == ("answered", {"ok": True, "end": True})


async def test_the_thread_may_be_rung_for_more_often_than_the_bell_holds(handover: Handover) -> None:
    """Nobody waits for it, and nothing is lost; when it has gone nothing is rung."""
    one = pending(Operation("look", lambda _: {}))
    for number in range(100_000):
        handover.say(one, number)
    assert len(taken_by(handover)) == 100_000
    handover.close()
    handover.say(one, "late")


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() <= before + 1  # the pool of `to_thread`
