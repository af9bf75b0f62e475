"""Context files: which are read, in which order, and how far their imports go."""

import os

import pytest

from coding_agent.resources.context_files import FILE_BYTES_MAX, imports, read_context


@pytest.fixture
def project(tmp_path):
    """A git project with a folder in it."""
    (tmp_path / "p" / ".git").mkdir(parents=True)
    (tmp_path / "p" / "in").mkdir()
    return tmp_path / "p"


def texts(reading):
    return [file.text for file in reading.files if "/p" in str(file.path) or file.path.name == "AGENTS.md"]


def test_the_nearest_file_has_the_last_word(project):
    """From the root of the disk down to the working folder, beyond the git root too; one file a folder."""
    (project.parent / "AGENTS.md").write_text("above")
    (project / "AGENTS.md").write_text("project")
    (project / "CLAUDE.md").write_text("not read: AGENTS.md is there")
    (project / "in" / "CLAUDE.md").write_text("nearest")
    (project / "in" / "agents.md").write_text("not read: the name is in small letters")
    assert texts(read_context(project / "in")) == ["above", "project", "nearest"]


def test_a_persons_own_file_comes_first(project, tmp_path):
    """Ours before another program's, and one of them only."""
    for name in ("ours", "pi"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "AGENTS.md").write_text(name)
    (project / "AGENTS.md").write_text("project")
    assert texts(read_context(project, [tmp_path / "ours", tmp_path / "pi"])) == ["ours", "project"]
    (tmp_path / "ours" / "AGENTS.md").unlink()
    assert texts(read_context(project, [tmp_path / "ours", tmp_path / "pi"])) == ["pi", "project"]


def test_one_file_by_two_names_is_read_once(project):
    """A CLAUDE.md that is a link to AGENTS.md of the folder above says nothing new."""
    (project / "AGENTS.md").write_text("same")
    (project / "in" / "CLAUDE.md").symlink_to(project / "AGENTS.md")
    assert texts(read_context(project / "in")) == ["same"]


@pytest.mark.parametrize("trusted", [False, True])
def test_a_link_out_of_the_project_is_not_read(project, tmp_path, trusted):
    """A repository cannot have a key of the person's said to the model; a person's own file may lie where they like."""
    secret = tmp_path / "id_ed25519"
    secret.write_text("SECRET")
    (project / "AGENTS.md").symlink_to("../id_ed25519")
    (project / "in" / ".env").write_text("SECRET")
    (project / "in" / "CLAUDE.md").symlink_to(".env" if not trusted else "../../id_ed25519")
    reading = read_context(project / "in", trusted=trusted)
    assert texts(reading) == []
    assert [problem.split(" was ")[0] for problem in reading.problems] == [
        str(project / "AGENTS.md"),
        str(project / "in" / "CLAUDE.md"),
    ]
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "AGENTS.md").symlink_to(secret)
    assert texts(read_context(project / "in", [tmp_path / "ours"], trusted=trusted)) == ["SECRET"]


def test_a_long_file_is_cut_and_says_so(project):
    """32 KiB, never in the middle of a letter."""
    (project / "AGENTS.md").write_text("ä" * FILE_BYTES_MAX)
    (file,) = [file for file in read_context(project).files if file.path.parent == project]
    assert file.truncated
    assert len(file.text.encode()) <= FILE_BYTES_MAX
    assert set(file.text) == {"ä"}


def test_what_cannot_be_read_is_a_problem_and_no_more(project):
    """A pipe and a link to nowhere among them; nothing is waited for."""
    os.mkfifo(project / "AGENTS.md")
    (project / "in" / "AGENTS.md").symlink_to(project / "nowhere")
    (project / "in" / "CLAUDE.md").write_text("read")
    reading = read_context(project / "in")
    assert texts(reading) == ["read"]
    assert [problem for problem in reading.problems if "no regular file" in problem]


def test_imports_are_words_with_an_at_sign_outside_of_code():
    """Not in code spans or blocks, not in addresses of letters; the sentence's own full stop is none of the name."""
    text = "See @docs/a.md, and @b.md.\nme@example.com `@c.md`\n```\n@d.md\n```\n@e.md\n~~~\n@f.md"
    assert list(imports(text)) == ["docs/a.md", "b.md", "e.md"]


def test_imports_come_before_the_file_that_asks_for_them(project):
    """Relative to the file, five deep, and a circle ends."""
    (project / "AGENTS.md").write_text("top @one.md")
    (project / "one.md").write_text("one @AGENTS.md @in/two.md")
    (project / "in" / "two.md").write_text("two")
    assert texts(read_context(project)) == ["two", "one @AGENTS.md @in/two.md", "top @one.md"]


def test_the_sixth_import_in_a_row_is_not_read_and_said(project):
    """Five are."""
    (project / "AGENTS.md").write_text("@1.md")
    for number in range(1, 8):
        (project / f"{number}.md").write_text(f"n{number} @{number + 1}.md")
    reading = read_context(project)
    assert len([file for file in reading.files if file.path.parent == project]) == 6
    assert any("@6.md was not read" in problem for problem in reading.problems)


@pytest.mark.parametrize("name", ["@../outside.md", "@/etc/hostname", "@link.md", "@.env", "@~/secret.md"])
def test_a_projects_import_does_not_leave_it_nor_read_what_is_no_text(project, tmp_path, monkeypatch, name):
    """A repository's words cannot fetch a key of the person's into the conversation, by a link neither."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "outside.md").write_text("secret")
    (tmp_path / "secret.md").write_text("secret")
    (project / ".env").write_text("secret")
    (project / "link.md").symlink_to(tmp_path / "outside.md")
    (project / "AGENTS.md").write_text(f"look {name}")
    reading = read_context(project)
    assert texts(reading) == [f"look {name}"]
    assert any(f"{name} was not read" in problem for problem in reading.problems)


def test_a_trusted_projects_import_may_be_of_any_kind_and_still_not_leave_it(project, tmp_path):
    """Its Makefile is fine; the folder above is not."""
    (tmp_path / "outside.md").write_text("secret")
    (project / "Makefile").write_text("all:")
    (project / "AGENTS.md").write_text("@Makefile @../outside.md")
    assert texts(read_context(project, trusted=True)) == ["all:", "@Makefile @../outside.md"]


def test_a_persons_own_file_may_import_from_their_home(project, tmp_path, monkeypatch):
    """They wrote it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ours").mkdir()
    (tmp_path / "notes.md").write_text("note")
    (tmp_path / "ours" / "AGENTS.md").write_text("mine @~/notes.md")
    reading = read_context(project, [tmp_path / "ours"], home=tmp_path)
    assert [file.text for file in reading.files][:2] == ["note", "mine @~/notes.md"]


def test_a_mention_that_is_no_file_is_left_alone(project):
    """`@alice` is a person; a Markdown file that is not there is said."""
    (project / "AGENTS.md").write_text("ask @alice about @missing.md")
    reading = read_context(project)
    assert [problem for problem in reading.problems if "@missing.md is not there" in problem]
    assert not [problem for problem in reading.problems if "alice" in problem]
