"""lemon_ai/providers/ollama*.py: lines of JSON, and a server that needs no key."""

import json
from typing import Any

import pytest

from lemon_ai.errors import StreamTruncated
from lemon_ai.messages import (
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from lemon_ai.providers.ollama import encode_call
from lemon_ai.providers.ollama_decode import NdjsonFramer, OllamaDecoder
from lemon_ai.providers.ollama_encode import chat_url, encode_body
from lemon_ai.stream_options import Tool
from tests.lemon_ai.providers.wires import answer, asked, ended, kinds, model, read

Json = dict[str, Any]
OURS = model("ollama_chat", "ollama")
IMAGE = ImageContent("aGk=")


def lines(*documents: Json) -> bytes:
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


def decode(body: bytes, pieces: int | None = None) -> Any:
    return read(OllamaDecoder, body, target=OURS, framer=NdjsonFramer, sniff=False, pieces=pieces)


DONE = {"message": {"content": ""}, "done": True, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 4}


@pytest.mark.parametrize("pieces", [None, 1, 13])
def test_lines_become_events_and_a_message(pieces: int | None):
    """Thinking, text, calls with arguments as objects, the counts in the last line."""
    body = lines(
        {"message": {"thinking": "hm"}},
        {"message": {"content": "é"}},
        {"message": {"content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]}},
        DONE,
    )

    events = decode(body, pieces)

    last = ended(events)
    assert kinds(events)[-4:] == ["tool_call_start", "tool_call_delta", "tool_call_end", "done"]
    thinking, text, call = last.message.content
    assert (thinking, text) == (ThinkingContent("hm"), TextContent("é"))
    assert (call.name, call.arguments) == ("f", {"x": 1})
    assert call.id
    assert (last.reason, last.message.usage.total_tokens) == ("tool_use", 7)


@pytest.mark.parametrize(("word", "expected"), [("stop", "stop"), ("length", "length"), ("load", "stop")])
def test_why_an_answer_ended(word: str, expected: str):
    """Ollama's words in ours."""
    assert ended(decode(lines(DONE | {"done_reason": word}))).message.stop_reason == expected


def test_a_last_line_without_its_end_and_a_document_over_several_lines():
    """Both are read when the bytes end."""
    assert ended(decode(lines(DONE).rstrip())).type == "done"
    assert ended(decode(json.dumps(DONE, indent=1).encode())).type == "done"


def test_errors_and_cuts():
    """An error line, a body that is something else, and no last line."""
    assert "loading" in str(ended(decode(lines({"error": "model is loading"}))).message.error_message)
    assert ended(decode(b"<html>no</html>\n")).type == "error"
    assert isinstance(ended(decode(lines({"message": {"content": "x"}}))).error, StreamTruncated)


def test_a_conversation_becomes_messages():
    """Images beside the text, calls with arguments as objects, results by name and id."""
    history = [
        UserMessage((TextContent("look"), IMAGE)),
        answer(OURS, ThinkingContent("hm"), TextContent("so"), ToolCall("c1", "f", {"x": 1})),
        ToolResultMessage("c1", "f", (TextContent("bad"),), is_error=True),
    ]

    assert encode_body(asked(OURS, *history, system="be brief"), {})["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "look", "images": ["aGk="]},
        {
            "role": "assistant",
            "content": "so",
            "thinking": "hm",
            "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": {"x": 1}}}],
        },
        {"role": "tool", "content": "[tool error] bad", "tool_name": "f", "tool_call_id": "c1"},
    ]


def test_the_fields_of_a_body():
    """Length and temperature are runtime options; the caller's own, such as the context's size, stay."""
    settings = {"options": {"num_ctx": 32_768}, "keep_alive": "5m"}

    body = encode_body(asked(OURS, max_tokens=9, temperature=0.5, tools=[Tool("f")]), settings)

    assert body["options"] == {"num_ctx": 32_768, "num_predict": 9, "temperature": 0.5}
    assert body["keep_alive"] == "5m"
    assert body["tools"][0]["function"]["name"] == "f"
    assert body["think"] is False
    assert "tools" not in encode_body(asked(OURS, tools=[Tool("f")], tool_choice="none"), {})


@pytest.mark.parametrize(
    ("changes", "level", "expected"),
    [
        ({}, "high", {"think": True}),
        ({"reasoning_efforts": {"low": "low", "high": "high"}}, "high", {"think": "high"}),
        ({"reasoning": False}, "high", {}),
    ],
)
def test_thinking_is_yes_no_or_a_word(changes: Json, level: str, expected: Json):
    """The catalogue knows which models take words."""
    body = encode_body(asked(model("ollama_chat", "ollama", **changes), reasoning=level), {})

    assert {key: value for key, value in body.items() if key == "think"} == expected


def test_the_address_may_be_that_of_the_compatible_api():
    """The two stand side by side on one server, and no key is needed."""
    assert chat_url("http://127.0.0.1:11434/v1/") == "http://127.0.0.1:11434/api/chat"
    call = encode_call(asked(OURS))
    assert call.url == "http://127.0.0.1:11434/api/chat"
    assert "authorization" not in call.headers
    assert encode_call(asked(OURS, api_key="k")).headers["authorization"] == "Bearer k"
