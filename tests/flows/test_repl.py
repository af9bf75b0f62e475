"""Looking into a running host from another terminal, and acting on what is found there."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import define, evolve

from coding_agent.repl.pages import RENDERERS
from lemon_otp import repl_shell
from tests.coding_agent.terminal.pty_screen import Pty, start
from tests.flows.hosts import PATIENCE_S, ROOT, Machine, RunningHost

pytestmark = pytest.mark.xdist_group("terminal")


@define
class Demo:
    """The demo host, as a process of its own."""

    machine: Machine
    host: RunningHost

    @property
    def pid(self) -> int:
        return self.host.process.pid

    def once(self, command: str, *flags: str) -> "subprocess.CompletedProcess[str]":
        return self.run("repl", f"--attach={self.pid}", *flags, "--once", command)

    def run(self, *arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
        """Run the program on the host's machine, with this in its environment."""
        return evolve(self.machine, extra_env=env).run(*arguments)

    def ask(self, op: str, **parameters: Any) -> dict[str, Any]:
        """As `--once OP --json` does, without a program of its own."""
        with repl_shell.Asker(self.machine.runtime_dir / f"host-{self.pid}.sock") as asker:
            return asker.ask(op, **parameters)

    def until(self, op: str, wanted: Any, **parameters: Any) -> dict[str, Any]:
        """Ask until the answer is as wanted: the host gets there in its own time."""
        deadline = time.monotonic() + PATIENCE_S
        while not wanted(answer := self.ask(op, **parameters)):
            assert time.monotonic() < deadline, f"{op} never was as wanted: {answer}"
            time.sleep(0.02)
        return answer


