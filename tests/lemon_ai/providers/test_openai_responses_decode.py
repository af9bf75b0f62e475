"""lemon_ai/providers/openai_responses_decode.py: what the events of the Responses API mean."""

import json
from typing import Any

import pytest

from lemon_ai.errors import ContentRefused, QuotaExhausted, StreamTruncated
from lemon_ai.messages import TextContent, ThinkingContent, ToolCall
from lemon_ai.models.model import ModelCost
from lemon_ai.providers.openai_responses_decode import ResponsesDecoder
from tests.lemon_ai.providers.wires import ended, kinds, model, read, sse

Json = dict[str, Any]
CREATED: Json = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}


def added(place: int, **item: Any) -> Json:
    return {"type": "response.output_item.added", "output_index": place, "item": item}


def done(place: int, **item: Any) -> Json:
    return {"type": "response.output_item.done", "output_index": place, "item": item}


def delta(kind: str, place: int, text: str) -> Json:
    return {"type": f"response.{kind}.delta", "output_index": place, "item_id": "changing", "delta": text}


def completed(status: str = "completed", **more: Any) -> Json:
    return {"type": f"response.{status}", "response": {"id": "resp_1", "status": status, **more}}


def message(text: str, **more: Any) -> Json:
    return {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": text}], **more}


def test_items_become_events_and_a_message():
    """Reasoning with two summary parts, text, a call; the finished items give signatures and ids."""
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}],
        "encrypted_content": "enc",
    }
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "run", "arguments": '{"a":1}'}
    events = read(
        ResponsesDecoder,
        sse(
            CREATED,
            added(0, type="reasoning", id="rs_0", summary=[]),
            {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0},
            delta("reasoning_summary_text", 0, "one"),
            {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 1},
            delta("reasoning_summary_text", 0, "two"),
            done(0, **reasoning),
            added(1, type="message", id="msg_0", content=[]),
            delta("output_text", 1, "hel"),
            delta("output_text", 1, "lo"),
            done(1, **message("hello", phase="final_answer")),
            added(2, type="function_call", id="fc_0", call_id="call_1", name="run", arguments=""),
            delta("function_call_arguments", 2, ""),
            delta("function_call_arguments", 2, '{"a"'),
            delta("function_call_arguments", 2, ":1}"),
            done(2, **call),
            completed(),
        ),
    )

    last = ended(events)
    assert kinds(events) == [
        "start",
        *("thinking_start", "thinking_delta", "thinking_delta", "thinking_delta", "thinking_end"),
        *("text_start", "text_delta", "text_delta", "text_end"),
        *("tool_call_start", "tool_call_delta", "tool_call_delta", "tool_call_end"),
        "done",
    ]
    thinking, text, tool = last.message.content
    assert thinking.thinking == "one\n\ntwo"
    assert json.loads(thinking.thinking_signature) == reasoning
    assert text == TextContent("hello", '{"v":1,"id":"msg_1","phase":"final_answer"}')
    assert tool == ToolCall("call_1|fc_1", "run", {"a": 1})
    assert (last.reason, last.message.response_id) == ("tool_use", "resp_1")


@pytest.mark.requirement("BR-005")
def test_an_argument_event_of_no_length_is_nothing():
    """The stream goes on, in the middle of a call."""
    events = sse(
        CREATED,
        added(0, type="function_call", id="fc", call_id="c", name="f"),
        delta("function_call_arguments", 0, ""),
        delta("function_call_arguments", 0, "{}"),
        done(0, type="function_call", id="fc", call_id="c", name="f", arguments="{}"),
        completed(),
    )

    assert ended(read(ResponsesDecoder, events)).message.content == (ToolCall("c|fc", "f", {}),)


@pytest.mark.requirement("BR-011")
@pytest.mark.parametrize("why", ["max_output_tokens", None])
def test_an_incomplete_answer_was_cut_by_its_length(why: str | None):
    """It ends the stream like any other, and says so."""
    events = sse(CREATED, delta("output_text", 0, "once"), completed("incomplete", incomplete_details={"reason": why}))

    last = ended(read(ResponsesDecoder, events))

    assert (last.type, last.message.stop_reason) == ("done", "length")
    assert last.message.content == (TextContent("once"),)


def test_an_answer_stopped_by_a_filter_is_a_refusal():
    """Incomplete for another reason than its length."""
    events = sse(CREATED, completed("incomplete", incomplete_details={"reason": "content_filter"}))

    assert isinstance(ended(read(ResponsesDecoder, events)).error, ContentRefused)


