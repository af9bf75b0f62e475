"""lemon_ai/providers/google_decode.py and google_arguments.py: what Gemini's chunks mean."""

import json
from typing import Any

import pytest

from lemon_ai.errors import BadRequest, ContentRefused, StreamTruncated
from lemon_ai.messages import TextContent, ThinkingContent, ToolCall
from lemon_ai.providers.google_arguments import ArgumentsBuilder, parse_path
from lemon_ai.providers.google_decode import GoogleDecoder
from lemon_ai.providers.google_gemini_cli import CodeAssistDecoder
from tests.lemon_ai.providers.wires import ended, kinds, read, sse

Json = dict[str, Any]


def chunk(*parts: Json, reason: str | int | None = None, **more: Any) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    return {"candidates": [candidate | ({"finishReason": reason} if reason is not None else {})], **more}


def call(**what: Any) -> Json:
    return {"functionCall": what}


def test_parts_become_blocks_and_signatures_stay_with_them():
    """A signature on a text does not make it a thought; the last one of a block counts."""
    events = read(
        GoogleDecoder,
        sse(
            chunk({"text": "hm", "thought": True}, responseId="r1"),
            chunk({"text": "so"}),
            chunk({"text": " it is", "thoughtSignature": "c2lnMQ=="}),
            chunk({"text": "", "thoughtSignature": "c2lnMg=="}, reason="STOP"),
        ),
    )

    last = ended(events)
    assert kinds(events) == [
        "start",
        *("thinking_start", "thinking_delta", "thinking_end"),
        *("text_start", "text_delta", "text_delta", "text_end"),
        "done",
    ]
    assert last.message.content == (ThinkingContent("hm"), TextContent("so it is", "c2lnMg=="))
    assert (last.reason, last.message.response_id) == ("stop", "r1")


def test_a_call_comes_at_once_and_has_an_id_of_ours_where_it_brings_none():
    """Start, one delta with all of the arguments, end; the ids of two calls differ, and from those of the history."""
    events = read(
        GoogleDecoder,
        sse(
            chunk(call(name="a", args={"x": 1}), {"functionCall": {"name": "b"}, "thoughtSignature": "c2ln"}),
            chunk(call(id="given", name="c", args={}), reason="STOP"),
        ),
        taken_ids=("call_stream_0",),
    )

    first, second, third = ended(events).message.content
    assert kinds(events)[1:4] == ["tool_call_start", "tool_call_delta", "tool_call_end"]
    assert (first.name, first.arguments) == ("a", {"x": 1})
    assert (second.arguments, second.thought_signature) == ({}, "c2ln")
    assert third.id == "given"
    assert len({first.id, second.id, third.id, "call_stream_0"}) == 4
    assert ended(events).reason == "tool_use"


def test_arguments_that_come_in_parts_are_put_together():
    """By path, strings in pieces, until a part says that nothing follows."""
    events = sse(
        chunk(call(name="a", willContinue=True)),
        chunk(
            call(
                partialArgs=[{"jsonPath": "$.items[0].name", "stringValue": "ap", "willContinue": True}],
                willContinue=True,
            )
        ),
        chunk(call(partialArgs=[{"jsonPath": "$.items[0].name", "stringValue": "ple"}], willContinue=True)),
        chunk(call(partialArgs=[{"jsonPath": "$.items[1].price", "numberValue": 0.5}], willContinue=True)),
        chunk(
            call(partialArgs=[{"jsonPath": "$.ok", "boolValue": True}, {"jsonPath": "$.no", "nullValue": "NULL_VALUE"}])
        ),
        chunk(call(name="b", willContinue=True)),
        chunk(call()),
        chunk({"text": ""}, reason="STOP"),
    )

    first, second = ended(read(GoogleDecoder, events)).message.content

    assert first.arguments == {"items": [{"name": "apple"}, {"price": 0.5}], "ok": True, "no": None}
    assert (second.name, second.arguments, second.invalid) == ("b", {}, None)


@pytest.mark.parametrize("reason", ["MAX_TOKENS", None])
def test_arguments_that_stopped_half_way_are_marked(reason: str | None):
    """What came is shown; the call does not run."""
    events = sse(
        chunk(call(name="rm", willContinue=True)),
        chunk(
            call(partialArgs=[{"jsonPath": "$.path", "stringValue": "/tm", "willContinue": True}], willContinue=True)
        ),
        chunk(reason=reason),
    )

    last = ended(read(GoogleDecoder, events))

    (cut,) = last.message.content
    assert cut.invalid is not None
    assert last.message.stop_reason == ("length" if reason else "error")


def test_a_piece_without_a_place_breaks_the_call_and_nothing_else():
    """A path that is none, or that leads through a string."""
    events = sse(
        chunk(
            call(
                name="a", partialArgs=[{"jsonPath": "$.x", "stringValue": "s"}, {"jsonPath": "$.x.y", "numberValue": 1}]
            )
        ),
        chunk({"text": "on"}, reason="STOP"),
    )

    broken, text = ended(read(GoogleDecoder, events)).message.content

    assert broken.invalid is not None
    assert text == TextContent("on")


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$", ()),
        ("$.a", ("a",)),
        ("$.a[0][2].b-c", ("a", 0, 2, "b-c")),
        ("$['two words'].x", ("two words", "x")),
        ('$["q"]', ("q",)),
    ],
)
def test_a_path_is_read_as_steps(path: str, steps: tuple[str | int, ...]):
    """Keys with dots, in brackets and quotes, and positions."""
    assert parse_path(path) == steps


