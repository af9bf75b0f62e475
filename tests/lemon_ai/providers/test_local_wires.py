"""Messages and Responses against a server nobody here wrote: llama.cpp speaks them too."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import httpx
import pytest
import pytest_asyncio
from attrs import evolve

from lemon_ai.errors import ProviderError
from lemon_ai.events import StreamDone, TextDelta
from lemon_ai.local_server import LocalServer
from lemon_ai.messages import TextContent, ToolCall, ToolResultMessage, UserMessage, get_text
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.anthropic_messages import AnthropicProvider
from lemon_ai.providers.asking import HttpProvider
from lemon_ai.providers.openai_responses import OpenAIResponsesProvider
from lemon_ai.stream_options import Context, StreamOptions, Tool
from lemon_ai.testing import check_events, collect
from tests.lemon_ai.providers.wires import answer

pytestmark = [pytest.mark.local_model, pytest.mark.asyncio(loop_scope="module")]

PROVIDERS = [AnthropicProvider(), OpenAIResponsesProvider()]
TOOL = Tool("ls", "List a folder", {"type": "object", "properties": {"path": {"type": "string"}}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[LocalServer]:
    async with LocalServer(context_window=1024) as running:
        yield running


def request(server: LocalServer, provider: HttpProvider, *messages: object, **options: object) -> ProviderRequest:
    model = evolve(server.model, api=provider.api, base_url=server.url)  # type: ignore[attr-defined]
    chosen = {"max_tokens": 24, "temperature": 0.0} | options
    context = Context("Be brief.", messages or (UserMessage("Say hello."),), (TOOL,))  # type: ignore[arg-type]
    return ProviderRequest(model, context, StreamOptions(**chosen))  # type: ignore[arg-type]


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.api)
async def test_a_real_server_answers_in_this_wire(server: LocalServer, provider: HttpProvider):
    """Well-ordered events, tokens counted, words in pieces."""
    events = await collect(provider, request(server, provider))

    check_events(events)
    done = events[-1]
    assert isinstance(done, StreamDone)
    assert done.message.usage.input + done.message.usage.cache_read > 10
    assert 0 < done.message.usage.output <= 24
    assert sum(isinstance(event, TextDelta) for event in events) > 1


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.api)
async def test_a_real_server_takes_a_history_with_calls_and_results(server: LocalServer, provider: HttpProvider):
    """What our encoder makes of a foreign history is accepted by a parser that is not ours."""
    stranger = evolve(server.model, provider="somebody", id="else")
    history = (
        UserMessage("What is here?"),
        answer(stranger, TextContent("Let me look."), ToolCall("call.1|fc", "ls", {"path": "."})),
        ToolResultMessage("call.1|fc", "ls", (TextContent("a.txt"),)),
        UserMessage("Thanks."),
    )

    events = await collect(provider, request(server, provider, *history))

    assert isinstance(events[-1], StreamDone)


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.api)
async def test_a_real_servers_limit_is_a_length(server: LocalServer, provider: HttpProvider):
    """An answer cut by max_tokens says so; this server's Responses API calls it completed, and counts right."""
    story = UserMessage("Write a long story about a dragon.")

    done = (await collect(provider, request(server, provider, story, max_tokens=3)))[-1]

    assert isinstance(done, StreamDone)
    assert done.reason == ("length" if provider.api == "anthropic_messages" else "stop")
    assert done.message.usage.output == 3
    assert get_text(done.message)


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.api)
async def test_a_real_servers_refusal_is_classified(server: LocalServer, provider: HttpProvider):
    """A conversation beyond its window, in this wire's own error form."""
    with pytest.raises(ProviderError) as caught:
        await collect(provider, request(server, provider, UserMessage("word " * 3000)))

    assert caught.value.category == "context_length"


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.api)
async def test_leaving_a_real_servers_stream_frees_its_slot(server: LocalServer, provider: HttpProvider):
    """The connection closes, and the server stops working."""
    story = UserMessage("Write a very long story.")
    async with aclosing(provider.stream(request(server, provider, story, max_tokens=900))) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                break

    async with asyncio.timeout(20), httpx.AsyncClient(trust_env=False) as client:
        while any(slot["is_processing"] for slot in (await client.get(f"{server.url}/slots")).json()):
            await asyncio.sleep(0.05)
