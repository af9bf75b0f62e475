"""The control socket: many questions on one connection, and an answer whatever the event loop does."""

import asyncio
import json
import os
import resource
import socket
import stat
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from attrs import define

from lemon_otp import Pid, exit_signal, introspect, monitor, receive, repl, self_pid, sleep_s, spawn
from lemon_otp.repl import answering, askers
from lemon_otp.repl.askers import CONNECTIONS_MAX
from lemon_otp.repl.thread_half import FEED_BYTES_MAX, PENDING_MAX
from lemon_otp.repl.wire import REQUEST_BYTES_MAX, VERSION
from lemon_otp.repl_shell import Asker, Unreachable

pytestmark = pytest.mark.usefixtures("runtime")


@pytest.fixture
async def path(tmp_path: Path, runtime: Any) -> AsyncIterator[Path]:
    """A served socket of the test's own runtime."""
    file = tmp_path / "run" / "host.sock"
    control = repl.ControlSocket(repl.bind_private(file), file, held_s=0.1)
    control.start()
    yield file
    control.close()


@define
class Line:
    """A bare connection, from the loop's side."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, path: Path) -> "Line":
        return cls(*await asyncio.open_unix_connection(path, limit=1 << 26))

    def say(self, **request: Any) -> None:
        self.writer.write(json.dumps(request).encode() + b"\n")

    async def hear(self) -> dict[str, Any] | None:
        line = await self.reader.readline()
        return json.loads(line) if line else None

    async def greet(self) -> None:
        self.say(op="hello", version=VERSION)
        assert (await self.hear() or {})["ok"]

    def close(self) -> None:
        self.writer.close()


@pytest.fixture
async def line(path: Path) -> AsyncIterator[Line]:
    """A connection that stays open."""
    opened = await Line.open(path)
    await opened.greet()
    yield opened
    opened.close()


def blocking(path: Path, *lines: bytes, half_close: bool = False) -> bytes:
    """What a plain program hears that says this and reads to the end."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        for line in lines:
            with suppress(BrokenPipeError):  # refused before it was said
                connection.sendall(line)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


@pytest.mark.parametrize("half_close", [True, False])
async def test_a_connection_without_a_greeting_gets_one_answer_and_is_closed(path: Path, half_close: bool) -> None:
    """As a script asks: one line in, one line out, the end; whether or not it says that it has nothing more to say."""
    said = await asyncio.to_thread(blocking, path, b'{"op": "tree"}\n', half_close=half_close)
    answer = json.loads(said)
    assert answer["ok"]
    assert any(node["id"] == "attached" for node in answer["tree"])


async def test_many_questions_go_over_one_connection_and_their_answers_carry_their_ids(line: Line) -> None:
    """Two requests at once are both answered, whichever comes first."""
    line.say(id=1, op="tree")
    line.say(id="two", op="tree")
    answers = [await line.hear(), await line.hear()]
    assert {answer["id"] for answer in answers if answer} == {1, "two"}
    line.say(id=3, op="nonsense")
    refused = await line.hear()
    assert refused is not None
    assert (refused["ok"], refused["id"], refused["code"]) == (False, 3, "bad_request")
    line.say(id=4, op="tree")
    assert (await line.hear() or {})["ok"]


@pytest.mark.parametrize("version", [0, 2, "1", None, True])
async def test_another_version_is_told_which_one_is_spoken_here(path: Path, version: Any) -> None:
    """One line that names both versions, a code for programs, and the end of the connection."""
    said = await asyncio.to_thread(blocking, path, json.dumps({"op": "hello", "version": version}).encode() + b"\n")
    answer = json.loads(said)
    assert (answer["ok"], answer["code"], answer["version"]) == (False, "version_skew", VERSION)
    assert str(VERSION) in answer["error"]


