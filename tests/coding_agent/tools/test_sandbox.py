"""The sandbox: what a program inside can still do, and that there is no pretending."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coding_agent.tools import Sandbox, Workspace, bash_tool, execute_code_tool, grep_tool
from coding_agent.tools.sandbox import unavailable
from lemon_agent import AbortSignal, AgentTool
from tests.coding_agent.tools.support import Bench, call, started, text_of, until
from tests.coding_agent.tools.web_server import running


async def refused_plainly(workspace: Workspace) -> bool:
    """Where there can be no sandbox, a program is refused with the reason, and that is all there is to see."""
    reason = await unavailable(workspace.keeper, dict(workspace.environment()))
    if reason is None:
        return False
    bench = Bench(Path(workspace.root), workspace, {"bash": bash(workspace)})
    assert reason in await bench.refusal("bash", command="touch f")
    assert not (Path(workspace.root) / "f").exists()
    return True


@pytest.fixture
async def confined(folder: Path) -> AsyncIterator[Workspace]:
    """A workspace whose programs are in a sandbox."""
    workspace = Workspace(folder, sandbox=Sandbox())
    yield workspace
    await workspace.aclose()


def bash(workspace: Workspace) -> AgentTool:
    """The tool."""
    return bash_tool(workspace.root, workspace=workspace)


async def test_only_the_working_directory_can_be_written(confined: Workspace, tmp_path: Path) -> None:
    """Files outside can be read but not changed; what goes to /tmp goes with the program."""
    if await refused_plainly(confined):
        return
    outside = f"{tmp_path}/outside.txt"
    script = f"echo in > inside; echo out > {outside}; echo $?; cat {outside}; touch /tmp/lemon-gone /etc/x"
    text = text_of(await call(bash(confined), command=script))

    assert (Path(confined.root) / "inside").read_text() == "in\n"
    assert not Path("/tmp/lemon-gone").exists()
    assert "Read-only file system" in text or "No such file" in text
    assert (tmp_path / "outside.txt").read_text() == "outside\n"


async def test_the_network_is_out_of_reach_unless_allowed(confined: Workspace, folder: Path) -> None:
    """A server on this machine is not reached from inside, and is when the network is allowed."""
    if await refused_plainly(confined):
        return
    async with running() as server:
        script = f"(exec 3<>/dev/tcp/127.0.0.1/{server.port}) 2>/dev/null && echo reached || echo unreachable"
        assert text_of(await call(bash(confined), command=script)) == "unreachable"
        open_net = Workspace(folder, sandbox=Sandbox(network=True))
        assert text_of(await call(bash(open_net), command=script)) == "reached"
        await open_net.aclose()


async def test_other_processes_and_secrets_are_not_seen(folder: Path, tmp_path: Path) -> None:
    """Inside there are only its own processes, and hidden folders are empty."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "key").write_text("canary")
    workspace = Workspace(folder, sandbox=Sandbox(hidden=(str(secrets),)))
    if await refused_plainly(workspace):
        return
    text = text_of(await call(bash(workspace), command=f"ls -A {secrets}; ls -d /proc/[0-9]* | wc -l"))
    await workspace.aclose()

    assert int(text.strip()) < 10


async def test_aborting_ends_what_is_inside(confined: Workspace) -> None:
    """Daemons too."""
    if await refused_plainly(confined):
        return
    stop = AbortSignal()
    bench = Bench(Path(confined.root), confined, {"bash": bash(confined)})
    task = started(bench.call("bash", command="(setsid sleep 600 &) ; trap '' TERM; touch up; sleep 600", abort=stop))
    await until(lambda: (Path(confined.root) / "up").exists(), "it runs")
    stop.abort()
    await task

    assert bench.survivors() == []


async def test_scripts_are_confined_too(confined: Workspace) -> None:
    """The Python process is inside; its tools answer from outside, behind their own guard."""
    if await refused_plainly(confined):
        return
    tool = execute_code_tool(confined.root, workspace=confined)
    text = text_of(await call(tool, script="open('here', 'w').write('x')\nprint(ls())\nopen('/etc/x', 'w')"))

    assert "- here" in text
    assert "Read-only file system" in text


async def test_without_bubblewrap_nothing_is_run(folder: Path) -> None:
    """And it is said plainly; tools that run no program of the model's go on."""
    workspace = Workspace(folder, sandbox=Sandbox(), environment={"PATH": str(folder)})
    bench = Bench(folder, workspace, {"bash": bash(workspace)})

    assert "a sandbox is required, and bubblewrap is not installed" in await bench.refusal("bash", command="touch f")
    assert not (folder / "f").exists()
    assert await unavailable(workspace.keeper, {"PATH": str(folder)}) is not None
    (folder / "x").write_text("needle")
    assert "x:1: needle" in text_of(await call(grep_tool(str(folder), workspace=workspace), pattern="needle"))
    await workspace.aclose()


async def test_a_bubblewrap_that_does_not_work_is_no_sandbox(folder: Path) -> None:
    """Where the kernel forbids it, nothing is run either."""
    fake = folder / "bwrap"
    fake.write_text("#!/bin/sh\necho 'No permissions to create a new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    workspace = Workspace(folder, sandbox=Sandbox(), environment={"PATH": f"{folder}:/usr/bin:/bin"})
    bench = Bench(folder, workspace, {"bash": bash(workspace)})

    assert "does not work here: No permissions" in await bench.refusal("bash", command="touch f")
    assert not (folder / "f").exists()
    await workspace.aclose()
