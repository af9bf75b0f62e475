"""What is posted to servers that speak Chat Completions, in the dialect of each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lemon_ai import (
    AssistantMessage,
    BadRequest,
    Compat,
    Context,
    ImageContent,
    Model,
    ProviderRequest,
    StreamOptions,
    TextContent,
    ThinkingContent,
    Tool,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from lemon_ai.providers.openai_compat import dialect_of
from lemon_ai.providers.openai_completions_encode import copilot_headers, encode_body

HI = UserMessage("Hi")
LS = Tool("ls", "List", {"type": "object", "properties": {"path": {"type": "string"}}})


def model(provider: str = "openai", base_url: str = "", **more: Any) -> Model:
    plain = {"id": "m", "api": "openai_completions", "input": ("text", "image")}
    return Model(**{**plain, "provider": provider, "base_url": base_url, **more})


def body(*messages: Any, to: Model | None = None, tools: Any = (), system: str | None = None, **options: Any) -> Any:
    to = to or model()
    request = ProviderRequest(to, Context(system, messages, tools), StreamOptions(**options))
    return encode_body(request, dialect_of(to))


def said(*content: Any, to: Model | None = None, **more: Any) -> AssistantMessage:
    to = to or model()
    return AssistantMessage(content, to.api, to.provider, to.id, **more)


DIALECTS = [
    ("openai", "", True, True, True, "max_completion_tokens"),
    ("groq", "", True, True, True, "max_completion_tokens"),
    ("cerebras", "", False, False, True, "max_completion_tokens"),
    ("xai", "", False, False, False, "max_completion_tokens"),
    ("deepseek", "", False, False, True, "max_completion_tokens"),
    ("opencode", "", False, False, True, "max_completion_tokens"),
    ("custom", "https://llm.chutes.ai/v1", False, False, True, "max_tokens"),
    ("zai", "", False, False, False, "max_completion_tokens"),
    ("mistral", "", False, False, True, "max_tokens"),
    ("custom", "https://api.mistral.ai/v1", False, False, True, "max_tokens"),
    ("github_copilot", "", False, False, False, "max_tokens"),
    ("custom", "http://127.0.0.1:8080/v1", False, False, False, "max_tokens"),
    ("ollama", "http://gpu-box:11434/v1", False, False, False, "max_tokens"),
]


@pytest.mark.parametrize(("provider", "url", "store", "developer", "effort", "limit"), DIALECTS)
def test_each_vendor_is_spoken_to_in_its_dialect(
    provider: str, url: str, store: bool, developer: bool, effort: bool, limit: str
) -> None:
    """By its name or its address: store, developer role, reasoning effort, and the field of the token limit."""
    to = model(provider, url, reasoning=True)
    made = body(HI, to=to, system="Be brief.", max_tokens=9, reasoning="low")
    assert ("store" in made) is store
    assert made["messages"][0]["role"] == ("developer" if developer else "system")
    assert ("reasoning_effort" in made) is effort
    assert made[limit] == 9


def test_a_models_own_overrides_come_above_the_vendors() -> None:
    """Field by field."""
    compat = Compat(supports_store=False, max_tokens_field="max_tokens", supports_usage_in_streaming=False)
    made = body(HI, to=model(compat=compat), max_tokens=5)
    assert "store" not in made
    assert "stream_options" not in made
    assert made["max_tokens"] == 5


def test_what_is_not_set_is_not_sent() -> None:
    """The plain request."""
    assert body(HI) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "store": False,
    }


def test_tools_and_their_choice() -> None:
    """auto, any, none or a name; an empty list where the history has calls; strict only where it is known."""
    made = body(HI, tools=(LS,), tool_choice="ls")
    assert made["tools"][0]["function"] == {
        "name": "ls",
        "description": "List",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        "strict": False,
    }
    assert made["tool_choice"] == {"type": "function", "function": {"name": "ls"}}
    choices = {told: body(HI, tools=(LS,), tool_choice=told)["tool_choice"] for told in ("auto", "any", "none")}
    assert choices == {"auto": "auto", "any": "required", "none": "none"}
    assert "strict" not in body(HI, tools=(LS,), to=model("ollama"))["tools"][0]["function"]
    history = (HI, said(ToolCall("c", "ls", {})), ToolResultMessage("c", "ls", (TextContent("x"),)))
    assert body(*history)["tools"] == []


def test_thinking_is_asked_for_as_each_server_knows_it() -> None:
    """Effort words from the catalogue; zai's and qwen's switches; nothing for a model that cannot think."""
    efforts = {"low": "default", "high": "default"}
    assert (
        body(HI, to=model(reasoning=True, reasoning_efforts=efforts), reasoning="low")["reasoning_effort"] == "default"
    )
    assert "reasoning_effort" not in body(HI, reasoning="low")
    assert body(HI, to=model("zai"), reasoning="low")["thinking"] == {"type": "enabled"}
    assert body(HI, to=model("zai"), reasoning=False)["thinking"] == {"type": "disabled"}
    assert "thinking" not in body(HI, to=model("zai"))
    assert body(HI, to=model("qwen", reasoning=True), reasoning="low")["enable_thinking"] is True
    templated = Compat(thinking_format="qwen-chat-template")
    made = body(HI, to=model("vllm", reasoning=True, compat=templated), reasoning=False)
    assert made["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_thinking_goes_back_where_it_came_from(field: str) -> None:
    """In the field its signature names; unsigned thinking and another model's is not replayed as thinking."""
    thought = said(ThinkingContent("one", field), ThinkingContent("two", field), TextContent("so"))
    assert body(HI, thought, HI)["messages"][1] == {"role": "assistant", field: "one\ntwo", "content": "so"}
    details = [{"type": "reasoning.text", "text": "one", "signature": "s"}]
    thought = said(ThinkingContent("one", json.dumps(details)), TextContent("so"))
    assert body(HI, thought, HI)["messages"][1]["reasoning_details"] == details
    aloud = body(HI, said(ThinkingContent("one"), TextContent("so"), to=model("mistral")), HI, to=model("mistral"))
    assert aloud["messages"][1]["content"] == [{"type": "text", "text": "one"}, {"type": "text", "text": "so"}]


