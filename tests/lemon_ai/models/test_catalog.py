"""Which models there are, and how one is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lemon_ai import (
    BadCatalog,
    Catalog,
    Model,
    ModelCost,
    UnknownModel,
    current_catalog,
    default_catalog,
    find_model,
    get_model,
    models,
    use_catalog,
)
from lemon_ai.models import refresh
from lemon_ai.models.catalog import FOLDER
from lemon_ai.models.schema import APIS, KNOWN_PROVIDERS, PROVIDERS, read_catalog
from lemon_ai.providers.builtin import APIS as SPOKEN
from lemon_otp import Runtime

GOOD = {
    "id": "m",
    "name": "M",
    "api": "openai_completions",
    "provider": "groq",
    "base_url": "https://example.org",
    "reasoning": False,
    "input": ["text"],
    "cost": {"input": 1, "output": 2, "cache_read": 0, "cache_write": 0},
    "context_window": 1000,
    "max_tokens": 100,
}


def catalog_of(**changes: Any) -> dict[str, Model]:
    entry = {key: value for key, value in {**GOOD, **changes}.items() if value is not ...}
    return read_catalog(json.dumps({"key": entry}), "groq.json")


@pytest.mark.requirement("AI-9")
def test_every_catalogue_of_the_package_passes_its_schema_and_can_be_called() -> None:
    """Each provider's file holds models of its own whose wire format somebody speaks."""
    for provider in PROVIDERS:
        for model in models(provider):
            assert model.provider == provider
            assert model.api in SPOKEN
    assert len(models()) > 500
    stray = {path.stem for path in Path(FOLDER).glob("*.json")} - set(PROVIDERS)
    assert not stray


@pytest.mark.parametrize(
    "provider",
    [
        "anthropic",
        "openai",
        "google",
        "mistral",
        "groq",
        "xai",
        "deepseek",
        "cerebras",
        "openrouter",
        "amazon_bedrock",
        "azure_openai_responses",
        "ollama",
        "llama_cpp",
        "lmstudio",
        "vllm",
    ],
)
def test_the_providers_people_use_are_listed_with_prices(provider: str) -> None:
    """A hosted one costs something and has a window; one on this machine costs nothing."""
    listed = models(provider)
    assert listed
    priced = [model for model in listed if model.cost.output > 0]
    local = provider in ("ollama", "llama_cpp", "lmstudio", "vllm")
    assert not priced if local else len(priced) > len(listed) / 2


def test_capabilities_are_data_of_the_catalogue() -> None:
    """Thinking that adapts, efforts and their words, pictures: each is an entry's own."""
    opus = find_model("anthropic/claude-opus-4-6")
    assert (opus.adaptive_thinking, opus.effort("max"), opus.effort("xhigh")) == (True, "max", "high")
    haiku = find_model("anthropic/claude-haiku-4-5")
    assert (haiku.adaptive_thinking, haiku.reasoning, haiku.sees_images) == (False, True, True)
    assert find_model("groq/qwen/qwen3-32b").effort("low") == "default"
    assert find_model("openai/gpt-4o").effort("high") is None


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"api": "soap"}, "key.api"),
        ({"provider": "nobody"}, "key.provider"),
        ({"input": ["text", "smell"]}, "key.input"),
        ({"input": "text"}, "key.input"),
        ({"cost": {"input": 1}}, "key.cost"),
        ({"cost": {**GOOD["cost"], "output": -1}}, "key.cost.output"),
        ({"context_window": -1}, "key.context_window"),
        ({"context_window": True}, "key.context_window"),
        ({"reasoning": "yes"}, "key.reasoning"),
        ({"id": ""}, "key.id"),
        ({"name": ...}, "key.name"),
        ({"surprise": 1}, "key.surprise"),
        ({"headers": {"a": 1}}, "key.headers.a"),
        ({"reasoning_efforts": ["enormous"]}, "key.reasoning_efforts"),
        ({"reasoning_efforts": {"low": ""}}, "key.reasoning_efforts.low"),
        ({"adaptive_thinking": 1}, "key.adaptive_thinking"),
        ({"compat": {"supports_stor": True}}, "key.compat.supports_stor"),
        ({"compat": {"supports_store": "yes"}}, "key.compat.supports_store"),
        ({"compat": {"max_tokens_field": "tokens"}}, "key.compat.max_tokens_field"),
        ({"compat": {"open_router_routing": 3}}, "key.compat.open_router_routing"),
        ({"compat": []}, "key.compat"),
    ],
)
@pytest.mark.requirement("AI-9")
def test_an_entry_that_breaks_the_schema_is_named_with_its_place(changes: dict[str, Any], path: str) -> None:
    """File, entry and field."""
    with pytest.raises(BadCatalog) as bad:
        catalog_of(**changes)
    assert (bad.value.file, bad.value.path) == ("groq.json", path)


