"""A person's own `models.json`: found, checked, on top of the catalogue, with the keys it names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coding_agent.credentials.credentials import resolved
from coding_agent.errors import BadUsage
from coding_agent.models.user_models import models_file, user_models
from coding_agent.rpc.models_json import available
from lemon_ai import default_catalog
from tests.coding_agent.models.local_fakes import OLLAMA, serving

MINE = {
    "providers": {
        "my-server": {
            "baseUrl": "http://127.0.0.1:9/v1",
            "apiKey": "MY_SERVER_SECRET",
            "models": [{"id": "big", "contextWindow": 5000}],
        },
        "openai": {"baseUrl": "https://proxy.example/v1"},
    }
}


def environ(tmp_path: Path, document: Any = MINE, **more: str) -> dict[str, str]:
    """A home with this file in its usual place."""
    folder = tmp_path / ".config" / "lemon"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "models.json").write_text(document if isinstance(document, str) else json.dumps(document))
    return {"HOME": str(tmp_path), **more}


def test_the_file_lies_on_top_of_the_catalogue(tmp_path: Path) -> None:
    """Its models are found by name, its address goes to those that are built in, and the rest stays as it was."""
    known = user_models(environ(tmp_path)).catalog
    assert known.find("my-server/big").context_window == 5000
    assert known.find("openai/gpt-5.1").base_url == "https://proxy.example/v1"
    assert known.find("anthropic/claude-sonnet-4-5") == default_catalog().find("anthropic/claude-sonnet-4-5")


async def test_without_a_file_the_catalogue_is_the_packages_own(tmp_path: Path) -> None:
    """Nothing is read but the one place; there is no key to be had."""
    known = user_models({"HOME": str(tmp_path)})
    assert known.catalog is default_catalog()
    assert await known.key_finder("my_server") is None


def test_where_the_file_is_looked_for(tmp_path: Path) -> None:
    """The variable, then the folder for settings, then the home."""
    assert models_file({"HOME": "/h"}) == Path("/h/.config/lemon/models.json")
    assert models_file({"HOME": "/h", "XDG_CONFIG_HOME": "/c"}) == Path("/c/lemon/models.json")
    assert models_file({"HOME": "/h", "LEMON_MODELS_FILE": str(tmp_path / "m")}) == tmp_path / "m"


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "is no JSON"),
        ([], "must be an object"),
        ({"providers": {"a": {"models": [{"name": "x"}]}}}, r"providers\.a\.models\[0\]\.id"),
    ],
)
def test_a_file_that_cannot_be_meant_is_bad_usage_with_its_place(tmp_path: Path, document: Any, said: str) -> None:
    """One line for a person that names the file and the place in it."""
    with pytest.raises(BadUsage, match=said) as bad:
        user_models(environ(tmp_path, document))
    assert "models.json" in str(bad.value)


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    """A spelling mistake in the variable does not pass for a home without the file."""
    with pytest.raises(BadUsage, match="LEMON_MODELS_FILE"):
        user_models({"HOME": str(tmp_path), "LEMON_MODELS_FILE": str(tmp_path / "nowhere.json")})


async def test_a_key_is_the_files_only_where_no_variable_of_the_provider_holds_one(tmp_path: Path) -> None:
    """A name of a variable stands for its value; other providers get nothing of it."""
    variables = environ(tmp_path, MY_SERVER_SECRET="from-the-variable")
    find = user_models(variables).key_finder
    assert await find("my-server") == await find("my_server") == "from-the-variable"
    assert await find("openai") is None
    assert await find("anthropic") is None
    variables["MY_SERVER_API_KEY"] = "own"
    assert await find("my-server") is None


def test_a_value_is_a_literal_a_variable_or_a_command() -> None:
    """A command that fails, or says nothing, gives no key."""
    assert resolved("literal", {}) == "literal"
    assert resolved("NAME", {"NAME": "value"}) == "value"
    assert resolved("!printf 'out put\\n'", {}) == "out put"
    assert resolved("!exit 3", {}) is None
    assert resolved("!true", {}) is None


def test_pis_file_lies_beneath_ours_provider_by_provider(tmp_path: Path) -> None:
    """A broken one is said and passed over; one of ours that was named stands alone."""
    folder = tmp_path / ".pi" / "agent"
    folder.mkdir(parents=True)
    theirs = {"providers": {"pi-server": {"baseUrl": "http://127.0.0.1:8/v1", "models": [{"id": "m"}]},
                            "openai": {"baseUrl": "https://pi.example/v1"}}}  # fmt: skip
    (folder / "models.json").write_text(json.dumps(theirs))
    known = user_models(environ(tmp_path))
    assert known.catalog.find("pi-server/m").base_url == "http://127.0.0.1:8/v1"
    assert known.catalog.find("openai/gpt-5.1").base_url == "https://proxy.example/v1"
    (folder / "models.json").write_text("{")
    known = user_models(environ(tmp_path))
    assert known.catalog.find("my-server/big").context_window == 5000
    assert ".pi" in known.problems[0]
    named = user_models(environ(tmp_path, LEMON_MODELS_FILE=str(tmp_path / ".config" / "lemon" / "models.json")))
    assert named.problems == ()


def test_a_model_that_a_server_of_this_machine_serves_is_taken_as_it_is_there(tmp_path: Path) -> None:
    """Once servers were looked for: its address and the context it has; before that, what the catalogue says."""
    with serving(OLLAMA) as fake:
        variables = {"OLLAMA_HOST": f"127.0.0.1:{fake.port}", "LEMON_LOCAL_SERVERS": "30"}
        known = user_models(environ(tmp_path, {"providers": {}}, **variables))
        assert known.find("ollama/small").base_url == "http://127.0.0.1:11434/v1"
        known.servers.find()
    found = known.find("ollama/small")
    assert (found.base_url, found.context_window) == (f"{fake.url}/v1", 16384)
    assert found in known.served()
    assert known.find("openai/gpt-5.1") == default_catalog().find("openai/gpt-5.1")


def test_only_what_can_be_asked_is_there_to_choose_from(tmp_path: Path) -> None:
    """Models of servers that run, of providers with a key, one's own on this machine, the scripted ones."""
    with serving(OLLAMA) as fake:
        variables = {"OLLAMA_HOST": f"127.0.0.1:{fake.port}", "LEMON_LOCAL_SERVERS": "30", "GROQ_API_KEY": "k"}
        mine = {"providers": {"mine": {"baseUrl": "http://127.0.0.1:9/v1", "models": [{"id": "own"}]}}}
        known = user_models(environ(tmp_path, mine, **variables))
        known.servers.find()
    current = known.catalog.find("scripted/echo")
    models = available(known, current)
    assert models[0] == current
    assert {model.provider for model in models} >= {"scripted", "ollama", "groq", "mine"}
    assert [model.id for model in models if model.provider == "ollama"] == ["small", "seeing", "loaded"]
    assert not [model for model in models if model.provider in ("lmstudio", "anthropic")]
