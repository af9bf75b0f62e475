"""What went over the wire, in private files, when somebody asks for it."""

from __future__ import annotations

import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from lemon_ai import AuthFailed, Context, Model, StreamOptions, UserMessage, complete
from lemon_ai.http_trace import PREVIEW_BYTES, base36, preview
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.anthropic_messages import AnthropicProvider
from lemon_ai.providers.openai_completions import OpenAICompletionsProvider
from lemon_ai.testing import collect, loopback
from lemon_otp.testing import settle

KEY = "sk-test-0123456789abcdef"
ANSWER = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)
SSE = {"content-type": "text/event-stream", "set-cookie": "session=verysecretvalue"}
REFUSAL = json.dumps({"error": {"message": f"Incorrect key {KEY}", "type": "invalid_request_error", "code": "bad_key"}})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the trace goes; nothing is switched on yet."""
    for name in ("LEMON_AI_HTTP_TRACE", "LEMON_AI_DEBUG", "LEMON_AI_DEBUG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LEMON_AI_HTTP_TRACE_DIR", str(tmp_path / "state" / "logs"))
    return tmp_path / "state" / "logs"


def request(url: str, text: str = "hello", api: str = "openai_completions", **more: Any) -> ProviderRequest:
    model = Model(id="m", api=api, provider="local", base_url=url, max_tokens=100)
    return ProviderRequest(model, Context(None, [UserMessage(text)]), StreamOptions(api_key=KEY, **more))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def modes(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}


async def test_without_the_variable_nothing_is_written(folder: Path) -> None:
    """Not even the folder."""
    async with loopback(200, SSE, ANSWER) as url:
        await collect(OpenAICompletionsProvider(), request(url))
    async with loopback(401, {"content-type": "application/json"}, REFUSAL.encode()) as url:
        with pytest.raises(AuthFailed):
            await collect(OpenAICompletionsProvider(), request(url))
    assert not folder.exists()


async def test_a_call_is_three_lines_under_one_id_in_a_private_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Request, response, end; the caller's own look at body and answer still happens; no credential in it."""
    monkeypatch.setenv("LEMON_AI_HTTP_TRACE", "1")
    seen: list[Any] = []

    def replace(body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "marker": "replaced"}

    async with loopback(200, SSE, ANSWER) as url:
        asked = request(url, on_payload=replace, on_response=lambda status, headers: seen.append(status))
        await collect(OpenAICompletionsProvider(), asked)
    told = lines(folder / "http-trace.jsonl")
    assert [line["event"] for line in told] == ["request", "response", "done"]
    assert len({line["id"] for line in told}) == 1
    assert told[0]["id"].startswith("local-")
    assert '"marker": "replaced"' in told[0]["body"]
    assert (told[1]["status"], told[2]["stop_reason"], seen) == (200, "stop", [200])
    text = (folder / "http-trace.jsonl").read_text()
    assert KEY not in text
    assert "verysecretvalue" not in text
    assert modes(folder) == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (folder, folder.parent)} == {0o700}


async def test_a_refused_request_is_kept_whole_and_the_message_does_not_grow(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For 4xx only: request, status and detail in a file of its own, redacted."""
    async with loopback(401, {"content-type": "application/json"}, REFUSAL.encode()) as url:
        with pytest.raises(AuthFailed) as plain:
            await collect(OpenAICompletionsProvider(), request(url))
        monkeypatch.setenv("LEMON_AI_HTTP_TRACE", "1")
        with pytest.raises(AuthFailed) as traced:
            await collect(OpenAICompletionsProvider(), request(url, "x" * 5000))
    assert str(traced.value) == str(plain.value)
    (path,) = (folder / "http-errors").iterdir()
    assert path.name.startswith("local-401-")
    kept = json.loads(path.read_text())
    assert "x" * 5000 in kept["request"]["body"]
    assert (kept["error_status"], kept["error_detail"]["code"]) == (401, "bad_key")
    assert KEY not in path.read_text()
    assert modes(folder) == {0o600}
    request_line = lines(folder / "http-trace.jsonl")[0]
    assert len(request_line["body"].encode()) < PREVIEW_BYTES + 60
    assert request_line["body"].endswith("more bytes]")

    async with loopback(500, {"content-type": "application/json"}, b"{}") as url:
        with pytest.raises(Exception, match="500"):
            await collect(OpenAICompletionsProvider(), request(url))
    assert len(list((folder / "http-errors").iterdir())) == 1


async def test_documents_are_written_for_debugging_to_the_file_that_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each document of the answer, and nothing else unless the trace is on, too."""
    monkeypatch.setenv("LEMON_AI_DEBUG", "1")
    monkeypatch.setenv("LEMON_AI_DEBUG_FILE", str(tmp_path / "raw" / "wire.jsonl"))
    async with loopback(200, SSE, ANSWER) as url:
        await collect(OpenAICompletionsProvider(), request(url))
    told = lines(tmp_path / "raw" / "wire.jsonl")
    assert [json.loads(line["document"])["choices"][0]["delta"]["content"] for line in told[:2]] == ["Hel", "lo"]
    assert told[2]["document"] == "[DONE]"
    assert not folder.exists()


async def test_every_provider_is_traced_and_a_reader_that_leaves_is_written_down(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages of Anthropic as well; closing the events early says closed, once."""
    monkeypatch.setenv("LEMON_AI_HTTP_TRACE", "true")
    start = {"type": "message_start", "message": {"id": "1", "usage": {"input_tokens": 1, "output_tokens": 1}}}
    body = f"event: message_start\ndata: {json.dumps(start)}\n\n".encode()
    async with loopback(200, SSE, body, then="stall") as url:
        asked = request(url, api="anthropic_messages")
        async with aclosing(AnthropicProvider().stream(asked)) as events:
            await anext(events)
    assert [line["event"] for line in lines(folder / "http-trace.jsonl")] == ["request", "response", "closed"]


async def test_a_folder_that_cannot_be_written_costs_nobody_the_answer(
    ai: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The trace is lost, the call is not."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("LEMON_AI_HTTP_TRACE", "1")
    monkeypatch.setenv("LEMON_AI_HTTP_TRACE_DIR", str(tmp_path / "file" / "logs"))
    async with loopback(200, SSE, ANSWER) as url:
        asked = request(url)
        assert (await complete(asked.model, asked.context, asked.options)).stop_reason == "stop"
    await settle()


def test_previews_cut_between_characters_and_numbers_are_short() -> None:
    """A character of several bytes at the cut is left out, not broken."""
    assert preview("short") == "short"
    cut = preview("é" * 601)
    assert cut.startswith("é" * 600 + "… [2 more bytes]")
    assert (base36(0), base36(35), base36(36)) == ("0", "z", "10")
