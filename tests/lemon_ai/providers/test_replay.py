"""A recorded conversation, said again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lemon_ai import (
    AssistantMessage,
    BadScript,
    Context,
    Fold,
    Model,
    Provider,
    ProviderRequest,
    StreamDone,
    StreamError,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
    UserMessage,
    complete,
    find_model,
    get_text,
    message_to_wire,
)
from lemon_ai.providers.replay import ReplayProvider, read_recording, replayed
from lemon_ai.testing import Case, ProviderContract, check_events, collect

SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "samples" / "pi"


def answer(*content: Any, **more: Any) -> dict[str, Any]:
    return message_to_wire(AssistantMessage(content, "anthropic_messages", "anthropic", "claude", **more))


def recording(folder: Path, *answers: dict[str, Any]) -> Path:
    """A session file of these answers, each after a prompt, with lines of other kinds between."""
    lines: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": "s", "cwd": "/"}]
    for number, message in enumerate(answers):
        lines.append({"type": "message", "id": f"u{number}", "message": {"role": "user", "content": "hi"}})
        lines.append({"type": "message", "id": f"a{number}", "message": message})
        lines.append({"type": "model_change", "id": f"m{number}", "provider": "x", "modelId": "y"})
    path = folder / "session.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + '\nnot json\n{"torn')
    return path


def request(path: Path, *said: Any) -> ProviderRequest:
    return ProviderRequest(find_model(f"replay/{path}"), Context(None, (UserMessage("hi"), *said)))


async def test_answers_come_in_their_order_one_a_call(tmp_path: Path) -> None:
    """The number of answers in the conversation says which is next; failed ones do not count."""
    path = recording(tmp_path, answer(TextContent("one")), answer(TextContent("two")))
    first = (await collect(ReplayProvider(), request(path)))[-1]
    assert get_text(first.message) == "one"
    failed = AssistantMessage(stop_reason="error")
    second = (await collect(ReplayProvider(), request(path, failed, first.message, UserMessage("x"))))[-1]
    assert get_text(second.message) == "two"
    with pytest.raises(BadScript, match="all have been said"):
        await collect(ReplayProvider(), request(path, first.message, second.message))


async def test_an_answer_is_the_recorded_one_in_pieces(tmp_path: Path) -> None:
    """Blocks, signatures, ids, usage and end; stamped as the replaying model."""
    content = (
        ThinkingContent("Let me see what there is", "sig"),
        ThinkingContent("", "opaque", redacted=True),
        TextContent("Here it comes, in some pieces", "item"),
        ToolCall("c1", "read", {"path": "a"}, "thought"),
        ToolCall("c2", "write", {}, invalid='{"half'),
    )
    path = recording(tmp_path, answer(*content, stop_reason="tool_use", usage=Usage(1, 2, 3, 4, 10), response_id="r"))
    events = await collect(ReplayProvider(), request(path))
    check_events(events)
    done = events[-1]
    assert isinstance(done, StreamDone)
    assert done.message.content == content
    assert (done.reason, done.message.response_id, done.message.provider) == ("tool_use", "r", "replay")
    assert (done.message.usage.input, done.message.usage.cache_write, done.message.usage.total_tokens) == (1, 4, 10)
    assert len(events) > 20


async def test_a_recorded_failure_fails_again(tmp_path: Path) -> None:
    """With its words, classified; an abort is an abort."""
    path = recording(tmp_path, answer(stop_reason="error", error_message="Overloaded, HTTP 529"))
    failed = (await collect(ReplayProvider(), request(path)))[-1]
    assert isinstance(failed, StreamError)
    assert failed.error is not None
    assert "Overloaded" in str(failed.error)
    path = recording(tmp_path, answer(TextContent("so f"), stop_reason="aborted"))
    aborted = (await collect(ReplayProvider(), request(path)))[-1]
    assert (aborted.type, aborted.reason, get_text(aborted.message)) == ("error", "aborted", "so f")


async def test_recorded_events_are_a_recording_too(tmp_path: Path) -> None:
    """A line an event, of which the terminal ones count; bare messages as well."""
    events = [
        {"type": "start"},
        {"type": "text_delta", "delta": "o", "message": answer(TextContent("o"))},
        {"type": "done", "message": answer(TextContent("one"))},
        answer(TextContent("two")),
    ]
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(map(json.dumps, events)))
    assert [get_text(message) for message in read_recording(path)] == ["one", "two"]


def test_a_file_without_an_answer_is_named(tmp_path: Path) -> None:
    """Missing, or of another kind."""
    with pytest.raises(BadScript, match="cannot be read"):
        read_recording(tmp_path / "none.jsonl")
    (tmp_path / "text.txt").write_text("no recording")
    with pytest.raises(BadScript, match="no answer"):
        read_recording(tmp_path / "text.txt")


def test_every_sample_session_can_be_replayed() -> None:
    """Sessions other programs wrote play to their ends, each answer as it was recorded."""
    files = sorted(SAMPLES.glob("*.jsonl"))
    assert files
    model = Model(id="f", api="replay", provider="replay")
    played = 0
    for file in files:
        try:
            messages = read_recording(file)
        except BadScript:
            continue
        for message in messages:
            events = [event for some in replayed(message, Fold(model)) for event in some]
            check_events(events)
            assert events[-1].message.content == message.content or message.stop_reason not in ("stop", "tool_use")
            played += 1
    assert played > 100


async def test_a_recording_plays_through_the_whole_road(ai: Any, tmp_path: Path) -> None:
    """By the name of its file."""
    path = recording(tmp_path, answer(TextContent("said again")))
    assert get_text(await complete(f"replay/{path}", Context(None, (UserMessage("hi"),)))) == "said again"


class TestContract(ProviderContract):
    """What every provider must do."""

    def case(self, name: Case) -> AbstractAsyncContextManager[tuple[Provider, ProviderRequest]]:
        return self._case(name)

    @asynccontextmanager
    async def _case(self, name: Case) -> AsyncIterator[tuple[Provider, ProviderRequest]]:
        from tempfile import TemporaryDirectory

        from lemon_otp import Runtime

        recorded = {
            "text": answer(TextContent("Hello world"), usage=Usage(10, 5, 0, 0, 15)),
            "tools": answer(
                ToolCall("a", "ls", {"path": "."}), ToolCall("b", "read", {"path": "README.md"}), stop_reason="tool_use"
            ),
            "auth": answer(stop_reason="error", error_message="HTTP 401: invalid api key"),
            "rate_limit": answer(stop_reason="error", error_message="Rate limit hit. Please try again in 7s."),
            "truncated": answer(
                TextContent("Hel"), ToolCall("a", "bash", {}, invalid='{"command": "rm'), stop_reason="error"
            ),
            "stalled": answer(TextContent("Hel ")),
        }
        with TemporaryDirectory() as folder:
            path = recording(Path(folder), recorded[name])
            async with Runtime():
                provider = ReplayProvider(chunk_delay_ms=50 if name == "stalled" else 0)
                yield provider, request(path)
