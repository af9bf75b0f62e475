"""What settings make of a session."""

import json

import pytest
from attrs import evolve

from coding_agent.arguments import parse
from coding_agent.errors import BadUsage
from coding_agent.models.model_choice import ModelChoice, choose_model
from coding_agent.resources import Resources
from coding_agent.safety import safety_of
from coding_agent.settings import Settings, read_settings
from coding_agent.settings.from_arguments import settings_of
from coding_agent.starting import NO_IMAGE, session_options, without_images
from lemon_ai import ImageContent, TextContent, UserMessage, find_model

CHOICE = ModelChoice(find_model("scripted/echo"), asked_for=False)
FILE = {
    "compaction": {"enabled": False, "reserveTokens": 1, "keepRecentTokens": 2},
    "branchSummary": {"reserveTokens": 3},
    "retry": {"maxRetries": 4, "baseDelayMs": 5, "maxDelayMs": 6},
    "steeringMode": "all",
    "maxToolTurns": 7,
    "budget": {"maxTokens": 8, "maxCost": 0.5, "maxTurns": 9, "maxSeconds": 10, "maxChildren": 2},
    "thinkingBudgets": {"high": 11},
    "transport": "auto",
    "defaultThinkingLevel": "high",
    "images": {"autoResize": False, "blockImages": True},
    "permissions": {"mode": "edit", "allow": ["bash(git *)"], "ask": ["web_fetch"], "deny": ["read(.env)"]},
    "checkpoints": False,
    "fallbackModels": ["scripted/demo"],
}


@pytest.fixture
def settings(tmp_path) -> Settings:
    (tmp_path / ".config" / "lemon").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    (tmp_path / ".config" / "lemon" / "settings.json").write_text(json.dumps(FILE))
    return read_settings({"HOME": str(tmp_path)}, cwd=str(tmp_path / "project"))


def test_models_that_stand_in_come_with_the_choice(settings):
    """`fallbackModels` names them; one that nobody knows is said at once, not when it is needed."""
    choice = choose_model(evolve(settings, model="scripted/echo"))

    options = session_options(settings, choice, safety=safety_of(settings))

    assert [candidate.model.id for candidate in options.fallback] == ["demo"]
    with pytest.raises(BadUsage, match="nobody"):
        choose_model(evolve(settings, model="scripted/echo", fallback_models=("scripted/demo", "nobody/knows")))


@pytest.mark.parametrize("flags", [["--fallback", "a/b", "--fallback", "c/d"], ["--fallback", "a/b,c/d"]])
def test_the_flag_for_models_that_stand_in_wins_over_the_file(settings, flags):
    """Repeated or with commas, in the order given."""
    found = settings_of(parse(["-p", "x", "--cwd", str(settings.cwd), *flags]), {"HOME": str(settings.home)})

    assert settings.fallback_models == ("scripted/demo",)
    assert found.fallback_models == ("a/b", "c/d")


def test_every_setting_of_a_session_reaches_it(settings):
    """Compaction, retries, queues, limits, thinking, permissions, pictures."""
    options = session_options(settings, CHOICE, safety=safety_of(settings))
    compaction = options.compaction
    assert (compaction.enabled, compaction.reserve_tokens, compaction.keep_recent_tokens) == (False, 1, 2)
    assert compaction.branch_reserve_tokens == 3
    calls = options.stream_options
    assert (calls.max_retries, calls.retry_base_ms, calls.max_retry_delay_ms) == (4, 5, 6)
    assert dict(calls.thinking_budgets) == {"high": 11}
    assert calls.transport == "auto"
    assert options.agent_settings["steering_mode"] == "all"
    assert options.agent_settings["follow_up_mode"] == "one_at_a_time"
    assert options.agent_settings["max_tool_turns"] == 7
    budget = options.account.budget
    assert (budget.max_tokens, budget.max_cost, budget.max_turns) == (8, 0.5, 9)
    assert (budget.max_time_s, budget.max_children) == (10, 2)
    assert options.thinking_level == "high"
    assert options.agent_settings["transform_context"] is without_images
    safety = safety_of(settings)
    assert (safety.mode, safety.allow, safety.deny) == ("edit", ("bash(git *)",), ("read(.env)",))
    assert not safety.checkpoints


def test_retries_can_be_switched_off(settings):
    """No second try."""
    off = evolve(settings, retry=evolve(settings.retry, enabled=False))
    assert session_options(off, CHOICE).stream_options.max_retries == 0


def test_a_session_that_goes_on_keeps_its_level_unless_another_was_asked_for(settings, tmp_path):
    """The default of a file is for new ones."""
    file = tmp_path / "s.jsonl"
    file.write_text("")
    assert session_options(settings, CHOICE, session=str(file)).thinking_level is None
    asked = evolve(settings, thinking_asked=True)
    assert session_options(asked, CHOICE, session=str(file)).thinking_level == "high"


def test_resources_and_subagents_are_those_that_were_read_when_the_session_began(settings, tmp_path):
    """What was trusted is what is used, whatever is written there later."""
    found = Resources()
    options = session_options(settings, CHOICE, resources=found)
    assert options.resources is found
    assert session_options(settings, CHOICE).resources.subagents.by_name.keys() >= {"review", "test"}


def test_a_model_that_is_to_see_no_pictures_is_told_that_there_was_one():
    """The conversation itself stays as it is."""
    message = UserMessage((TextContent("look"), ImageContent("aGk=")))
    (shown,) = without_images((message,))
    assert shown.content == (TextContent("look"), NO_IMAGE)
    assert without_images((UserMessage("plain"),)) == [UserMessage("plain")]
