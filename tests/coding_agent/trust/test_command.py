"""`trust`: what a person sees and says."""

import json

import pytest

from coding_agent.errors import BadUsage
from coding_agent.trust.command import main


@pytest.fixture
def run(tmp_path, capsys):
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()

    def run(*argv):
        code = main([*argv, "--cwd", str(tmp_path / "project")], {"HOME": str(tmp_path / "home")})
        return code, capsys.readouterr().out

    return run


def test_a_person_looks_says_yes_and_is_told_what_changed(run, tmp_path):
    """`show` exits with 1 while something waits."""
    file = tmp_path / "project" / ".mcp.json"
    assert run("show") == (0, f"{tmp_path / 'project'}: nothing here waits for your trust\n")
    file.write_text("{}")
    code, out = run("show")
    assert code == 1
    assert "not trusted; you have not said anything" in out
    assert ".mcp.json: MCP servers" in out
    assert run("yes")[1].startswith(f"{tmp_path / 'project'}: trusted")
    assert run("show")[0] == 0
    file.write_text("{ }")
    code, out = run("show")
    assert code == 1
    assert "changed: .mcp.json" in out
    assert json.loads(run("show", "--json")[1])["changed"] == [".mcp.json"]


def test_a_no_and_taking_it_back(run, tmp_path):
    """Both are listed by project."""
    (tmp_path / "project" / ".mcp.json").write_text("{}")
    assert "as you said" in run("no")[1]
    assert run("show")[0] == 0
    assert run("list")[1] == f"no   {tmp_path / 'project'}\n"
    run("forget")
    assert run("list")[1] == ""
    assert run("show")[0] == 1
    run("yes")
    assert [each["trusted"] for each in json.loads(run("list", "--json")[1])] == [True]


def test_a_word_nobody_knows_changes_nothing(run):
    """One line."""
    with pytest.raises(BadUsage, match="invalid choice"):
        run("maybe")
