"""Any history, whoever made it, is accepted by every encoder: the rules each service enforces, checked on its body."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import evolve, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lemon_ai.errors import BadRequest
from lemon_ai.messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from lemon_ai.models.model import Model
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers import (
    anthropic_encode,
    bedrock_encode,
    google_encode,
    mistral_encode,
    ollama_encode,
    openai_codex,
    openai_responses_encode,
)
from lemon_ai.providers.openai_compat import dialect_of
from lemon_ai.providers.openai_completions_encode import encode_body as encode_completions
from lemon_ai.stream_options import Context, Tool
from tests.lemon_ai.providers.wires import model

Json = dict[str, Any]

# Who may have spoken before, with ids as each of them makes them.
SPEAKERS: dict[str, tuple[Model, st.SearchStrategy[str]]] = {
    "anthropic": (
        model(),
        st.from_regex(r"toolu_[A-Za-z0-9]{4,24}", fullmatch=True),
    ),
    "completions": (
        model("openai_completions", "openai"),
        st.from_regex(r"call_[A-Za-z0-9]{4,24}", fullmatch=True),
    ),
    "kimi": (
        model("openai_completions", "kimi"),
        st.sampled_from(["functions.add:0", "functions.add:1", "call-a", "0", ""]),
    ),
    "responses": (
        model("openai_responses", "openai"),
        st.from_regex(r"call_[a-z0-9]{4,8}\|fc_[a-f0-9]{4,70}", fullmatch=True),
    ),
    "google": (
        model("google_generative_ai", "google", reasoning_efforts={"low": "LOW", "high": "HIGH"}),
        st.from_regex(r"call_stream_[0-3]", fullmatch=True),
    ),
    "mistral": (
        model("mistral_conversations", "mistral"),
        st.from_regex(r"[A-Za-z0-9]{9}", fullmatch=True),
    ),
    "bedrock": (
        model("bedrock_converse_stream", "amazon_bedrock"),
        st.from_regex(r"tooluse_[A-Za-z0-9_-]{4,70}", fullmatch=True),
    ),
    "ollama": (
        model("ollama_chat", "ollama"),
        st.sampled_from(["call_a", "call_b", ""]),
    ),
}
TEXT = st.text(max_size=12) | st.sampled_from(["", " ", "lone \ud83d half", "\u0000", "e\u0301"])
SIGNATURE = st.none() | st.sampled_from(["c2ln", "item_1", '{"v":1,"id":"msg_1","phase":"commentary"}', "not base64!"])
IMAGE = st.builds(ImageContent, st.just("aGk="), st.sampled_from(["image/png", "image/jpeg"]))
ARGUMENTS = st.dictionaries(TEXT, TEXT | st.integers() | st.none() | st.lists(TEXT, max_size=2), max_size=3)
REASONING_ITEM = json.dumps({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"})


@st.composite
def histories(draw: st.DrawFn) -> list[Any]:
    """Turns of several speakers: calls answered or not, results of nobody, failures, images, blanks."""
    history: list[Any] = []
    ids: list[str] = ["orphan"]
    for _ in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(["user", "blocks", "answer", "answer", "result"]))
        if kind == "user":
            history.append(UserMessage(draw(TEXT), timestamp=1))
        elif kind == "blocks":
            content = draw(st.lists(st.builds(TextContent, TEXT) | IMAGE, max_size=3))
            history.append(UserMessage(content, timestamp=1))
        elif kind == "result":
            content = draw(st.lists(st.builds(TextContent, TEXT) | IMAGE, max_size=2))
            call_id = draw(st.sampled_from(ids))
            history.append(ToolResultMessage(call_id, draw(TEXT), content, is_error=draw(st.booleans()), timestamp=1))
        else:
            message = draw(answers())
            ids += [block.id for block in message.content if isinstance(block, ToolCall)]
            history.append(message)
    return history


@st.composite
def answers(draw: st.DrawFn) -> AssistantMessage:
    """One answer of one of the speakers."""
    speaker, call_ids = SPEAKERS[draw(st.sampled_from(sorted(SPEAKERS)))]
    names = st.sampled_from(["read", "write file", "t\ud800"])
    call = st.builds(ToolCall, call_ids, names, ARGUMENTS, SIGNATURE, st.none() | st.just('{"half'))
    thinking = st.builds(ThinkingContent, TEXT, SIGNATURE | st.just(REASONING_ITEM), st.booleans())
    content = draw(st.lists(st.builds(TextContent, TEXT, SIGNATURE) | thinking | call, max_size=5))
    return AssistantMessage(
        content,
        api=speaker.api,
        provider=speaker.provider,
        model=draw(st.sampled_from([speaker.id, "an-older-model"])),
        stop_reason=draw(st.sampled_from(["stop", "tool_use", "length", "error", "aborted"])),
        timestamp=1,
    )


@frozen
class Target:
    """A wire: how a request is encoded for it, and what its service refuses."""

    name: str
    speaker: str
    encode: Callable[[ProviderRequest], Json]
    check: Callable[[Json], None]


def check_anthropic(body: Json) -> None:
    """Turns alternate from the user on, nothing is empty, results come first and answer exactly the calls before."""
    turns = body["messages"]
    assert [turn["role"] for turn in turns] == [("user", "assistant")[place % 2] for place in range(len(turns))]
    open_calls: list[str] = []
    seen: set[str] = set()
    for turn in turns:
        blocks = turn["content"]
        assert blocks
        if isinstance(blocks, str):
            assert not open_calls
            assert blocks.strip()
            continue
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert sorted(answered) == sorted(open_calls)
        assert [block["type"] for block in blocks[: len(answered)]] == ["tool_result"] * len(answered)
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call_id) for call_id in open_calls)
        assert not seen.intersection(open_calls)
        seen.update(open_calls)
    assert not open_calls


def check_bedrock(body: Json) -> None:
    """The same, in Converse's words; and a history with calls brings a tool configuration."""
    turns = body["messages"]
    assert [turn["role"] for turn in turns] == [("user", "assistant")[place % 2] for place in range(len(turns))]
    open_calls: list[str] = []
    any_call = False
    for turn in turns:
        blocks = turn["content"]
        assert blocks
        assert sorted(b["toolResult"]["toolUseId"] for b in blocks if "toolResult" in b) == sorted(open_calls)
        assert all(b["toolResult"]["content"] for b in blocks if "toolResult" in b)
        open_calls = [block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block]
        assert len(set(open_calls)) == len(open_calls)
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call_id) for call_id in open_calls)
        any_call = any_call or bool(open_calls)
    assert not open_calls
    assert not any_call or body["toolConfig"]["tools"]


