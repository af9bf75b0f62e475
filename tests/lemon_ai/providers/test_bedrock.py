"""lemon_ai/providers/bedrock_*.py: Converse and InvokeModel, their frames and their signatures."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from lemon_ai.errors import BadRequest, ContentRefused, MissingCredential, RateLimited, StreamTruncated
from lemon_ai.messages import (
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from lemon_ai.models.model import ModelCost
from lemon_ai.providers.anthropic_decode import AnthropicDecoder
from lemon_ai.providers.bedrock_converse import encode_call
from lemon_ai.providers.bedrock_decode import BedrockDecoder
from lemon_ai.providers.bedrock_encode import encode_body, model_path
from lemon_ai.providers.bedrock_frames import ChunkFramer, Frame, FrameFramer
from lemon_ai.providers.bedrock_invoke import encode_call as encode_invoke
from lemon_ai.providers.bedrock_signing import VARIABLES, AwsAuth, AwsKeys, aws_auth, region_of, signer
from lemon_ai.stream_options import Tool
from tests.lemon_ai.providers.wires import answer, asked, aws_frame, ended, kinds, model, read

Json = dict[str, Any]
OURS = model("bedrock_converse_stream", "amazon-bedrock")
KEYS = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}


def frames(*events: tuple[str, Json]) -> bytes:
    return b"".join(aws_frame(kind, payload) for kind, payload in events)


def delta(index: int, **what: Any) -> tuple[str, Json]:
    return ("contentBlockDelta", {"contentBlockIndex": index, "delta": what})


def decode(body: bytes, pieces: int | None = None) -> Any:
    return read(BedrockDecoder, body, target=OURS, framer=FrameFramer, pieces=pieces)


START = ("messageStart", {"role": "assistant"})
USED = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 12, "cacheReadInputTokens": 5, "cacheWriteInputTokens": 0}
ENDING = (("messageStop", {"stopReason": "end_turn"}), ("metadata", {"usage": USED}))


@pytest.mark.parametrize("pieces", [None, 1, 50])
def test_frames_become_events_and_a_message(pieces: int | None):
    """Reasoning and text open with their first delta, calls with a start; the usage comes after the stop."""
    body = frames(
        START,
        delta(0, reasoningContent={"text": "hm"}),
        delta(0, reasoningContent={"signature": "sig"}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        delta(1, text="he"),
        delta(1, text="llo"),
        ("contentBlockStop", {"contentBlockIndex": 1}),
        ("contentBlockStart", {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t1", "name": "run"}}}),
        delta(2, toolUse={"input": '{"a"'}),
        delta(2, toolUse={"input": ": 1}"}),
        ("contentBlockStop", {"contentBlockIndex": 2}),
        ("messageStop", {"stopReason": "tool_use"}),
        ("metadata", {"usage": USED}),
    )

    events = decode(body, pieces)

    last = ended(events)
    assert kinds(events) == [
        "start",
        *("thinking_start", "thinking_delta", "thinking_end"),
        *("text_start", "text_delta", "text_delta", "text_end"),
        *("tool_call_start", "tool_call_delta", "tool_call_delta", "tool_call_end"),
        "done",
    ]
    assert last.message.content == (
        ThinkingContent("hm", "sig"),
        TextContent("hello"),
        ToolCall("t1", "run", {"a": 1}),
    )
    usage = last.message.usage
    assert (usage.input, usage.output, usage.cache_read, usage.total_tokens) == (3, 4, 5, 12)


def test_thinking_of_a_signature_alone_and_redacted_thinking_are_kept():
    """Both go back as they came."""
    body = frames(
        START,
        delta(0, reasoningContent={"signature": "sig"}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        delta(1, reasoningContent={"redactedContent": "b3BhcXVl"}),
        ("contentBlockStop", {"contentBlockIndex": 1}),
        *ENDING,
    )

    assert ended(decode(body)).message.content == (
        ThinkingContent("", "sig"),
        ThinkingContent("", "b3BhcXVl", redacted=True),
    )


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
    ],
)
def test_why_an_answer_ended(word: str, expected: str):
    """Bedrock's words in ours; the stop reason completes an answer even if the usage never comes."""
    body = frames(START, delta(0, text="x"), ("messageStop", {"stopReason": word}))

    assert ended(decode(body)).message.stop_reason == expected


