"""Trust in a project: what waits for it, how long a yes holds, and what cannot give it."""

import json
import os
import stat
from pathlib import Path

import pytest
from attrs import define

from coding_agent.errors import BadUsage
from coding_agent.trust import Needs, Trust, check_trust, decide
from coding_agent.trust.check import forget


@define
class Desk:
    """A person's home, their state, and a repository they have fetched."""

    home: Path
    state: Path
    project: Path

    def check(self, needs: Needs | None = None) -> Trust:
        return check_trust(self.project, self.home, self.state, needs)

    def put(self, name: str, text: str = "x") -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def trust(self) -> Trust:
        return decide(self.check(), True)

    @property
    def store(self) -> Path:
        return self.state / "trust.json"


@pytest.fixture
def desk(tmp_path) -> Desk:
    for name in ("home", "state", "project"):
        (tmp_path / name).mkdir()
    (tmp_path / "project" / ".git").mkdir()
    return Desk(tmp_path / "home", tmp_path / "state", tmp_path / "project")


def test_a_project_without_such_files_asks_nothing(desk):
    """Context files are words, and no rule gives way to words."""
    desk.put("AGENTS.md")
    desk.put("CLAUDE.md")
    trust = desk.check()
    assert trust.state == "nothing"
    assert not trust.trusted
    assert trust.question() is None
    assert trust.notice() is None
    assert not desk.store.exists()


@pytest.mark.requirement("BR-181")
@pytest.mark.parametrize(
    "name",
    [
        ".mcp.json",
        ".vscode/mcp.json",
        ".cursor/mcp.json",
        ".pi/mcp.json",
        ".lemon/mcp.json",
        ".lemon/skills/a/SKILL.md",
        ".lemon/skills/a/scripts/run.sh",
        ".pi/skills/a.md",
        ".agents/skills/a/SKILL.md",
        ".lemon/prompts/a.md",
        ".pi/prompts/a.md",
        ".lemon/agents/review.md",
        ".lemon/SYSTEM.md",
        ".pi/APPEND_SYSTEM.md",
    ],
)
def test_each_file_that_could_run_or_weaken_something_waits_and_holds_only_as_it_was(desk, name):
    """It is asked about once; a change, its removal, or a new one beside it takes the yes back and is named."""
    path = desk.put(name, "one")
    assert desk.check().question() is not None

    desk.trust()
    trust = desk.check()
    assert trust.state == "trusted"
    assert trust.question() is None
    assert trust.pending == ()

    path.write_text("two")
    changed = desk.check()
    assert (changed.state, changed.changed) == ("changed", (name,))
    assert name in (changed.question() or "")
    assert name in (changed.notice() or "")

    path.write_text("one")
    assert desk.check().trusted

    desk.put(".lemon/prompts/new.md")
    assert desk.check().changed == (".lemon/prompts/new.md",)
    (desk.project / ".lemon/prompts/new.md").unlink()
    path.unlink()
    desk.put(".lemon/prompts/other.md")
    assert name in desk.check().changed


def test_a_file_under_another_name_is_another_file(desk):
    """The same words in another place can do something else."""
    path = desk.put(".lemon/prompts/a.md")
    desk.trust()
    path.rename(path.with_name("b.md"))
    assert desk.check().changed == (".lemon/prompts/a.md", ".lemon/prompts/b.md")


def test_a_link_counts_with_what_it_leads_to(desk):
    """Whoever changes the file behind it, or where it leads, changes it; a link to nowhere is nothing yet."""
    target = desk.put("elsewhere/words.md", "one")
    other = desk.put("elsewhere/same.md", "one")
    (desk.project / ".lemon" / "prompts").mkdir(parents=True)
    link = desk.project / ".lemon" / "prompts" / "a.md"
    link.symlink_to(target)
    desk.trust()
    assert desk.check().trusted
    target.write_text("two")
    assert desk.check().changed == (".lemon/prompts/a.md",)
    target.write_text("one")
    link.unlink()
    link.symlink_to(other)
    assert desk.check().state == "changed"


