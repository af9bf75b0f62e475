"""A model behind a proxy, over real sockets."""

import asyncio
import contextlib
import json
from contextlib import asynccontextmanager

import pytest

from lemon_agent import AbortSignal, Agent, MessageUpdate, user_message
from lemon_agent.proxy import ProxyStream, request_body
from lemon_agent.testing import MODEL, ScriptedAgent, answers, assert_well_formed, results, terminal, until
from lemon_ai import (
    AssistantMessage,
    Context,
    StreamDone,
    StreamError,
    StreamOptions,
    TextContent,
    ThinkingContent,
    Tool,
    ToolCall,
    ToolResultMessage,
    get_text,
)
from tests.lemon_agent.tools import ECHO


def line(**said):
    return f"data: {json.dumps(said)}\n\n".encode()


HELLO = [
    line(type="start"),
    line(type="thinking_start", contentIndex=0),
    line(type="thinking_delta", contentIndex=0, delta="hmm"),
    line(type="thinking_end", contentIndex=0, contentSignature="sig"),
    line(type="text_start", contentIndex=1),
    line(type="text_delta", contentIndex=1, delta="Hel"),
    line(type="text_delta", contentIndex=1, delta="lo\u2028!"),
    line(type="text_end", contentIndex=1),
    line(type="done", reason="stop", usage={"input": 3, "output": 2, "totalTokens": 5}),
]


@asynccontextmanager
async def proxy(*answers, status="200 OK", pieces=None, hold=False):
    """A server on loopback that gives one answer after the other, and what it was asked."""
    asked, closed = [], asyncio.Event()
    waiting = list(answers)

    async def serve(reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(next(h for h in head.lower().split("\r\n") if h.startswith("content-length")).split(":")[1])
            asked.append((head, json.loads(await reader.readexactly(length))))
            body = b"".join(waiting.pop(0))
            writer.write(f"HTTP/1.1 {status}\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".encode())
            for at in range(0, len(body), pieces or len(body) or 1):
                writer.write(body[at : at + (pieces or len(body))])
                await writer.drain()
                await asyncio.sleep(0)
            if hold:
                await reader.read()
                closed.set()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", asked, closed
    finally:
        server.close()


async def events_of(stream_fn, signal=None):
    context = Context("Be kind.", (user_message("hi"),))
    stream = await stream_fn(MODEL, context, StreamOptions(temperature=0.5, api_key="never sent"), signal=signal)
    return [event async for event in stream]


@pytest.mark.parametrize("pieces", [None, 1, 7])
async def test_an_answer_is_put_together_whatever_the_pieces_it_comes_in(runtime, pieces):
    """Thinking, text, signature and usage; line separators inside a text do not break a line."""
    async with proxy(HELLO, pieces=pieces) as (url, asked, _):
        events = await events_of(ProxyStream(url, "secret-token"))
    done = events[-1]
    assert isinstance(done, StreamDone)
    assert done.message.content == (ThinkingContent("hmm", "sig"), TextContent("Hello\u2028!"))
    assert (done.message.usage.input, done.message.usage.total_tokens) == (3, 5)
    assert "text_delta" in [event.type for event in events]
    head, body = asked[0]
    assert head.startswith("POST /api/stream ")
    assert "authorization: bearer secret-token" in head.lower()
    assert body["options"] == {"temperature": 0.5}
    assert "never sent" not in json.dumps(body)


async def test_an_agent_works_through_a_proxy(tree):
    """Calls come back as calls, their results go out in the wire's spelling, and the run ends as any other."""
    asks = [
        line(type="start"),
        line(type="toolcall_start", contentIndex=0, id="c1", toolName="echo"),
        line(type="toolcall_delta", contentIndex=0, delta='{"text": '),
        b"data: not json\n\n: a comment\n\n",
        line(type="from the future", contentIndex=0),
        line(type="toolcall_delta", contentIndex=0, delta='"hi"}'),
        line(type="toolcall_end", contentIndex=0),
        line(type="done", reason="toolUse"),
    ]
    async with proxy(asks, HELLO) as (url, asked, _):
        agent = await ScriptedAgent.start(tools=[ECHO], stream_fn=ProxyStream(url, "t"))
        events = await agent.run("go")
    assert_well_formed(events)
    assert [get_text(result) for result in results(events)] == ["hi"]
    assert get_text(answers(events)[-1]) == "Hello\u2028!"
    assert [m["role"] for m in asked[1][1]["context"]["messages"]] == ["user", "assistant", "toolResult"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ([b'{"error": "no such model"}'], "404 Not Found", "Proxy error: no such model"),
        ([b"<html>"], "502 Bad Gateway", "Proxy error: 502"),
        (HELLO[:6], "200 OK", "Proxy error: the connection closed early"),
        ([line(type="error", reason="error", errorMessage="overloaded")], "200 OK", "overloaded"),
    ],
)
async def test_what_goes_wrong_is_the_last_event(runtime, body, status, said):
    """Refused, broken off and failed answers are errors that say so and keep what had come."""
    async with proxy(body, status=status) as (url, _, _closed):
        events = await events_of(ProxyStream(url, "t"))
    assert isinstance(events[-1], StreamError)
    assert events[-1].message.error_message == said
    if body == HELLO[:6]:
        assert get_text(events[-1].message) == "Hel"