@pytest.mark.parametrize("word", ["guardrail_intervened", "content_filtered", "something_new"])
def test_any_other_reason_is_an_error(word: str):
    """What a guardrail let through is kept."""
    last = ended(decode(frames(START, delta(0, text="x"), ("messageStop", {"stopReason": word}))))

    assert isinstance(last.error, ContentRefused)
    assert last.message.content == (TextContent("x"),)


def test_an_exception_frame_is_an_error_of_its_class():
    """It comes in the middle of the stream, under status 200."""
    body = frames(START, delta(0, text="x")) + aws_frame("throttlingException", {"message": "Too many"}, "exception")

    last = ended(decode(body))

    assert isinstance(last.error, RateLimited)
    assert last.error.type == "throttlingException"
    assert "Too many" in str(last.message.error_message)


def test_an_error_frame_and_an_answer_in_one_document():
    """The two other things that can stand in the place of events."""
    assert ended(decode(aws_frame("internalError", b"", "error"))).type == "error"
    whole = {
        "output": {
            "message": {
                "role": "assistant",
                "content": [{"text": "hi"}, {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}],
            }
        },
        "stopReason": "end_turn",
        "usage": USED,
    }
    assert ended(decode(json.dumps(whole).encode(), 9)).message.content == (
        TextContent("hi"),
        ThinkingContent("hm", "s"),
    )
    refused = ended(decode(b'{"message": "Too many requests, please wait"}'))
    assert isinstance(refused.error, RateLimited)


@pytest.mark.parametrize("place", [3, 9, 20, -2])
def test_a_damaged_frame_ends_the_answer(place: int):
    """Both checksums are looked at; what is behind the damage is not guessed."""
    body = bytearray(frames(START, delta(0, text="x"), *ENDING))
    body[place] ^= 0x55

    assert ended(decode(bytes(body))).type == "error" or place == -2


@pytest.mark.requirement("BR-012")
def test_a_stream_cut_between_frames_or_inside_one_is_a_cut_answer():
    """Half a call does not run."""
    body = frames(
        START,
        ("contentBlockStart", {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t1", "name": "rm"}}}),
        delta(0, toolUse={"input": '{"path": "/t'}),
    )

    for cut in (body, body + frames(*ENDING)[:20]):
        last = ended(decode(cut))
        assert isinstance(last.error, StreamTruncated)
        assert last.message.content[0].invalid == '{"path": "/t'


def test_anthropics_events_come_wrapped_from_invoke():
    """Each frame holds one event, base64 encoded; an exception frame is an error."""

    def chunk(event: Json) -> bytes:
        return aws_frame("chunk", {"bytes": base64.b64encode(json.dumps(event).encode()).decode(), "p": "abc"})

    body = (
        chunk({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1}}})
        + chunk({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "hi"}})
        + chunk({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}})
        + chunk({"type": "message_stop"})
    )
    failing = body[:40] and chunk({"type": "ping"}) + aws_frame(
        "modelStreamErrorException", {"message": "oops"}, "exception"
    )

    assert ended(read(AnthropicDecoder, body, framer=ChunkFramer, pieces=5)).message.content == (TextContent("hi"),)
    assert "oops" in str(ended(read(AnthropicDecoder, failing, framer=ChunkFramer)).message.error_message)


def test_a_conversation_becomes_turns():
    """Results merged, images as base64 text, unsigned thinking as text, an empty result said so."""
    history = [
        UserMessage((TextContent("look"), ImageContent("aGk=", "image/jpeg"))),
        answer(
            OURS,
            ThinkingContent("hm", "sig"),
            ThinkingContent("", "b3A=", redacted=True),
            ThinkingContent("aloud"),
            ToolCall("t1", "a", {"x": 1}),
            ToolCall("t2", "b"),
        ),
        ToolResultMessage("t1", "a", ()),
        ToolResultMessage("t2", "b", (TextContent("bad"),), is_error=True),
    ]

    body = encode_body(asked(OURS, *history, system="be brief", max_tokens=9, temperature=0.5), {})

    assert body["system"] == [{"text": "be brief"}]
    assert body["inferenceConfig"] == {"maxTokens": 9, "temperature": 0.5}
    assert body["messages"] == [
        {
            "role": "user",
            "content": [{"text": "look"}, {"image": {"format": "jpeg", "source": {"bytes": "aGk="}}}],
        },
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}},
                {"reasoningContent": {"redactedContent": "b3A="}},
                {"text": "aloud"},
                {"toolUse": {"toolUseId": "t1", "name": "a", "input": {"x": 1}}},
                {"toolUse": {"toolUseId": "t2", "name": "b", "input": {}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "t1", "content": [{"text": "(empty result)"}], "status": "success"}},
                {"toolResult": {"toolUseId": "t2", "content": [{"text": "bad"}], "status": "error"}},
            ],
        },
    ]


