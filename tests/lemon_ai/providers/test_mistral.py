"""lemon_ai/providers/mistral*.py: Mistral's chunks of thinking, its nine-character ids, its answers."""

import json
from typing import Any

import pytest

from lemon_ai.errors import AuthFailed, ContentRefused, StreamTruncated
from lemon_ai.messages import (
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from lemon_ai.providers.mistral import encode_call
from lemon_ai.providers.mistral_decode import MistralDecoder
from lemon_ai.providers.mistral_encode import encode_body
from lemon_ai.stream_options import Tool
from tests.lemon_ai.providers.wires import answer, asked, ended, kinds, model, read, sse

Json = dict[str, Any]
OURS = model("mistral_conversations", "mistral")
IMAGE = ImageContent("aGk=")


def chunk(content: Any = None, *, reason: str | None = None, calls: Any = None, **more: Any) -> Json:
    delta = {"content": content} | ({"tool_calls": calls} if calls is not None else {})
    return {"id": "m1", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more}


def call(arguments: Any, call_id: str = "123456789", name: str = "f", **more: Any) -> Json:
    return {"id": call_id, "function": {"name": name, "arguments": arguments}, **more}


def test_content_may_be_a_string_or_a_list_of_chunks():
    """Thinking comes in chunks of chunks, text as a string or as chunks."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "total_tokens": 13,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    events = read(
        MistralDecoder,
        sse(
            chunk(""),
            chunk([thinking]),
            chunk("he"),
            chunk([{"type": "text", "text": "llo"}, {"type": "reference", "reference_ids": [1]}]),
            chunk("", reason="stop", usage=usage),
            "[DONE]",
        ),
    )

    last = ended(events)
    assert kinds(events)[:4] == ["start", "thinking_start", "thinking_delta", "thinking_end"]
    assert last.message.content == (ThinkingContent("hm"), TextContent("hello"))
    counted = last.message.usage
    assert (counted.input, counted.output, counted.cache_read, counted.total_tokens) == (6, 3, 4, 13)


@pytest.mark.requirement("BR-003", "BR-004", "BR-009")
def test_pieces_of_calls_find_their_call():
    """Whole, in pieces with and without an id, with arguments as an object, and two calls without an index."""
    events = sse(
        chunk(calls=[call('{"a"', "aaaaaaaaa", index=0)]),
        chunk(calls=[{"id": "null", "function": {"name": "", "arguments": ": 1}"}}]),
        chunk(calls=[call({"b": 2}, "bbbbbbbbb", "g"), call("", "ccccccccc", "h")], reason="tool_calls"),
        "[DONE]",
    )

    assert ended(read(MistralDecoder, events)).message.content == (
        ToolCall("aaaaaaaaa", "f", {"a": 1}),
        ToolCall("bbbbbbbbb", "g", {"b": 2}),
        ToolCall("ccccccccc", "h", {}),
    )


@pytest.mark.parametrize(
    ("word", "expected"), [("stop", "stop"), ("length", "length"), ("model_length", "length"), ("other", "stop")]
)
def test_why_an_answer_ended(word: str, expected: str):
    """Mistral's words in ours."""
    assert ended(read(MistralDecoder, sse(chunk("x", reason=word)))).message.stop_reason == expected


def test_errors_refusals_and_cuts():
    """An error object in the stream, a reason that is one, and no reason at all."""
    failed = ended(read(MistralDecoder, sse(chunk("x"), {"object": "error", "message": "Unauthorized", "type": "x"})))
    refused = ended(read(MistralDecoder, sse(chunk("x", reason="error"))))
    cut = ended(read(MistralDecoder, sse(chunk("x"))))

    assert isinstance(failed.error, AuthFailed)
    assert isinstance(refused.error, ContentRefused)
    assert isinstance(cut.error, StreamTruncated)


def test_a_completion_in_one_document_is_the_same_message():
    """Without streaming."""
    whole = {
        "id": "m1",
        "choices": [
            {"index": 0, "message": {"content": "hi", "tool_calls": [call("{}")]}, "finish_reason": "tool_calls"}
        ],
    }

    assert ended(read(MistralDecoder, json.dumps(whole).encode())).message.content == (
        TextContent("hi"),
        ToolCall("123456789", "f", {}),
    )


def test_a_conversation_becomes_messages():
    """Thinking as chunks, tool results with their names, images where they were, two answers in a row as one."""
    history = [
        UserMessage((TextContent("look"), IMAGE)),
        answer(OURS, ThinkingContent("hm"), TextContent("so"), ToolCall("aaaaaaaaa", "f", {"x": 1})),
        ToolResultMessage("aaaaaaaaa", "f", (TextContent("one"), IMAGE)),
        answer(OURS, TextContent("a")),
        answer(OURS, TextContent("b")),
    ]
    picture = {"type": "image_url", "image_url": "data:image/png;base64,aGk="}

    assert encode_body(asked(OURS, *history, system="be brief"))["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "look"}, picture]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "so"},
            ],
            "tool_calls": [{"id": "aaaaaaaaa", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}],
        },
        {
            "role": "tool",
            "tool_call_id": "aaaaaaaaa",
            "name": "f",
            "content": [{"type": "text", "text": "one"}, picture],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    ]


def test_foreign_ids_get_nine_characters_and_stay_apart():
    """Ids that begin alike would be one if they were only cut."""
    ids = [f"toolu_aaaaaaaaaaaaaaaa{number}" for number in range(20)]
    history = [answer(model(), *(ToolCall(call_id, "f") for call_id in ids))]

    messages = encode_body(asked(OURS, *history))["messages"]

    made = [tool_call["id"] for tool_call in messages[0]["tool_calls"]]
    assert len(set(made)) == 20
    assert all(len(call_id) == 9 and call_id.isalnum() for call_id in made)
    assert [message["tool_call_id"] for message in messages[1:]] == made


def test_a_model_that_cannot_see_is_told_that_there_was_an_image():
    """A message of an image alone does not vanish."""
    blind = model("mistral_conversations", "mistral", input=("text",))

    (message,) = encode_body(asked(blind, UserMessage((IMAGE,))))["messages"]

    assert message["content"] == [{"type": "text", "text": "(image omitted: model does not support images)"}]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, {"prompt_mode": "reasoning"}), ({"reasoning_efforts": {"high": "high"}}, {"reasoning_effort": "high"})],
)
def test_reasoning_is_asked_for_the_way_the_model_takes_it(changes: Json, expected: Json):
    """A mode for the older ones, an effort for those that list some, nothing when it is off."""
    target = model("mistral_conversations", "mistral", **changes)
    body = encode_body(asked(target, reasoning="high"))

    assert {key: value for key, value in body.items() if "reason" in f"{key}{value}" and key != "model"} == expected
    assert "prompt_mode" not in encode_body(asked(target))


def test_the_call_and_its_fields():
    """The version is in the path once, tools in the common shape."""
    target = model("mistral_conversations", "mistral", base_url="https://api.mistral.ai/v1")

    call = encode_call(asked(target, api_key="k", tools=[Tool("f")], tool_choice="f", max_tokens=5, temperature=0.1))

    assert call.url == "https://api.mistral.ai/v1/chat/completions"
    assert call.headers["authorization"] == "Bearer k"
    assert call.body["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert (call.body["max_tokens"], call.body["temperature"]) == (5, 0.1)
