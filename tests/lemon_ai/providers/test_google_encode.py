"""lemon_ai/providers/google_encode.py: what Gemini is asked."""

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
from lemon_ai.providers.google_encode import SKIP_SIGNATURE, encode_body, encode_tool
from lemon_ai.providers.google_generative_ai import encode_call
from lemon_ai.stream_options import Tool
from tests.lemon_ai.providers.wires import answer, asked, model

WORDS = {"minimal": "LOW", "low": "LOW", "medium": "HIGH", "high": "HIGH"}
NUMBERS = {"minimal": "128", "low": "2048", "medium": "8192", "high": "32768"}
OURS = model("google_generative_ai", "google")
NEWER = model("google_generative_ai", "google", reasoning_efforts=WORDS)
IMAGE = ImageContent("aGk=")
PICTURE = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}


def contents(*messages: Any, target: Any = OURS) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = encode_body(asked(target, *messages))["contents"]
    return turns


def test_a_conversation_becomes_turns_and_results_share_one():
    """Thoughts and signatures go back to the same model; all results of a turn stand in one turn."""
    history = [
        UserMessage((TextContent("look"), IMAGE)),
        answer(
            OURS,
            ThinkingContent("hm", "c2ln"),
            TextContent("so", "bm90YmFzZTY0?"),
            ToolCall("1", "a", {"x": 1}, thought_signature="c2ln"),
            ToolCall("2", "b"),
        ),
        ToolResultMessage("1", "a", (TextContent("one"),)),
        ToolResultMessage("2", "b", (TextContent("bad"),), is_error=True),
    ]

    assert contents(*history) == [
        {"role": "user", "parts": [{"text": "look"}, PICTURE]},
        {
            "role": "model",
            "parts": [
                {"thought": True, "text": "hm", "thoughtSignature": "c2ln"},
                {"text": "so"},
                {"functionCall": {"name": "a", "args": {"x": 1}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "b", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "a", "response": {"output": "one"}}},
                {"functionResponse": {"name": "b", "response": {"error": "bad"}}},
            ],
        },
    ]


def test_a_call_of_another_model_brings_the_mark_that_skips_the_check():
    """Newer models refuse calls without a signature; told as text they would begin to imitate it."""
    stranger = answer(model(), ToolCall("1", "a"))

    _, turn, _ = contents(stranger, ToolResultMessage("1", "a", ()), target=NEWER)

    assert turn["parts"] == [{"functionCall": {"name": "a", "args": {}}, "thoughtSignature": SKIP_SIGNATURE}]


def test_images_of_results_nest_or_follow():
    """Newer models take them in the response, older ones behind all of them."""
    history = [
        UserMessage("go"),
        answer(OURS, ToolCall("1", "a"), ToolCall("2", "b")),
        ToolResultMessage("1", "a", (IMAGE,)),
        ToolResultMessage("2", "b", (TextContent("x"),)),
    ]

    older = contents(*history)[2]["parts"]
    newer = contents(*history, target=NEWER)[2]["parts"]

    assert older[0]["functionResponse"]["response"] == {"output": "(see attached image)"}
    assert older[2:] == [{"text": "Tool result image:"}, PICTURE]
    assert newer[0]["functionResponse"]["parts"] == [PICTURE]
    assert len(newer) == 2


def test_ids_are_sent_only_behind_code_assist():
    """Models of other makers are served there too, and match results by id."""
    cli = model("google_gemini_cli", "google_gemini_cli")
    history = [answer(cli, ToolCall("1", "a")), ToolResultMessage("1", "a", ())]

    turns = contents(*history, target=cli)

    assert turns[1]["parts"][0]["functionCall"]["id"] == "1"
    assert turns[2]["parts"][0]["functionResponse"]["id"] == "1"


@pytest.mark.parametrize(
    ("efforts", "options", "expected"),
    [
        (WORDS, {"reasoning": "minimal"}, {"thinkingLevel": "LOW"}),
        (WORDS, {"reasoning": "xhigh"}, {"thinkingLevel": "HIGH"}),
        (NUMBERS, {"reasoning": "low"}, {"thinkingBudget": 2048}),
        (None, {"reasoning": "high"}, {"thinkingBudget": -1}),
        (None, {"reasoning": "high", "thinking_budgets": {"high": 99}}, {"thinkingBudget": 99}),
        (None, {"reasoning": "high", "thinking_budgets": {"level": "medium"}}, {"thinkingLevel": "MEDIUM"}),
        (None, {"reasoning": "high", "thinking_budgets": {"budget_tokens": 7}}, {"thinkingBudget": 7}),
    ],
)
def test_how_much_to_think(efforts: dict[str, str] | None, options: dict[str, Any], expected: dict[str, Any]):
    """The catalogue says whether a model takes words or numbers; the caller may say it outright."""
    target = model("google_generative_ai", "google", reasoning_efforts=efforts)

    config = encode_body(asked(target, **options))["generationConfig"]

    assert config == {"thinkingConfig": {"includeThoughts": True} | expected}


def test_the_fields_of_a_body():
    """What nobody asked for is not there."""
    encoded = encode_body(asked(OURS, system="be brief", max_tokens=9, temperature=0.5))

    assert encoded["systemInstruction"] == {"parts": [{"text": "be brief"}]}
    assert encoded["generationConfig"] == {"temperature": 0.5, "maxOutputTokens": 9}
    assert set(encode_body(asked(OURS))) == {"contents"}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("any", {"mode": "ANY"}),
        ("t", {"mode": "ANY", "allowedFunctionNames": ["t"]}),
    ],
)
def test_the_choice_of_a_tool(choice: str, expected: dict[str, Any]):
    """Only said when there are tools."""
    with_tools = encode_body(asked(OURS, tools=[Tool("t")], tool_choice=choice))

    assert with_tools["toolConfig"] == {"functionCallingConfig": expected}
    assert "toolConfig" not in encode_body(asked(OURS, tool_choice=choice))


def test_a_schema_loses_what_this_service_refuses_at_any_depth():
    """But not a property that happens to have that name."""
    inner = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"additionalProperties": {"type": "string"}},
    }
    schema = {"$schema": "x", "type": "object", "properties": {"a": inner}, "items": [{"additionalProperties": True}]}

    assert encode_tool(Tool("t", "d", schema))["parameters"] == {
        "type": "object",
        "properties": {"a": {"type": "object", "properties": {"additionalProperties": {"type": "string"}}}},
        "items": [{}],
    }


def test_the_call_carries_its_key_in_a_header():
    """Never in the address, which ends up in logs."""
    call = encode_call(asked(OURS, api_key="secret"))

    assert call.url == ("https://generativelanguage.googleapis.com/v1beta/models/a-model:streamGenerateContent?alt=sse")
    assert call.headers["x-goog-api-key"] == "secret"
    assert "secret" not in call.url


def test_nothing_left_to_send_is_said_before_anything_is_sent():
    """No request is made."""
    with pytest.raises(BadRequest, match="No text remained"):
        contents(UserMessage(""))