@pytest.mark.requirement("BR-011")
def test_the_end_of_the_bytes_is_not_the_end_of_an_answer():
    """Even when every item was finished: the call does not run."""
    events = sse(CREATED, done(0, type="function_call", id="fc", call_id="c", name="f", arguments="{}"))

    last = ended(read(ResponsesDecoder, events))

    assert isinstance(last.error, StreamTruncated)
    assert last.message.stop_reason == "error"


@pytest.mark.parametrize(
    "failure",
    [
        {"type": "error", "code": "insufficient_quota", "message": "You exceeded your quota"},
        {"type": "error", "error": {"type": "insufficient_quota", "message": "You exceeded your quota"}},
        {
            "type": "response.failed",
            "response": {
                "status": "failed",
                "error": {"code": "insufficient_quota", "message": "You exceeded your quota"},
            },
        },
    ],
    ids=["flat", "nested", "failed"],
)
def test_an_error_in_any_of_its_three_forms_is_classified(failure: Json):
    """Its words and its class are the same."""
    last = ended(read(ResponsesDecoder, sse(CREATED, failure)))

    assert isinstance(last.error, QuotaExhausted)
    assert "You exceeded your quota" in str(last.message.error_message)


def test_a_response_that_failed_without_an_error_says_why():
    """What the details hold is told."""
    events = sse(CREATED, {"type": "response.failed", "response": {"incomplete_details": {"reason": "max_turns"}}})

    assert "max_turns" in str(ended(read(ResponsesDecoder, events)).message.error_message)


def test_a_refusal_is_text():
    """The model's own words for no."""
    events = sse(CREATED, delta("refusal", 0, "I'm "), delta("refusal", 0, "sorry"))
    item = {"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "I'm sorry"}]}

    last = ended(read(ResponsesDecoder, events + sse(done(0, **item), completed())))

    assert last.message.content == (TextContent("I'm sorry", "m"),)


def test_usage_in_our_convention_at_the_price_of_the_tier():
    """Cached and written tokens are no input; a tier multiplies the price."""
    priced = model("openai_responses", "openai", cost=ModelCost(input=1e6, output=1e6))
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 15,
    }

    last = ended(read(ResponsesDecoder, sse(CREATED, completed(usage=usage, service_tier="flex")), target=priced))

    counted = last.message.usage
    assert (counted.input, counted.output, counted.cache_read, counted.cache_write) == (3, 5, 4, 3)
    assert counted.total_tokens == 15
    assert counted.cost.total == pytest.approx((3 + 5) * 0.5)


def test_thinking_that_has_no_words_is_kept_only_if_it_can_go_back():
    """An encrypted item is; an empty one is nothing."""
    encrypted = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"}
    events = sse(CREATED, done(0, type="reasoning", id="rs0", summary=[]), done(1, **encrypted), completed())

    (kept,) = ended(read(ResponsesDecoder, events)).message.content

    assert isinstance(kept, ThinkingContent)
    assert json.loads(str(kept.thinking_signature)) == encrypted


def test_items_that_only_the_last_event_holds_are_read_there():
    """Some services stream nothing; items already done are not read twice."""
    call = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}"}
    events = sse(CREATED, done(0, **message("hi")), completed(output=[message("hi"), call]))

    assert ended(read(ResponsesDecoder, events)).message.content == (
        TextContent("hi", "msg_1"),
        ToolCall("c|fc", "f", {}),
    )


def test_a_custom_tools_input_is_an_argument():
    """Free text has a place of its own in the arguments."""
    item = {"type": "custom_tool_call", "id": "ct", "call_id": "c", "name": "sql", "input": "SELECT 1"}

    last = ended(read(ResponsesDecoder, sse(CREATED, done(0, **item), completed())))

    assert last.message.content == (ToolCall("c|ct", "sql", {"input": "SELECT 1"}),)


def test_ids_and_names_that_are_missing_are_made_up():
    """A call must be answerable, whatever the service left out."""
    events = sse(
        CREATED, done(0, type="function_call", arguments="{}"), done(1, type="function_call", id="fc_9"), completed()
    )

    first, second = ended(read(ResponsesDecoder, events)).message.content

    assert (first.name, second.name) == ("unknown_tool", "unknown_tool")
    assert first.id
    assert second.id.endswith("|fc_9")


def test_a_response_in_one_document_is_the_same_message():
    """Without streaming, or when a proxy answers a stream with a document."""
    whole = {"id": "resp_2", "object": "response", "status": "completed", "output": [message("hi")]}

    last = ended(read(ResponsesDecoder, json.dumps(whole).encode(), pieces=5))

    assert (last.type, last.message.content, last.message.response_id) == (
        "done",
        (TextContent("hi", "msg_1"),),
        "resp_2",
    )
