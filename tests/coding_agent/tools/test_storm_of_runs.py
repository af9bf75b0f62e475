"""Whole runs of agents, aborted at any moment of what their tools do to escape.

More of them by `STORM_RUNS=2000 STORM_SEED=7`.
"""

import asyncio
import gc
import os
import random
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from coding_agent import client
from coding_agent.session_supervisor import start_session
from coding_agent.tools import Workspace, browser_tool, default_tools, execute_code_tool
from coding_agent.tools.program_keeper import ProgramKeeper
from lemon_ai.testing import Call, ScriptedModel
from lemon_otp import Down, Pid, exit_signal, monitor, receive, spawn_monitor, stop
from tests.coding_agent.conftest import Host
from tests.coding_agent.tools.support import open_descriptors, processes, until
from tests.coding_agent.tools.test_abort_storm import COMMANDS, named
from tests.coding_agent.tools.web_server import running

RUNS = int(os.environ.get("STORM_RUNS", "200"))
SEED = int(os.environ.get("STORM_SEED", "20261130"))
SESSIONS = 8
TOKEN = f"lemonruns{os.getpid()}x"

SCRIPTS = (
    "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "os.system('(exec -a {name} sleep 600) &')\nwhile True: time.sleep(1)",
    "import os\nif os.fork() == 0:\n os.setsid()\n"
    " if os.fork() == 0: os.execv('/bin/sleep', ['{name}', '600'])\n os._exit(0)",
    "while True: pass",
    "import subprocess\nsubprocess.Popen(['bash', '-c', 'exec -a {name} sleep 600'], start_new_session=True)\n"
    "read('big.txt')",
    "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)",
    "import threading, time\nfor _ in range(20): threading.Thread(target=time.sleep, args=(600,)).start()\n1 / 0",
)


def nasty_call(dice: random.Random, number: int) -> Call:
    """One tool call that forks, daemonises, holds pipes, ignores signals, or is at work on files."""
    name = f"{TOKEN}{number}"
    kind = dice.choice(("bash", "bash", "execute_code", "process", "write", "grep", "find", "read"))
    arguments: dict[str, Any] = {
        "bash": {"command": dice.choice(COMMANDS).format(name=name), "pty": dice.random() < 0.2},
        "execute_code": {"script": dice.choice(SCRIPTS).format(name=name)},
        "process": {"action": "start", "command": dice.choice(COMMANDS[:7]).format(name=name)},
        "write": {"path": f"new/{dice.randrange(5)}.txt", "content": "x" * 5_000},
        "grep": {"pattern": "(a+)+b", "path": "."},
        "find": {"pattern": "**/*"},
        "read": {"path": "big.txt"},
    }[kind]
    return Call(kind, arguments, id=f"c{number}")


async def storm(host: Host, folder: Path, runs: int, dice: random.Random, numbers: Iterator[int]) -> None:
    """One run after the other; most are aborted, some lose their session to a kill, and the next has another one."""
    session: Pid | None = None
    for _run in range(runs):
        if session is None or not session.alive:
            workspace = Workspace(folder)
            tools = [*default_tools(str(folder), workspace=workspace)]
            tools.append(execute_code_tool(str(folder), workspace=workspace))
            turn = [lambda _request: [nasty_call(dice, next(numbers)) for _call in range(dice.randint(1, 3))]]
            options = await host.options(ScriptedModel(*turn * runs * 20), tools=tuple(tools))
            session = await start_session(evolve(options, companions=(workspace.join,)), restart="temporary")
        await client.prompt(session, "go")
        await asyncio.sleep(dice.random() * 0.25)
        if dice.random() < 0.15:
            ref = monitor(session)
            exit_signal(session, "kill")
            await receive(lambda message, ref=ref: isinstance(message, Down) and message.ref == ref, timeout_s=20)
            continue
        began = time.monotonic()
        client.abort_async(session)
        await client.wait_for_idle(session, timeout_s=20)
        assert time.monotonic() - began < 15
    if session is not None and session.alive:
        await stop(session)