def test_calls_and_results_are_paired_and_their_arguments_are_json() -> None:
    """An invalid call goes back as an empty object; signatures that are objects go along as details."""
    detail = {"type": "reasoning.encrypted", "id": "c1", "data": "x"}
    calls = said(
        ToolCall("c1", "ls", {"path": "é"}, thought_signature=json.dumps(detail)),
        ToolCall("c2", "ls", {}, invalid="{oops"),
    )
    results = (ToolResultMessage("c1", "ls", (TextContent("a"), TextContent("b"))), ToolResultMessage("c2", "ls", ()))
    made = body(HI, calls, *results)["messages"]
    assert [call["function"]["arguments"] for call in made[1]["tool_calls"]] == ['{"path":"é"}', "{}"]
    assert made[1]["content"] is None
    assert made[1]["reasoning_details"] == [detail]
    assert made[2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "a\nb"},
        {"role": "tool", "tool_call_id": "c2", "content": ""},
    ]


def test_images_of_tools_follow_the_last_of_their_results() -> None:
    """As one message of the user; a model that cannot see gets a word instead."""
    picture = ImageContent("AAAA", "image/jpeg")
    history = (
        HI,
        said(ToolCall("a", "shot", {}), ToolCall("b", "ls", {})),
        ToolResultMessage("a", "shot", (picture,)),
        ToolResultMessage("b", "ls", (TextContent("x"),)),
    )
    made = body(*history)["messages"]
    assert [message["role"] for message in made] == ["user", "assistant", "tool", "tool", "user"]
    assert made[2]["content"] == "(see attached image)"
    assert made[4]["content"][1] == {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AAAA"}}
    blind = body(*history, to=model(input=("text",)))["messages"]
    assert [message["role"] for message in blind] == ["user", "assistant", "tool", "tool"]


def test_servers_that_want_an_answer_after_results_get_one() -> None:
    """And those that want names of tools, short ids or one string."""
    compat = Compat(requires_assistant_after_tool_result=True, requires_tool_result_name=True)
    history = (HI, said(ToolCall("c", "ls", {})), ToolResultMessage("c", "ls", (TextContent("x"),)), HI)
    made = body(*history, to=model(compat=compat))["messages"]
    assert [message["role"] for message in made] == ["user", "assistant", "tool", "assistant", "user"]
    assert made[1]["content"] == ""
    assert made[2]["name"] == "ls"
    two = said(TextContent("a"), TextContent("b"), to=model("github_copilot"))
    assert body(HI, two, HI, to=model("github_copilot"))["messages"][1]["content"] == "ab"
    foreign = AssistantMessage((ToolCall("toolu_long-identifier", "ls", {}),), "anthropic_messages", "anthropic", "c")
    made = body(HI, foreign, ToolResultMessage("toolu_long-identifier", "ls", ()), to=model("mistral"))["messages"]
    made_id = made[1]["tool_calls"][0]["id"]
    assert len(made_id) == 9
    assert made_id.isalnum()
    assert made[2]["tool_call_id"] == made_id


def test_a_gateway_is_told_its_routing() -> None:
    """OpenRouter's and Vercel's; a prompt to Claude there is marked for the cache."""
    routed = Compat(open_router_routing={"only": ["anthropic"], "allow_fallbacks": False})
    to = model("openrouter", "https://openrouter.ai/api/v1", id="anthropic/claude-x", compat=routed)
    made = body(HI, to=to)
    assert made["provider"] == {"only": ["anthropic"], "allow_fallbacks": False}
    assert made["messages"][-1]["content"] == [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]
    routed = Compat(vercel_gateway_routing={"order": ["bedrock"], "other": 1})
    made = body(HI, to=model("vercel_ai_gateway", "https://ai-gateway.vercel.sh/v1", compat=routed))
    assert made["providerOptions"] == {"gateway": {"order": ["bedrock"]}}


def test_copilot_is_told_who_began_and_whether_there_is_a_picture() -> None:
    """In headers."""
    to = model("github_copilot")
    mine = copilot_headers(ProviderRequest(to, Context(None, (UserMessage((ImageContent("A"),)),))))
    assert (mine["x-initiator"], mine["copilot-vision-request"]) == ("user", "true")
    result = ToolResultMessage("c", "ls", (TextContent("x"),))
    theirs = copilot_headers(ProviderRequest(to, Context(None, (HI, said(ToolCall("c", "ls", {})), result))))
    assert theirs["x-initiator"] == "agent"
    assert "copilot-vision-request" not in theirs


def test_a_conversation_in_which_nothing_is_left_is_refused() -> None:
    """Before anything is sent."""
    with pytest.raises(BadRequest, match="No text remained"):
        body()
    with pytest.raises(BadRequest):
        body(UserMessage((ImageContent("A"),)), to=model(input=("text",)), system="only this")


def test_halves_of_surrogates_never_reach_the_wire() -> None:
    """In texts, names, arguments and schemas."""
    broken = "x\ud83dy"
    made = body(
        UserMessage(broken),
        said(TextContent(broken), ToolCall("c", broken, {broken: [broken]})),
        ToolResultMessage("c", broken, (TextContent(broken),)),
        tools=(Tool(broken, broken, {"type": "object", "properties": {broken: {}}}),),
        system=broken,
    )
    json.dumps(made, ensure_ascii=False).encode("utf-8")
