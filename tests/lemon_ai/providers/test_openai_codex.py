"""lemon_ai/providers/openai_codex.py: the Codex backend, asked with a ChatGPT account's token."""

import base64
import json

import pytest

from lemon_ai.errors import MissingCredential, QuotaExhausted, RateLimited
from lemon_ai.messages import UserMessage
from lemon_ai.providers.openai_codex import CLAIM, CodexProvider, account_id, encode_call, explain_limit
from lemon_ai.stream_options import Tool
from lemon_ai.testing import collect, loopback
from lemon_otp import wall_ms
from tests.lemon_ai.providers.wires import asked, model

OURS = model("openai_codex_responses", "openai-codex")


def token(claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{body}.c2ln"


TOKEN = token({CLAIM: {"chatgpt_account_id": "acc?????"}})


def test_the_account_is_read_from_the_token():
    """Its payload is base64url, which differs from base64 in two letters."""
    assert "_" in TOKEN or "-" in TOKEN
    assert account_id("p", TOKEN) == "acc?????"


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("sk-plain", "three parts"),
        ("a.!!!.c", "cannot be decoded"),
        (token({}), "names no ChatGPT account"),
        (token([]), "names no ChatGPT account"),
    ],
)
def test_a_token_that_is_none_is_told_apart(bad: str, said: str):
    """What is wrong with it, before anything is sent."""
    with pytest.raises(MissingCredential, match=said):
        account_id("p", bad)


def test_the_call_is_what_the_backend_insists_on():
    """Instructions are there, a limit of output tokens is not, tools have no strict, nothing is stored."""
    tools = [Tool("t")]
    call = encode_call(asked(OURS, UserMessage("hi"), tools=tools, api_key=TOKEN, session_id="s1", max_tokens=9))

    assert call.url == "https://chatgpt.com/backend-api/codex/responses"
    assert call.headers["session_id"] == "s1"
    assert call.headers["openai-beta"] == "responses=experimental"
    assert call.headers["user-agent"].startswith("lemon-ai")
    assert call.body["instructions"] == "You are a coding assistant."
    assert call.body["text"] == {"verbosity": "medium"}
    assert call.body["include"] == ["reasoning.encrypted_content"]
    assert "max_output_tokens" not in call.body
    assert "strict" not in call.body["tools"][0]
    assert call.body["input"] == [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]


@pytest.mark.parametrize(
    "base", ["https://x.example", "https://x.example/backend-api", "https://x.example/backend-api/codex/responses"]
)
def test_an_address_may_be_given_in_part(base: str):
    """The path is added once."""
    call = encode_call(asked(model("openai_codex_responses", "openai-codex", base_url=base), api_key=TOKEN))

    assert call.url == "https://x.example/backend-api/codex/responses"


def test_the_system_prompt_is_the_instructions():
    """It is no message here."""
    body = encode_call(asked(OURS, system="be brief", api_key=TOKEN)).body

    assert body["instructions"] == "be brief"
    assert len(body["input"]) == 1


async def test_the_backends_own_limit_reaches_the_user_in_minutes():
    """Status, kind and the moment it resets come in the body."""
    told = {"type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "plus"}
    resets = told | {"resets_at": wall_ms() / 1000 + 600}
    async with loopback(429, {}, json.dumps({"error": resets}).encode()) as url:
        request = asked(model("openai_codex_responses", "openai-codex", base_url=url), api_key=TOKEN)
        with pytest.raises(QuotaExhausted, match=r"ChatGPT usage limit.* ~10 min"):
            await collect(CodexProvider(), request)


def test_a_plans_limit_is_told_in_its_own_words():
    """With the minutes that are left, and as something no retry helps with."""
    error = RateLimited(provider="p", message="x", status=429, type="usage_limit_reached", retry_after_s=754.0)

    told = explain_limit(error)

    assert isinstance(told, QuotaExhausted)
    assert str(told) == "You have hit your ChatGPT usage limit. Try again in ~13 min."
    other = RateLimited(provider="p", message="x", status=429)
    assert explain_limit(other) is other