@pytest.mark.parametrize(
    "said",
    [
        b"\xff\xfe\n",
        b"[]\n",
        b"{}\n",
        b'{"op": null}\n',
        b'{"op": ["tree"]}\n',
        b'{"op": "cancel", "id": 1}\n',
        b'{"id": {}, "op": "tree"}\n',
        b"[" * 100_000 + b"\n",
        b"x" * (REQUEST_BYTES_MAX + 2),
    ],
    ids=range(9),
)
async def test_whatever_is_no_request_is_refused_in_words(path: Path, said: bytes) -> None:
    """One answer with an error, and the host goes on."""
    answer = json.loads(await asyncio.to_thread(blocking, path, said))
    assert not answer["ok"]
    assert answer["error"]
    assert json.loads(await asyncio.to_thread(blocking, path, b'{"op": "tree"}\n'))["ok"]


async def test_only_this_user_can_reach_the_socket_and_it_is_gone_in_the_end(path: Path) -> None:
    """Mode 0600 in a folder of mode 0700; no file is left when the owner ends."""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_the_socket_ends_with_the_process_that_serves_it(tmp_path: Path) -> None:
    """However it ends."""
    file = tmp_path / "own.sock"

    async def serves() -> None:
        repl.ControlSocket(repl.bind_private(file), file).start()
        await sleep_s(0)

    monitor(spawn(serves))
    await receive()
    assert not file.exists()


def hold(seconds: float) -> None:
    """A handler that does not let go of the event loop."""
    time.sleep(seconds)


async def test_while_a_handler_holds_the_loop_the_thread_answers_with_the_stack_that_holds_it(path: Path) -> None:
    """The answer is said to be partial, names the process that holds the loop and shows its real frames."""

    async def held() -> str:
        asked = asyncio.to_thread(blocking, path, b'{"op": "tree"}\n')
        waiting = asyncio.gather(asked)
        await asyncio.sleep(0)
        hold(0.8)
        return json.loads((await waiting)[0])

    answer: Any = await held()
    assert answer["ok"]
    assert "held up" in answer["partial"]
    assert answer["held"]["pid"] is None or answer["held"]["holder"].startswith("<pid")
    assert any(frame["function"] == "hold" and "time.sleep" in frame["line"] for frame in answer["held"]["stack"])
    assert any(node["id"] == "attached" for node in answer["tree"])


async def test_however_many_looks_are_asked_for_the_loop_goes_on_between_them(line: Line) -> None:
    """One at a time is on the loop; the others wait for their turn."""
    loop = asyncio.get_running_loop()
    passes = 0
    seen: list[int] = []

    def tick() -> None:
        nonlocal passes
        passes += 1
        if len(seen) < 30:
            loop.call_soon(tick)

    def look(_: Any) -> dict[str, Any]:
        seen.append(passes)
        return {}

    repl.add_operation(repl.Operation("look", look))
    loop.call_soon(tick)
    for number in range(30):
        line.say(id=number, op="look")
    for _ in range(30):
        assert (await line.hear() or {})["ok"]
    assert len(set(seen)) == 30


async def test_a_look_that_meets_something_cancelled_is_answered_and_keeps_nobody_waiting(line: Line) -> None:
    """`result()` of a cancelled future raises what is no ordinary exception."""

    def meets(_: Any) -> dict[str, Any]:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        return {"value": future.result()}

    def later(_: Any) -> Any:
        def finish() -> Any:
            raise asyncio.CancelledError

        return repl.Later(finish)

    repl.add_operation(repl.Operation("meets", meets), repl.Operation("later", later))
    for number, op in enumerate(("meets", "later")):
        line.say(id=number, op=op)
        answer = await line.hear()
        assert answer is not None
        assert (answer["ok"], "CancelledError" in answer["error"]) == (False, True)
    line.say(id=9, op="apps")
    assert (await line.hear() or {})["ok"]


async def test_every_look_is_answered_while_the_loop_is_held_up_also_when_another_asker_goes(path: Path) -> None:
    """Nobody waits for the loop again once it is known to be held; who leaves does not take others' turns along."""
    answered = threading.Event()
    answers: list[dict[str, Any]] = []

    def ask_all() -> None:
        with socket.socket(socket.AF_UNIX) as leaving, Asker(path) as asker:
            leaving.connect(str(path))
            leaving.sendall(b'{"op": "hello", "version": 1}\n' + b'{"op": "tree", "id": 1}\n')
            leaving.close()
            answers.extend(asker.ask("tree") for _ in range(5))
        answered.set()

    asking = threading.Thread(target=ask_all)
    asking.start()
    assert answered.wait(20)  # on the loop: it is held up until all are answered
    asking.join()
    assert len(answers) == 5
    assert all(answer["ok"] for answer in answers)
    assert "held" in answers[-1]