def test_a_folder_that_is_a_link_is_looked_into(desk):
    """What lies behind it is asked about, wherever that is; a circle ends."""
    outside = desk.home / "skills"
    outside.mkdir()
    (outside / "a.md").write_text("one")
    (outside / "round").symlink_to(outside)
    (desk.project / ".lemon").mkdir()
    (desk.project / ".lemon" / "skills").symlink_to(outside)
    desk.trust()
    assert desk.check().trusted
    (outside / "a.md").write_text("two")
    assert desk.check().changed == (".lemon/skills/a.md",)


def test_settings_wait_only_when_they_loosen_something(desk):
    """Which keys do is known to the settings; the whole file is bound."""
    path = desk.put(".lemon/settings.json", "{}")
    assert desk.check().state == "nothing"
    needs = Needs({path: ("baseUrl", "permissions.allow")})
    trust = desk.check(needs)
    assert trust.pending == (".lemon/settings.json: settings: baseUrl, permissions.allow",)
    decide(trust, True)
    assert desk.check(needs).trusted
    path.write_text('{"theme": "x"}')
    assert desk.check(needs).changed == (".lemon/settings.json",)


def test_a_file_that_waits_no_longer_and_is_as_it_was_changes_nothing(desk):
    """The person's own settings may come to say the same as the project's; nobody is asked for that."""
    path = desk.put(".lemon/settings.json", "{}")
    desk.put(".mcp.json")
    decide(desk.check(Needs({path: ("baseUrl",)})), True)
    assert desk.check().trusted
    path.write_text("{ }")
    assert desk.check().changed == (".lemon/settings.json",)


def test_what_the_settings_name_is_bound_too(desk):
    """An extension's file that is changed is another extension."""
    path = desk.put("tools/ext.py", "one")
    needs = Needs(paths=(path,))
    decide(desk.check(needs), True)
    path.write_text("two")
    assert desk.check(needs).changed == ("tools/ext.py",)


def test_a_no_holds_whatever_changes_until_it_is_taken_back(desk):
    """Nobody is asked again and again."""
    path = desk.put(".mcp.json")
    decide(desk.check(), False)
    path.write_text("two")
    trust = desk.check()
    assert trust.state == "declined"
    assert trust.question() is None
    assert trust.notice() is None
    assert trust.pending
    forget(trust)
    assert desk.check().question() is not None


def test_trust_for_one_start_is_not_kept(desk):
    """`--trust`."""
    desk.put(".mcp.json")
    assert desk.check().once().trusted
    assert desk.check().state == "unknown"


def test_an_answer_is_about_what_was_shown(desk):
    """A file that changes between the question and the yes is not trusted."""
    path = desk.put(".mcp.json", "harmless")
    asked = desk.check()
    path.write_text("harmful")
    decide(asked, True)
    assert desk.check().changed == (".mcp.json",)


def test_another_folder_with_the_same_files_is_another_project(desk, tmp_path):
    """A copy somewhere else is asked about by itself; a link to the folder is the folder."""
    desk.put(".mcp.json")
    desk.trust()
    (tmp_path / "link").symlink_to(desk.project)
    assert check_trust(tmp_path / "link", desk.home, desk.state).trusted
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / ".mcp.json").write_text("x")
    assert check_trust(tmp_path / "copy", desk.home, desk.state).state == "unknown"


def test_decisions_are_kept_privately_and_side_by_side(desk, tmp_path):
    """Mode 0600; another project's decision stays."""
    desk.put(".mcp.json")
    desk.trust()
    (tmp_path / "b" / ".pi").mkdir(parents=True)
    (tmp_path / "b" / ".pi" / "mcp.json").write_text("x")
    decide(check_trust(tmp_path / "b", desk.home, desk.state), False)
    assert stat.S_IMODE(desk.store.stat().st_mode) == 0o600
    assert desk.check().trusted
    assert sorted(json.loads(desk.store.read_text())["projects"]) == sorted([str(desk.project), str(tmp_path / "b")])


