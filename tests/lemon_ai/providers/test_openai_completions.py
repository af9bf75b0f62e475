"""Chat Completions over real sockets: the contract, and a server that misbehaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lemon_ai import (
    APPLICATION,
    AuthFailed,
    BadRequest,
    CallDispatcher,
    Compat,
    Config,
    Context,
    Model,
    Provider,
    ProviderError,
    ProviderUnavailable,
    ProviderUnreachable,
    RateLimited,
    RatePolicy,
    StreamDone,
    StreamError,
    StreamOptions,
    StreamTruncated,
    TextDelta,
    Tool,
    UserMessage,
    complete,
    get_text,
    stream,
)
from lemon_ai.providers.http import HttpTransport
from lemon_ai.providers.openai_completions import OpenAICompletionsProvider
from lemon_ai.testing import Case, HttpProviderContract
from lemon_otp import Runtime, ensure_all_started, stop_application
from lemon_otp.testing import settle
from tests.lemon_ai.chaos_server import SSE, Answer, ChaosServer, answer, chunk, dripped, error_answer, sse, text_stream

HELLO = Context("Be brief.", (UserMessage("Hi"),))


def model_at(url: str, **more: Any) -> Model:
    plain = {"id": "gpt-test", "api": "openai_completions", "provider": "local", "base_url": f"{url}/v1"}
    return Model(**{**plain, **more})


def options(**more: Any) -> StreamOptions:
    async def no_wait(seconds: float) -> None:
        await asyncio.sleep(0)

    return StreamOptions(retry_sleep=no_wait, **more)


class TestContract(HttpProviderContract):
    """What every provider must do."""

    def provider(self) -> Provider:
        return OpenAICompletionsProvider()

    def wire(self, name: Case) -> tuple[int, Mapping[str, str], bytes]:
        calls = [
            {"index": 0, "id": "c1", "function": {"name": "ls", "arguments": '{"path"'}},
            {"index": 1, "id": "c2", "function": {"name": "read", "arguments": '{"path": "README.md"}'}},
            {"index": 0, "function": {"arguments": ': "."}'}},
        ]
        hello = [chunk({"content": "Hel"})]
        match name:
            case "text":
                return 200, SSE, text_stream("Hello ", "world")
            case "tools":
                return 200, SSE, sse(*[chunk({"tool_calls": [call]}) for call in calls], chunk(finish="tool_calls"))
            case "auth":
                said = {"error": {"message": f"Incorrect API key provided: {self.secret}", "code": "invalid_api_key"}}
                return 401, {"content-type": "application/json"}, json.dumps(said).encode()
            case "rate_limit":
                return 429, {"retry-after": "7"}, b'{"error": {"message": "slow down"}}'
            case "truncated":
                return 200, SSE, sse(*hello, chunk({"tool_calls": calls[:1]}), done=False)
            case "stalled":
                return 200, SSE, sse(*hello, done=False)


async def test_the_request_is_what_the_server_expects() -> None:
    """Path, key, body, and headers of the caller above all others."""
    async with ChaosServer(answer(text_stream("ok"))) as server, Runtime():
        await ensure_all_started(APPLICATION)
        model = model_at(server.url, headers={"X-Model": "m", "x-both": "model"})
        given = options(api_key="k-12345", headers={"X-Both": "caller"}, max_tokens=7, temperature=0.5)
        await complete(model, Context("Be brief.", (UserMessage("Hi"),), (Tool("ls"),)), given)
        await stop_application("lemon_ai")
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == "Bearer k-12345"
    assert (request.headers["x-model"], request.headers["x-both"]) == ("m", "caller")
    body = request.json()
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert (body["stream"], body["max_tokens"], body["temperature"]) == (True, 7, 0.5)
    assert body["tools"][0]["function"]["name"] == "ls"


async def test_a_server_on_this_machine_needs_no_key_and_gets_none_of_another_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """OPENAI_API_KEY does not go to whatever listens on a local port."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-users-own-key-0123")
    async with ChaosServer(answer(text_stream("ok"))) as server, Runtime():
        await ensure_all_started(APPLICATION)
        assert get_text(await complete(model_at(server.url), HELLO)) == "ok"
        await stop_application("lemon_ai")
    assert "authorization" not in server.requests[0].headers


WHOLE = text_stream("Hello ", "world")
HALF = sse(chunk({"content": "Hel"}), done=False)

