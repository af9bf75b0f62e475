"""Definitions of subagents: Markdown files that are read and never run."""

import os

import pytest

from coding_agent.errors import BadDefinition, UnknownSubagent
from coding_agent.subagents.definitions import (
    BYTES_MAX,
    FILES_MAX,
    Definition,
    load_definitions,
    parse_definition,
    read_definition,
)


def write(folder, name: str, text: str):
    agents = folder / ".lemon" / "agents"
    agents.mkdir(parents=True, exist_ok=True)
    (agents / name).write_text(text)
    return agents / name


def test_four_roles_come_with_the_program(tmp_path):
    """research, implement, review and test are there without any file; research and review can change nothing."""
    found = load_definitions(tmp_path, tmp_path)

    assert sorted(found.by_name) == ["implement", "research", "review", "test"]
    assert found.problems == ()
    assert all(one.description and one.prompt for one in found.by_name.values())
    assert not {"write", "edit"} & {*found.by_name["research"].tools, *found.by_name["review"].tools}


def test_a_file_says_everything_about_a_kind_of_subagent(tmp_path):
    """Name, description, tools in either way of writing a list, model, thinking level and the words after it."""
    text = (
        '---\nname: auditor\ndescription: "Looks: closely"\n# a remark\ntools:\n  - read\n  - grep\n'
        "model: anthropic/claude-haiku-4-5\nthinking: low\n---\nYou audit.\n\n---\nStill words.\n"
    )
    path = write(tmp_path, "whatever.md", text)

    assert read_definition(path) == Definition(
        "auditor", "Looks: closely", "You audit.\n\n---\nStill words.", ("read", "grep"),
        "anthropic/claude-haiku-4-5", "low", path,
    )  # fmt: skip
    for written in ("read, grep", "[read, grep]", "['read', \"grep\"]"):
        assert parse_definition(f"---\ntools: {written}\n---\nx", path).tools == ("read", "grep")
    assert parse_definition("---\ndescription: d\n---\nx", path).tools is None


def test_the_project_comes_before_home_and_home_before_what_is_built_in(tmp_path):
    """A later definition of the same name stands in for an earlier one; the name is the file's when it says none."""
    home, project = tmp_path / "home", tmp_path / "project"
    write(home, "review.md", "---\ndescription: home\n---\nHome.")
    write(home, "mine.md", "---\ndescription: home\n---\nHome.")
    write(project, "mine.md", "---\ndescription: project\n---\nProject.")

    found = load_definitions(project, home)

    assert found.named("review").description == "home"
    assert found.named("mine").description == "project"
    with pytest.raises(UnknownSubagent) as refused:
        found.named("nobody")
    assert "mine" in refused.value.known
    assert str(refused.value).startswith("Unknown subagent: nobody")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "first line"),
        ("You are.", "first line"),
        ("---\nname: x\n", "no second ---"),
        ("---\nname: x\n---\n  \n", "no words"),
        ("---\nname: ../x\n---\ny", "cannot be a name"),
        ("---\nname: " + "a" * 65 + "\n---\ny", "cannot be a name"),
        ("---\nthinking: hard\n---\ny", "thinking is 'hard'"),
        ("---\njust words\n---\ny", "line 2 is no"),
        ("---\nname: a\nname: b\n---\ny", "stands there twice"),
        ("---\n!!python/object: x\n---\ny", "line 2 is no"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path, text, problem):
    """Each fault is a typed error that names the file; the other definitions are there all the same."""
    path = write(tmp_path, "bad.md", text)
    write(tmp_path, "good.md", "---\nname: good\n---\nFine.")

    with pytest.raises(BadDefinition, match=problem):
        read_definition(path)
    found = load_definitions(tmp_path, tmp_path / "home")
    assert [error.path for error in found.problems] == [path]
    assert "good" in found.by_name


def test_what_is_no_small_text_file_is_not_read(tmp_path):
    """A folder, a pipe, a dangling link, a huge file and bytes that are no text are problems, and nothing hangs."""
    write(tmp_path, "huge.md", "---\nname: x\n---\n" + "y" * BYTES_MAX)
    agents = write(tmp_path, "bytes.md", "").parent
    (agents / "bytes.md").write_bytes(b"---\nname: x\n---\n\xff\xfe")
    (agents / "folder.md").mkdir()
    os.mkfifo(agents / "pipe.md")
    (agents / "dangling.md").symlink_to(agents / "nowhere")

    found = load_definitions(tmp_path, tmp_path / "home")

    assert sorted(error.path.name for error in found.problems) == [
        "bytes.md", "dangling.md", "folder.md", "huge.md", "pipe.md",
    ]  # fmt: skip
    assert sorted(found.by_name) == ["implement", "research", "review", "test"]


def test_a_folder_with_very_many_files_is_read_only_so_far(tmp_path):
    """The first ones count, and that others were left out is said."""
    for number in range(FILES_MAX + 3):
        write(tmp_path, f"k{number:04}.md", "---\ndescription: d\n---\nx")

    found = load_definitions(tmp_path, tmp_path / "home")

    assert len(found.by_name) == FILES_MAX + 4
    assert "only the first" in str(found.problems[0])
