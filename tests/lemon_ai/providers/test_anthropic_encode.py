"""lemon_ai/providers/anthropic_encode.py: what Anthropic is asked."""

from typing import Any

import pytest

from lemon_ai.errors import BadRequest, MissingCredential
from lemon_ai.messages import (
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from lemon_ai.models.model import ModelCost
from lemon_ai.providers.anthropic_encode import auth_headers, encode_body, encode_tool
from lemon_ai.providers.anthropic_messages import encode_call
from lemon_ai.stream_options import Tool
from tests.lemon_ai.providers.wires import answer, asked, model

OURS = model()
MARK = {"cache_control": {"type": "ephemeral"}}


def body(*messages: Any, target: Any = OURS, **options: Any) -> dict[str, Any]:
    return encode_body(asked(target, *messages, **options))


def test_the_prompt_and_the_last_user_block_are_marked_for_the_cache():
    """The prefix ends at the system block and at the newest user message; a string becomes a block for it."""
    encoded = body(UserMessage("hello"), system="be brief")

    assert encoded["system"] == [{"type": "text", "text": "be brief"} | MARK]
    assert encoded["messages"] == [{"role": "user", "content": [{"type": "text", "text": "hello"} | MARK]}]


@pytest.mark.parametrize(
    ("retention", "base_url", "expected"),
    [
        ("none", "", None),
        ("short", "", {"type": "ephemeral"}),
        ("long", "", {"type": "ephemeral", "ttl": "1h"}),
        ("long", "https://api.anthropic.com", {"type": "ephemeral", "ttl": "1h"}),
        ("long", "https://elsewhere.example", {"type": "ephemeral"}),
    ],
)
def test_how_long_a_prefix_is_kept(retention: str, base_url: str, expected: dict[str, str] | None):
    """An hour only at Anthropic itself, and no marks at all when the caller wants none."""
    encoded = body(target=model(base_url=base_url), system="s", cache_retention=retention)

    assert encoded["system"][0].get("cache_control") == expected
    assert ("cache_control" in str(encoded["messages"])) == (expected is not None)


def test_what_was_said_becomes_blocks_and_blanks_are_left_out():
    """Text, thinking, calls, results and images each have their block; nothing blank is sent."""
    image = ImageContent("aGk=", "image/jpeg")
    history = [
        UserMessage((TextContent("look"), TextContent(" "), image)),
        answer(
            OURS,
            ThinkingContent("hm", "sig"),
            ThinkingContent("", "opaque", redacted=True),
            ThinkingContent("aloud"),
            TextContent(" "),
            ToolCall("t1", "a", {"x": "1"}),
            ToolCall("t2", "b"),
        ),
        ToolResultMessage("t1", "a", (TextContent("one"), TextContent("two"))),
        ToolResultMessage("t2", "b", (TextContent("see"), image), is_error=True),
    ]

    turns = body(*history, cache_retention="none")["messages"]

    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "aGk="}}
    assert turns == [
        {"role": "user", "content": [{"type": "text", "text": "look"}, picture]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "redacted_thinking", "data": "opaque"},
                {"type": "text", "text": "aloud"},
                {"type": "tool_use", "id": "t1", "name": "a", "input": {"x": "1"}},
                {"type": "tool_use", "id": "t2", "name": "b", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "one\ntwo", "is_error": False},
                {
                    "type": "tool_result",
                    "tool_use_id": "t2",
                    "content": [{"type": "text", "text": "see"}, picture],
                    "is_error": True,
                },
            ],
        },
    ]


def test_an_empty_result_says_so_and_a_history_begins_with_the_user():
    """The service refuses empty results, and a conversation an answer opens."""
    history = [answer(OURS, ToolCall("t1", "a")), ToolResultMessage("t1", "a", ())]

    turns = body(*history, cache_retention="none")["messages"]

    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[2]["content"][0]["content"] == "(empty result)"


def test_nothing_left_to_send_is_said_before_anything_is_sent():
    """Only blanks: no request is made."""
    with pytest.raises(BadRequest, match="No text remained"):
        body(UserMessage("  "))


@pytest.mark.requirement("BR-016")
def test_a_call_that_was_never_whole_is_replayed_as_an_object():
    """One bad call must not make every later request fail."""
    history = [
        answer(OURS, ToolCall("t1", "a", {}, invalid='{"a": "unfin')),
        ToolResultMessage("t1", "a", (), is_error=True),
    ]

    assert body(*history)["messages"][1]["content"][0]["input"] == {}


