"""A person at a terminal is asked once whether they trust a project."""

import json
import sys

import pexpect
import pytest

from tests.flows.hosts import Machine

pytestmark = pytest.mark.xdist_group("terminal")
QUESTION = "Do you trust the files of"


def terminal(machine: Machine) -> pexpect.spawn:
    machine.extra_env["TERM"] = "xterm"
    arguments = ["-m", "coding_agent", "--model", "scripted/echo"]
    return pexpect.spawn(
        sys.executable, arguments, cwd=str(machine.project), env=machine.env(), timeout=30, encoding="utf-8"
    )


def state(machine: Machine) -> str:
    return str(json.loads(machine.run("trust", "show", "--json").stdout)["state"])


@pytest.mark.parametrize(("answer", "becomes"), [("y", "trusted"), ("", "declined")])
def test_the_answer_is_kept_and_nobody_is_asked_again(machine, answer, becomes):
    """A yes or a no, each until something changes or it is taken back."""
    (machine.project / ".mcp.json").write_text('{"mcpServers": {}}')
    first = terminal(machine)
    first.expect(QUESTION)
    first.expect(r"\.mcp\.json: MCP servers")
    first.expect(r"\[y/N\]")
    first.sendline(answer)
    first.expect("scripted/echo")  # the status line
    first.sendcontrol("d")
    first.expect(pexpect.EOF)
    assert state(machine) == becomes

    second = terminal(machine)
    assert second.expect([QUESTION, "scripted/echo"]) == 1
    second.sendcontrol("d")
    second.expect(pexpect.EOF)


def test_no_answer_is_none(machine):
    """Whoever closes the input, or interrupts, has said nothing."""
    (machine.project / ".mcp.json").write_text('{"mcpServers": {}}')
    asked = terminal(machine)
    asked.expect(r"\[y/N\]")
    asked.sendcontrol("c")
    asked.expect(pexpect.EOF)
    assert state(machine) == "unknown"


def test_in_a_project_without_such_files_nobody_is_asked(machine):
    """Words alone ask for nothing."""
    (machine.project / "AGENTS.md").write_text("words")
    opened = terminal(machine)
    assert opened.expect([QUESTION, "scripted/echo"]) == 1
    opened.sendcontrol("d")
    opened.expect(pexpect.EOF)
