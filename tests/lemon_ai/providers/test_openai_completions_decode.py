"""What servers that speak Chat Completions send, and what becomes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lemon_ai import (
    BadRequest,
    ContentRefused,
    Fold,
    Model,
    QuotaExhausted,
    StreamDone,
    StreamError,
    StreamTruncated,
    ThinkingContent,
    get_text,
    get_thinking,
    get_tool_calls,
)
from lemon_ai.providers.openai_completions_decode import OpenAICompletionsDecoder
from lemon_ai.providers.wire import read_all
from lemon_ai.testing import check_events
from tests.lemon_ai.chaos_server import chunk, sse

MODEL = Model(id="m", api="openai_completions", provider="openai")


def events_of(body: bytes) -> list[Any]:
    events = read_all(OpenAICompletionsDecoder(Fold(MODEL)), [body])
    check_events(events)
    return events


def last_of(*documents: Any, done: bool = True) -> Any:
    return events_of(sse(*documents, done=done))[-1]


def call(arguments: str | None = None, name: str | None = None, **fields: Any) -> Any:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fields["function"] = function
    return chunk({"tool_calls": [{key: value for key, value in fields.items() if value is not None}]})


def calls_of(*documents: Any) -> list[tuple[str, str, Any]]:
    last = last_of(*documents, chunk(finish="tool_calls"))
    return [(made.id, made.name, made.invalid or dict(made.arguments)) for made in get_tool_calls(last.message)]


@pytest.mark.requirement("BR-002")
def test_arguments_before_the_id_belong_to_the_call() -> None:
    """Bytes are kept by index from the first one on."""
    assert calls_of(call('{"path"', index=0), call(index=0, id="c1", name="read"), call(':"a"}', index=0)) == [
        ("c1", "read", {"path": "a"})
    ]


@pytest.mark.requirement("BR-003")
def test_a_missing_index_means_the_open_call() -> None:
    """Deltas without an index go to the single open call."""
    assert calls_of(call("", id="c1", name="f"), call("{}")) == [("c1", "f", {})]


@pytest.mark.requirement("BR-004")
def test_without_any_index_fragments_follow_the_call_opened_last() -> None:
    """A new id opens a new call; two calls stay two."""
    documents = (call(id="c1", name="f"), call('{"x":1}'), call(id="c2", name="g"), call('{"y":2}'))
    assert calls_of(*documents) == [("c1", "f", {"x": 1}), ("c2", "g", {"y": 2})]
    assert calls_of(call('{"x":1}', name="f"), call('{"y":2}', name="g")) == [
        ("call_stream_0", "f", {"x": 1}),
        ("call_stream_1", "g", {"y": 2}),
    ]


@pytest.mark.requirement("BR-005")
def test_an_empty_fragment_changes_nothing() -> None:
    """The first argument event may be empty."""
    assert calls_of(call("", index=0, id="c", name="f"), call("", index=0), call("{}", index=0)) == [("c", "f", {})]


@pytest.mark.requirement("BR-006")
def test_a_last_chunk_with_usage_and_no_choices_is_usage() -> None:
    """Text and stop reason are kept; tokens are counted."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    done = last_of(chunk({"content": "x"}), chunk(finish="stop"), {"choices": [], "usage": usage})
    assert isinstance(done, StreamDone)
    assert (done.reason, get_text(done.message)) == ("stop", "x")
    assert (done.message.usage.input, done.message.usage.output, done.message.usage.total_tokens) == (10, 5, 15)


@pytest.mark.requirement("BR-007")
def test_nothing_but_the_models_words_becomes_text() -> None:
    """Empty choices, null choices and choices of another kind say nothing."""
    documents = (
        chunk({"content": "Hi"}),
        chunk({"content": "!"}),
        {"choices": []},
        {"choices": None},
        {"choices": [3]},
    )
    assert get_text(last_of(*documents).message) == "Hi!"


@pytest.mark.requirement("BR-009")
def test_a_last_chunk_without_id_and_name_ends_the_call_it_belongs_to() -> None:
    """The rest of the arguments may come together with the finish reason."""
    rest = chunk({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}, finish="tool_calls")
    last = last_of(call('{"a":', index=0, id="c1", name="f"), rest)
    assert [(made.id, made.arguments) for made in get_tool_calls(last.message)] == [("c1", {"a": 1})]


@pytest.mark.requirement("BR-014")
def test_neither_finish_reason_nor_end_marker_is_a_truncation() -> None:
    """A clean close is no end; a finish reason alone, or the marker alone, is."""
    cut = last_of(chunk({"content": "par"}), done=False)
    assert isinstance(cut, StreamError)
    assert isinstance(cut.error, StreamTruncated)
    assert get_text(cut.message) == "par"
    assert last_of(chunk({"content": "x"}), done=True).reason == "stop"
    assert last_of(chunk({"content": "x"}, finish="length"), done=False).reason == "length"


