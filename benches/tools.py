"""What the tools cost, against doing the same by hand or by the usual program, in the same run on the same files."""

import asyncio
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from coding_agent.tools import Workspace, bash_tool, default_tools, grep_tool
from lemon_agent import AgentTool

ROUNDS = 60
SEARCH_ROUNDS = 7
FILES = 50_000
EDITED_BYTES = 10_000_000
TREE = 200
BASH_LIMIT, SEARCH_LIMIT, FALLBACK_LIMIT, EDIT_LIMIT = 1.5, 1.5, 8.0, 5.0
GRACE_S, KILL_LIMIT_S = 0.5, 1.0
WORDS = ("alpha", "beta", "gamma", "delta", "import", "return", "class", "value", "def", "self", "None", "while")

Row = dict[str, object]
Work = Callable[[], Awaitable[object]]


def rows() -> list[Row]:
    """Every figure of the tools with its limit."""
    return asyncio.run(measured())


async def measured() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="lemon-bench-") as home:
        folder = Path(home)
        return [
            *await bash_rows(folder),
            *await edit_rows(folder),
            *await search_rows(folder),
            *await kill_rows(folder),
        ]


async def bash_rows(folder: Path) -> list[Row]:
    """A command that does nothing, by the tool and by asyncio."""
    workspace = Workspace(folder)
    tool = bash_tool(str(folder), workspace=workspace)

    async def by_hand() -> None:
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(
            "bash", "-c", "true", stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=asyncio.subprocess.STDOUT
        )
        await child.communicate()

    ours, base = await side_by_side(lambda: call(tool, command="true"), by_hand, ROUNDS)
    await workspace.aclose()
    return [row("bash: true", ours, base, BASH_LIMIT, "asyncio.create_subprocess_exec")]


async def edit_rows(folder: Path) -> list[Row]:
    """One line of a large file, by the tool, against reading and writing the file."""
    path = folder / "large.txt"
    line = "line {:08} with some text here\n"
    path.write_text("".join(line.format(number) for number in range(EDITED_BYTES // len(line.format(0)))))
    workspace = Workspace(folder)
    tool = {each.name: each for each in default_tools(str(folder), workspace=workspace)}["edit"]
    numbers = iter(range(1, 10_000))

    async def edit() -> None:
        old = line.format(100_000 + next(numbers))
        await call(tool, path="large.txt", old_text=old, new_text=old.upper())

    async def by_hand() -> None:
        data = path.read_bytes()
        path.write_bytes(data)

    ours, base = await side_by_side(edit, by_hand, 15)
    path.unlink()
    return [row("edit: one line in 10 MB", ours, base, EDIT_LIMIT, "read and write the file")]


async def search_rows(folder: Path) -> list[Row]:
    """Rare words and names in a large tree, with ripgrep and without, against the programs themselves."""
    tree = folder / "tree"
    make_tree(tree)
    workspace = Workspace(tree)
    tools = {each.name: each for each in default_tools(str(tree), workspace=workspace)}
    own = grep_tool(str(tree), workspace=workspace, ripgrep=None)
    rg, fd = shutil.which("rg"), shutil.which("fdfind") or shutil.which("fd")
    made: list[Row] = []
    if rg is None:
        return [{"metric": "grep, find", "value_us": 0, "limit": "ripgrep is not installed", "limit_us": 0, "ratio": 0}]
    grep_base = program(tree, rg, "--no-config", "--hidden", "--no-require-git", "--glob=!.git", "needle_")
    for name, tool, limit in (
        ("grep: 50,000 files", tools["grep"], SEARCH_LIMIT),
        ("grep without ripgrep", own, FALLBACK_LIMIT),
    ):
        ours, base = await side_by_side(lambda tool=tool: call(tool, pattern="needle_"), grep_base, SEARCH_ROUNDS)
        made.append(row(name, ours, base, limit, "rg"))
    if fd is not None:
        find_base, name = program(tree, fd, "--no-ignore", "f49999"), "fd --no-ignore"
    else:
        find_base, name = program(tree, rg, "--no-config", "--files", "--no-ignore", "--glob=*f49999*"), "rg --files"
    ours, base = await side_by_side(lambda: call(tools["find"], pattern="f49999"), find_base, SEARCH_ROUNDS * 3)
    made.append(row("find: 50,000 files", ours, base, SEARCH_LIMIT, name))
    await workspace.aclose()
    return made


async def kill_rows(folder: Path) -> list[Row]:
    """The end of a command whose 200 processes ignore being asked."""
    workspace = Workspace(folder)
    tool = bash_tool(str(folder), workspace=workspace)
    command = f"trap '' TERM; for i in $(seq {TREE - 1}); do sleep 600 & done; touch up; wait"
    task = asyncio.ensure_future(call(tool, command=command))
    while not (folder / "up").exists():
        await asyncio.sleep(0.01)
    began = time.perf_counter()
    task.cancel()
    await asyncio.wait({task})
    taken = time.perf_counter() - began
    await workspace.aclose()
    limit = GRACE_S + KILL_LIMIT_S
    return [
        {
            "metric": "bash: kill 200 processes that ignore TERM",
            "value_us": round(taken * 1e6),
            "limit": f"grace {GRACE_S} s + {KILL_LIMIT_S:g} s",
            "limit_us": round(limit * 1e6),
            "ratio": round(taken / limit, 2),
        }
    ]


def make_tree(root: Path) -> None:
    """Fifty thousand small text files in 2,500 directories, a word in forty of them, and ignore rules."""
    dice = random.Random(1)
    folders = [root]
    root.mkdir()
    for number in range(FILES // 20):
        above = dice.choice(folders[-200:])
        folder = (root if len(above.parts) - len(root.parts) > 8 else above) / f"d{number}"
        folder.mkdir()
        folders.append(folder)
    lines = [" ".join(dice.choices(WORDS, k=8)) for _line in range(500)]
    for number in range(FILES):
        text = "\n".join(dice.choices(lines, k=dice.randint(5, 120)))
        if number % 1250 == 0:
            text += f"\na needle_{number} here\n"
        ending = dice.choice((".py", ".txt", ".md", ".c", ".log"))
        (dice.choice(folders) / f"f{number}{ending}").write_text(text)
    (root / ".gitignore").write_text("*.log\n/d3/\nbuild/\n!keep.log\n")


def program(folder: Path, *command: str) -> Work:
    """A program to its end, its output thrown away."""

    async def run() -> None:
        subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, env={**os.environ}, check=True)

    return run


async def call(tool: AgentTool, **params: Any) -> object:
    """One call of a tool."""
    return await tool.execute("call", params, None, None)


async def side_by_side(ours: Work, base: Work, rounds: int) -> tuple[float, float]:
    """The medians of both in seconds, taken in turn so that the machine's moods fall on both."""
    times: tuple[list[float], list[float]] = ([], [])
    for each in (ours, base):
        await each()
    for _round in range(rounds):
        for work, taken in zip((ours, base), times, strict=True):
            began = time.perf_counter()
            await work()
            taken.append(time.perf_counter() - began)
    return statistics.median(times[0]), statistics.median(times[1])


def row(metric: str, ours: float, base: float, limit: float, what: str) -> Row:
    """One figure."""
    return {
        "metric": metric,
        "value_us": round(ours * 1e6),
        "limit": f"{limit:g}x {what}",
        "limit_us": round(base * limit * 1e6),
        "ratio": round(ours / base, 2),
    }
