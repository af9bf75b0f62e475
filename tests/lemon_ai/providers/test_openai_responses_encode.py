"""lemon_ai/providers/openai_responses_encode.py: what the Responses API is asked."""

import json
import logging
from typing import Any

import pytest

from lemon_ai.errors import BadRequest
from lemon_ai.messages import (
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from lemon_ai.providers.openai_responses import encode_call
from lemon_ai.providers.openai_responses_encode import (
    clamp_output,
    encode_body,
    normalise_call_id,
    read_text_signature,
    responses_url,
    write_text_signature,
)
from lemon_ai.stream_options import Tool
from tests.lemon_ai.providers.wires import answer, asked, model

OURS = model("openai_responses", "openai")
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}


def body(*messages: Any, target: Any = OURS, settings: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return encode_body(asked(target, *messages, **options), settings or {})


def test_a_conversation_becomes_items():
    """Reasoning goes back word for word, text and calls with their item ids, images of results behind them."""
    image = ImageContent("aGk=")
    history = [
        UserMessage((TextContent("look"), image)),
        answer(
            OURS,
            ThinkingContent("hm", json.dumps(REASONING)),
            TextContent("so", write_text_signature("msg_1", "commentary")),
            ToolCall("call_1|fc_1", "a", {"x": "é"}),
            ToolCall("call_2|fc_2", "b"),
        ),
        ToolResultMessage("call_1|fc_1", "a", (TextContent("one"),)),
        ToolResultMessage("call_2|fc_2", "b", (image,)),
        UserMessage("go on"),
    ]

    items = body(*history, system="be brief")["input"]

    picture = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="}
    assert items == [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "input_text", "text": "look"}, picture]},
        REASONING,
        {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "id": "msg_1",
            "content": [{"type": "output_text", "text": "so", "annotations": []}],
            "phase": "commentary",
        },
        {"type": "function_call", "call_id": "call_1", "name": "a", "arguments": '{"x":"é"}', "id": "fc_1"},
        {"type": "function_call", "call_id": "call_2", "name": "b", "arguments": "{}", "id": "fc_2"},
        {"type": "function_call_output", "call_id": "call_1", "output": "one"},
        {"type": "function_call_output", "call_id": "call_2", "output": "(see attached image)"},
        {"role": "user", "content": [{"type": "input_text", "text": "Attached image(s) from tool result:"}, picture]},
        {"role": "user", "content": [{"type": "input_text", "text": "go on"}]},
    ]


def test_reasoning_that_cannot_be_read_or_stands_alone_is_left_out():
    """The service refuses reasoning with nothing after it."""
    alone = answer(OURS, ThinkingContent("hm", json.dumps(REASONING)), stop_reason="length")
    broken = answer(OURS, ThinkingContent("hm", "no json"), TextContent("so"))

    assert [item.get("type") for item in body(alone, broken, UserMessage("x"))["input"]] == ["message", None]


def test_item_ids_are_only_sent_to_the_model_that_gave_them():
    """An id of another model names an item this one has not seen."""
    older = model("openai_responses", "openai", id="older")
    history = [answer(older, ToolCall("call_1|fc_1", "a")), ToolResultMessage("call_1|fc_1", "a", ())]

    call, output = body(*history)["input"]

    assert call == {"type": "function_call", "call_id": "call_1", "name": "a", "arguments": "{}"}
    assert output["call_id"] == "call_1"


@pytest.mark.parametrize("lost", ["no json", json.dumps({"type": "reasoning", "id": "rs_1", "summary": []})])
def test_a_call_whose_reasoning_cannot_go_back_does_not_name_its_item(lost: str):
    """The service refuses half of such a pair."""
    history = [
        answer(OURS, ThinkingContent("hm", lost), ToolCall("call_1|fc_1", "a")),
        ToolResultMessage("call_1|fc_1", "a", ()),
    ]

    assert body(*history)["input"][0] == {"type": "function_call", "call_id": "call_1", "name": "a", "arguments": "{}"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("call_1", "call_1"),
        ("functions.add:0", "functions_add_0"),
        ("call_1|fc_1", "call_1|fc_1"),
        ("call_1|msg.1", "call_1|fc_msg_1"),
        ("a_|b_", "a|fc_b"),
        ("x" * 80, "x" * 64),
    ],
)
def test_a_foreign_id_is_made_to_fit(given: str, expected: str):
    """Each half within 64 characters of the alphabet, no underscore at its end, the item's beginning with fc_."""
    assert normalise_call_id(given, answer(OURS)) == expected