@pytest.mark.parametrize("path", ["$..a", "$.a[*]", "$.a[-1]", "$.", "$.a["])
def test_a_path_that_selects_is_no_place(path: str):
    """Only a plain path names one place."""
    with pytest.raises(ValueError, match="plain JSON path"):
        parse_path(path)


def test_a_position_far_away_is_refused_rather_than_filled():
    """One number in a stream must not take all memory."""
    builder = ArgumentsBuilder()

    builder.add({"jsonPath": "$.a[999999999]", "numberValue": 1})

    assert builder.broken


@pytest.mark.parametrize(
    ("reason", "expected"), [("STOP", "stop"), (1, "stop"), ("MAX_TOKENS", "length"), (2, "length")]
)
def test_why_an_answer_ended_in_words_and_in_numbers(reason: str | int, expected: str):
    """Some clients ask for numbers."""
    assert ended(read(GoogleDecoder, sse(chunk({"text": "x"}, reason=reason)))).message.stop_reason == expected


@pytest.mark.parametrize("reason", ["SAFETY", "RECITATION", "MALFORMED_FUNCTION_CALL", 3])
def test_any_other_reason_is_an_error_even_with_calls(reason: str | int):
    """The calls of such an answer do not run."""
    last = ended(read(GoogleDecoder, sse(chunk(call(name="a", args={}), reason=reason))))

    assert isinstance(last.error, ContentRefused)
    assert last.error.type == str(reason)


def test_a_blocked_prompt_has_no_candidates():
    """And says why."""
    last = ended(read(GoogleDecoder, sse({"promptFeedback": {"blockReason": "SAFETY"}})))

    assert isinstance(last.error, ContentRefused)
    assert "SAFETY" in str(last.message.error_message)


def test_a_reason_in_every_chunk_does_not_end_the_answer_early():
    """An error may still follow: here as plain JSON behind the events."""
    body = sse(chunk({"text": "First "}, reason="STOP"), chunk({"text": "Second "}, reason="STOP"))
    tail = json.dumps(
        {"error": {"code": 499, "message": "The operation was cancelled.", "status": "CANCELLED"}}, indent=2
    )

    last = ended(read(GoogleDecoder, body + tail.encode()))

    assert isinstance(last.error, BadRequest)
    assert last.message.content == (TextContent("First Second "),)


def test_the_end_of_the_bytes_without_a_reason_is_a_cut():
    """Whatever was said before."""
    assert isinstance(ended(read(GoogleDecoder, sse(chunk({"text": "so"})))).error, StreamTruncated)


def test_usage_in_our_convention():
    """Cached tokens are no input, thoughts are output, and a chunk that counts nothing changes nothing."""
    usage = {
        "promptTokenCount": 10,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 2,
        "totalTokenCount": 15,
    }
    events = sse(chunk({"text": "x"}, usageMetadata=usage), chunk(reason="STOP", usageMetadata={"trafficType": "x"}))

    counted = ended(read(GoogleDecoder, events)).message.usage

    assert (counted.input, counted.output, counted.cache_read, counted.total_tokens) == (6, 5, 4, 15)


def test_an_array_of_chunks_and_one_document_are_the_same_answer():
    """Without `alt=sse` the service streams an array; without streaming it answers one object."""
    chunks = [chunk({"text": "a"}), chunk({"text": "b"}, reason="STOP")]

    assert ended(read(GoogleDecoder, json.dumps(chunks).encode(), pieces=3)).message.content == (TextContent("ab"),)
    assert ended(read(GoogleDecoder, json.dumps(chunks[1]).encode())).message.content == (TextContent("b"),)


def test_what_googles_own_tools_leave_behind_is_passed_over():
    """Searches, executed code, pictures: nobody here can answer them."""
    parts = (
        {"executableCode": {"code": "1"}},
        {"toolCall": {}},
        {"inlineData": {}},
        {"thoughtSignature": "c2ln"},
        {"text": "so"},
    )

    assert ended(read(GoogleDecoder, sse(chunk(*parts, reason="STOP")))).message.content == (TextContent("so"),)


def test_code_assist_wraps_its_chunks_and_an_empty_answer_is_worth_another_try():
    """The wrapper is looked into; nothing at all is a transient failure, a block is not."""
    wrapped = [{"response": chunk({"text": "x"}, reason="STOP"), "traceId": "t"}]

    assert ended(read(CodeAssistDecoder, sse(*wrapped))).message.content == (TextContent("x"),)
    empty = ended(read(CodeAssistDecoder, sse({"response": chunk(reason="STOP")})))
    assert empty.error is not None
    assert empty.error.retryable
    blocked = ended(read(CodeAssistDecoder, sse({"response": chunk(reason="SAFETY")})))
    assert isinstance(blocked.error, ContentRefused)


def test_a_call_may_be_followed_by_text():
    """Each is a block of its own."""
    events = sse(chunk(call(name="a", args={"x": 1}), {"text": "and"}, reason="STOP"))

    tool, text = ended(read(GoogleDecoder, events)).message.content

    assert isinstance(tool, ToolCall)
    assert text == TextContent("and")
