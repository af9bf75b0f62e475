"""Everything a person and a project say, as one value: where it is looked for, and what waits for trust."""

from pathlib import Path

import pytest
from attrs import evolve

from coding_agent.resources import load_resources
from coding_agent.settings import ResourceChoices, Settings
from coding_agent.trust import check_trust


@pytest.fixture
def settings(tmp_path) -> Settings:
    for name in ("home", "project/.git", "project/in"):
        (tmp_path / name).mkdir(parents=True)
    return Settings(tmp_path / "project" / "in", tmp_path / "s", tmp_path / "r", home=tmp_path / "home")


def put(path: Path, text: str = "---\ndescription: d\n---\nx") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def skill(folder: Path, name: str) -> None:
    put(folder / name / "SKILL.md", f"---\nname: {name}\ndescription: from {folder}\n---\n")


def choose(settings: Settings, **choices) -> Settings:
    return evolve(settings, resources=ResourceChoices(**choices))


def test_skills_are_looked_for_in_their_order_and_the_persons_come_first(settings):
    """Ours, pi's, shared ones; then the trusted project's, up to its root; then paths that were named."""
    home, cwd, root = settings.home, settings.cwd, settings.cwd.parent
    places = [
        home / ".config/lemon/skills",
        home / ".pi/agent/skills",
        home / ".agents/skills",
        cwd / ".lemon/skills",
        cwd / ".pi/skills",
        cwd / ".agents/skills",
        root / ".agents/skills",
        home / "named",
    ]
    for number, place in enumerate(places):
        skill(place, f"s{number}")
        skill(place, "same")
    skill(root.parent / ".agents/skills", "beyond-the-root")
    chosen = choose(settings, skills=(str(home / "named"),))

    found = load_resources(chosen, trusted=True)
    assert [each.name for each in found.skills if each.name != "same"] == [f"s{number}" for number in range(8)]
    assert found.skill("same").description == f"from {places[0]}"
    assert len(found.problems) == 7
    assert {each.source for each in found.skills} == {"user", "project", "path"}

    untrusted = load_resources(chosen, trusted=False)
    assert [each.name for each in untrusted.skills if each.name != "same"] == ["s0", "s1", "s2", "s7"]


def test_other_programs_folders_are_read_only_when_that_is_asked_for(settings):
    """`~/.claude/skills`, `~/.codex/skills`, `.claude/commands`."""
    skill(settings.home / ".claude/skills", "claude")
    skill(settings.home / ".codex/skills", "codex")
    skill(settings.cwd / ".claude/skills", "claude-project")
    put(settings.home / ".claude/commands/mine.md")
    put(settings.cwd / ".claude/commands/theirs.md")
    nothing = load_resources(settings, trusted=True)
    assert nothing.skills == nothing.templates == ()
    chosen = choose(settings, claude_skills=True, codex_skills=True, claude_commands=True)
    found = load_resources(chosen, trusted=True)
    assert [each.name for each in found.skills] == ["claude", "codex", "claude-project"]
    assert [each.name for each in found.templates] == ["mine", "theirs"]
    untrusted = load_resources(chosen, trusted=False)
    assert [each.name for each in untrusted.templates] == ["mine"]


def test_templates_are_the_persons_then_the_projects(settings):
    """One name, the first."""
    put(settings.home / ".config/lemon/prompts/a.md", "mine")
    put(settings.home / ".pi/agent/prompts/b.md", "pi")
    put(settings.cwd / ".lemon/prompts/a.md", "theirs")
    put(settings.cwd / ".pi/prompts/c.md", "theirs")
    found = load_resources(settings, trusted=True)
    assert [(each.name, each.text) for each in found.templates] == [("a", "mine"), ("b", "pi"), ("c", "theirs")]
    assert "taken" in found.problems[0]