async def counts(request: Any, emit: repl.Emit) -> dict[str, Any]:
    """A feed of numbers."""
    for number in range(request.get("count", 3)):
        emit(number)
    if request.get("stay"):
        await sleep_s(3600)
    return {"count": request.get("count", 3)}


async def test_a_feed_says_things_until_it_ends_or_is_cancelled(line: Line) -> None:
    """Each event carries the request's id; other questions are answered in between."""
    repl.add_operation(repl.Operation("counts", counts, "feed"))
    line.say(id=7, op="counts")
    heard = [await line.hear() for _ in range(4)]
    assert [answer.get("event") for answer in heard if answer] == [0, 1, 2, None]
    assert heard[-1] == {"id": 7, "ok": True, "count": 3, "end": True}
    line.say(id=8, op="counts", count=1, stay=True)
    assert (await line.hear() or {})["event"] == 0
    line.say(id=9, op="tree")
    tree = await line.hear()
    assert tree is not None
    assert any("repl[counts]" in node["id"] for node in tree["tree"])
    line.say(id=8, op="cancel")
    assert await line.hear() == {"id": 8, "ok": True, "end": True}


async def test_a_feed_ends_when_its_asker_has_gone(path: Path) -> None:
    """The process that feeds it is killed; nothing is said to nobody for ever."""
    fed: list[Pid] = []

    async def endless(request: Any, emit: repl.Emit) -> None:
        fed.append(self_pid())
        emit("begun")
        await sleep_s(3600)

    repl.add_operation(repl.Operation("endless", endless, "feed"))
    line = await Line.open(path)
    await line.greet()
    line.say(id=1, op="endless")
    await line.hear()

    monitor(fed[0])
    line.close()
    down = await receive()
    assert down.reason == "killed"


async def test_a_slow_asker_loses_events_and_is_told_how_many(tmp_path: Path) -> None:
    """What waits for it is bounded; the rest of the host does not wait, and the last word comes all the same."""
    file = tmp_path / "slow.sock"
    control = repl.ControlSocket(repl.bind_private(file), file)
    control.start()
    release = asyncio.Event()

    async def floods(request: Any, emit: repl.Emit) -> None:
        for _ in range(2 * FEED_BYTES_MAX // 1000):
            emit("x" * 1000)
        emitted.set()
        await release.wait()
        emit("last")

    emitted = asyncio.Event()
    repl.add_operation(repl.Operation("floods", floods, "feed"))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(file))
        connection.sendall(b'{"op": "hello", "version": 1}\n{"id": 1, "op": "floods"}\n')
        await emitted.wait()
        while control._handover._for_thread:  # the thread is still at it; nobody reads
            await asyncio.sleep(0)
        connection.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=connection)
        dropped, told = 0, {}
        while not told.get("end"):
            told = json.loads(await reader.readline())
            dropped += told.get("dropped", 0)
            if (
                told.get("event")
                and not release.is_set()
                and not control._thread_half.askers.connections.copy().pop().waiting
            ):
                release.set()
        assert dropped > 0
        assert told == {"id": 1, "ok": True, "end": True}
        writer.close()
    control.close()


async def test_an_operation_can_take_the_connection_over(path: Path) -> None:
    """It gets the socket and what was sent behind the line that asked; the host no longer touches it."""

    async def echo(taken: repl.Taken) -> None:
        reader, writer = await asyncio.open_connection(sock=taken.socket)
        first = taken.received or await reader.readline()
        writer.write(b"echo " + first)
        writer.close()
        await writer.wait_closed()

    repl.add_operation(repl.Operation("echo", echo, "takeover"))
    said = await asyncio.to_thread(blocking, path, b'{"op": "echo"}\nhello\n')
    assert said == b"echo hello\n"


