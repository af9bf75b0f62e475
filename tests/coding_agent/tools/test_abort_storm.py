"""Many commands, aborted at any moment of what they do to escape: afterwards the machine is as it was before."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coding_agent.tools import Workspace, bash_tool
from lemon_agent import AbortSignal
from tests.coding_agent.tools.support import Bench, alive, call, open_descriptors, started, until

RUNS = 200
AT_ONCE = 10
TOKEN = "lemonstorm"

COMMANDS = (
    "for i in 1 2 3 4 5; do (exec -a {name} sleep 600) & done; wait",
    "(setsid bash -c 'exec -a {name} sleep 600' &) ; exec -a {name} sleep 600",
    "trap '' TERM INT HUP; (trap '' TERM; setsid bash -c 'while :; do exec -a {name} sleep 600; done' &); "
    "while :; do bash -c 'exec -a {name} sleep 600'; done",
    "env -i setsid setsid bash -c 'exec -a {name} sleep 600' </dev/null >/dev/null 2>&1 & disown; echo out; exit 0",
    "while :; do (exec -a {name} sleep 0.01) & (exec -a {name} sleep 600) & sleep 0.005; done",
    "(exec -a {name} sleep 600) & kill -STOP $!; kill -STOP $$",
    "yes {name}",
    'python3 -c "import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0:\n'
    "  os.execv('/bin/sleep',['{name}','600'])\n os._exit(0)\ntime.sleep(600)\"",
    "exec -a {name} sleep 600",
    "true",
)


def named(token: str) -> list[int]:
    """Living processes whose command line holds the token."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and token.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid() and alive(pid)]


async def one(bench: Bench, number: int, dice: random.Random) -> None:
    """One command, given up after a moment: by the signal, by cancelling, or by both."""
    stop = AbortSignal()
    command = dice.choice(COMMANDS).format(name=f"{TOKEN}{os.getpid()}x{number}")
    task = started(bench.call("bash", command=command, abort=stop))
    await asyncio.sleep(dice.random() * 0.15)
    way = dice.randrange(3)
    if way != 0:
        stop.abort("aborted")
    if way != 1:
        await asyncio.sleep(dice.random() * 0.02 if way == 2 else 0)
        task.cancel()
    await asyncio.wait({task})


@pytest.mark.requirement("ABORT-1", "LIM-4.2")
@pytest.mark.timeout(180)
async def test_after_an_abort_storm_nothing_of_ours_is_left(folder: Path, tmp_path: Path) -> None:
    """
    Two hundred commands that fork, daemonise, hold pipes and ignore signals are aborted at seeded moments. Then no
    process, no open descriptor and no temporary file of ours is left, and every abort was bounded.
    """
    dice = random.Random(20240607)
    workspace = Workspace(folder)
    bench = Bench(folder, workspace, {"bash": bash_tool(str(folder), workspace=workspace)})
    await bench.call("bash", command="true")
    home = workspace.keeper.home
    before = open_descriptors()
    slowest = 0.0
    for first in range(0, RUNS, AT_ONCE):
        began = time.monotonic()
        await asyncio.gather(*(one(bench, number, dice) for number in range(first, first + AT_ONCE)))
        slowest = max(slowest, time.monotonic() - began)
    for child in list(workspace.keeper.children):  # what commands that had ended left behind on purpose
        child.kill(0)
        await child.ended(5)

    token = f"{TOKEN}{os.getpid()}x"
    assert named(token) == []
    assert bench.survivors() == []
    assert open_descriptors() == before
    assert [path for path in home.iterdir() if not path.name.startswith("output-")] == []
    assert slowest < 10

    await workspace.aclose()
    assert not home.exists()
    assert list(folder.iterdir()) == []


@pytest.mark.timeout(60)
async def test_two_hundred_processes_that_ignore_being_asked_are_killed_within_the_grace_and_a_second(
    bench: Bench,
) -> None:
    """Killing a tree of 200 processes that ignore TERM takes the grace time and at most a second more."""
    command = "trap '' TERM; for i in $(seq 199); do sleep 600 & done; touch up; wait"
    task = started(bench.call("bash", command=command))
    await until(lambda: (bench.folder / "up").exists() and len(bench.survivors()) >= 200, "the tree is up", 20)
    began = time.monotonic()
    task.cancel()
    await asyncio.wait({task})

    assert time.monotonic() - began < 0.5 + 1.0
    assert bench.survivors() == []