def test_globs_and_signs_choose_among_named_paths(settings):
    """`*` finds, `!` and `-` leave out, `+` takes in what `!` left out."""
    for name in ("a", "b", "old-c"):
        skill(settings.home / "more", name)
    more = settings.home / "more"
    chosen = choose(settings, skills=(f"{more}/*", f"!{more}/old*", f"+{more}/old-c", f"-{more}/b"))
    assert [each.name for each in load_resources(chosen, trusted=False).skills] == ["a", "old-c"]


def test_what_is_switched_off_is_not_read(settings):
    """Skills, templates, context files."""
    skill(settings.home / ".agents/skills", "a")
    put(settings.home / ".pi/agent/prompts/b.md")
    put(settings.cwd / "AGENTS.md", "words")
    found = load_resources(choose(settings, use_skills=False, use_templates=False, context_files=False), trusted=True)
    assert found.skills == found.templates == found.context == ()


def test_the_system_prompt_is_the_flags_then_the_projects_then_the_persons(settings):
    """A flag's words, or the file they name; an untrusted project's counts for nothing."""
    put(settings.home / ".pi/agent/SYSTEM.md", "pi")
    put(settings.home / ".config/lemon/SYSTEM.md", "mine")
    put(settings.cwd / ".lemon/SYSTEM.md", "theirs")
    put(settings.cwd / ".pi/APPEND_SYSTEM.md", "and theirs")
    assert load_resources(settings, trusted=False).system_prompt == "mine"
    assert load_resources(settings, trusted=False).append_prompt is None
    trusted = load_resources(settings, trusted=True)
    assert (trusted.system_prompt, trusted.append_prompt) == ("theirs", "and theirs")
    assert load_resources(choose(settings, system_prompt="flag"), trusted=True).system_prompt == "flag"
    file = put(settings.home / "who.md", "from a file")
    assert load_resources(choose(settings, system_prompt=str(file)), trusted=True).system_prompt == "from a file"


def test_a_projects_subagents_and_servers_wait_for_trust(settings):
    """The built-in ones and the person's are there in any case."""
    put(settings.cwd / ".lemon/agents/theirs.md", "---\nname: theirs\n---\nwords")
    put(settings.home / ".lemon/agents/mine.md", "---\nname: mine\n---\nwords")
    put(settings.cwd / ".mcp.json", "{}")
    put(settings.home / ".config/lemon/mcp.json", "{}")
    untrusted = load_resources(settings, trusted=False)
    assert {"mine", "review"} <= set(untrusted.subagents.by_name)
    assert "theirs" not in untrusted.subagents.by_name
    assert untrusted.mcp_files == (settings.home / ".config/lemon/mcp.json",)
    trusted = load_resources(settings, trusted=True)
    assert "theirs" in trusted.subagents.by_name
    assert trusted.mcp_files == (settings.home / ".config/lemon/mcp.json", settings.cwd / ".mcp.json")


def test_what_waits_is_said(settings, tmp_path):
    """By the one value that front ends show."""
    put(settings.cwd / ".mcp.json", "{}")
    asked = evolve(settings, trust=check_trust(settings.cwd, settings.home, tmp_path / "state"))
    found = load_resources(asked, trusted=False)
    assert found.pending == (".mcp.json: MCP servers: starts programs, or connects to servers",)
    assert load_resources(asked, trusted=True).pending == ()


def test_a_named_path_that_is_not_there_is_said(settings):
    """A place of the usual ones may be missing."""
    found = load_resources(choose(settings, skills=("/nowhere/s",), templates=("/nowhere/t",)), trusted=False)
    assert len(found.problems) == 2


def test_what_the_model_may_read_besides_is_the_skill_and_no_more(settings):
    """Its folder; of a skill that is one file, that file."""
    skill(settings.home / ".agents/skills", "a")
    put(settings.home / ".pi/agent/skills/b.md")
    found = load_resources(settings, trusted=False)
    assert set(found.readable) == {settings.home / ".agents/skills/a", settings.home / ".pi/agent/skills/b.md"}
