"""Modes and rules from the command line to what happens on disk."""

import pytest

from tests.flows.hosts import Machine

SCRIPTED = ("--model", "scripted/echo")
CALLS = """\
@tool write {"path": "a.txt", "content": "x"}
@tool bash {"command": "git --version > /dev/null && touch made"}
@tool ls {"path": "."}
@turn
@text Done."""


@pytest.fixture
def machine(tmp_path_factory):
    return Machine(tmp_path_factory.mktemp("m"))


@pytest.mark.requirement("BR-167")
@pytest.mark.parametrize(
    ("flags", "made"),
    [
        ((), ["a.txt", "made"]),
        (("--permission-mode", "edit"), ["a.txt"]),
        (("--permission-mode", "ask"), []),
        (("--permission-mode", "plan", "--allow", "write"), []),
        (("--permission-mode", "edit", "--allow", "bash(git *)"), ["a.txt"]),
        (("--permission-mode", "edit", "--allow", "bash(git *)", "--allow", "bash(touch *)"), ["a.txt", "made"]),
        (("--deny", "bash(touch *)"), ["a.txt"]),
        (("--deny", "write(*.txt)"), ["made"]),
    ],
)
def test_a_mode_and_rules_decide_what_happens(machine, flags, made):
    """With -p nobody can be asked: what is not allowed does not happen, and the run goes on to its end."""
    done = machine.run(*flags, "-p", CALLS, *SCRIPTED)

    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert sorted(path.name for path in machine.project.iterdir()) == made
    results = [message for message in machine.messages() if message["role"] == "toolResult"]
    assert [result["isError"] for result in results] == ["a.txt" not in made, "made" not in made, False]
    assert ("not allowed:" in done.stderr) == (len(made) < 2)


@pytest.mark.parametrize("flag", [("--allow", "bash(a; b)"), ("--deny", "("), ("--permission-mode", "none")])
def test_a_rule_or_mode_that_makes_no_sense_is_told_before_anything_starts(machine, flag):
    """Exit code 2, one line, no session."""
    done = machine.run(*flag, "-p", "hello", *SCRIPTED)

    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert machine.session_files() == []
