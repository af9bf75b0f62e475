"""Servers over HTTP that flood, hang, or talk nonsense: each call ends, bounded in time and memory, and says why."""

import asyncio
import resource
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from coding_agent.mcp.entries import ServerEntry
from lemon_agent import ToolError
from tests.coding_agent.mcp.support import Toolbox, free_port, listens, text_of
from tests.coding_agent.mcp.test_servers import until

pytestmark = pytest.mark.xdist_group("mcp")

HOSTILE = Path(__file__).with_name("hostile_http_server.py")


@pytest.fixture
def folder(host, tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr("coding_agent.mcp.mcp_server.delay_s", lambda failures: None)
    monkeypatch.setattr("coding_agent.mcp.bounded_http.BODY_BYTES_MAX", 8_000_000)
    monkeypatch.setattr("coding_agent.mcp.connection.LIST_S", 2.0)
    return tmp_path


@asynccontextmanager
async def hostile(how: str):
    port = free_port()
    process = await asyncio.create_subprocess_exec(sys.executable, "-S", str(HOSTILE), str(port), how)
    try:
        await until(lambda: listens(port))
        yield ServerEntry("bad", "http", url=f"http://127.0.0.1:{port}/mcp", timeout_s=2.0)
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("how", ["hangs", "invalid", "wrong", "error", "redirect", "body", "events"])
async def test_a_call_to_a_bad_server_ends_and_says_why(folder, how):
    """As an error, in little time and without its words filling the memory."""
    async with hostile(how) as server:
        box = await Toolbox.open(server, folder=folder)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        async with asyncio.timeout(20):
            try:
                result = await box.call("mcp__bad__go")
                said, failed = text_of(result), result.error_info is not None
            except ToolError as error:
                said, failed = str(error), True

    assert failed, said
    assert said.startswith("bad")
    assert len(said) < 3_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


@pytest.mark.parametrize("how", ["hangs", "invalid", "wrong", "error", "redirect", "body", "events"])
async def test_a_server_that_greets_badly_is_given_up(folder, how):
    """In the time that is given for connecting; nothing of its is offered."""
    async with hostile(f"greeting-{how}") as server:
        async with asyncio.timeout(25):
            box = await Toolbox.open(server, folder=folder, connect_s=3.0)

        assert box.tools == {}
        status = await box.status("bad")
    assert status.state == "failed"
    assert status.error
    assert len(status.error) < 1_000