def test_a_history_with_calls_brings_its_tools_even_when_none_is_offered():
    """The service refuses tool blocks without a tool configuration."""
    history = [answer(OURS, ToolCall("t1", "a")), ToolResultMessage("t1", "a", ())]

    body = encode_body(asked(OURS, *history, tools=[Tool("a", "does")], tool_choice="none"), {})

    assert [tool["toolSpec"]["name"] for tool in body["toolConfig"]["tools"]] == ["a"]
    assert "toolChoice" not in body["toolConfig"]


@pytest.mark.parametrize(
    ("choice", "expected"), [("auto", {"auto": {}}), ("any", {"any": {}}), ("a", {"tool": {"name": "a"}})]
)
def test_the_choice_of_a_tool(choice: str, expected: Json):
    """In Converse's shape."""
    body = encode_body(asked(OURS, tools=[Tool("a")], tool_choice=choice), {})

    assert body["toolConfig"]["toolChoice"] == expected
    assert "description" not in body["toolConfig"]["tools"][0]["toolSpec"]


def test_cache_points_only_for_models_that_charge_for_them():
    """After the prompt and at the end of the last user turn."""
    caching = model("bedrock_converse_stream", "amazon-bedrock", cost=ModelCost(cache_write=1.0))
    point = {"cachePoint": {"type": "default"}}

    body = encode_body(asked(caching, system="s"), {})

    assert body["system"][-1] == point
    assert body["messages"][-1]["content"][-1] == point
    assert "cachePoint" not in str(encode_body(asked(caching, system="s", cache_retention="none"), {}))


@pytest.mark.parametrize(
    ("changes", "level", "fields"),
    [
        (
            {},
            "low",
            {
                "thinking": {"type": "enabled", "budget_tokens": 2048},
                "anthropic_beta": ["interleaved-thinking-2025-05-14"],
            },
        ),
        (
            {"adaptive_thinking": True},
            "minimal",
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        ),
        ({"reasoning_efforts": {"low": "low", "high": "high"}}, "medium", {"reasoning_effort": "low"}),
    ],
)
def test_thinking_is_asked_for_the_way_the_model_takes_it(changes: Json, level: str, fields: Json):
    """By budget, by effort, or in the words of the catalogue; temperature is left out beside it."""
    target = model("bedrock_converse_stream", "amazon-bedrock", **changes)

    body = encode_body(asked(target, reasoning=level, temperature=0.5), {})

    assert body["additionalModelRequestFields"] == fields
    assert "temperature" not in body.get("inferenceConfig", {})


def test_an_image_of_an_unknown_kind_is_refused_before_anything_is_sent():
    """And the kind is named."""
    with pytest.raises(BadRequest, match="image/tiff"):
        encode_body(asked(OURS, UserMessage((ImageContent("aGk=", "image/tiff"),))), {})


def test_the_models_id_is_one_segment_of_the_path():
    """Colons and slashes of an ARN included."""
    assert model_path("us.amazon.nova-lite-v1:0", "converse") == "/model/us.amazon.nova-lite-v1%3A0/converse"
    assert "/" not in model_path("arn:aws:bedrock:x/y", "converse").split("/")[2]


