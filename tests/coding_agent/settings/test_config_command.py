"""`config`: what holds, where it comes from, and changing it without losing a word."""

import json
import os

import pytest

from coding_agent.errors import BadUsage
from coding_agent.settings.config_command import main
from coding_agent.settings.schema import BY_KEY


def run(desktop, *argv):
    return main([*argv, "--cwd", str(desktop.project)], {"HOME": str(desktop.home), **desktop.environ})


def test_every_setting_is_shown_with_where_it_comes_from(desktop, capsys):
    """The file, the variable, or that it is the default."""
    file = desktop.write("user", {"theme": "light"})
    desktop.environ["LEMON_THINKING"] = "high"
    assert run(desktop, "show", "--origin") == 0
    lines = {line.split(" = ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines["theme"] == f'theme = "light"    # user ({file})'
    assert lines["defaultThinkingLevel"].endswith("# environment (LEMON_THINKING)")
    assert lines["quietStartup"].endswith("# default")
    assert set(BY_KEY) <= set(lines)


def test_a_program_reads_the_same_as_json(desktop, capsys):
    """With what waits for trust and what nobody knows."""
    file = desktop.write("project", {"baseUrl": "http://x.test", "foo": 1})
    run(desktop, "show", "--origin", "--json")
    shown = json.loads(capsys.readouterr().out)
    assert shown["settings"]["baseUrl"] == {"value": None, "origin": [{"layer": "default", "place": ""}]}
    assert shown["waiting"] == {str(file): ["baseUrl"]}
    assert [each["key"] for each in shown["unknown"]] == ["foo"]


def test_the_files_are_listed_the_strongest_last(desktop, capsys):
    """Also when one of them is broken, so that a person finds it."""
    desktop.write("user", "{")
    assert run(desktop, "path") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0].removeprefix(str(desktop.home)) for line in lines] == [
        "/.pi/agent/settings.json",
        "/.config/lemon/settings.json",
        "/project/.pi/settings.json",
        "/project/.lemon/settings.json",
    ]
    assert "not there" in lines[0]
    assert "not there" not in lines[1]


def test_setting_one_keeps_every_other_word_of_the_file(desktop, capsys):
    """Settings nobody knows too; the file's mode stays."""
    file = desktop.write("user", {"foo": {"bar": [1]}, "compaction": {"enabled": False}})
    os.chmod(file, 0o640)
    run(desktop, "set", "compaction.reserveTokens", "5")
    run(desktop, "set", "permissions.deny", '["bash(rm *)"]')
    run(desktop, "set", "theme", "light")
    assert json.loads(file.read_text()) == {
        "foo": {"bar": [1]},
        "compaction": {"enabled": False, "reserveTokens": 5},
        "permissions": {"deny": ["bash(rm *)"]},
        "theme": "light",
    }
    assert file.stat().st_mode & 0o777 == 0o640
    run(desktop, "unset", "compaction.enabled")
    run(desktop, "unset", "permissions.deny")
    assert json.loads(file.read_text()) == {"foo": {"bar": [1]}, "compaction": {"reserveTokens": 5}, "theme": "light"}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("set", "thme", "x"), "there is no setting"),
        (("set", "permissions.mode", "root"), "must be one of"),
        (("set", "compaction.reserveTokens", "many"), "must be a whole number"),
        (("set", "theme"), "no value"),
        (("show", "thme"), "there is no setting"),
        (("dance",), "invalid choice"),
    ],
)
def test_what_cannot_be_meant_changes_nothing(desktop, argv, said):
    """One line that says what can."""
    file = desktop.write("user", {"theme": "x"})
    before = file.read_text()
    with pytest.raises(BadUsage, match=said):
        run(desktop, *argv)
    assert file.read_text() == before


def test_a_broken_file_is_never_written_over(desktop):
    """A person's half-finished edit is theirs."""
    file = desktop.write("user", '{"theme": ')
    with pytest.raises(BadUsage, match="line 1"):
        run(desktop, "set", "theme", "x")
    assert file.read_text() == '{"theme": '
    assert sorted(path.name for path in file.parent.iterdir() if not path.name.endswith(".lock")) == ["settings.json"]


def test_a_link_is_written_through(desktop):
    """Settings kept in a repository of dot files stay there."""
    real = desktop.home / "dotfiles.json"
    real.write_text("{}")
    file = desktop.home / ".config" / "lemon" / "settings.json"
    file.parent.mkdir(parents=True)
    file.symlink_to(real)
    run(desktop, "set", "theme", "light")
    assert file.is_symlink()
    assert json.loads(real.read_text()) == {"theme": "light"}
