"""The tools where they really run: inside processes of a runtime, which end by exit signals."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coding_agent.tools import Workspace, bash_tool, default_tools, execute_code_tool, program_keeper
from lemon_agent import AgentToolResult
from lemon_otp import (
    Down,
    Runtime,
    Supervisor,
    TaskSupervisor,
    call,
    exit_signal,
    receive,
    self_pid,
    send,
    spawn_monitor,
    stop,
    whereis,
)
from tests.coding_agent.tools.support import Bench, open_descriptors, text_of, until
from tests.coding_agent.tools.test_abort_storm import named


@pytest.fixture
async def inside(runtime: Runtime, folder: Path) -> AsyncIterator[Bench]:
    """The tools, in a runtime."""
    workspace = Workspace(folder)
    yield Bench(folder, workspace, {tool.name: tool for tool in default_tools(str(folder), workspace=workspace)})
    await workspace.aclose()


async def answered(bench: Bench, name: str, **params: Any) -> AgentToolResult:
    """The result of a call made by a process of its own."""
    asker = self_pid()

    async def work() -> None:
        send(asker, await bench.call(name, **params))

    spawn_monitor(work)
    result = await receive(lambda message: isinstance(message, AgentToolResult), timeout_s=20)
    assert isinstance(result, AgentToolResult)
    return result


async def test_every_tool_works_in_a_process(inside: Bench) -> None:
    """Threads, children and timers of the tools get along with processes that drive their own coroutines."""
    assert text_of(await answered(inside, "write", path="f.txt", content="one\n")).startswith("Successfully wrote")
    assert text_of(await answered(inside, "read", path="f.txt")) == "1: one\n2: "
    assert text_of(await answered(inside, "edit", path="f.txt", old_text="one", new_text="two")).startswith("Success")
    assert text_of(await answered(inside, "bash", command="cat f.txt; sleep 0.1; echo end")) == "two\nend"
    assert "f.txt:1: two" in text_of(await answered(inside, "grep", pattern="tw."))
    assert text_of(await answered(inside, "find", pattern="*.txt")) == "f.txt"
    assert "- f.txt" in text_of(await answered(inside, "ls"))


@pytest.mark.requirement("ABORT-1", "LIM-4.2")
@pytest.mark.parametrize("reason", ["shutdown", "kill", "something else"])
async def test_a_process_that_ends_takes_its_command_along(inside: Bench, reason: str) -> None:
    """Asked or killed: the command with everything it started is gone soon, and no descriptor of ours is left."""
    token = f"lemoninside{os.getpid()}{reason.replace(' ', '')}"
    command = f"trap '' TERM; (setsid bash -c \"trap '' TERM; exec -a {token} sleep 600\" &); exec -a {token} sleep 600"
    await inside.call("bash", command="true")
    before = open_descriptors()

    async def work() -> None:
        await inside.call("bash", command=command)

    pid, ref = spawn_monitor(work)
    await until(lambda: len(named(f"{token}\0")) >= 2, "the command is up")
    exit_signal(pid, reason)

    down = await receive(lambda message: isinstance(message, Down) and message.ref == ref, timeout_s=10)
    assert isinstance(down, Down)
    await until(lambda: not named(token), "everything is gone")
    await until(lambda: open_descriptors() == before, "our descriptors are closed")


async def test_a_task_shut_down_in_the_middle_of_a_write_has_no_effect_later(inside: Bench) -> None:
    """The supervisor's way of ending a task leaves the file as it was or as it should be, and no temporary one."""
    supervisor = await TaskSupervisor.start_link()
    (inside.folder / "f").write_text("old")
    for number in range(20):
        write = partial(inside.call, "write", path="f", content="new" * 100_000)
        task = await TaskSupervisor.async_nolink(supervisor, write)
        await asyncio.sleep(0.0002 * number)
        await task.shutdown()

    assert (inside.folder / "f").read_text() in ("old", "new" * 100_000)
    await until(lambda: [each.name for each in inside.folder.iterdir()] == ["f"], "no temporary file is left")


async def test_the_tree_can_own_the_keeper(runtime: Runtime, folder: Path) -> None:
    """
    With `program_keeper` in the tree all tools start their programs through it, and when it is stopped everything they
    left behind is gone before the supervisor goes on.
    """
    token = f"lemontree{os.getpid()}"
    supervisor = await Supervisor.start_link([program_keeper.child_spec()])
    workspace = Workspace(folder)
    bench = Bench(folder, workspace, {tool.name: tool for tool in default_tools(str(folder), workspace=workspace)})
    await bench.call("bash", command=f"(exec -a {token} sleep 600) >/dev/null 2>&1 &")
    programs = await call(program_keeper.NAME, program_keeper.ListPrograms())

    assert workspace.keeper is program_keeper.ProgramKeeper.shared()
    assert len(programs) == 1
    assert named(token)
    await stop(supervisor)
    assert not named(token)
    assert program_keeper.ProgramKeeper.shared() is None


async def test_a_keeper_that_crashes_comes_back_empty(runtime: Runtime, folder: Path) -> None:
    """Its programs are killed with it, and the next command runs through the new one."""
    token = f"lemoncrash{os.getpid()}"
    supervisor = await Supervisor.start_link([program_keeper.child_spec()])
    workspace = Workspace(folder)
    bench = Bench(folder, workspace, {tool.name: tool for tool in default_tools(str(folder), workspace=workspace)})
    await bench.call("bash", command=f"(exec -a {token} sleep 600) >/dev/null 2>&1 &")
    first = whereis(program_keeper.NAME)
    assert first is not None
    exit_signal(first, "kill")
    await until(lambda: whereis(program_keeper.NAME) not in (None, first), "it was restarted")

    assert await bench.text("bash", command="echo next") == "next"
    gc.collect()
    await until(lambda: not named(token), "what the old one had started is gone")
    await stop(supervisor)


@pytest.mark.requirement("BR-072")
async def test_what_goes_on_after_its_call_ends_with_the_session(runtime: Runtime, folder: Path) -> None:
    """What a command left in the background, and the process that keeps a script's variables; the host goes on."""
    token = f"lemonkept{os.getpid()}"
    supervisor = await Supervisor.start_link([program_keeper.child_spec()])
    workspace = Workspace(folder)
    tools = [make(str(folder), workspace=workspace) for make in (bash_tool, execute_code_tool)]
    bench = Bench(folder, workspace, {tool.name: tool for tool in tools})
    session, _ref = spawn_monitor(receive)
    workspace.join(session, folder / "session.jsonl", lambda _notice: None)
    await bench.call("bash", command=f"(trap '' TERM; setsid bash -c 'exec -a {token} sleep 600' &) >/dev/null 2>&1")
    await bench.call("execute_code", script="x = 1")
    assert named(token)
    assert len(bench.survivors()) >= 2
    exit_signal(session, "kill")

    await until(lambda: not named(token) and not bench.survivors(), "all of it has ended")
    assert await bench.text("bash", command="echo next") == "next"
    await stop(supervisor)