async def test_an_act_is_given_a_time_and_what_it_raises_is_an_answer(line: Line) -> None:
    """The host goes on, whatever an operation does."""

    async def late(request: Any) -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async def refuses(request: Any) -> dict[str, Any]:
        raise repl.Refusal("not now", "busy")

    def bad(request: Any) -> dict[str, Any]:
        raise RuntimeError("no \x1b[31m")

    repl.add_operation(
        repl.Operation("late", late, "act", timeout_s=0.01),
        repl.Operation("refuses", refuses, "act"),
        repl.Operation("bad", bad),
        repl.Operation("risky", bad, unsafe=True),
    )
    codes = []
    for number, name in enumerate(["late", "refuses", "bad", "risky"]):
        line.say(id=number, op=name)
        codes.append((await line.hear() or {})["code"])
    assert codes == ["timeout", "busy", "failed", "unsafe"]


def test_a_folder_that_is_a_link_or_somebody_elses_is_refused(tmp_path: Path) -> None:
    """No socket is made there; a folder that lets others in is closed to them."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(repl.UnsafeFolder, match="not a folder"):
        repl.bind_private(tmp_path / "link" / "x.sock")
    open_folder = tmp_path / "open"
    open_folder.mkdir(mode=0o777)
    os.chmod(open_folder, 0o777)
    repl.bind_private(open_folder / "x.sock").close()
    assert stat.S_IMODE(open_folder.stat().st_mode) == 0o700


def test_nothing_of_others_is_taken_away_for_a_socket(tmp_path: Path) -> None:
    """Neither a file nor a socket that somebody listens at; only one that a killed program has left."""
    path = tmp_path / "run" / "x.sock"
    repl.private_folder(path.parent)
    path.write_text("mine")
    with pytest.raises(repl.UnsafeFolder, match="no socket"):
        repl.bind_private(path)
    assert path.read_text() == "mine"
    path.unlink()
    with repl.bind_private(path) as first:
        first.listen(1)
        with pytest.raises(repl.UnsafeFolder, match="listens there already"):
            repl.bind_private(path)
    repl.bind_private(path).close()


def test_a_folder_that_everybody_uses_is_left_as_it_is(tmp_path: Path) -> None:
    """Root may close /tmp to all others: it must not."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(repl.UnsafeFolder, match="shared with other users"):
        repl.bind_private(shared / "x.sock")
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777


async def test_a_socket_that_has_taken_the_place_of_ours_stays(tmp_path: Path) -> None:
    """Closing removes what was made, not what stands there now."""
    path = tmp_path / "run" / "x.sock"
    control = await repl.serve(path)
    with repl.bind_private(tmp_path / "run" / "y.sock"):
        (tmp_path / "run" / "y.sock").rename(path)
        control.close()
        assert path.exists()


async def test_a_socket_that_was_never_started_is_closed_all_the_same(tmp_path: Path) -> None:
    """There is no thread that could do it; the file is gone, and so are the descriptors."""
    path = tmp_path / "run" / "x.sock"
    bound = repl.bind_private(path)
    repl.ControlSocket(bound, path).close()
    assert not path.exists()
    assert bound.fileno() == -1


async def test_another_users_asker_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system says who is at the other end; nothing is answered to anybody else."""
    monkeypatch.setattr("lemon_otp.repl.askers.peer_uid", lambda _: os.getuid() + 1)
    answer = json.loads(await asyncio.to_thread(blocking, path, b'{"op": "tree"}\n'))
    assert (answer["ok"], answer["code"]) == (False, "wrong_owner")


async def test_another_users_host_is_not_asked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is anything said to whoever listens in its place."""
    monkeypatch.setattr("lemon_otp.repl_shell.asking.peer_uid", lambda _: os.getuid() + 1)
    with pytest.raises(Unreachable, match="another user") as refused:
        await asyncio.to_thread(Asker, path)
    assert refused.value.code == "wrong_owner"


