"""lemon_ai/providers/anthropic_decode.py: what Anthropic's events mean."""

from typing import Any

import pytest

from lemon_ai.errors import ContentRefused, ProviderUnavailable, StreamTruncated
from lemon_ai.messages import TextContent, ThinkingContent, ToolCall
from lemon_ai.providers.anthropic_decode import AnthropicDecoder
from tests.lemon_ai.providers.wires import ended, kinds, read, sse

Json = dict[str, Any]

START: Json = {
    "type": "message_start",
    "message": {"id": "msg_1", "usage": {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5}},
}
STOP: Json = {"type": "message_stop"}


def begin(index: int, **block: Any) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int | None, kind: str, **what: Any) -> Json:
    event = {"type": "content_block_delta", "delta": {"type": kind, **what}}
    return event if index is None else event | {"index": index}


def close(index: int) -> Json:
    return {"type": "content_block_stop", "index": index}


def reason(word: str | None, **usage: Any) -> Json:
    return {"type": "message_delta", "delta": {"stop_reason": word}, "usage": usage}


def test_blocks_become_events_and_a_message():
    """Thinking with a signature in pieces, text, and a call, each with its start, deltas and end."""
    events = read(
        AnthropicDecoder,
        sse(
            START,
            begin(0, type="thinking", thinking=""),
            delta(0, "thinking_delta", thinking="hm"),
            delta(0, "signature_delta", signature="ab"),
            delta(0, "signature_delta", signature="cd"),
            close(0),
            {"type": "ping"},
            begin(1, type="text", text=""),
            delta(1, "text_delta", text="he"),
            delta(1, "text_delta", text="llo"),
            close(1),
            begin(2, type="tool_use", id="t1", name="run", input={}),
            delta(2, "input_json_delta", partial_json=""),
            delta(2, "input_json_delta", partial_json='{"a"'),
            delta(2, "input_json_delta", partial_json=": 1}"),
            close(2),
            reason("tool_use", output_tokens=20),
            STOP,
        ),
    )

    done = ended(events)
    assert kinds(events) == [
        "start",
        *("thinking_start", "thinking_delta", "thinking_end"),
        *("text_start", "text_delta", "text_delta", "text_end"),
        *("tool_call_start", "tool_call_delta", "tool_call_delta", "tool_call_end"),
        "done",
    ]
    assert done.message.content == (
        ThinkingContent("hm", "abcd"),
        TextContent("hello"),
        ToolCall("t1", "run", {"a": 1}),
    )
    assert (done.reason, done.message.response_id) == ("tool_use", "msg_1")


def test_usage_is_seeded_at_the_start_and_corrected_at_the_end():
    """Only what the last event says replaces what the first said: some proxies leave the input out there."""
    events = read(
        AnthropicDecoder,
        sse(START, reason("end_turn", input_tokens=None, output_tokens=7, cache_creation_input_tokens=3), STOP),
    )

    usage = ended(events).message.usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (10, 7, 5, 3)
    assert usage.total_tokens == 25


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("end_turn", "stop"),
        ("pause_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("something_new", "stop"),
    ],
)
def test_why_an_answer_ended(word: str, expected: str):
    """Anthropic's words in ours; one not known yet is no failure."""
    assert ended(read(AnthropicDecoder, sse(START, reason(word), STOP))).message.stop_reason == expected


def test_a_refusal_is_an_error_that_keeps_what_was_said():
    """The text before it still counts, and the reason is the provider's."""
    stop = {
        "type": "message_delta",
        "delta": {"stop_reason": "refusal", "stop_details": {"category": "cyber", "explanation": "Not this."}},
        "usage": {"output_tokens": 3},
    }
    text = (begin(0, type="text", text=""), delta(0, "text_delta", text="Well"), close(0))

    last = ended(read(AnthropicDecoder, sse(START, *text, stop, STOP)))

    assert isinstance(last.error, ContentRefused)
    assert (last.error.type, last.error.code) == ("refusal", "cyber")
    assert "Not this." in str(last.message.error_message)
    assert last.message.content == (TextContent("Well"),)


@pytest.mark.requirement("BR-013")
def test_the_reason_alone_completes_an_answer():
    """A proxy that always cuts the last frame must not make us ask again for ever."""
    cut = sse(START, begin(0, type="text", text=""), delta(0, "text_delta", text="hi"), reason("end_turn"))

    last = ended(read(AnthropicDecoder, cut + b'event: message_stop\ndata: {"type":"m'))

    assert (last.type, last.message.stop_reason) == ("done", "stop")