@pytest.mark.parametrize("text", ["{", "[]", '"text"'])
def test_a_catalogue_that_is_no_object_is_named(text: str) -> None:
    """With its file."""
    with pytest.raises(BadCatalog, match=r"groq\.json"):
        read_catalog(text, "groq.json")


def test_a_key_may_be_an_alias_and_optional_fields_may_be_left_out() -> None:
    """The request uses the entry's id; null overrides nothing; JSON types in routing are kept."""
    (key, model), *_ = catalog_of(compat={"open_router_routing": {"only": ["a"], "n": 1.5}}, headers=None).items()
    assert (key, model.id, model.cost) == ("key", "m", ModelCost(1.0, 2.0, 0.0, 0.0))
    assert model.compat is not None
    assert model.compat.open_router_routing == {"only": ["a"], "n": 1.5}
    assert catalog_of(compat=None)["key"].compat is None


def test_a_model_is_named_by_provider_and_id_or_by_its_id_alone() -> None:
    """Hyphens and underscores are the same; some providers have other names; ids may hold slashes."""
    assert find_model("amazon-bedrock/us.anthropic.claude-opus-4-6-v1:0").provider == "amazon_bedrock"
    assert find_model("bedrock/us.anthropic.claude-opus-4-6-v1:0").provider == "amazon_bedrock"
    assert find_model("openrouter/anthropic/claude-opus-4.6").provider == "openrouter"
    assert find_model("claude-opus-4-6").provider == "anthropic"
    assert get_model("x-ai", "grok-4.5") is find_model("xai/grok-4.5")
    assert get_model("anthropic", "nothing") is None
    assert models("nobody") == ()


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("anthropic/claude-opus-46", "anthropic/claude-opus-4-6"),
        ("scripted/ecko", "scripted/echo"),
        ("gpt-5.1-minni", "gpt-5"),
    ],
)
def test_an_unknown_name_lists_what_is_close(name: str, close: str) -> None:
    """In one line."""
    with pytest.raises(UnknownModel) as unknown:
        find_model(name)
    assert close in str(unknown.value)
    assert "\n" not in str(unknown.value)


@pytest.mark.parametrize("name", ["", "/", "nobody/anything", "anthropic/", "zzzz"])
def test_nonsense_is_an_unknown_model(name: str) -> None:
    """Never anything else."""
    with pytest.raises(UnknownModel):
        find_model(name)


def test_a_server_on_this_machine_serves_any_model() -> None:
    """At its usual address, or at the one given; it speaks Chat Completions."""
    model = find_model("ollama/some-new-model:7b")
    assert (model.id, model.api, model.base_url) == (
        "some-new-model:7b",
        "openai_completions",
        "http://127.0.0.1:11434/v1",
    )
    moved = find_model("lmstudio/x", base_url="http://10.0.0.5:9000/v1")
    assert moved.base_url == "http://10.0.0.5:9000/v1"


def test_an_address_makes_any_name_a_model_there() -> None:
    """With a provider of any name or none; a listed model keeps its facts and speaks what a server there will know."""
    model = find_model("my-model", base_url="http://127.0.0.1:9/v1")
    assert (model.provider, model.id, model.base_url) == ("local", "my-model", "http://127.0.0.1:9/v1")
    assert find_model("acme/m", base_url="http://h/v1").provider == "acme"
    known = find_model("openai/gpt-5.1", base_url="http://127.0.0.1:9/v1")
    assert (known.api, known.base_url, known.reasoning) == ("openai_completions", "http://127.0.0.1:9/v1", True)


def test_a_recording_and_a_script_are_models_by_their_file() -> None:
    """replay/FILE and scripted/FILE.jsonl."""
    assert find_model("replay//tmp/a b/session.jsonl").id == "/tmp/a b/session.jsonl"
    assert find_model("scripted/dir/talk.jsonl").id == "dir/talk.jsonl"


OVERRIDES = {
    "providers": {
        "anthropic": {"baseUrl": "https://proxy.example/anthropic", "headers": {"X-Team": "a"}},
        "openai": {"modelOverrides": {"gpt-4o": {"name": "Mine", "cost": {"input": 9}}, "no-such": {"name": "x"}}},
        "my-server": {
            "baseUrl": "http://10.1.1.1/v1",
            "api": "openai-completions",
            "apiKey": "MY_KEY",
            "compat": {"supportsStore": False, "maxTokensField": "max_tokens"},
            "models": [{"id": "big", "contextWindow": 5, "compat": {"supportsStore": True}}, {"id": "small"}],
        },
    }
}