def test_a_schema_keeps_what_stands_beside_its_properties():
    """Definitions and limits are the tool author's words."""
    schema = {"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {}}, "additionalProperties": False}

    encoded = encode_tool(Tool("t", "does", schema))

    assert encoded == {"name": "t", "description": "does", "input_schema": {"type": "object", **schema}}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [(None, None), ("auto", {"type": "auto"}), ("any", {"type": "any"}), ("t", {"type": "tool", "name": "t"})],
)
def test_the_choice_of_a_tool(choice: str | None, expected: dict[str, str] | None):
    """Left to the model, any, or one by name; and "none" takes the tools away."""
    assert encode_body(asked(OURS, tools=[Tool("t")], tool_choice=choice)).get("tool_choice") == expected
    without = encode_body(asked(OURS, tools=[Tool("t")], tool_choice="none"))
    assert "tools" not in without
    assert "tool_choice" not in without


@pytest.mark.parametrize(
    ("options", "budget", "limit"),
    [
        ({"reasoning": "low"}, 4096, 21333),
        ({"reasoning": "high"}, 32000, 36096),
        ({"reasoning": "xhigh"}, 62976, 64000),
        ({"reasoning": "medium", "max_tokens": 2000}, 10000, 14096),
        ({"reasoning": "low", "thinking_budgets": {"low": 2000}, "max_tokens": 9000}, 2000, 9000),
    ],
)
def test_a_budget_of_thinking_leaves_room_for_the_answer(options: dict[str, Any], budget: int, limit: int):
    """The limit grows to hold the budget, never beyond the model's own; temperature cannot be set beside it."""
    encoded = body(temperature=0.5, **options)

    assert encoded["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert encoded["max_tokens"] == limit
    assert "temperature" not in encoded


def test_an_adaptive_model_is_told_how_hard_and_not_how_long():
    """The catalogue says that it is one, and which efforts it has beyond high."""
    adaptive = model(adaptive_thinking=True, reasoning_efforts={"low": "low", "high": "high", "max": "max"})

    assert body(target=adaptive, reasoning="max")["output_config"] == {"effort": "max"}
    assert body(target=adaptive, reasoning="xhigh")["output_config"] == {"effort": "high"}
    assert body(target=model(adaptive_thinking=True), reasoning="minimal")["output_config"] == {"effort": "low"}
    assert body(target=adaptive, reasoning="low")["thinking"] == {"type": "adaptive"}


@pytest.mark.parametrize("options", [{}, {"reasoning": False}])
def test_thinking_is_off_unless_asked_for(options: dict[str, Any]):
    """Temperature is then the caller's."""
    encoded = body(temperature=0.2, metadata={"user_id": "u1"}, **options)

    assert "thinking" not in encoded
    assert encoded["temperature"] == 0.2
    assert encoded["metadata"] == {"user_id": "u1"}
    assert encoded["max_tokens"] == 64_000 // 3


def test_the_address_and_the_headers_of_a_call():
    """The caller's headers are above the model's, and those above ours; names compare without case."""
    target = model(base_url="https://proxy.example/v1/", headers={"X-One": "model", "X-Two": "model"})

    call = encode_call(asked(target, api_key="sk-ant-api-1", headers={"x-two": "caller"}))

    assert call.url == "https://proxy.example/v1/messages"
    assert call.headers["x-api-key"] == "sk-ant-api-1"
    assert call.headers["anthropic-version"] == "2023-06-01"
    assert (call.headers["x-one"], call.headers["x-two"]) == ("model", "caller")
    assert (call.body["model"], call.body["stream"]) == ("a-model", True)


def test_a_token_of_a_login_is_a_bearer():
    """Told by its prefix or by its shape; everything else is an API key."""
    assert auth_headers("sk-ant-oat01-x")["authorization"] == "Bearer sk-ant-oat01-x"
    assert auth_headers("aaa.bbb.ccc")["authorization"] == "Bearer aaa.bbb.ccc"
    assert "authorization" not in auth_headers("sk-ant-api03-x")


def test_a_missing_key_names_where_it_could_have_come_from(monkeypatch: pytest.MonkeyPatch):
    """Nothing is sent, and the message says what to set."""
    for name in ("ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(MissingCredential, match="ANTHROPIC_API_KEY"):
        encode_call(asked(model(cost=ModelCost())))