@pytest.mark.parametrize("given", ["", "|", "call_1|", "__|"])
def test_half_an_id_gets_the_other_half_by_hash(given: str):
    """The same each time, and never empty."""
    made = normalise_call_id(given, answer(OURS))

    assert made == normalise_call_id(given, answer(OURS))
    assert all(made.split("|"))


@pytest.mark.parametrize("stored", [None, "", "msg_1", '{"v":1,"id":"msg_1","phase":"final_answer"}', "{broken"])
def test_both_forms_of_a_text_signature_are_read(stored: str | None):
    """Older sessions hold the bare id."""
    item_id, phase = read_text_signature(stored)

    assert item_id in (None, "msg_1", "{broken")
    assert phase == ("final_answer" if stored and "phase" in stored else None)


def test_the_fields_of_a_body():
    """Nothing is stored at the service; a session names its cache; tools are flat and not strict."""
    encoded = body(
        session_id="s1",
        max_tokens=100,
        temperature=0.5,
        cache_retention="long",
        settings={"service_tier": "flex", "text_verbosity": "low"},
    )

    assert (encoded["store"], encoded["stream"]) == (False, True)
    assert (encoded["prompt_cache_key"], encoded["prompt_cache_retention"]) == ("s1", "24h")
    assert (encoded["max_output_tokens"], encoded["temperature"]) == (100, 0.5)
    assert (encoded["service_tier"], encoded["text"]) == ("flex", {"verbosity": "low"})
    assert "tools" not in encoded
    assert "prompt_cache_key" not in body(session_id="s1", cache_retention="none")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, "auto"),
        ("auto", "auto"),
        ("any", "required"),
        ("none", "none"),
        ("t", {"type": "function", "name": "t"}),
    ],
)
def test_tools_and_the_choice_between_them(choice: str | None, expected: Any):
    """The caller's choice is honoured."""
    encoded = encode_body(asked(OURS, tools=[Tool("t", "does")], tool_choice=choice), {})

    assert encoded["tools"][0] == {
        "type": "function",
        "name": "t",
        "description": "does",
        "parameters": {"type": "object", "properties": {}},
        "strict": False,
    }
    assert encoded["tool_choice"] == expected


def test_reasoning_is_asked_for_by_the_catalogues_words():
    """On with a summary, off with the word for it where there is one, and never for a model that cannot."""
    listed = model("openai_responses", "openai", reasoning_efforts={"none": "none", "low": "low", "xhigh": "xhigh"})

    assert body(reasoning="high")["reasoning"] == {"effort": "high", "summary": "auto"}
    assert body(reasoning="high")["include"] == ["reasoning.encrypted_content"]
    assert body(target=listed, reasoning="xhigh")["reasoning"]["effort"] == "xhigh"
    assert body(target=listed)["reasoning"] == {"effort": "none"}
    assert "reasoning" not in body()
    assert "reasoning" not in body(target=model("openai_responses", "openai", reasoning=False), reasoning="high")


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1/responses"),
        ("https://api.openai.com/", "https://api.openai.com/v1/responses"),
        ("https://x.example/v1beta/", "https://x.example/v1beta/responses"),
    ],
)
def test_the_version_is_added_where_the_address_leaves_it_out(base: str, url: str):
    """An address that names its version keeps it."""
    assert responses_url(base) == url


def test_copilot_is_told_who_began():
    """GitHub's service bills by it."""
    target = model("openai_responses", "github_copilot", base_url="https://api.githubcopilot.com")

    call = encode_call(asked(target, api_key="tid=1"))

    assert call.headers["x-initiator"] == "user"
    assert call.headers["authorization"] == "Bearer tid=1"


def test_a_result_is_cut_on_a_character_to_a_tenth_of_the_window(caplog: pytest.LogCaptureFixture):
    """What one tool says must not fill the window; the cut is logged."""
    small = model("openai_responses", "openai", context_window=30_000)

    with caplog.at_level(logging.WARNING):
        cut = clamp_output("é" * 20_000, small)

    assert len(cut.encode()) == 12_000
    assert "cut to 12000" in caplog.text
    assert clamp_output("x" * 65_536, model()) == "x" * 65_536
    assert len(clamp_output("x" * 65_537, model(context_window=0))) == 65_536


def test_nothing_left_to_send_is_said_before_anything_is_sent():
    """No request is made."""
    with pytest.raises(BadRequest, match="No text remained"):
        body(answer(OURS, TextContent("x"), stop_reason="error"))
