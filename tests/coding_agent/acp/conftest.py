"""An agent with a client inside this process."""

import os
from collections.abc import AsyncIterator

import pytest_asyncio

from coding_agent.acp.agent import Agent
from coding_agent.application import APPLICATION
from coding_agent.arguments import parse
from coding_agent.hosting.running import prepared
from coding_agent.settings import settings_of
from lemon_otp import ensure_all_started, stop_all
from tests.coding_agent.acp.support import Connection


@pytest_asyncio.fixture
async def connection(runtime, tmp_path, monkeypatch) -> AsyncIterator[Connection]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("coding_agent.mcp.at_start.FIRST_PROMPT_S", 30.0)  # however busy this machine is
    monkeypatch.setenv("LEMON_SESSION_DIR", str(tmp_path / "sessions"))
    work = tmp_path / "work"
    work.mkdir()
    arguments = parse(["--model", "scripted/echo", "--cwd", str(work), "--permission-mode", "full"])
    await ensure_all_started(APPLICATION)
    made = Connection(None, str(work))
    made.agent = Agent(prepared(arguments, settings_of(arguments, os.environ)), made.write)
    yield made
    await made.agent.close()
    await stop_all()
