"""Configured servers for tests, and what the machine shows of them."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coding_agent.mcp.entries import ServerEntry, entry_from
from coding_agent.mcp.mcp_server import Status
from coding_agent.mcp.mcp_toolbox import GetServers, GetTools, open_toolbox, settled_tools
from lemon_agent import AgentTool, AgentToolResult
from lemon_ai import TextContent
from lemon_otp import call
from tests.coding_agent.tools.support import processes

DEMO = Path(__file__).with_name("demo_server.py")
ASKING = Path(__file__).with_name("asking_server.py")
LIGHT = Path(__file__).with_name("light_server.py")


def entry(name: str = "demo", *args: str, **more: Any) -> ServerEntry:
    """The demo server as a program."""
    found = entry_from(name, {"command": sys.executable, "args": [str(DEMO), *args], **more}, {})
    assert found is not None
    return found


def light(name: str = "light", *args: str, **more: Any) -> ServerEntry:
    """The server that starts at once."""
    found = entry_from(name, {"command": sys.executable, "args": ["-I", "-S", str(LIGHT), *args], **more}, {})
    assert found is not None
    return found


def asking(name: str = "asking", *args: str, **more: Any) -> ServerEntry:
    """The server that asks back, as a program."""
    found = entry_from(name, {"command": sys.executable, "args": [str(ASKING), *args], **more}, {})
    assert found is not None
    return found


def script(name: str, code: str, **more: Any) -> ServerEntry:
    """A program that is no proper server."""
    found = entry_from(name, {"command": sys.executable, "args": ["-I", "-S", "-u", "-c", code], **more}, {})
    assert found is not None
    return found


def running(folder: Path) -> list[str]:
    """The command lines of everything that was started for this folder."""
    return [each.command for each in processes() if f"FOLDER={folder}" in each.environment]


@contextmanager
def served(program: Path, *args: str) -> Iterator[str]:
    """A server over HTTP on this machine, started and ended beside the tests; its address."""
    port = free_port()
    process = subprocess.Popen([sys.executable, str(program), *[arg.replace("PORT", str(port)) for arg in args]],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        give_up_s = time.monotonic() + 30
        while not listens(port):
            assert time.monotonic() < give_up_s
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Toolbox:
    """A toolbox with its tools by name."""

    def __init__(self, name: str, tools: tuple[AgentTool, ...]) -> None:
        self.name = name
        self.tools = {tool.name: tool for tool in tools}

    @classmethod
    async def open(cls, *entries: ServerEntry, folder: Path, wait_s: float = 30.0, **options: Any) -> "Toolbox":
        name = await open_toolbox(entries, str(folder), **options)
        return cls(name, await settled_tools(name, wait_s=wait_s))

    async def call(self, tool: str, signal: Any = None, on_update: Any = None, **params: Any) -> AgentToolResult:
        return await self.tools[tool].execute("1", params, signal, on_update)

    async def text(self, tool: str, **params: Any) -> str:
        return text_of(await self.call(tool, **params))

    async def status(self, server: str) -> Status:
        return next(each for each in await call(self.name, GetServers()) if each.name == server)

    async def names(self) -> list[str]:
        return [tool.name for tool in await call(self.name, GetTools())]


def text_of(result: AgentToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))
