"""Background programs: their process, their owner, and the tool over them."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.tools import Workspace, background_supervisor, process_tool, program_keeper, tool_children
from coding_agent.tools.line_log import LineLog
from lemon_agent import ToolError
from lemon_otp import DynamicSupervisor, Pid, Runtime, Supervisor, exit_signal, info, receive, spawn, stop
from tests.coding_agent.tools.support import Bench, call, text_of, until
from tests.coding_agent.tools.test_abort_storm import named


@pytest.fixture
async def desk(runtime: Runtime, folder: Path) -> AsyncIterator[Bench]:
    """The tool with its part of the tree."""
    supervisor = await Supervisor.start_link(tool_children())
    workspace = Workspace(folder)
    bench = Bench(folder, workspace, {"process": process_tool(str(folder), workspace=workspace)})
    yield bench
    await stop(supervisor)
    assert bench.survivors() == []


async def begin(bench: Bench, command: str, **params: object) -> str:
    """The id of a program just started."""
    return str((await bench.call("process", action="start", command=command, **params)).details["id"])


async def children() -> list[Pid]:
    """The processes of all background programs."""
    found = await DynamicSupervisor.which_children(background_supervisor.NAME)
    return [child.pid for child in found if isinstance(child.pid, Pid)]


async def test_a_program_runs_on_and_is_polled(desk: Bench) -> None:
    """The start returns at once with the first output; later output comes with a poll, in order."""
    result = await desk.call("process", action="start", command="echo ready; while read x; do echo got $x; done")
    program = result.details["id"]
    assert result.details["status"] == "running"
    assert text_of(result).endswith("\n\nready")

    await desk.call("process", action="write", id=program, input="one\ntwo\n")
    text = await desk.text("process", action="poll", id=program)
    assert text.endswith("ready\ngot one\ngot two")
    assert await desk.text("process", action="logs", id=program) == text
    assert await desk.text("process", action="poll", id=program, lines=1) == text.split("\n")[0] + "\n\ngot two"

    result = await desk.call("process", action="write", id=program, input="", end=True)
    assert result.details["status"] == "completed"
    assert result.details["exit_code"] == 0


async def test_the_end_of_a_program_is_known(desk: Bench) -> None:
    """By its exit code, its timeout, or the kill."""
    failed = await desk.call("process", action="start", command="echo no; exit 3")
    assert "error (exit code 3)" in text_of(failed)

    killed = await begin(desk, "trap '' TERM; sleep 600")
    result = await desk.call("process", action="kill", id=killed)
    assert result.details["status"] == "killed"

    late = await begin(desk, "sleep 600", timeout=1)
    await until_status(desk, late, "error")
    assert (await desk.call("process", action="poll", id=late)).details["error"] == "timeout"
    assert desk.survivors() == []


async def until_status(bench: Bench, program: str, status: str) -> None:
    """Return when the program has come to it."""

    for _look in range(300):
        if (await bench.call("process", action="poll", id=program)).details["status"] == status:
            return
        await asyncio.sleep(0.02)
    pytest.fail(f"never {status}")


async def test_an_interrupt_is_up_to_the_program(desk: Bench) -> None:
    """It may end or say something and go on."""
    program = await begin(desk, "trap 'echo ouch' INT; echo up; while :; do sleep 0.05; done")
    await desk.call("process", action="kill", id=program, signal="sigint")
    for _look in range(100):
        text = await desk.text("process", action="poll", id=program)
        if "ouch" in text:
            break
        await asyncio.sleep(0.02)
    assert "running" in text


async def test_programs_are_listed_restarted_and_cleared(desk: Bench) -> None:
    """A restart has a new id and says what it came from."""
    first = await begin(desk, "echo once")
    await until_status(desk, first, "completed")
    again = await desk.call("process", action="restart", id=first)
    assert again.details["restarted_from"] == first
    assert again.details["generation"] == 1
    running = await begin(desk, "sleep 600")
    assert "still running" in await desk.refusal("process", action="restart", id=running)

    text = await desk.text("process", action="list")
    assert text.count("\n") == 2
    assert len(await children()) == 3
    assert await desk.text("process", action="clear") == "Cleared 2."
    assert [info["id"] for info in (await desk.call("process", action="list")).details["programs"]] == [running]
    assert len(await children()) == 1


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"action": "fly"}, "action must be one of"),
        ({"action": "start"}, "command is required"),
        ({"action": "poll"}, "id is required with poll"),
        ({"action": "poll", "id": "nope"}, "Unknown id: nope"),
        ({"action": "write", "id": "nope"}, "Unknown id"),
        ({"action": "start", "command": "a\0b"}, "NUL"),
    ],
)
async def test_what_makes_no_sense_is_said(desk: Bench, params: dict[str, object], reason: str) -> None:
    """Each with its reason."""
    with pytest.raises(ToolError, match=reason):
        await desk.call("process", **params)


async def test_writing_to_one_that_ended_is_refused(desk: Bench) -> None:
    """It cannot be read any more."""
    program = await begin(desk, "true")
    await until_status(desk, program, "completed")

    assert "Cannot write" in await desk.refusal("process", action="write", id=program, input="x" * 100_000)


@pytest.mark.requirement("BR-118")
async def test_programs_end_with_their_owner(runtime: Runtime, folder: Path) -> None:
    """When the owner dies, of whatever, its programs with all they started are gone; those of others run on."""
    supervisor = await Supervisor.start_link([program_keeper.child_spec(), background_supervisor.child_spec()])

    async def live() -> None:
        await receive()

    token = f"lemonowned{os.getpid()}"
    owners = [spawn(live), spawn(live)]
    for number, owner in enumerate(owners):
        tool = process_tool(str(folder), owner=lambda owner=owner: owner)
        await call(
            tool,
            action="start",
            command=f"(setsid bash -c 'exec -a {token}{number} sleep 600' &); exec -a {token}{number} sleep 600",
        )
    await until(lambda: len(named(f"{token}0\0")) == len(named(f"{token}1\0")) == 2, "both are up")
    exit_signal(owners[0], "kill")

    await until(lambda: not named(f"{token}0\0"), "the first one's are gone")
    assert len(named(f"{token}1\0")) == 2
    for _look in range(100):
        if len(await children()) == 1:
            break
        await asyncio.sleep(0.05)
    async with asyncio.timeout(30):
        while len(await children()) != 1:
            await asyncio.sleep(0.01)
    await stop(supervisor)
    assert not named(token)


async def test_a_crash_of_its_process_takes_a_program_along(desk: Bench) -> None:
    """Killed without a chance to clean up, the process still leaves nothing; the tool says that it is gone."""
    token = f"lemonbgcrash{os.getpid()}"
    program = await begin(desk, f"exec -a {token} sleep 600")
    (pid,) = await children()
    exit_signal(pid, "kill")

    await until(lambda: not named(token), "the program is gone", 10)
    assert "is gone" in await desk.refusal("process", action="poll", id=program)
    assert await desk.text("process", action="list") == "No background programs."


async def test_only_so_many_run_at_once(desk: Bench) -> None:
    """Then one must be killed first."""
    for _program in range(16):
        await desk.call("process", action="start", command="echo up; sleep 600")

    assert "16 background programs already" in await desk.refusal("process", action="start", command="true")


async def test_without_its_part_of_the_tree_the_tool_says_so(bench: Bench) -> None:
    """Instead of starting something that nobody owns."""
    tool = process_tool(str(bench.folder), workspace=bench.workspace)
    with pytest.raises(ToolError, match="not available here"):
        await call(tool, action="start", command="true")


@given(pieces=st.lists(st.binary(max_size=12) | st.sampled_from([b"\n", b"a\nb", b"\r\n", "é".encode()]), max_size=20))
def test_lines_are_the_same_however_they_arrived(pieces: list[bytes]) -> None:
    """In pieces or whole: the same lines in the same order."""
    logs = []
    for cut in (pieces, [b"".join(pieces)]):
        log = LineLog()
        for piece in cut:
            log.feed(piece)
        log.feed(b"", final=True)
        logs.append(log)

    assert logs[0].tail(1000) == logs[1].tail(1000)
    assert logs[0].total == logs[1].total


def test_only_the_last_lines_are_kept() -> None:
    """Bounded in number and length; what is new since a look is known."""
    log = LineLog(10)
    for number in range(100):
        log.feed(f"line {number}\n".encode())
    log.feed(b"x" * 100_000)

    assert log.tail(3) == ["line 98", "line 99", "x" * 2000]
    assert log.after(97) == ["line 97", "line 98", "line 99"]
    assert log.total == 100


async def test_the_session_that_a_workspace_joined_owns_its_programs(runtime: Runtime, folder: Path) -> None:
    """The first one; a session that begins beside it changes nothing while the first lives."""
    supervisor = await Supervisor.start_link(tool_children())

    async def live() -> None:
        await receive()

    token = f"lemonjoined{os.getpid()}"
    session, other = spawn(live), spawn(live)
    workspace = Workspace(folder)
    workspace.join(session, folder / "s.jsonl", lambda *_: None)
    workspace.join(other, folder / "other.jsonl", lambda *_: None)
    await call(process_tool(str(folder), workspace=workspace), action="start", command=f"exec -a {token} sleep 600")
    assert named(token)
    exit_signal(session, "kill")

    await until(lambda: not named(token), "the program is gone")
    assert workspace.session_name.endswith("s.jsonl")
    await stop(supervisor)


@pytest.mark.requirement("BR-183")
async def test_a_key_in_a_command_is_not_shown_by_the_tree(desk: Bench) -> None:
    """What introspection says about the process has the secret masked."""
    await desk.call("process", action="start", command="sleep 600; curl 'http://127.0.0.1/?apikey=SECRET123'")
    (pid,) = await children()
    facts = info(pid).facts

    assert "sleep 600" in str(facts)
    assert "SECRET123" not in str(facts)
