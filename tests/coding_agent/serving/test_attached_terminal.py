"""A person's terminal on a session of another host: what they see, what leaving does, what the host's end does."""

import os
import signal
import sys
from pathlib import Path

import pexpect
import pytest

from tests.coding_agent.serving.served import ASKING, Served, served
from tests.flows.hosts import Machine

pytestmark = pytest.mark.xdist_group("terminal")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, {"LEMON_LOCAL_SERVERS": "off"})


def terminal(host: Served, *arguments: str, kind: str = "dumb") -> pexpect.spawn:
    """`attach` in a terminal that by default draws nothing, so that what is expected comes as it is."""
    return pexpect.spawn(
        sys.executable, ["-m", "coding_agent", "attach", *arguments], cwd=str(host.machine.project),
        env={**host.machine.env(), "TERM": kind}, encoding="utf-8", timeout=30, dimensions=(30, 120),
    )  # fmt: skip


def ended(child: pexpect.spawn) -> int | None:
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


def test_a_person_comes_leaves_and_comes_back(machine):
    """What was said stands there the second time; the session was never ended."""
    with served(machine) as host:
        first = terminal(host)
        first.expect("> ")
        first.sendline("@text said to the first one")
        first.expect("said to the first one\r\n.*\r\nsaid to the first one\r\n")
        first.sendeof()
        assert ended(first) == 0
        (session,) = host.live()
        assert (session["clients"], session["state"]) == (0, "idle")
        second = terminal(host, session["id"][:12])
        second.expect("said to the first one\r\n.*\r\nsaid to the first one\r\n")
        second.kill(signal.SIGKILL)
        second.close()
        with host.client(session=session["id"]) as other:
            assert other.ask("get_state")["data"]["messageCount"] == 2


def test_a_question_is_answered_at_either_terminal(machine):
    """Both are asked; the one that did not answer is let go of."""
    with served(machine) as host, host.client() as program:
        person = terminal(host)
        person.expect("> ")
        program.prompt(ASKING)
        program.event("extension_ui_request")
        person.expect("printf done")
        person.expect("type an answer")
        person.delaybeforesend = 0.8  # an answer counts once nobody has typed for a moment
        person.sendline("y")
        while person.expect(["too early", "done"]) == 0:
            person.sendline("y")
        assert program.answer() == "It was done."
        assert (machine.project / "made.txt").read_text() == "done"
        person.sendeof()
        assert ended(person) == 0


@pytest.mark.parametrize("kind", ["dumb", "xterm-256color"])
def test_a_person_who_comes_in_the_middle_sees_the_answer_so_far_and_what_comes_of_it(machine, kind):
    """The beginning of the answer stands there while the model still works, and once: not again at the end of it."""
    with served(machine) as host, host.client() as program:
        program.prompt("@text First line.\n\nSecond begins\n@delay 600000\n@text never said")
        program.until(lambda message: "begins" in str(message.get("assistantMessageEvent")))
        person = terminal(host, kind=kind)
        person.expect("First line." if kind == "dumb" else "Second begins")
        person.expect("> " if kind == "dumb" else "Esc stops")
        program.ask("abort")
        person.expect("stopped")
        person.sendeof()
        person.expect(pexpect.EOF)
        assert "First line." not in person.before


@pytest.mark.parametrize("kind", ["dumb", "xterm-256color"])
def test_the_end_of_the_host_is_told_and_ends_the_terminal(machine, kind):
    """SIGKILL of the host: the person is told, with the session they were in last, and the program ends with 1."""
    with served(machine) as host:
        person = terminal(host, kind=kind)
        person.expect("> " if kind == "dumb" else "ready")
        first = host.live()[0]["id"]
        person.send("/new\r")
        person.expect("a new session")
        last = next(session["id"] for session in host.live() if session["id"] != first)
        os.kill(host.os_pid, signal.SIGKILL)
        person.expect(rf"the host has ended; what was said is stored: session {last}")
        assert "goes on" not in person.before
        assert ended(person) == 1


def test_without_a_terminal_a_person_is_told_how_a_program_attaches(machine):
    """One line, exit code 2."""
    with served(machine):
        done = machine.run("attach")
        assert done.returncode == 2
        assert "--mode rpc" in done.stderr