def test_a_signature_covers_the_address_and_the_bytes():
    """The escaped path is signed as it is sent; other bytes give another signature."""
    sign = signer(AwsKeys("AKIDEXAMPLE", "secret", "session"), "eu-west-1")
    url = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/a%3A0/converse"

    one, two = (sign("POST", url, {"accept": "x"}, content) for content in (b"{}", b"[]"))

    assert one["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-west-1/bedrock/aws4_request" in one["authorization"]
    assert one["x-amz-security-token"] == "session"
    assert one["accept"] == "x"
    assert one["authorization"] != two["authorization"]


@pytest.fixture(autouse=True)
def no_credentials_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither variables nor files nor a metadata service."""
    for name in (*VARIABLES, "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))


async def test_credentials_are_looked_for_in_order(monkeypatch: pytest.MonkeyPatch):
    """A bearer token, then keys, of the options before the environment; with nothing, what to set is named."""
    token = await aws_auth(asked(OURS, api_key="bearer-1", provider_options={"amazon_bedrock": KEYS}))
    keys = await aws_auth(asked(OURS, provider_options={"amazon-bedrock": KEYS}))

    assert token.headers == {"authorization": "Bearer bearer-1"}
    assert token.sign is None
    assert keys.sign is not None
    with pytest.raises(MissingCredential, match="AWS_ACCESS_KEY_ID not found"):
        await aws_auth(asked(OURS))
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bearer-2")
    assert (await aws_auth(asked(OURS))).headers == {"authorization": "Bearer bearer-2"}
    assert (await aws_auth(asked(OURS, provider_options={"amazon-bedrock": KEYS}))).sign is not None


async def test_keys_of_the_environment_are_used_as_a_pair(monkeypatch: pytest.MonkeyPatch):
    """Half a pair is none."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
    with pytest.raises(MissingCredential):
        await aws_auth(asked(OURS))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")

    auth = await aws_auth(asked(OURS))

    assert auth.sign is not None
    assert "AKIDENV" in auth.sign("POST", "https://x.example/", {}, b"")["authorization"]


async def test_a_profile_that_is_not_there_is_named():
    """In botocore's words."""
    with pytest.raises(MissingCredential, match="nobody"):
        await aws_auth(asked(OURS, provider_options={"amazon-bedrock": {"aws_profile": "nobody"}}))


@pytest.mark.parametrize(
    ("base_url", "options", "region", "host"),
    [
        ("", {}, "us-east-1", "https://bedrock-runtime.us-east-1.amazonaws.com"),
        (
            "https://bedrock-runtime.eu-west-1.amazonaws.com",
            {},
            "eu-west-1",
            "https://bedrock-runtime.eu-west-1.amazonaws.com",
        ),
        (
            "https://bedrock-runtime.us-east-1.amazonaws.com",
            {"location": "eu-west-3"},
            "eu-west-3",
            "https://bedrock-runtime.eu-west-3.amazonaws.com",
        ),
        ("https://proxy.example", {"location": "eu-west-3"}, "eu-west-3", "https://proxy.example"),
    ],
)
def test_the_services_own_address_follows_the_region(base_url: str, options: Json, region: str, host: str):
    """A catalogue names one region; a caller in another one is not signed for the wrong place."""
    request = asked(model("bedrock_converse_stream", "amazon-bedrock", base_url=base_url), **options)

    assert region_of(request) == region
    assert encode_call(request, AwsAuth(), "converse").url.startswith(f"{host}/model/")


async def test_a_named_profile_is_read_by_botocore(tmp_path: Path):
    """From the file AWS tools use."""
    (tmp_path / "credentials").write_text("[mine]\naws_access_key_id = AKIDPROFILE\naws_secret_access_key = s\n")

    auth = await aws_auth(asked(OURS, provider_options={"amazon-bedrock": {"aws_profile": "mine"}}))

    assert auth.sign is not None
    assert "AKIDPROFILE" in auth.sign("POST", "https://x.example/", {}, b"")["authorization"]


def test_the_calls_of_the_three_operations():
    """Their addresses, what they accept, and that no key of the settings becomes a header."""
    settings = {"amazon-bedrock": KEYS | {"aws_region": "eu-west-1"}}
    request = asked(OURS, provider_options=settings)

    streaming, whole = (encode_call(request, AwsAuth(), operation) for operation in ("converse-stream", "converse"))
    invoke = encode_invoke(request, AwsAuth())

    assert region_of(request) == "eu-west-1"
    assert streaming.url == "https://bedrock-runtime.eu-west-1.amazonaws.com/model/a-model/converse-stream"
    assert whole.url.endswith("/model/a-model/converse")
    assert invoke.url.endswith("/model/a-model/invoke-with-response-stream")
    assert invoke.body["anthropic_version"] == "bedrock-2023-05-31"
    assert "model" not in invoke.body
    assert "stream" not in invoke.body
    for call in (streaming, whole, invoke):
        assert not any("aws" in name and "key" in name for name in call.headers)


def test_a_frame_without_a_body_is_an_event_with_nothing_in_it():
    """Such as a pause of the service."""
    assert FrameFramer().feed(aws_frame("ping", b"")) == [Frame("event", "ping", {})]