@pytest.mark.requirement("BR-015")
def test_arguments_that_are_no_json_are_kept_and_marked() -> None:
    """The call is there with its raw text; the stream is a success."""
    raw = '{"{"ids":[1]}'
    last = last_of(call(raw, index=0, id="c", name="f"), chunk(finish="tool_calls"))
    assert isinstance(last, StreamDone)
    assert get_tool_calls(last.message)[0].invalid == raw


def test_a_used_index_with_a_new_id_and_name_is_a_new_call_once_the_old_is_whole() -> None:
    """Two ids under one index are two calls; a server that varies the id inside one call is not."""
    assert calls_of(call("{}", index=0, id="a", name="f"), call("{}", index=0, id="b", name="f")) == [
        ("a", "f", {}),
        ("b", "f", {}),
    ]
    assert calls_of(call('{"a":', index=0, id="a", name="f"), call("1}", index=0, id="b", name="f")) == [
        ("a", "f", {"a": 1})
    ]


@pytest.mark.parametrize("names", [["read", "read"], ["re", "ad"], ["re", "read"], ["read", ""], ["read_file", "file"]])
def test_a_name_may_be_repeated_extended_or_streamed(names: list[str]) -> None:
    """Every way of sending it gives one name."""
    made = calls_of(*[call(index=0, id="c", name=name) for name in names])
    assert made[0][1] == ("read_file" if names[0] == "read_file" else "read")


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_thinking_remembers_the_field_it_came_in(field: str) -> None:
    """Its signature is the name of the field, so that it can go back there; it ends where text begins."""
    last = last_of(chunk({field: "hm"}), chunk({field: " so"}), chunk({"content": "42"}))
    assert last.message.content[0] == ThinkingContent("hm so", field)


def test_thinking_in_two_fields_at_once_is_said_once() -> None:
    """The first field that holds something counts; details beside it are not said again."""
    delta = {
        "reasoning": "hm",
        "reasoning_content": "",
        "reasoning_details": [{"type": "reasoning.text", "text": "hm"}],
    }
    assert get_thinking(last_of(chunk(delta)).message) == "hm"


def test_thinking_in_details_only_goes_back_as_details() -> None:
    """Pieces of one detail become one again, signature included."""
    pieces = [
        {"type": "reasoning.text", "index": 0, "text": "15"},
        {"type": "reasoning.text", "index": 0, "text": " * 27", "signature": "sig"},
    ]
    (block, _) = last_of(
        *[chunk({"reasoning_details": [piece]}) for piece in pieces], chunk({"content": "405"})
    ).message.content
    assert block.thinking == "15 * 27"
    assert json.loads(block.thinking_signature) == [
        {"type": "reasoning.text", "index": 0, "text": "15 * 27", "signature": "sig"}
    ]


def test_an_encrypted_detail_with_a_calls_id_is_the_calls_signature() -> None:
    """It goes back with the call."""
    detail = {"type": "reasoning.encrypted", "id": "c1", "data": "blob"}
    last = last_of(call("{}", index=0, id="c1", name="f"), chunk({"reasoning_details": [detail]}))
    assert json.loads(get_tool_calls(last.message)[0].thought_signature) == detail


def test_cached_tokens_are_not_input_and_thinking_is_counted_once() -> None:
    """input leaves out what was cached; a vendor that counts thinking beside the answer has it added."""
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 15},
    }
    told = last_of(chunk({"content": "x"}), {"choices": [], "usage": usage}).message.usage
    assert (told.input, told.cache_read, told.output, told.total_tokens) == (40, 60, 20, 120)
    beside = {**usage, "total_tokens": 135}
    assert last_of(chunk({"content": "x"}), {"choices": [], "usage": beside}).message.usage.output == 35


def test_an_error_object_in_the_stream_is_an_error_and_keeps_the_text() -> None:
    """Whatever came before still counts, for display."""
    error = {
        "error": {"message": "Tool choice is required", "type": "invalid_request_error", "code": "tool_use_failed"}
    }
    last = last_of(chunk({"content": "maybe"}), error, done=False)
    assert isinstance(last, StreamError)
    assert isinstance(last.error, BadRequest)
    assert (last.error.code, last.error.type, last.error.in_stream) == (
        "tool_use_failed",
        "invalid_request_error",
        True,
    )
    assert get_text(last.message) == "maybe"


