"""The half that talks to askers: what it says when, with a loop that does as it is told."""

import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

from lemon_otp import Runtime, current_runtime, repl
from lemon_otp.repl.connections import Pending, Taken
from lemon_otp.repl.handover import Handover
from lemon_otp.repl.operations import Operation
from lemon_otp.repl.thread_half import ThreadHalf
from lemon_otp.testing import settle


class FakeLoop:
    """Keeps what it is asked, and answers when it is told to."""

    def __init__(self) -> None:
        self.begun: list[Pending] = []
        self.ended: list[Pending] = []
        self.taken: list[Taken] = []

    def begin(self, pending: Pending) -> None:
        self.begun.append(pending)

    def end(self, pending: Pending) -> None:
        self.ended.append(pending)

    def take_over(self, operation: Operation, taken: Taken) -> None:
        self.taken.append(taken)


@pytest.fixture
async def loop() -> FakeLoop:
    return FakeLoop()


@pytest.fixture
async def serve(tmp_path: Path, runtime: Runtime, loop: FakeLoop) -> Any:
    """Starts the half, for a time that the loop may take."""
    running: list[tuple[Handover, threading.Thread]] = []

    def start(held_s: float = 1_000.0) -> tuple[Handover, Path]:
        path = tmp_path / "x.sock"
        handover = Handover(current_runtime(), copy_context())
        half = ThreadHalf(repl.bind_private(path), handover, unsafe=False, about={"program": "test"}, held_s=held_s)
        handover.loop, handover.thread = loop, half
        half.listen()
        thread = threading.Thread(target=half.run)
        thread.start()
        running.append((handover, thread))
        return handover, path

    yield start
    for handover, thread in running:
        handover.stop()
        thread.join(20)
        assert not thread.is_alive()


class Asker:
    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rb")

    def say(self, **request: Any) -> None:
        self.socket.sendall(json.dumps(request).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.file.readline())
        return answer

    def hears_nothing(self) -> bool:
        return not select.select([self.socket], [], [], 0)[0]

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@pytest.fixture
def asker() -> Iterator[Callable[[Path], Asker]]:
    opened: list[Asker] = []

    def greeted(path: Path) -> Asker:
        one = Asker(path)
        opened.append(one)
        one.say(op="hello", version=repl.VERSION)
        assert one.hear()["program"] == "test"
        return one

    yield greeted
    for each in opened:
        each.close()


async def until(holds: Callable[[], object]) -> None:
    """Let the loop run until it has what the thread hands it."""
    while not holds():
        await settle()
        time.sleep(0)


async def test_the_loop_is_asked_for_one_look_at_a_time_and_its_answers_are_said(
    serve: Any, loop: FakeLoop, asker: Any
) -> None:
    """The second is handed over when the first is answered."""
    handover, path = serve()
    one = asker(path)
    one.say(id=1, op="tree")
    one.say(id=2, op="tree")
    await until(lambda: loop.begun)
    await settle()
    assert [each.request["id"] for each in loop.begun] == [1]
    handover.answer(loop.begun[0], {"text": "first"})
    assert one.hear() == {"id": 1, "ok": True, "text": "first"}
    await until(lambda: len(loop.begun) == 2)


async def test_what_is_cancelled_is_ended_and_a_late_answer_is_not_said(serve: Any, loop: FakeLoop, asker: Any) -> None:
    """The asker hears of its end once."""
    handover, path = serve()
    one = asker(path)
    one.say(id=1, op="tree")
    await until(lambda: loop.begun)
    one.say(id=1, op="cancel")
    assert one.hear() == {"id": 1, "ok": True, "end": True}
    await until(lambda: loop.ended)
    assert loop.ended == loop.begun
    handover.answer(loop.begun[0], {"text": "late"})
    one.say(id=2, op="nonsense")
    assert one.hear()["id"] == 2


async def test_an_asker_that_leaves_has_its_requests_ended(serve: Any, loop: FakeLoop, asker: Any) -> None:
    """Also those whose turn had not come."""
    _, path = serve()
    one = asker(path)
    one.say(id=1, op="tree")
    one.say(id=2, op="tree")
    await until(lambda: loop.begun)
    one.close()
    await until(lambda: len(loop.ended) == 2)
    assert all(each.cancelled for each in loop.ended)
    assert len(loop.begun) == 1


async def test_a_loop_that_does_not_begin_is_answered_for(serve: Any, loop: FakeLoop, asker: Any) -> None:
    """The thread says what it sees itself, and the request is no longer the loop's."""
    handover, path = serve(held_s=0.0)
    one = asker(path)
    one.say(id=1, op="tree")
    answer = one.hear()
    assert (answer["id"], answer["ok"], "held" in answer) == (1, True, True)
    assert handover.held
    await until(lambda: loop.begun)
    assert not loop.begun[0].claim.take()