async def test_a_proxy_that_is_not_there_is_a_connection_error(runtime):
    """Nothing listens: one event that says so, without the token."""
    async with proxy() as (url, _, _closed):
        pass
    [*_, last] = await events_of(ProxyStream(url, "secret-token"))
    assert isinstance(last, StreamError)
    assert last.message.error_message.startswith("Proxy connection error: ")
    assert "secret-token" not in last.message.error_message


async def test_an_abort_closes_the_connection(tree):
    """The run ends as aborted with what had been said, and the proxy sees its client leave."""
    async with proxy(HELLO[:6], hold=True) as (url, _, closed):
        agent = await ScriptedAgent.start(stream_fn=ProxyStream(url, "t"))
        await Agent.prompt(agent.pid, "go")
        await until(lambda e: isinstance(e, MessageUpdate) and get_text(e.message) == "Hel")
        Agent.abort(agent.pid)
        events = await agent.events()
        await asyncio.wait_for(closed.wait(), 5)
    assert terminal(events).outcome == "aborted"
    assert get_text(answers(events)[0]) == "Hel"


async def test_a_signal_alone_ends_a_stream_as_aborted(runtime):
    """Without an agent around it the stream itself says that it was aborted."""
    signal = AbortSignal()
    async with proxy(HELLO[:6], hold=True) as (url, _, _closed):
        asyncio.get_running_loop().call_later(0.1, signal.abort)
        events = await events_of(ProxyStream(url, "t"), signal)
    assert isinstance(events[-1], StreamError)
    assert (events[-1].reason, events[-1].message.error_message) == ("aborted", "Request aborted by user")


def test_the_request_speaks_the_wires_spelling():
    """camelCase names, a redirected answer as a finished one, tools with their schemas."""
    messages = (
        AssistantMessage((TextContent("x"),), stop_reason="redirected", timestamp=1),
        AssistantMessage((ToolCall("c", "t", {"a": 1}),), stop_reason="tool_use", timestamp=1),
        ToolResultMessage("c", "t", (TextContent("r"),), timestamp=1),
    )
    body = request_body(MODEL, Context(None, messages, (Tool("t", "d"),)), StreamOptions(max_tokens=7, reasoning="low"))
    assert [m.get("stopReason") for m in body["context"]["messages"]] == ["stop", "toolUse", None]
    assert body["context"]["messages"][2]["toolCallId"] == "c"
    assert body["options"] == {"maxTokens": 7, "reasoning": "low"}
    assert body["model"]["contextWindow"] == 0
    assert body["context"]["tools"][0]["name"] == "t"
