"""Which credential a call uses."""

from __future__ import annotations

from typing import Any

import pytest

from lemon_ai import MissingCredential, Model, StreamOptions, find_api_key, key_variables
from lemon_ai.environment import KEY_VARIABLES, canonical, require_api_key, vendor_of


def model(provider: str, base_url: str = "") -> Model:
    return Model(id="m", api="openai_completions", provider=provider, base_url=base_url)


@pytest.mark.requirement("AI-2")
def test_what_the_caller_passes_comes_first() -> None:
    """The option, then the options of this provider, however it is spelled, then the environment."""
    environ = {"GROQ_API_KEY": "from-env"}
    of_provider = {"groq": {"api_key": "of-provider"}}
    asked = model("groq")
    assert find_api_key(asked, StreamOptions(api_key="given", provider_options=of_provider), environ=environ) == "given"
    assert find_api_key(asked, StreamOptions(provider_options=of_provider), environ=environ) == "of-provider"
    assert find_api_key(asked, StreamOptions(api_key=""), environ=environ) == "from-env"
    hyphened = {"github-copilot": {"api_key": "k"}}
    assert find_api_key(model("github_copilot"), StreamOptions(provider_options=hyphened), environ={}) == "k"


@pytest.mark.parametrize("provider", sorted(KEY_VARIABLES))
def test_each_provider_has_its_variables_in_their_order(provider: str) -> None:
    """The first that is set and not empty counts."""
    variables = KEY_VARIABLES[provider]
    environ = {name: f"value of {name}" for name in variables}
    for name in variables:
        assert find_api_key(model(provider), StreamOptions(), environ=environ) == f"value of {name}"
        environ[name] = ""
    assert find_api_key(model(provider), StreamOptions(), environ=environ) is None


def test_a_key_of_another_account_is_never_sent() -> None:
    """OpenAI's key does not go to another vendor's host; that vendor's own does."""
    environ = {"OPENAI_API_KEY": "openai", "GROQ_API_KEY": "groq"}
    at_groq = model("openai", "https://api.groq.com/openai/v1")
    assert find_api_key(at_groq, StreamOptions(), environ=environ) == "groq"
    assert find_api_key(model("groq"), StreamOptions(), environ={"OPENAI_API_KEY": "openai"}) is None
    at_proxy = model("openai", "https://llm.example.org/v1")
    assert find_api_key(at_proxy, StreamOptions(), environ=environ) == "openai"
    assert key_variables("acme", "https://acme.example/v1") == ("ACME_API_KEY",)


def test_servers_on_this_machine_need_no_key() -> None:
    """One that is passed is used all the same."""
    environ: dict[str, Any] = {"OPENAI_API_KEY": "openai", "OLLAMA_API_KEY": "x"}
    assert find_api_key(model("ollama"), StreamOptions(), environ=environ) is None
    assert find_api_key(model("local"), StreamOptions(api_key="given"), environ=environ) == "given"


def test_a_missing_key_names_the_variables() -> None:
    """In one line that says what to do."""
    with pytest.raises(MissingCredential) as missing:
        require_api_key(model("google"), StreamOptions(), environ={})
    assert missing.value.variables == ("GOOGLE_GENERATIVE_AI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")
    assert "GOOGLE_API_KEY" in str(missing.value)


def test_hosts_are_told_by_the_end_of_their_names() -> None:
    """A name that only contains a vendor's is nobody's."""
    assert vendor_of("https://api.x.ai/v1") == "xai"
    assert vendor_of("https://api.openai.com.evil.example/v1") is None
    assert vendor_of("https://notgroq.com") is None
    assert vendor_of("") is None
    assert canonical(" Amazon-Bedrock ") == "amazon_bedrock"