HOST = """
import asyncio, sys
from coding_agent.tools import bash_tool

async def main():
    tool = bash_tool(sys.argv[1])
    command = (
        "trap '' TERM HUP; (setsid bash -c \\"trap '' TERM HUP; exec -a %(token)s sleep 600\\" &); "
        "exec -a %(token)s sleep 600"
    )
    await tool.execute("1", {"command": command}, None, None)

asyncio.run(main())
"""


@pytest.mark.requirement("BR-069")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
async def test_a_host_that_dies_leaves_no_child(folder: Path, number: signal.Signals) -> None:
    """Killed, terminated or hung up: its commands end with it, those that ignore signals too."""
    token = f"{TOKEN}host{os.getpid()}{number.name}"
    host = subprocess.Popen(
        [sys.executable, "-c", HOST % {"token": token}, str(folder)], stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        await until(lambda: len(named(f"{token}\0")) >= 2, "its command is up", 20)
        host.send_signal(number)
        host.wait(10)
        await until(lambda: not named(token), "everything is gone")
    finally:
        host.kill()
        host.wait()


async def test_a_minder_that_is_killed_takes_its_children_along(bench: Bench) -> None:
    """A command that kills the process above it does not set itself free."""
    token = f"{TOKEN}minder{os.getpid()}"
    await bench.call(
        "bash",
        command=f"(setsid bash -c 'exec -a {token} sleep 600' &); sleep 0.1; kill -9 $PPID; exec -a {token} sleep 600",
    )

    await until(lambda: not named(token), "everything is gone")
    assert await bench.text("bash", command="echo next") == "next\n".strip()


async def test_a_keeper_that_is_killed_is_replaced(bench: Bench) -> None:
    """When even the helper is killed, its children end, and the next command runs with a new one."""
    token = f"{TOKEN}keeper{os.getpid()}"
    helper = bench.workspace.keeper
    await bench.call("bash", command="true")
    task = started(
        bench.call("bash", command=f"(setsid bash -c 'exec -a {token} sleep 600' &); exec -a {token} sleep 600")
    )
    await until(lambda: len(named(f"{token}\0")) >= 2, "its command is up")
    assert helper.pid is not None
    os.kill(helper.pid, signal.SIGKILL)
    task.cancel()
    await asyncio.wait({task})

    await until(lambda: not named(token), "everything is gone")
    assert await bench.text("bash", command="echo next") == "next"


async def test_a_stopped_minder_does_not_hold_up_an_abort(bench: Bench) -> None:
    """A command that stops the process above it is still ended in bounded time."""
    token = f"{TOKEN}stopped{os.getpid()}"
    task = started(bench.call("bash", command=f"kill -STOP $PPID; exec -a {token} sleep 600"))
    await until(lambda: len(named(token)) >= 1, "its command is up")
    began = time.monotonic()
    task.cancel()
    await asyncio.wait({task})

    assert time.monotonic() - began < 6
    await until(lambda: not named(token), "everything is gone")


async def test_children_started_outside_of_a_tool_call_are_ended_too(folder: Path) -> None:
    """A workspace that is dropped without being closed ends its children when it is collected."""
    token = f"{TOKEN}dropped{os.getpid()}"
    workspace = Workspace(folder)
    await call(bash_tool(str(folder), workspace=workspace), command=f"(exec -a {token} sleep 600) >/dev/null 2>&1 &")
    assert named(token)
    workspace.keeper.close()

    await until(lambda: not named(token), "everything is gone")


@pytest.mark.timeout(60)
async def test_a_host_that_dies_at_any_moment_leaves_no_folder_and_no_helper(folder: Path) -> None:
    """Killed while it starts its helper or a little later: helper and private folder are gone with it."""
    dice = random.Random(7)
    for number in range(12):
        temporary = folder / f"tmp{number}"
        temporary.mkdir()
        host = subprocess.Popen(
            [sys.executable, "-c", STARTING, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(temporary)},
        )
        assert host.stdout is not None
        assert await asyncio.to_thread(host.stdout.readline) == b"ready\n"
        await asyncio.sleep(dice.random() * 0.08)
        host.kill()
        host.wait()
        host.stdout.close()
        await until(lambda: not named(str(temporary)) and not list(temporary.iterdir()), "all is gone")  # noqa: B023


STARTING = """
import asyncio, sys
from coding_agent.tools import bash_tool

async def main():
    tool = bash_tool(sys.argv[1])
    print("ready", flush=True)
    await tool.execute("1", {"command": "sleep 600"}, None, None)

asyncio.run(main())
"""
