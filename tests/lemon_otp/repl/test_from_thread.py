"""A tree asked from a thread with a loop of its own: by its loop while that answers, else from outside."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lemon_otp import introspect, receive, repl, self_pid, send, sleep_s, spawn
from lemon_otp.repl import FromThread, LoopHeld, Operation

HELD_S = 0.05


async def in_thread(ask: Callable[[FromThread], Coroutine[Any, Any, Any]], hold: threading.Event | None = None) -> Any:
    """What a thread with a loop of its own makes of it; the tree's loop is held until then, if it is to be."""
    way, found, done = FromThread(held_s=HELD_S), [], threading.Event()

    async def asked() -> None:
        try:
            found.append(await ask(way))
        except Exception as error:
            found.append(error)

    def run() -> None:
        asyncio.run(asked())
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    if hold is not None:
        assert done.wait(20.0)  # this very process holds the loop up
    while not done.is_set():
        await asyncio.sleep(0.001)
    thread.join()
    return found[0]


async def idle() -> None:
    while True:
        await receive()


async def test_a_look_is_answered_by_the_loop_while_that_is_free(runtime):
    """As at the control socket, and nothing says that it is held."""
    pid = spawn(idle, label="victim")
    told = await in_thread(lambda way: way.ask({"op": "info", "target": pid.id}))
    assert told["ok"]
    assert told["process"] == "victim"
    assert "held" not in told


async def test_a_look_is_answered_in_the_thread_while_the_loop_is_held_up(runtime):
    """With who holds it and where; so is a look that is in no table."""
    pid = spawn(idle, label="victim")
    told = await in_thread(lambda way: way.ask({"op": "info", "target": pid.id}), threading.Event())
    assert told["process"] == "victim"
    assert any("in_thread" in frame["function"] for frame in told["held"]["stack"])
    own = Operation("own", lambda _: {"nodes": introspect.tree()})
    told = await in_thread(lambda way: way.look(own, {}), threading.Event())
    assert len(told["nodes"]) > 0
    assert told["held"]["holder"]


async def test_what_changes_something_waits_until_the_loop_goes_on(runtime):
    """It is done then, and only then: the answer says so."""
    pid = spawn(idle, label="victim")
    told = await in_thread(lambda way: way.ask({"op": "kill", "target": pid.id}), threading.Event())
    assert told["queued"]
    assert pid.alive
    killed = await in_thread(lambda way: way.ask({"op": "kill", "target": pid.id}))
    assert killed["ok"]
    assert not pid.alive


async def test_work_is_done_in_a_process_of_its_own_or_not_at_all(runtime):
    """Its answer or what it raises; while the loop is held nothing is begun; what takes too long is killed."""
    me = self_pid()

    async def work() -> str:
        send(me, "begun")
        return "done"

    async def fails() -> None:
        raise KeyError("no")

    assert await in_thread(lambda way: way.do(work, 5.0)) == "done"
    assert await receive(timeout_s=1.0) == "begun"
    assert isinstance(await in_thread(lambda way: way.do(fails, 5.0)), KeyError)
    held = await in_thread(lambda way: way.do(work, 5.0), threading.Event())
    assert isinstance(held, LoopHeld)
    assert isinstance(await in_thread(lambda way: way.do(lambda: sleep_s(600), 0.05)), TimeoutError)
    left = [node.id for node in introspect.walk(introspect.tree()) if node.id.startswith("from_thread")]
    assert left == []


async def test_a_loop_that_is_known_to_be_held_is_waited_for_once(runtime):
    """The second look of a held loop is answered at once."""

    async def twice(way: FromThread) -> float:
        own = Operation("own", lambda _: {})
        await way.look(own, {})
        began = time.monotonic()
        for _ in range(20):
            await way.look(own, {})
        return time.monotonic() - began

    assert await in_thread(twice, threading.Event()) < 20 * HELD_S


@pytest.mark.parametrize("request_", [{"op": "nonsense"}, {}, {"op": "eval", "code": "1"}])
async def test_a_request_that_makes_no_sense_is_answered(runtime, request_):
    """Whatever is asked: an answer that says what is wrong."""
    told = await in_thread(lambda way: way.ask(request_))
    assert told["ok"] is False
    assert told["error"]
    assert repl.VERSION
