"""What servers say they serve."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import define, field

from lemon_ai import ModelCache, current_catalog, discover
from lemon_otp.testing import FakeClock


@define
class ListServer:
    """Answers every request with a list of models, and keeps the heads of the requests."""

    status: int = 200
    body: bytes = b""
    heads: list[str] = field(factory=list)
    url: str = ""

    def lists(self, *ids: str) -> None:
        self.body = json.dumps({"object": "list", "data": [{"id": name} for name in ids]}).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        head = f"HTTP/1.1 {self.status} Answer\r\ncontent-length: {len(self.body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + self.body)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def listing(*ids: str) -> AsyncIterator[ListServer]:
    server = ListServer()
    server.lists(*ids)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield server


async def test_a_server_on_this_machine_is_believed_whole(ai: Any) -> None:
    """Every model it names can be called there; `/v1` is added to a bare address; what the catalogue knows is kept."""
    async with listing("my-finetune", "openai/gpt-oss-20b", "my-finetune") as server:
        found = await discover("vllm", base_url=server.url)
    assert [model.id for model in found] == ["my-finetune", "openai/gpt-oss-20b"]
    assert {model.base_url for model in found} == {server.url}
    assert found[1].reasoning
    assert server.heads[0].startswith("GET /v1/models ")
    assert "authorization" not in server.heads[0].lower()


async def test_an_answer_is_kept_for_a_while(clocked_ai: FakeClock) -> None:
    """Asked once; again when it is too old; other addresses are other servers."""
    async with listing("a") as server, listing("b") as other:
        assert [m.id for m in await discover("vllm", base_url=server.url)] == ["a"]
        server.lists("a", "new")
        assert [m.id for m in await discover("vllm", base_url=server.url)] == ["a"]
        assert [m.id for m in await discover("vllm", base_url=other.url)] == ["b"]
        await clocked_ai.advance(300)
        assert [m.id for m in await discover("vllm", base_url=server.url)] == ["a", "new"]
        assert len(server.heads) == 2
    assert ModelCache.stats().providers == 2


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b"{}"), (200, b"<html>"), (200, b"[]"), (200, b'{"data": []}'), (200, b'{"data": [{"name": "x"}]}')],
)
async def test_a_server_that_says_nonsense_leaves_what_was_known(
    clocked_ai: FakeClock, status: int, body: bytes
) -> None:
    """First the catalogue's list, later what the server itself said before."""
    async with listing("a") as server:
        good = server.body
        server.status, server.body = status, body
        assert await discover("vllm", base_url=server.url) == current_catalog().models("vllm")
        server.status, server.body = 200, good
        known = await discover("vllm", base_url=server.url)
        server.status, server.body = status, body
        await clocked_ai.advance(300)
        assert await discover("vllm", base_url=server.url) == known


async def test_nobody_at_the_address_is_the_catalogue(ai: Any) -> None:
    """Nothing is remembered of that."""
    async with listing("a") as server:
        pass
    assert await discover("vllm", base_url=server.url) == current_catalog().models("vllm")
    assert ModelCache.stats().providers == 0
    assert await discover("no_such_provider") == ()


async def test_a_key_goes_along_and_no_application_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one given, else that of the provider's own variable."""
    monkeypatch.setenv("MY_SERVER_API_KEY", "from-the-variable")
    async with listing("a") as server:
        await discover("my-server", base_url=server.url, api_key="given")
        assert [m.id for m in await discover("my-server", base_url=server.url)] == ["a"]
    assert "Bearer given" in server.heads[0]
    assert "Bearer from-the-variable" in server.heads[1]


async def test_of_a_vendors_list_those_count_that_are_in_the_catalogue(
    ai: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Embeddings and the like are no models of conversations."""
    async with listing("gpt-4o", "text-embedding-3-small") as server:
        monkeypatch.setattr("lemon_ai.discovery._address", lambda *parts: f"{server.url}/v1/models")
        found = await discover("openai", api_key="k")
    assert [model.id for model in found] == ["gpt-4o"]
    assert found == (current_catalog().get("openai", "gpt-4o"),)