def started(machine: Machine) -> Iterator[Demo]:
    """A demo host, and its end."""
    host = machine.start("demo-host", "--unsafe-repl")
    assert host.process.stdout is not None
    assert "a demo host runs" in host.process.stdout.readline()
    yield Demo(machine, host)
    if host.process.poll() is None:
        host.send(signal.SIGINT)
    assert host.finish()[0] in (0, 130)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A busy host with things gone wrong in it, for all tests that leave it running."""
    yield from started(Machine(tmp_path_factory.mktemp("m")))


@pytest.fixture
def own_demo(machine: Machine) -> Iterator[Demo]:
    """One that a test may end."""
    yield from started(machine)


@define
class Person:
    """Somebody at a terminal who has started the prompt."""

    pty: Pty
    prompt: str

    def says(self, line: str, *, until: str) -> str:
        """Type a line, and read until this is shown and there is a prompt again; what is on the screen then."""
        self.pty.send(f"{line}\r")
        return self.pty.until(
            lambda screen: until in screen.rpartition(line)[2] and screen.endswith(f"\n{self.prompt}"), until
        )


@pytest.fixture
def person(demo: Demo) -> Iterator[Person]:
    """A person who looks into the demo host."""
    yield from looking(demo)


def looking(demo: Demo) -> Iterator[Person]:
    """Somebody who looks, and leaves."""
    argv = [sys.executable, "-m", "coding_agent", "repl", f"--attach={demo.pid}"]
    pty = start(argv, demo.machine.home, columns=200, rows=150, PROMPT_TOOLKIT_NO_CPR="1")
    pty.until(lambda screen: screen.splitlines()[-1:] == [f"{demo.pid}>"], "the prompt")
    yield Person(pty, f"{demo.pid}>")
    pty.close()


def test_a_person_finds_the_stuck_tool_and_kills_it(demo: Demo, person: Person) -> None:
    """
    In a tree with crashing children, a waiting permission and busy sessions: the tree shows what each session is at and
    for how long, the stack shows the line the tool waits at, `kill` ends it, and its session goes on.
    """
    stuck = demo.until("sessions", lambda answer: any(s.get("tool") == "index_repository" for s in answer["sessions"]))
    (session,) = [told for told in stuck["sessions"] if told.get("tool") == "index_repository"]

    tree = person.says("tree", until="slow_reader")
    assert re.search(r"tool_task\[index_repository\].*tool index_repository: src", tree)
    assert "waits for permission: bash" in tree
    assert "waits for child: task" in tree
    assert re.search(r"flaky\[\d\]", tree)

    person.pty.send("stack tool_task[ind\t")  # the rest of the id is completed
    person.pty.wait_for("stack tool_task[index_repository]")
    person.pty.send("\r")
    assert "in wait_for_index_lock" in person.pty.wait_for("await lock.wait()")

    person.says("kill tool_task[index_repository]", until="killed tool_task[index_repository]")
    person.says("stack tool_task[index_repository]", until="there is no process")
    person.pty.send("quit\r")
    assert person.pty.finish() == 0

    def goes_on(answer: dict[str, Any]) -> bool:
        return any(s["session"] == session["session"] and s["phase"] == "idle" for s in answer["sessions"])

    demo.until("sessions", goes_on)


def test_the_busiest_processes_are_shown_live_until_they_are_left(demo: Demo, person: Person) -> None:
    """`top` has a screen of its own, is sorted by a key, and gives the terminal back as it was; so does a trace."""
    demo.until("top", lambda answer: answer["rows"][0]["id"] == "slow_reader", sort="mailbox")
    person.pty.send("top\r")
    person.pty.wait_for("by mailbox")
    person.pty.send("y")
    person.pty.wait_for("by memory")
    person.pty.send("q")
    person.pty.until(lambda screen: screen.endswith(person.prompt), "the prompt")
    person.pty.send("trace slow_reader\r")
    person.pty.wait_for("('line'")
    person.pty.send("\x03")
    person.pty.wait_for("(left)")
    person.pty.until(lambda screen: screen.endswith(person.prompt), "the prompt")
    person.pty.send("\x04")
    assert person.pty.finish() == 0
    assert person.pty.modes_left_on() == set()


def test_the_prompt_connects_again_when_the_listener_was_started_anew(demo: Demo, person: Person) -> None:
    """Even killing what it talks to does not end it."""
    person.says("kill listener", until="connected again")
    person.says("apps", until="coding_agent.supervisor")


def test_a_host_that_ends_while_it_is_looked_at_is_said(own_demo: Demo) -> None:
    """The prompt says so and ends, with exit code 1."""
    for person in looking(own_demo):
        own_demo.host.send(signal.SIGINT)
        own_demo.host.process.wait(PATIENCE_S)
        person.pty.send("tree\r")
        person.pty.until(lambda screen: "has ended" in screen, "the end of the host")
        assert person.pty.finish() == 1


def test_a_host_whose_loop_is_held_up_is_looked_into_all_the_same(demo: Demo) -> None:
    """
    While a handler blocks the event loop the answer comes from another thread: who blocks, at which line, and the tree;
    it is said to be partial. A kill is done when the loop goes on.
    """
    code = "eval __import__('time').sleep(4)"
    blocker = subprocess.Popen(
        [sys.executable, "-m", "coding_agent", "repl", f"--attach={demo.pid}", "--unsafe", "--once", code],
        cwd=demo.machine.project, env=demo.machine.env(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    held = demo.until("tree", lambda answer: "repl[eval]" in answer.get("held", {}).get("holder", ""))
    assert "held up" in held["partial"]
    assert "<eval>" in [frame["file"] for frame in held["held"]["stack"]]
    assert any(node["id"] == "coding_agent.supervisor" for node in held["tree"])
    shown = demo.once("stack repl[eval]")
    if "holds the event loop up" in shown.stdout:
        assert "<eval>" in shown.stdout
    blocker.communicate(timeout=PATIENCE_S)


def test_steer_and_abort_reach_a_session(demo: Demo) -> None:
    """A run is ended without its session; what is meant is said by the beginning of an id."""
    found = demo.until("sessions", lambda answer: any(s.get("tool") == "bash" for s in answer["sessions"]))
    building = next(s for s in found["sessions"] if s.get("argument") == "sleep 3600")
    assert demo.once(f"steer {building['session']} Hurry up").returncode == 0
    done = demo.once(f"abort session[{building['session']}]")
    assert "is idle" in done.stdout
    after = demo.ask("sessions")
    assert next(s for s in after["sessions"] if s["session"] == building["session"])["phase"] == "idle"
    assert demo.once("abort nobody").returncode == 1


def test_scripts_get_json_and_an_exit_code(demo: Demo) -> None:
    """0 answered, 1 refused, 2 not understood; each answer is one line of JSON."""
    done = demo.once("tree", "--json")
    assert (done.returncode, json.loads(done.stdout)["ok"]) == (0, True)
    assert demo.once("info nobody", "--json").returncode == 1
    assert demo.once("nonsense").returncode == 2
    assert demo.once("metrics").returncode == 1


def test_every_answer_of_a_host_is_shown(demo: Demo) -> None:
    """What it does answer, as a page without an error."""
    for op in (
        "tree",
        "top",
        "sessions",
        "dispatcher",
        "breakers",
        "lag",
        "streams",
        "apps",
        "history",
        "log",
        "zombies",
    ):
        answer = demo.ask(op)
        assert answer["ok"], answer
        shown = repl_shell.plain(repl_shell.render(op, answer, RENDERERS))
        assert shown
        assert "error:" not in shown


def test_without_or_with_several_hosts_the_one_that_is_meant_must_be_said(demo: Demo) -> None:
    """With one it is that; with two their numbers are listed; a number of none is refused."""
    assert demo.machine.run("repl", "--attach", "--once", "apps").returncode == 0
    other = demo.machine.start("demo-host")
    assert other.process.stdout is not None
    other.process.stdout.readline()
    done = demo.machine.run("repl", "--attach", "--once", "apps")
    assert done.returncode == 1
    assert str(demo.pid) in done.stderr
    assert str(other.process.pid) in done.stderr
    other.process.kill()  # its socket is left behind
    other.finish()
    assert demo.machine.run("repl", "--attach", "--once", "apps").returncode == 0
    gone = demo.machine.run("repl", f"--attach={other.process.pid}", "--once", "apps")
    assert (gone.returncode, "no host answers" in gone.stderr) == (1, True)
    none = demo.machine.run("repl", "--attach=1", "--once", "apps")
    assert "no host 1 runs" in none.stderr


def test_without_a_host_a_demo_in_the_program_itself_is_looked_into(machine: Machine) -> None:
    """Nothing of it is left when the command is done."""
    none = machine.run("repl", "--attach", "--once", "apps")
    assert (none.returncode, "no host is running" in none.stderr) == (1, True)
    done = machine.run("repl", "--once", "tree")
    assert done.returncode == 0
    assert "demo_supervisor" in done.stdout
    assert not machine.runtime_dir.exists() or list(machine.runtime_dir.iterdir()) == []


def test_the_prompt_needs_its_extra_and_one_command_does_not(demo: Demo, tmp_path: Any) -> None:
    """Without `prompt-toolkit` and `rich` a line says how to get them; `--once` works in plain text."""
    for name in ("prompt_toolkit", "rich"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not installed')\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    assert demo.run("repl", f"--attach={demo.pid}", "--once", "apps", PYTHONPATH=path).returncode == 0
    done = demo.run("repl", f"--attach={demo.pid}", PYTHONPATH=path)
    assert done.returncode == 2
    assert "lemon-agents[terminal]" in done.stderr


def test_a_report_holds_what_happened_and_no_secret(demo: Demo) -> None:
    """Tree, recorder, versions, settings, log and crash files; the values of secret variables are nowhere in it."""
    secret = "verysecret-0123456789abcdef"
    demo.until("history", lambda answer: any("crash" in entry["event"] for entry in answer["entries"]))
    assert demo.once(f"send slow_reader {secret}").returncode == 0
    with (demo.machine.home / "host.log").open("a") as log:
        log.write(f"the key is {secret}\n")
    path = demo.machine.project / "report.zip"
    done = demo.run("report", "--output", str(path), SOME_API_KEY=secret)
    assert done.returncode == 0, done.stderr
    assert path.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(path) as bundle:
        texts = {name: bundle.read(name).decode() for name in bundle.namelist()}
    host = json.loads(texts[f"hosts/{demo.pid}.json"])
    assert {"about.json", "settings.json", "log.txt"} <= set(texts)
    assert any(name.startswith("crashes/crash-") for name in texts)
    assert "ConnectionError" in texts["log.txt"]
    assert host["tree"]["ok"]
    assert host["history"]["entries"]
    assert "sleep 3600" not in texts[f"hosts/{demo.pid}.json"]
    assert "last message: (left out)" in texts["log.txt"]
    assert "last message: 'crash'" not in "".join(texts.values())
    assert not any(secret in text for text in texts.values())
    again = demo.machine.run("report", "--output", str(path))
    assert (again.returncode, "exists" in again.stderr) == (2, True)
