"""Which model answers when nobody named one."""

import json
from pathlib import Path

import pytest

from coding_agent.models.model_choice import NO_MODEL_NOTICE, choose_model
from coding_agent.settings import read_settings
from lemon_ai import KEY_VARIABLES
from tests.coding_agent.models.local_fakes import OLLAMA, serving


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A home without keys, on a machine without servers."""
    for name in {variable for names in KEY_VARIABLES.values() for variable in names}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LEMON_AUTH_FILE", str(tmp_path / "auth.json"))
    monkeypatch.setenv("LEMON_LOCAL_SERVERS", "off")
    return read_settings({"HOME": str(tmp_path)}, cwd=str(tmp_path))


def test_without_a_key_or_a_server_the_scripted_model_answers_and_says_so(settings):
    """So that the first start works."""
    choice = choose_model(settings)
    assert (choice.model.provider, choice.notice) == ("scripted", NO_MODEL_NOTICE)


def test_a_stored_key_chooses_as_a_variable_does(settings, tmp_path):
    """`login groq`, and Groq answers."""
    (tmp_path / "auth.json").write_text(json.dumps({"groq": {"type": "api_key", "key": "k-12345"}}))
    assert choose_model(settings).model.provider == "groq"


def test_a_server_of_this_machine_answers_with_the_model_that_is_loaded_and_its_context(settings, monkeypatch):
    """Known by what it answers, wherever it listens; the context is the one it has, not the most it could have."""
    monkeypatch.setenv("LEMON_LOCAL_SERVERS", "30")
    with serving(OLLAMA) as fake:
        monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{fake.port}")
        choice = choose_model(settings)
    assert (choice.model.provider, choice.model.id, choice.model.context_window) == ("ollama", "loaded", 32768)
    assert choice.notice == f"using the local server at {fake.url}/v1"
    assert not choice.asked_for