def test_a_users_file_reroutes_patches_and_adds() -> None:
    """The built-in catalogue stays as it was; a model of the user's is found like any other."""
    mine = default_catalog().with_overrides(OVERRIDES)
    claude = mine.find("anthropic/claude-opus-4-6")
    assert (claude.base_url, claude.headers) == ("https://proxy.example/anthropic", {"X-Team": "a"})
    patched = mine.find("openai/gpt-4o")
    assert (patched.name, patched.cost.input, patched.cost.output) == (
        "Mine",
        9.0,
        find_model("openai/gpt-4o").cost.output,
    )
    big, small = mine.find("my-server/big"), mine.find("small")
    assert (big.context_window, small.context_window, small.max_tokens) == (5, 128_000, 16_384)
    assert big.compat is not None
    assert (big.compat.supports_store, big.compat.max_tokens_field) == (True, "max_tokens")
    assert mine.overrides["my_server"].api_key == "MY_KEY"
    assert "my_server" in mine.providers()
    assert find_model("anthropic/claude-opus-4-6").base_url == "https://api.anthropic.com"


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], ""),
        ({"providers": []}, "providers"),
        ({"providers": {"a": {"baseUrl": 3}}}, "providers.a.baseUrl"),
        ({"providers": {"a": {"api": "soap"}}}, "providers.a.api"),
        ({"providers": {"a": {"models": {}}}}, "providers.a.models"),
        ({"providers": {"a": {"models": [{"name": "x"}]}}}, "providers.a.models[0].id"),
        ({"providers": {"a": {"compat": {"nope": True}}}}, "providers.a.compat.nope"),
    ],
)
def test_a_users_file_of_the_wrong_shape_is_named_with_its_place(document: Any, path: str) -> None:
    """The file is left alone and the place is said."""
    with pytest.raises(BadCatalog) as bad:
        Catalog().with_overrides(document)
    assert (bad.value.file, bad.value.path) == ("models.json", path)


def test_catalogues_are_read_when_they_are_first_needed() -> None:
    """One provider's model reads one provider's file."""
    asked: list[str] = []

    def read(provider: str) -> dict[str, Model]:
        asked.append(provider)
        return {}

    catalog = Catalog(read=read)
    catalog.get("anthropic", "x")
    catalog.get("anthropic", "y")
    assert asked == ["anthropic"]


def test_the_refresh_writes_what_the_reader_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices joined with capabilities; deprecated and unpriced models left out; written twice, nothing changes."""

    class Price:
        input_mtok, output_mtok, cache_read_mtok, cache_write_mtok = 3, 15, 0.3, None

    class Unpriced:
        input_mtok = output_mtok = None

    class Priced:
        def __init__(self, name: str, prices: Any, *, deprecated: bool = False) -> None:
            self.id, self.prices, self.deprecated = name, prices, deprecated
            self.name, self.context_window = f"Name of {name}", 200_000

    listed = [
        Priced("claude-opus-4-6", Price()),
        Priced("claude-opus-3", Price(), deprecated=True),
        Priced("claude-voice", Unpriced()),
    ]
    monkeypatch.setattr(refresh, "_price_list", lambda: {"anthropic": listed})
    assert refresh.main(["--folder", str(tmp_path)]) == 0
    written = read_catalog((tmp_path / "anthropic.json").read_text(), "anthropic.json")
    assert list(written) == ["claude-opus-4-6"]
    model = written["claude-opus-4-6"]
    assert model.cost == ModelCost(3.0, 15.0, 0.3, 0.0)
    assert model.adaptive_thinking
    assert refresh.main(["--folder", str(tmp_path), "--check"]) == 0
    (tmp_path / "anthropic.json").write_text("{}\n")
    assert refresh.main(["--folder", str(tmp_path), "--check"]) == 1
    assert (tmp_path / "anthropic.json").read_text() == "{}\n"


def test_every_provider_the_schema_knows_is_spelled_as_this_package_spells() -> None:
    """Lower case and underscores; apis alike."""
    for name in (*KNOWN_PROVIDERS, *APIS):
        assert name == name.lower().replace("-", "_")


async def test_a_runtime_can_be_told_which_catalogue_to_use(runtime: Any) -> None:
    """Every name is looked up in it, by every process of that runtime; others do not see it."""
    assert current_catalog() is default_catalog()
    use_catalog(default_catalog().with_overrides(OVERRIDES))
    assert find_model("my-server/big").context_window == 5
    assert get_model("my-server", "small") is not None
    async with Runtime():
        assert current_catalog() is default_catalog()


def test_without_a_runtime_the_catalogue_is_the_packages_own() -> None:
    """Looking a model up needs nothing that runs."""
    assert current_catalog() is default_catalog()


@pytest.mark.parametrize(
    ("name", "provider", "model_id"),
    [
        ("anthropic:claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ("ollama:qwen3:8b", "ollama", "qwen3:8b"),
        ("ollama/qwen3:8b", "ollama", "qwen3:8b"),
        ("qwen3:8b", "ollama", "qwen3:8b"),
    ],
)
def test_a_colon_parts_provider_and_model_too(name: str, provider: str, model_id: str) -> None:
    """Only behind a provider that is known; model names have colons of their own."""
    found = find_model(name)

    assert (found.provider, found.id) == (provider, model_id)
    with pytest.raises(UnknownModel):
        find_model("nobody:qwen3")