def ours(folder: Path) -> list[str]:
    return [each.command for each in processes() if str(folder) in each.environment]


def left_in(home: Path) -> list[str]:
    """Temporary files of ours, but for the long outputs that results have named."""
    return [path.name for path in home.iterdir() if not path.name.startswith(("output-", "script-output-"))]


@pytest.mark.requirement("ABORT-1", "LIM-4.2", "BR-071", "BR-072")
@pytest.mark.timeout(600)
async def test_after_a_storm_of_aborted_runs_nothing_is_left(host: Host, tmp_path: Path) -> None:
    """
    Two hundred runs in eight sessions side by side, whose models call commands, Python scripts, background programs,
    searches and writes that fork, daemonise, stop who watches them, hold pipes and ignore signals, are aborted at
    seeded moments or lose their session. Then no process, no open descriptor and no temporary file of ours is left,
    and every abort was bounded.
    """
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "big.txt").write_text("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n" * 50_000)
    numbers = count()
    keeper = ProgramKeeper.shared()
    assert keeper is not None
    home = keeper.home
    await storm(host, folder, 1, random.Random(0), numbers)
    await until(lambda: not ours(folder), "the first run is over", 20)
    before = open_descriptors()
    at_work = [
        spawn_monitor(storm, host, folder, RUNS // SESSIONS, random.Random(SEED + number), numbers)
        for number in range(SESSIONS)
    ]
    for pid, ref in at_work:
        down = await receive(lambda message, ref=ref: isinstance(message, Down) and message.ref == ref, timeout_s=500)
        assert down.reason == "normal", (pid, down.reason)

    await until(lambda: not ours(folder) and not named(TOKEN), "every process is gone", 20)
    gc.collect()
    await until(lambda: open_descriptors() == before, "every descriptor is closed", 10)
    assert left_in(home) == []
    assert sorted(path.name for path in folder.iterdir() if path.name not in ("new", "sessions")) == ["big.txt"]
    assert list(folder.glob("new/.lemon-*")) == []


@pytest.mark.requirement("ABORT-1")
@pytest.mark.xdist_group("chromium")
@pytest.mark.timeout(240)
async def test_after_a_storm_of_aborted_pages_nothing_is_left(host: Host, tmp_path: Path) -> None:
    """
    A browser that is aborted or loses its session while it starts, while a page hangs, while a script spins or a window
    opens: no Chromium, driver, worker, descriptor or folder is left.
    """
    dice = random.Random(SEED)
    keeper = ProgramKeeper.shared()
    assert keeper is not None
    home = keeper.home
    async with running() as server:
        server.page("/spin", "<script>setTimeout(() => { while (true) {} }, 100)</script><h1>x</h1>")
        server.page("/flood", "<script>setInterval(() => open('/spin'), 5)</script><h1>x</h1>")
        never = asyncio.Event()
        server.answers["/never"] = lambda _writer: never.wait()
        before = open_descriptors()
        for _run in range(max(6, RUNS // 30)):
            workspace = Workspace(tmp_path)
            tool = browser_tool(str(tmp_path), workspace=workspace, web_allowed=["127.0.0.1"])
            pages = [server.url(dice.choice(("/spin", "/flood", "/never"))) for _page in range(2)]
            turns = [Call("browser", {"action": "navigate", "url": url, "timeoutMs": 20_000}) for url in pages]
            options = await host.options(ScriptedModel(*([turn] for turn in turns), "Done."), tools=(tool,))
            session = await start_session(evolve(options, companions=(workspace.join,)), restart="temporary")
            await client.prompt(session, "go")
            await asyncio.sleep(dice.random() * 3)
            if dice.random() < 0.5:
                client.abort_async(session)
                await client.wait_for_idle(session, timeout_s=20)
            exit_signal(session, "kill")
        never.set()
        await until(lambda: not [each for each in processes() if f"{home}/b-" in each.environment], "all is gone", 20)
        await until(lambda: left_in(home) == [], "and every folder", 10)
        gc.collect()
        await until(lambda: open_descriptors() == before, "every descriptor is closed", 10)