@pytest.mark.requirement("BR-010", "BR-012")
def test_an_answer_without_a_reason_was_cut():
    """Half a call is kept to look at, marked, and does not run."""
    cut = sse(
        START, begin(0, type="tool_use", id="t", name="bash"), delta(0, "input_json_delta", partial_json='{"cmd":"rm -')
    )

    last = ended(read(AnthropicDecoder, cut))

    assert isinstance(last.error, StreamTruncated)
    assert last.error.retryable
    assert last.message.stop_reason == "error"
    (call,) = last.message.content
    assert (call.arguments, call.invalid) == ({}, '{"cmd":"rm -')


def test_an_error_inside_the_stream_is_classified():
    """Status 200 and an overloaded model: worth another try, and the text so far is kept."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

    last = ended(read(AnthropicDecoder, sse(START, begin(0, type="text", text="Hi"), error)))

    assert isinstance(last.error, ProviderUnavailable)
    assert last.error.in_stream
    assert last.message.content == (TextContent("Hi"),)


def test_what_ran_on_the_providers_side_is_passed_over():
    """A search and its result are nobody's to answer here; the text around them stays."""
    events = sse(
        START,
        begin(0, type="server_tool_use", id="s1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"q": 1}'),
        close(0),
        begin(1, type="web_search_tool_result", tool_use_id="s1", content=[]),
        close(1),
        begin(2, type="text", text=""),
        delta(2, "text_delta", text="found"),
        delta(2, "citations_delta", citation={}),
        close(2),
        reason("end_turn"),
        STOP,
    )

    assert ended(read(AnthropicDecoder, events)).message.content == (TextContent("found"),)


def test_thinking_without_words_and_redacted_thinking_are_kept():
    """Both have to go back as they came."""
    events = sse(
        START,
        begin(0, type="thinking", thinking="", signature=""),
        delta(0, "signature_delta", signature="sig"),
        close(0),
        begin(1, type="redacted_thinking", data="opaque"),
        close(1),
        reason("end_turn"),
        STOP,
    )

    assert ended(read(AnthropicDecoder, events)).message.content == (
        ThinkingContent("", "sig"),
        ThinkingContent("", "opaque", redacted=True),
    )


def test_arguments_given_at_once_and_an_index_left_out():
    """Some servers send the whole input with the start, or no index: the block opened last is meant."""
    events = sse(
        START,
        {"type": "content_block_start", "content_block": {"type": "text", "text": "a"}},
        delta(None, "text_delta", text="b"),
        begin(1, type="tool_use", id="t", name="run", input={"x": [1]}),
        close(1),
        reason("end_turn"),
        STOP,
    )

    done = ended(read(AnthropicDecoder, events))

    assert done.message.content == (TextContent("ab"), ToolCall("t", "run", {"x": [1]}))
    assert done.reason == "tool_use"


def test_calls_with_one_id_become_two():
    """A duplicate id cannot be answered twice."""
    calls = [event for at in (0, 1) for event in (begin(at, type="tool_use", id="t", name="run"), close(at))]

    done = ended(read(AnthropicDecoder, sse(START, *calls, reason("tool_use"), STOP)))

    assert len({call.id for call in done.message.content}) == 2


@pytest.mark.requirement("BR-017")
def test_a_call_with_broken_arguments_is_kept_and_marked():
    """The model is told that they were broken; a dropped call would leave it waiting."""
    events = sse(
        START, begin(0, type="tool_use", id="t", name="run"), delta(0, "input_json_delta", partial_json='{"{"ids":[1]}')
    )

    (call,) = ended(read(AnthropicDecoder, events + sse(close(0), reason("tool_use"), STOP))).message.content

    assert (call.arguments, call.invalid) == ({}, '{"{"ids":[1]}')


def test_a_message_in_one_document_is_the_same_message():
    """Without streaming, or when a proxy answers a stream with a document."""
    whole = (
        b'{"id":"msg_2","type":"message","role":"assistant","content":[{"type":"text","text":"hi"},'
        b'{"type":"tool_use","id":"t","name":"run","input":{}}],"stop_reason":"tool_use",'
        b'"usage":{"input_tokens":3,"output_tokens":4}}'
    )

    done = ended(read(AnthropicDecoder, whole, pieces=7))

    assert done.message.content == (TextContent("hi"), ToolCall("t", "run", {}))
    assert (done.message.usage.total_tokens, done.message.response_id) == (7, "msg_2")


def test_a_message_that_begins_again_keeps_both_beginnings_apart():
    """A server that starts over reuses its indexes: the new blocks are new, the half call before them is marked."""
    events = sse(
        START,
        begin(0, type="tool_use", id="t1", name="run"),
        delta(0, "input_json_delta", partial_json='{"a": "on'),
        START,
        begin(0, type="tool_use", id="t2", name="run"),
        delta(0, "input_json_delta", partial_json='{"a": "one"}'),
        close(0),
        reason("tool_use"),
        STOP,
    )

    half, whole = ended(read(AnthropicDecoder, events)).message.content

    assert half.invalid == '{"a": "on'
    assert whole == ToolCall("t2", "run", {"a": "one"})
