"""models list: what can be used here, found by words, for people and for programs."""

import json
from pathlib import Path

import pytest

from coding_agent.errors import BadUsage
from coding_agent.models import models_command
from tests.coding_agent.models.local_fakes import OLLAMA, serving
from tests.flows.hosts import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, {"LEMON_LOCAL_SERVERS": "off"})


def listed(machine: Machine, *arguments: str) -> dict:
    done = machine.run("models", "list", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def names(machine: Machine, *arguments: str) -> list[str]:
    return [f"{model['provider']}/{model['id']}" for model in listed(machine, *arguments)["models"]]


def test_only_what_can_be_used_is_listed_unless_all_is_asked_for(machine):
    """A key by variable, by login or in models.json; the rest is counted on standard error."""
    machine.extra_env["GROQ_API_KEY"] = "groq-secret-key"
    machine.run("login", "xai", stdin="xai-secret-key-1\n")
    done = machine.run("models", "list")
    assert "groq/" in done.stdout
    assert "variable GROQ_API_KEY" in done.stdout
    assert "xai/" in done.stdout
    assert "anthropic/" not in done.stdout
    assert "more have no key here; `models list --all` shows them" in done.stderr
    assert "can: t thinks" in done.stderr
    assert "secret" not in done.stdout + done.stderr
    assert "no key" in machine.run("models", "list", "--all", "anthropic/").stdout


def test_words_and_patterns_pick_models(machine):
    """Words anywhere in the names, in any order and case; a pattern fits the whole name or the id."""
    machine.extra_env["OPENAI_API_KEY"] = "k-12345"
    assert names(machine, "openai GPT-5.1") == ["openai/gpt-5.1", "openai/gpt-5.1-codex-mini"]
    assert names(machine, "openai/gpt-5.?") == names(machine, "gpt-5.?")
    assert "openai/gpt-5.1" in names(machine, "*/gpt-5.1")
    nothing = machine.run("models", "list", "no-such-model")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "no model fits" in nothing.stderr


def test_a_servers_models_come_first_with_the_context_they_have(machine):
    """With their address as the place they come from; `?` marks a context that is assumed."""
    machine.extra_env["LEMON_LOCAL_SERVERS"] = "30"
    with serving(OLLAMA) as fake:
        machine.extra_env["OLLAMA_HOST"] = f"127.0.0.1:{fake.port}"
        found = listed(machine, "ollama/*")
        text = machine.run("models", "list", "seeing").stdout
    assert [model["id"] for model in found["models"]] == ["small", "seeing", "loaded"]
    assert found["models"][0]["contextWindow"] == 16384
    assert found["models"][0]["local"]["contextMax"] == 131072
    assert found["models"][0]["source"] == f"{fake.url}/v1"
    assert {"kind": "ollama", "baseUrl": f"{fake.url}/v1", "version": "0.12.3", "state": "ready", "models": 3} in found[
        "servers"
    ]
    assert "4096?" in text


def test_models_of_the_persons_own_file_are_listed(machine):
    """With the key that the file names as their source."""
    folder = machine.home / ".config" / "lemon"
    folder.mkdir(parents=True)
    document = {"providers": {"home": {"baseUrl": "http://10.0.0.1/v1", "apiKey": "k-123", "models": [{"id": "big"}]}}}
    (folder / "models.json").write_text(json.dumps(document))
    (model,) = listed(machine, "home/")["models"]
    assert (model["id"], model["source"], model["baseUrl"]) == ("big", "models.json", "http://10.0.0.1/v1")


def test_bad_usage_is_one_line(machine):
    """Exit code 2 and no traceback."""
    for arguments in (("--nope",), ("list", "--nope"), ("show",)):
        with pytest.raises(BadUsage) as bad:
            models_command.main(arguments, machine.env())
        assert len(str(bad.value).splitlines()) == 1


def test_a_table_without_rows_has_no_head():
    """Nothing to align."""
    assert models_command.table([]) == []
