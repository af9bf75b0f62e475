"""Which of GitHub Copilot's servers is asked."""

import pytest

from lemon_ai import Context, Model, StreamOptions, UserMessage, default_catalog
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.copilot_address import INDIVIDUAL, address_of_token
from lemon_ai.providers.openai_completions import encode_call

BUSINESS = "tid=1;exp=2;sku=x;proxy-ep=proxy.business.githubcopilot.com;st=dotcom"


def request(
    key: str | None, base_url: str = INDIVIDUAL, provider: str = "github-copilot", **options
) -> ProviderRequest:
    model = Model(id="m", api="openai_completions", provider=provider, base_url=base_url)
    return ProviderRequest(model, Context(messages=[UserMessage("hi", 0)]), StreamOptions(api_key=key, **options))


def test_a_companys_token_names_its_server():
    """The proxy it names, as the address for programs; this is where the call goes."""
    assert address_of_token(request(BUSINESS)) == "https://api.business.githubcopilot.com"
    assert encode_call(request(BUSINESS)).url == "https://api.business.githubcopilot.com/chat/completions"


def test_the_catalogues_models_have_the_address_that_a_token_may_replace():
    """Else nothing would be replaced."""
    assert {model.base_url for model in default_catalog().models("github_copilot")} == {INDIVIDUAL}


@pytest.mark.parametrize("key", [None, "", "plain", "proxy-ep=", "x;proxy-ep=evil.test/path;y", "notproxy-ep=a.test"])
def test_a_token_that_names_none_leaves_the_models_address(key):
    """A word that is no host name is none."""
    assert address_of_token(request(key)) is None


def test_what_the_caller_says_goes_first():
    """An address of models.json or of the call's own settings; another provider's key is never looked into."""
    assert address_of_token(request(BUSINESS, "https://copilot-api.example.ghe.com")) is None
    assert address_of_token(request(BUSINESS, provider="openai")) is None
    told = request(BUSINESS, provider_options={"github_copilot": {"base_url": "https://mine.test"}})
    assert encode_call(told).url == "https://mine.test/chat/completions"
