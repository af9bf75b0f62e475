"""Calls of tools, and what the machine shows of their children."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from attrs import frozen

from coding_agent.tools import Workspace
from coding_agent.tools.child import MARK
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, ToolError
from lemon_ai import TextContent

T = TypeVar("T")


@frozen
class Bench:
    """The tools at work in one directory."""

    folder: Path
    workspace: Workspace
    tools: dict[str, AgentTool]

    async def call(
        self,
        name: str,
        *,
        abort: AbortSignal | None = None,
        on_update: Callable[[AgentToolResult], None] | None = None,
        **params: Any,
    ) -> AgentToolResult:
        """One call, answered."""
        return await call(self.tools[name], abort=abort, on_update=on_update, **params)

    async def text(self, name: str, **params: Any) -> str:
        """What the model is told by one call."""
        return text_of(await self.call(name, **params))

    async def refusal(self, name: str, **params: Any) -> str:
        """The text of the error that one call ends in."""
        with pytest.raises(ToolError) as caught:
            await self.call(name, **params)
        return str(caught.value)

    def survivors(self) -> list[str]:
        """Processes of this machine that were started in or for the directory, as command lines."""
        return [process.command for process in processes() if str(self.folder) in process.environment]


async def call(
    tool: AgentTool,
    *,
    abort: AbortSignal | None = None,
    on_update: Callable[[AgentToolResult], None] | None = None,
    **params: Any,
) -> AgentToolResult:
    """One call of a tool, answered."""
    answer = tool.execute("call-1", params, abort, on_update)
    result = await answer if asyncio.iscoroutine(answer) else answer
    assert isinstance(result, AgentToolResult)
    return result


def text_of(result: AgentToolResult) -> str:
    """The words of a result."""
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


def started(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """Work going on beside the test."""
    return asyncio.ensure_future(work)  # noqa: TID251 -- the tools must do without a runtime too


@frozen
class Process:
    """A living process that carries our mark."""

    pid: int
    command: str
    environment: str


def processes() -> list[Process]:
    """Every living process that one of our keepers started."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes().replace(b"\0", b"\n").decode(errors="replace")
            state = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"{MARK}=" in environment and state not in "ZX":
            found.append(Process(int(entry.name), command, environment))
    return found


def alive(pid: int) -> bool:
    """Does a process run, zombies not counted?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def open_descriptors() -> set[str]:
    """This process's open descriptors and what they lead to."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name}:{os.readlink(f'/proc/self/fd/{name}')}")
        except OSError:
            continue
    return found


async def until(condition: Callable[[], bool], what: str, timeout_s: float = 5.0) -> None:
    """Return when the outside world has come to a state; processes and files have nothing to wait on."""
    for _look in range(int(timeout_s / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"not within {timeout_s} s: {what}")