def test_an_error_document_behind_a_success_is_an_error() -> None:
    """A body that is one JSON document with an error is no empty answer, whatever its status was."""
    body = json.dumps({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}).encode()
    last = events_of(body)[-1]
    assert isinstance(last.error, QuotaExhausted)
    last = events_of(b'{"detail": "no such model"}')[-1]
    assert "no such model" in str(last.error)


def test_a_filter_ends_the_answer_as_an_error() -> None:
    """content_filter is a refusal, not a stop; `error` is a failure."""
    last = last_of(chunk({"content": "So "}), chunk(finish="content_filter"))
    assert isinstance(last.error, ContentRefused)
    assert isinstance(last_of(chunk({"content": "So "}), chunk(finish="error")), StreamError)


def test_only_the_first_choice_counts() -> None:
    """A server asked for two answers gives the first."""
    other = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": None}]}
    assert get_text(last_of(chunk({"content": "yes"}), other).message) == "yes"


def test_content_may_be_a_list_of_parts() -> None:
    """Text and thinking parts are read as such."""
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "yes"}]
    message = last_of(chunk({"content": parts})).message
    assert (get_thinking(message), get_text(message)) == ("hm", "yes")


def test_a_whole_answer_in_one_document_reads_like_its_stream() -> None:
    """A server that does not stream is understood."""
    body = {
        "id": "x",
        "choices": [
            {
                "index": 0,
                "finish_reason": "",
                "message": {
                    "content": "Sure",
                    "reasoning_content": "hm",
                    "function_call": {"name": "", "arguments": ""},
                    "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '{"a": 1}'}}],
                },
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }
    last = events_of(json.dumps(body).encode())[-1]
    assert isinstance(last, StreamDone)
    assert (last.reason, get_text(last.message), get_thinking(last.message)) == ("tool_use", "Sure", "hm")
    assert [(made.name, made.arguments) for made in get_tool_calls(last.message)] == [("f", {"a": 1})]
    assert last.message.response_id == "x"


def test_an_html_page_is_told_by_its_title() -> None:
    """A login page or a proxy's error is named, not quoted."""
    last = events_of(b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>x</body></html>")[-1]
    assert "502 Bad Gateway" in str(last.error)
    assert "<" not in str(last.error)


@pytest.mark.parametrize("body", [b"", b"   ", b"\x00\xff\xfe garbage", b'{"half": ', b"data: {not json}\n\n"])
def test_garbage_is_a_truncation_and_never_a_hang(body: bytes) -> None:
    """Nothing readable gives a classified error."""
    last = events_of(body)[-1]
    assert isinstance(last, StreamError)
    assert isinstance(last.error, StreamTruncated)


def test_an_event_that_is_no_json_is_passed_over() -> None:
    """The answer around it is complete."""
    body = sse(chunk({"content": "a"}), done=False) + b"data: {oops\n\n" + sse(chunk({"content": "b"}, finish="stop"))
    assert get_text(events_of(body)[-1].message) == "ab"


def test_the_old_function_call_is_a_tool_call() -> None:
    """Servers that never learned tool_calls still call."""
    documents = (
        chunk({"function_call": {"name": "f", "arguments": '{"a"'}}),
        chunk({"function_call": {"arguments": ":1}"}}),
    )
    last = last_of(*documents, chunk(finish="function_call"))
    assert [(made.name, made.arguments) for made in get_tool_calls(last.message)] == [("f", {"a": 1})]


@pytest.mark.requirement("BR-003", "BR-009")
@pytest.mark.parametrize(
    "pieces", [('{"a":1}', '{"a":1}'), ("{}", '{"a":1}'), ('{"a"', ":1}", '{"a":1}'), ('"{\\"a\\":1}"',)]
)
def test_arguments_said_again_or_in_a_string_are_the_arguments(pieces: tuple[str, ...]) -> None:
    """Servers repeat the whole at the end, begin with an empty object, or encode the object twice."""
    fragments = [call(piece, index=0, id="c1", name="f") for piece in pieces]
    assert calls_of(*fragments) == [("c1", "f", {"a": 1})]


def test_two_different_objects_in_one_call_are_no_arguments() -> None:
    """Nobody can say which of them was meant."""
    assert calls_of(call('{"a":1}', index=0, id="c1", name="f"), call('{"b":1}', index=0)) == [
        ("c1", "f", '{"a":1}{"b":1}')
    ]


def test_an_error_that_stands_in_the_choice_is_told() -> None:
    """A router says why the server behind it failed where the answer would be."""
    failed = {"index": 0, "delta": {}, "finish_reason": "error", "error": {"message": "upstream is on fire"}}
    last = last_of(chunk({"content": "Hel"}), {"choices": [failed]})
    assert isinstance(last, StreamError)
    assert "upstream is on fire" in str(last.error)
    assert get_text(last.message) == "Hel"