CHAOS: list[tuple[str, Answer, type | str]] = [
    ("dripped byte by byte", Answer(dripped(WHOLE)), "Hello world"),
    ("in pieces of seven, with pauses", Answer(dripped(WHOLE, size=7, pause_s=0.001)), "Hello world"),
    ("labelled as JSON", answer(WHOLE, headers={"content-type": "application/json"}), "Hello world"),
    ("without a label", answer(WHOLE, headers={}), "Hello world"),
    ("with a retry-after on a success", answer(WHOLE, headers={**SSE, "retry-after": "60"}), "Hello world"),
    ("ended by closing", Answer((WHOLE,), framing="close"), "Hello world"),
    ("no end marker", answer(sse(chunk({"content": "Hello world"}, finish="stop"), done=False)), "Hello world"),
    ("no finish reason", answer(sse(chunk({"content": "Hello world"}))), "Hello world"),
    (
        "reset after the finish reason",
        Answer((sse(chunk({"content": "Hello world"}, finish="stop"), done=False), "reset")),
        "Hello world",
    ),
    (
        "a length that promises more, after the end",
        Answer((WHOLE, "close"), framing="length", length=99_999),
        "Hello world",
    ),
    ("neither", answer(HALF), StreamTruncated),
    ("reset in the middle", Answer((HALF, 0.05, "reset")), StreamTruncated),
    ("closed in the middle of a chunked body", Answer((HALF, "close")), StreamTruncated),
    ("a length that promises more", Answer((HALF, "close"), framing="length", length=99_999), StreamTruncated),
    ("a length that hides the end", Answer((WHOLE,), framing="length", length=40), StreamTruncated),
    ("stalled in the middle", Answer((HALF, "stall")), ProviderUnreachable),
    ("stalled before the first byte", Answer(("stall",), raw=b""), ProviderUnreachable),
    ("closed without an answer", Answer(("close",), raw=b""), ProviderUnreachable),
    ("no HTTP at all", Answer(("close",), raw=b"SSH-2.0-OpenSSH_9.2\r\n"), ProviderUnreachable),
    ("an empty success", answer(b""), StreamTruncated),
    ("garbage", answer(b"\x00\x01\xff" * 100), StreamTruncated),
    ("bad gzip", answer(b"not gzip at all", headers={**SSE, "content-encoding": "gzip"}), StreamTruncated),
    (
        "an HTML page",
        answer(b"<!DOCTYPE html><title>Login</title>", headers={"content-type": "text/html"}),
        ProviderUnavailable,
    ),
    (
        "an error object behind a success",
        answer(b'{"error": {"message": "bad", "type": "invalid_request_error"}}'),
        BadRequest,
    ),
    (
        "an error in the stream",
        answer(sse(chunk({"content": "x"}), {"error": {"message": "overloaded"}})),
        ProviderUnavailable,
    ),
    ("500 with a page", answer(b"<html><title>Oops</title></html>", status=500), ProviderError),
    ("401", error_answer(401, {"error": {"message": "bad key"}}), AuthFailed),
    ("429 with a hint", error_answer(429, {"error": {"message": "slow"}}, {"retry-after": "7"}), RateLimited),
    ("529", error_answer(529, {"error": {"type": "overloaded_error", "message": "Overloaded"}}), ProviderUnavailable),
    ("a redirect", error_answer(308, {}, {"location": "https://elsewhere.example/"}), BadRequest),
    ("an error body cut short", Answer((b'{"error": {"mess', "close"), 400, framing="length", length=500), BadRequest),
]


@pytest.mark.parametrize(("plan", "outcome"), [row[1:] for row in CHAOS], ids=[row[0] for row in CHAOS])
async def test_whatever_a_server_does_ends_as_an_answer_or_a_classified_error(plan: Answer, outcome: Any) -> None:
    """Never a hang, never half an answer as a whole one; the socket is closed and the slot is free afterwards."""
    async with ChaosServer(plan) as server, Runtime():
        await ensure_all_started(APPLICATION)
        running = await stream(model_at(server.url), HELLO, options(max_retries=0, timeout_ms=300))
        events = [event async for event in running.events()]
        last = events[-1]
        if isinstance(outcome, str):
            assert isinstance(last, StreamDone), last
            assert get_text(last.message) == outcome
        else:
            assert isinstance(last, StreamError), last
            assert isinstance(last.error, outcome), last.error
            assert last.message.stop_reason == "error"
            assert last.message.error_message == str(last.error)
        await settle()
        assert not any((await CallDispatcher.get_state()).active.values())
        await stop_application("lemon_ai")
        await server.until(lambda: server.open_connections == 0)


async def test_a_connection_lost_before_any_content_is_tried_again() -> None:
    """Twice reset, then an answer: the reader sees one start and the whole text."""
    plans = [Answer(("reset",)), Answer((b": still working\n\n", "reset")), answer(WHOLE)]
    async with ChaosServer(*plans) as server, Runtime():
        await ensure_all_started(APPLICATION)
        running = await stream(model_at(server.url), HELLO, options())
        events = [event async for event in running.events()]
        assert [event.type for event in events].count("start") == 1
        assert get_text(events[-1].message) == "Hello world"
        assert len(server.requests) == 3
        await stop_application("lemon_ai")