async def test_a_mistake_of_ours_costs_one_answer_and_not_the_thread(
    line: Line, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is raised where nobody expected it is logged and said, and the next request is answered."""
    wanted = answering.wanted

    def mistaken(request: Any, **more: Any) -> Any:
        if request["op"] == "broken":
            raise RuntimeError("a mistake")
        return wanted(request, **more)

    monkeypatch.setattr(answering, "wanted", mistaken)
    line.say(id=1, op="broken")
    line.say(id=2, op="tree")
    answers = [await line.hear() or {} for _ in range(2)]
    assert [(each["id"], each["ok"]) for each in answers] == [(1, False), (2, True)]
    assert answers[0]["error"] == "RuntimeError: a mistake"
    assert "a mistake" in caplog.text


async def test_too_many_askers_and_too_many_questions_are_refused(path: Path) -> None:
    """Each is told so; those that are there go on."""
    lines = [await Line.open(path) for _ in range(CONNECTIONS_MAX)]
    for each in lines:
        await each.greet()
    one_more = await Line.open(path)
    assert (await one_more.hear() or {})["code"] == "too_many"
    first = lines[0]

    async def never(request: Any) -> dict[str, Any]:
        await sleep_s(3600)
        return {}

    repl.add_operation(repl.Operation("never", never, "act", timeout_s=0.2))
    for number in range(PENDING_MAX + 1):
        first.say(id=number, op="never")
    answers = [await first.hear() for _ in range(PENDING_MAX + 1)]
    assert sorted(answer["code"] for answer in answers if answer).count("bad_request") == 1
    for each in [*lines, one_more]:
        each.close()


async def test_askers_that_ask_nothing_are_left(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that they keep nobody else out; one that has greeted may be silent as long as it likes."""
    monkeypatch.setattr(askers, "ASK_BY_S", 0.05)
    silent, slow, greeted = [await Line.open(path) for _ in range(3)]
    await greeted.greet()
    slow.writer.write(b'{"op": ')
    assert await silent.hear() is None
    assert await slow.reader.read() == b""
    greeted.say(id=1, op="apps")
    assert (await greeted.hear() or {})["ok"]
    for each in (silent, slow, greeted):
        each.close()


async def test_without_a_descriptor_left_askers_wait_and_nothing_spins(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are let in when there is one again; until then somebody looks now and then, not all the time."""
    tries: list[float] = []
    monkeypatch.setattr(askers, "ACCEPT_PAUSE_S", 0.05)
    accept = socket.socket.accept

    def counted(bound: socket.socket) -> Any:
        tries.append(time.monotonic())
        return accept(bound)

    monkeypatch.setattr(socket.socket, "accept", counted)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket(socket.AF_UNIX) as waiting:
        waiting.settimeout(20)
        resource.setrlimit(resource.RLIMIT_NOFILE, (waiting.fileno() + 1, hard))
        try:
            waiting.connect(str(path))
            while len(tries) < 4:
                await asyncio.sleep(0)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert tries[3] - tries[0] >= 0.15
        waiting.sendall(b'{"op": "apps"}\n')
        assert b'"ok": true' in await asyncio.to_thread(waiting.recv, 1 << 16)


async def test_an_answer_whose_process_is_killed_is_told_as_that(line: Line) -> None:
    """Whoever asked does not wait for ever; the place of the request is free again."""
    line.say(id=1, op="slow")

    async def forever(*_: Any) -> Any:
        await sleep_s(3600)

    await line.hear()
    repl.add_operation(repl.Operation("slow", forever, "act"), repl.Operation("told", forever, "feed"))
    for op in ("slow", "told"):
        line.say(id=1, op=op)
        while not (found := [node for node in introspect.walk(introspect.tree()) if node.id == f"repl[{op}]"]):
            await asyncio.sleep(0)
        assert found[0].pid is not None
        exit_signal(found[0].pid, "kill")
        answer = await line.hear()
        assert answer is not None
        assert (answer["ok"], answer["id"], answer["code"]) == (False, 1, "ended")


async def test_askers_that_come_and_go_leave_nothing_behind(path: Path, runtime: Any) -> None:
    """Neither connections nor processes, however they leave."""
    before = len(runtime.processes)
    for number in range(60):
        line = await Line.open(path)
        await line.greet()
        line.say(id=1, op="trace", target="attached", events=True)
        line.say(id=2, op="tree")
        if number % 3:
            assert (await line.hear() or {})["ok"]
        line.close()
    while len(runtime.processes) > before:
        await asyncio.sleep(0.01)
    last = await Line.open(path)
    await last.greet()
    last.close()