def check_google(body: Json) -> None:
    """Turns alternate from the user on; a turn of calls is followed by as many responses, of the same names."""
    turns = body["contents"]
    assert [turn["role"] for turn in turns] == [("user", "model")[place % 2] for place in range(len(turns))]
    names: list[str] = []
    for turn in turns:
        assert turn["parts"]
        assert all(part.get("text", "x").strip() or "thoughtSignature" in part for part in turn["parts"])
        answered = [part["functionResponse"]["name"] for part in turn["parts"] if "functionResponse" in part]
        assert len(answered) == len(names)
        names = [part["functionCall"]["name"] for part in turn["parts"] if "functionCall" in part]
    assert not names


def _check_chat(messages: list[Json], call_id: str) -> None:
    """Chat Completions and its kin: results directly after their calls, one for each, and no empty messages."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            open_calls.remove(message[call_id])
            assert message["content"] is not None
            continue
        assert not open_calls
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
        assert len(set(open_calls)) == len(open_calls)
        assert open_calls or message["content"] or message.get("thinking") or message.get("images")
    assert not open_calls


def check_completions(body: Json) -> None:
    _check_chat(body["messages"], "tool_call_id")
    for call in _calls(body):
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
        assert len(call["id"]) <= 40


def check_mistral(body: Json) -> None:
    _check_chat(body["messages"], "tool_call_id")
    for call in _calls(body):
        assert re.fullmatch(r"[A-Za-z0-9]{9}", call["id"])
        assert isinstance(json.loads(call["function"]["arguments"]), dict)


def check_ollama(body: Json) -> None:
    _check_chat(body["messages"], "tool_call_id")
    for call in _calls(body):
        assert isinstance(call["function"]["arguments"], dict)


def _calls(body: Json) -> Iterator[Json]:
    for message in body["messages"]:
        yield from message.get("tool_calls") or ()


def check_responses(body: Json) -> None:
    """Every call is answered once and later, ids are short, no reasoning stands alone, no item is there twice."""
    calls: set[str] = set()
    outputs: set[str] = set()
    items = body["input"]
    for place, item in enumerate(items):
        match item.get("type"):
            case "function_call":
                assert item["call_id"] not in calls
                assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", item["call_id"])
                assert len(item.get("id", "")) <= 80
                assert isinstance(json.loads(item["arguments"]), dict)
                calls.add(item["call_id"])
            case "function_call_output":
                assert item["call_id"] in calls - outputs
                outputs.add(item["call_id"])
            case "reasoning":
                assert items[place + 1]["type"] in ("reasoning", "message", "function_call")
            case "message":
                assert len(item["id"]) <= 64
                assert all(part["text"] for part in item["content"])
            case None:
                assert item["content"]
    assert calls == outputs


TARGETS = (
    Target("anthropic_messages", "anthropic", anthropic_encode.encode_body, check_anthropic),
    Target("bedrock_converse_stream", "bedrock", lambda asked: bedrock_encode.encode_body(asked, {}), check_bedrock),
    Target("google_generative_ai", "google", google_encode.encode_body, check_google),
    Target("mistral_conversations", "mistral", mistral_encode.encode_body, check_mistral),
    Target("ollama_chat", "ollama", lambda asked: ollama_encode.encode_body(asked, {}), check_ollama),
    Target(
        "openai_completions",
        "completions",
        lambda asked: encode_completions(asked, dialect_of(asked.model, "https://api.openai.com/v1")),
        check_completions,
    ),
    Target(
        "openai_responses",
        "responses",
        lambda asked: openai_responses_encode.encode_body(asked, {}),
        check_responses,
    ),
    Target("openai_codex_responses", "responses", openai_codex.encode_body, check_responses),
)


@pytest.mark.parametrize("sees", [True, False], ids=["sees", "blind"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories())
def test_any_history_is_encoded_to_what_the_service_accepts(target: Target, sees: bool, history: list[Any]):
    """
    Pairing, ids, alternation, non-empty content: whatever was said by whom, and however it ended. The only other
    outcome is that nothing was left to send, which is said before anything is sent.
    """
    speaker, _ = SPEAKERS[target.speaker]
    speaker = evolve(speaker, api=target.name, input=("text", "image") if sees else ("text",))
    asked = ProviderRequest(speaker, Context("be brief", tuple(history), (Tool("read", "reads"),)))

    try:
        body = target.encode(asked)
    except BadRequest:
        return

    json.dumps(body, ensure_ascii=False).encode()
    target.check(body)
    if not sees:
        assert "aGk=" not in json.dumps(body)
