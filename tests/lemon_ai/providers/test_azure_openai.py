"""lemon_ai/providers/azure_openai.py: addresses, deployments and the key header of Azure."""

from typing import Any

import pytest

from lemon_ai.errors import BadRequest
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.azure_openai import azure_url, deployment_of, encode_completions_call, encode_responses_call
from tests.lemon_ai.providers.wires import asked, model


def request(settings: dict[str, Any], *, base_url: str = "", **options: Any) -> ProviderRequest:
    target = model("azure_openai_responses", "azure_openai_responses", base_url=base_url)
    return asked(target, api_key="key", provider_options={"azure-openai-responses": settings}, **options)


@pytest.mark.parametrize(
    ("base", "version", "url"),
    [
        ("https://r.openai.azure.com/openai/v1", None, "https://r.openai.azure.com/openai/v1/responses?api-version=v1"),
        (
            "https://r.example/openai",
            "2025-03-01-preview",
            "https://r.example/openai/responses?api-version=2025-03-01-preview",
        ),
        ("https://r.example/x?api-version=1&a=b", "2", "https://r.example/x/responses?api-version=1&a=b"),
        ("https://r.example/x/?a=b", None, "https://r.example/x/responses?a=b&api-version=v1"),
    ],
)
def test_the_address_keeps_its_query_and_gets_a_version(base: str, version: str | None, url: str):
    """An api-version that is already there is not replaced."""
    assert azure_url(base, "responses", version) == url


def test_where_the_resource_is(monkeypatch: pytest.MonkeyPatch):
    """The settings win over the model; a resource's name is enough; with neither nothing is sent."""
    by_name = encode_responses_call(request({"azure_resource_name": "mine"}))
    by_base = encode_responses_call(
        request({"azure_base_url": "https://a.example/openai/v1"}, base_url="https://b.example")
    )

    assert by_name.url == "https://mine.openai.azure.com/openai/v1/responses?api-version=v1"
    assert by_base.url.startswith("https://a.example/")
    assert by_name.headers["api-key"] == "key"
    assert "authorization" not in by_name.headers
    with pytest.raises(BadRequest, match="AZURE_OPENAI_RESOURCE_NAME"):
        encode_responses_call(request({}))
    monkeypatch.setenv("AZURE_OPENAI_RESOURCE_NAME", "theirs")
    monkeypatch.setenv("AZURE_OPENAI_API_VERSION", "preview")
    assert encode_responses_call(request({})).url == (
        "https://theirs.openai.azure.com/openai/v1/responses?api-version=preview"
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "a-model"),
        ({"azure_deployment_name": "mine"}, "mine"),
        ({"azure_deployment_name_map": {"a-model": "mapped"}}, "mapped"),
        ({"azure_deployment_name_map": "x=y, a-model = mapped"}, "mapped"),
        ({"azure_deployment_name_map": "x=y"}, "a-model"),
    ],
)
def test_the_deployment_is_named_outright_or_by_a_map(settings: dict[str, Any], expected: str):
    """A map may be the string an environment variable holds."""
    assert deployment_of(request(settings)) == expected


def test_reasoning_models_think_with_medium_effort_unless_told():
    """And a service tier means nothing here."""
    settings = {"azure_resource_name": "mine", "service_tier": "flex"}

    assert encode_responses_call(request(settings)).body["reasoning"]["effort"] == "medium"
    assert encode_responses_call(request(settings, reasoning="low")).body["reasoning"]["effort"] == "low"
    assert "reasoning" not in encode_responses_call(request(settings, reasoning=False)).body
    assert "service_tier" not in encode_responses_call(request(settings)).body


def test_chat_completions_of_an_older_deployment():
    """The deployment is in the path, and what only OpenAI knows is left out."""
    base = "https://r.openai.azure.com/openai/deployments/gpt?api-version=2024-02-01"

    call = encode_completions_call(request({}, base_url=base))

    assert call.url == ("https://r.openai.azure.com/openai/deployments/gpt/chat/completions?api-version=2024-02-01")
    assert call.headers["api-key"] == "key"
    assert "store" not in call.body
    assert call.body["messages"][-1] == {"role": "user", "content": "hello"}