async def test_a_429_with_a_long_hint_comes_out_at_once_with_the_wait() -> None:
    """One request, an error that says how long."""
    plan = error_answer(429, {"error": {"message": "monthly limit"}}, {"retry-after": "1382400"})
    async with ChaosServer(plan) as server, Runtime():
        await ensure_all_started(APPLICATION)
        with pytest.raises(RateLimited, match="16 days"):
            await complete(model_at(server.url), HELLO, options())
        assert len(server.requests) == 1
        await stop_application("lemon_ai")


async def test_nobody_listening_is_said_in_one_line() -> None:
    """The address is named; no traceback, no key."""
    async with ChaosServer(answer(b"")) as server:
        url = server.url
    async with Runtime():
        await ensure_all_started(APPLICATION)
        with pytest.raises(ProviderUnreachable) as failed:
            await complete(model_at(url), HELLO, options(max_retries=0))
        assert url.removeprefix("http://") in str(failed.value)
        assert "\n" not in str(failed.value)
        with pytest.raises(BadRequest, match="cannot be called"):
            await complete(model_at("not a url"), HELLO, options(api_key="k-12345", max_retries=0))
        await stop_application("lemon_ai")


@pytest.mark.requirement("AI-4")
async def test_canceling_closes_the_socket_promptly() -> None:
    """The server sees the connection end while it still streams."""
    async with ChaosServer(Answer((HALF, "stall"))) as server, Runtime():
        await ensure_all_started(APPLICATION)
        running = await stream(model_at(server.url), HELLO)
        async for event in running.events():
            if isinstance(event, TextDelta):
                break
        running.cancel("user_abort")
        await server.until(lambda: server.ended_by_peer == 1, timeout_s=2)
        await stop_application("lemon_ai")


async def test_connections_that_ended_well_are_used_again_and_closed_with_the_application() -> None:
    """Ten calls in a row need one connection."""
    async with ChaosServer(Answer((WHOLE,))) as server, Runtime():
        await ensure_all_started(APPLICATION)
        for _ in range(10):
            await complete(model_at(server.url), HELLO)
        assert server.open_connections == 1
        assert len(server.requests) == 10
        await stop_application("lemon_ai")
        await server.until(lambda: server.open_connections == 0)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_thousand_aborted_streams_leave_no_socket_behind() -> None:
    """Open files are what they were; no worker runs; no slot is held."""
    config = Config(limiter=RatePolicy(1e6, 1e6))
    application = APPLICATION.__class__("lemon_ai", APPLICATION.start, env={"admission": config}, stop=APPLICATION.stop)
    async with ChaosServer(Answer((HALF, "stall"))) as server, Runtime():
        await ensure_all_started(application)
        await CallDispatcher.set_concurrency_cap("local", 50)
        model = model_at(server.url)
        before = 0
        for number in range(21):
            before = open_files() if number == 1 else before  # the first round opens what is opened once
            running = [await stream(model, HELLO) for _ in range(50)]
            for one in running:
                async for event in one.events():
                    if isinstance(event, TextDelta):
                        break
                one.cancel("user_abort")
            await server.until(lambda: server.open_connections == 0, timeout_s=30)
        await settle()
        assert len(server.requests) == 1050
        assert open_files() <= before + 2
        assert not any((await CallDispatcher.get_state()).active.values())
        await stop_application("lemon_ai")


async def test_a_body_may_be_replaced_and_an_answer_be_seen() -> None:
    """`on_payload` and `on_response`."""
    seen: list[Any] = []
    async with ChaosServer(answer(WHOLE)) as server, Runtime():
        await ensure_all_started(APPLICATION)
        given = options(
            on_payload=lambda body: {**body, "seed": 7},
            on_response=lambda status, headers: seen.append((status, headers["content-type"])),
        )
        await complete(model_at(server.url), HELLO, given)
        await stop_application("lemon_ai")
    assert server.requests[0].json()["seed"] == 7
    assert seen == [(200, "text/event-stream")]


async def test_a_provider_works_without_any_application() -> None:
    """One instance, plain asyncio, nothing to close."""
    async with ChaosServer(Answer((WHOLE,))) as server:
        provider = OpenAICompletionsProvider(HttpTransport())
        from lemon_ai import ProviderRequest

        request = ProviderRequest(model_at(server.url, compat=Compat(supports_store=True)), HELLO)
        events = [event async for event in provider.stream(request)]
        assert isinstance(events[-1], StreamDone)
        await server.until(lambda: server.open_connections == 0)