@pytest.mark.parametrize("damage", ["writable", "link", "garbage", "shape", "pipe"])
def test_a_store_that_others_could_have_written_trusts_nobody_and_is_left_alone(desk, damage):
    """It is said, nobody is asked what could not be kept, and nothing is written over."""
    desk.put(".mcp.json")
    desk.trust()
    text = desk.store.read_text()
    match damage:
        case "writable":
            desk.store.chmod(0o666)
        case "link":
            desk.store.rename(desk.home / "real.json")
            desk.store.symlink_to(desk.home / "real.json")
        case "garbage":
            desk.store.write_text(text := '{"version": 1,')
        case "shape":
            desk.store.write_text(text := '{"projects": {"/p": {"trusted": "yes"}}}')
        case "pipe":
            desk.store.unlink()
            os.mkfifo(desk.store)
    trust = desk.check()
    assert not trust.trusted
    assert trust.question() is None
    assert str(desk.store) in (trust.notice() or "")
    with pytest.raises(BadUsage):
        decide(trust, True)
    if damage != "pipe":
        assert desk.store.read_text() == text


def test_a_store_within_the_project_counts_for_nothing(desk):
    """Who works there could write it: the agent, above all."""
    desk.put(".mcp.json")
    inside = check_trust(desk.project, desk.home, desk.project / "state")
    assert "does not count" in (inside.notice() or "")
    with pytest.raises(BadUsage):
        decide(inside, True)
    assert not (desk.project / "state").exists()


def test_a_folder_with_more_files_than_anybody_looks_through_is_not_trusted(desk):
    """Bounded in number; `--trust` is still there for who knows better."""
    for number in range(2_001):
        desk.put(f".lemon/skills/s/{number}")
    trust = desk.check()
    assert trust.question() is None
    assert "too many" in (trust.notice() or "")
    with pytest.raises(BadUsage):
        decide(trust, True)
    assert trust.once().trusted


def test_a_pipe_or_a_file_nobody_may_read_is_not_waited_for(desk):
    """It is bound as what it is."""
    desk.put(".lemon/prompts/a.md")
    os.mkfifo(desk.project / ".lemon" / "prompts" / "pipe.md")
    desk.trust()
    assert desk.check().trusted
    (desk.project / ".lemon" / "prompts" / "pipe.md").unlink()
    desk.put(".lemon/prompts/pipe.md")
    assert desk.check().changed == (".lemon/prompts/pipe.md",)


def test_the_persons_own_folders_are_no_strangers_when_the_home_is_the_project(desk):
    """`~/.agents/skills` and `~/.lemon/agents` are theirs."""
    for name in (".agents/skills/a/SKILL.md", ".lemon/agents/a.md"):
        (desk.home / name).parent.mkdir(parents=True)
        (desk.home / name).write_text("x")
    assert check_trust(desk.home, desk.home, desk.state).state == "nothing"


def test_skills_above_the_working_folder_are_the_projects_up_to_its_root(desk):
    """Started in a folder of it, `.agents/skills` of the root counts; beyond the root none does."""
    desk.put(".agents/skills/a/SKILL.md")
    (desk.project.parent / ".agents" / "skills" / "b").mkdir(parents=True)
    (desk.project.parent / ".agents" / "skills" / "b" / "SKILL.md").write_text("x")
    inside = desk.project / "in"
    inside.mkdir()
    assert list(check_trust(inside, desk.home, desk.state).found.files) == ["../.agents/skills/a/SKILL.md"]


def test_a_name_that_would_paint_the_question_is_shown_as_escapes(desk):
    """A file's name cannot add lines to what a person is asked."""
    desk.put(".lemon/prompts/a\nTrusted: yes\x1b[2J.md")
    trust = desk.check()
    assert all(name.isprintable() for name in trust.found.files)
    assert (trust.question() or "").count("\n") == 2
