"""The prompts of a command line, with files and what is piped in."""

import base64

import pytest

from coding_agent.arguments import parse
from coding_agent.errors import BadUsage
from coding_agent.hosting.command_line import prompts_of

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def texts(folder, *words: str, piped: str | None = None) -> list[str]:
    return [prompt.text for prompt in prompts_of(parse(["--cwd", str(folder), *words]), piped)]


def test_messages_are_prompts_one_after_the_other(tmp_path):
    """The one behind `-p` comes first; blank ones are none."""
    assert texts(tmp_path, "-p", "one", "two", "  ", "three") == ["one", "two", "three"]
    assert texts(tmp_path, "one", "-p") == ["one"]
    assert texts(tmp_path, "-p") == []


def test_files_and_piped_text_stand_in_front_of_the_first(tmp_path):
    """A text file by its path and its words, a picture as a picture."""
    (tmp_path / "a.txt").write_text("words of a")
    (tmp_path / "b.png").write_bytes(PNG)
    (first, second) = prompts_of(parse(["--cwd", str(tmp_path), "@a.txt", "look", "@b.png", "again"]), "piped")
    assert first.text == (
        f'<file name="{tmp_path}/a.txt">\nwords of a\n</file>\n<file name="{tmp_path}/b.png"></file>\npiped\nlook'
    )
    assert [(image.mime_type, base64.b64decode(image.data)) for image in first.images] == [("image/png", PNG)]
    assert (second.text, second.images) == ("again", ())


def test_files_alone_are_a_prompt(tmp_path):
    """So is piped text alone."""
    (tmp_path / "a.txt").write_text("words")
    assert texts(tmp_path, "@a.txt") == [f'<file name="{tmp_path}/a.txt">\nwords\n</file>']
    assert texts(tmp_path, piped="from a pipe\n") == ["from a pipe\n"]


def test_what_stands_behind_p_is_taken_as_it_stands_unless_it_is_a_file(tmp_path):
    """A prompt may begin with the sign for files."""
    assert texts(tmp_path, "-p", "@think hard") == ["@think hard"]
    (tmp_path / "there.md").write_text("x")
    assert texts(tmp_path, "-p", "@there.md", "say") == [f'<file name="{tmp_path}/there.md">\nx\n</file>\nsay']


def test_files_that_cannot_be_put_in_are_named(tmp_path):
    """Missing, a folder, neither text nor picture, too large."""
    (tmp_path / "bin").write_bytes(b"\0\1\2")
    (tmp_path / "large").write_bytes(b"x" * (10 * 1024 * 1024 + 1))
    (tmp_path / "empty").touch()
    for name, complaint in (
        ("none", "cannot be read"),
        (".", "cannot be read"),
        ("bin", "neither"),
        ("large", "bytes"),
    ):
        with pytest.raises(BadUsage, match=complaint):
            texts(tmp_path, f"@{name}", "x")
    assert texts(tmp_path, "@empty", "x") == ["x"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--continue", "--fork", "x"], "each name a session"),
        (["--resume", "--session", "x"], "each name a session"),
        (["--json", "--mode", "rpc"], "different things"),
        (["--rpc-deltas"], "--mode rpc"),
        (["--partials", "--mode", "rpc"], "--json"),
        (["--mode", "loud"], "--mode"),
        (["--no-such-flag-at-all", "--mode"], "--mode"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(words: list[str], complaint: str):
    """One line that says what is wrong."""
    with pytest.raises(BadUsage, match=complaint):
        parse(words)


def test_lists_are_names_with_commas():
    """Blanks and repetitions are dropped; no tools at all is a list as well."""
    assert parse(["--tools", "read, ls,,read"]).tools == ("read", "ls")
    assert parse(["--no-tools"]).tools == ()
    assert parse([]).tools is None
    assert parse(["--models", "a*,b"]).models == ("a*", "b")
    assert parse(["--mode", "json"]).json is True
