"""One host, several folders: each with its own settings, trust and sessions, as real programs on real sockets."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coding_agent.arguments import Arguments
from coding_agent.hosting.folders import strict
from tests.coding_agent.serving.served import ASKING, Client, Served, served
from tests.flows.hosts import PATIENCE_S, Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, {"LEMON_LOCAL_SERVERS": "off"})


def folder(machine: Machine, name: str, **settings: Any) -> Path:
    """Another project, with settings of its own."""
    path = machine.home / name
    (path / ".lemon").mkdir(parents=True)
    (path / "AGENTS.md").write_text(f"This is {name}.\n")
    if settings:
        (path / ".lemon" / "settings.json").write_text(json.dumps(settings))
    return path


def run_in(
    machine: Machine, cwd: Path, *arguments: str, stdin: str | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "coding_agent", *arguments],
        cwd=cwd, env=machine.env(), input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


def state_of(client: Any) -> dict[str, Any]:
    return client.ask("get_state")["data"]


def hosts(host: Served) -> list[dict[str, Any]]:
    return json.loads(host.machine.run("sessions", "live", "--json").stdout)["hosts"]


def test_a_folder_that_a_client_brings_is_served_beside_the_first(machine):
    """Its sessions work there, under its settings, and are listed with it; they are attached to by id from anywhere."""
    other = folder(machine, "other")
    with served(machine, "--permission-mode", "full") as host, host.client() as here:
        with host.client(cwd=str(other)) as there:
            assert there.greeting["cwd"] == str(other)
            assert state_of(there)["cwd"] == str(other)
            assert state_of(here)["cwd"] == str(machine.project)
            there.prompt('@tool bash {"command": "pwd > ran.txt"}\n@turn\n@text done')
            asked = there.event("extension_ui_request")  # what the command line allows is not for this folder
            while asked.get("kind") != "permission":
                asked = there.event("extension_ui_request")
            there.send({"type": "extension_ui_response", "id": asked["id"], "value": "Allow once"})
            assert there.answer() == "done"
            assert (other / "ran.txt").read_text() == f"{other}\n"
            here.prompt('@tool bash {"command": "pwd > ran.txt"}\n@turn\n@text done')
            assert here.answer() == "done"
            assert (machine.project / "ran.txt").read_text() == f"{machine.project}\n"
        (only,) = hosts(host)
        assert only["folders"] == [str(machine.project), str(other)]
        assert [session["cwd"] for session in only["sessions"]] == [str(machine.project), str(other)]
        with host.client(session=only["sessions"][1]["id"]) as again:
            assert again.greeting["cwd"] == str(other)
            files = again.ask("complete_files", prefix="AG")["data"]["paths"]
            assert files == ["AGENTS.md"]


def test_attach_from_a_folder_that_nobody_serves_adds_it(machine):
    """One line says so; the next one there finds the session, and the folder's own host is refused."""
    other = folder(machine, "other")
    with served(machine) as host:
        told = run_in(machine, other, "attach", "--mode", "rpc", stdin='{"type": "get_state", "id": 1}\n')
        assert told.returncode == 0, told.stderr
        assert told.stderr == (
            f"process {host.os_pid}, which serves {machine.project}, serves {other} too from now on\n"
        )
        states = [json.loads(line) for line in told.stdout.splitlines()]
        first = next(each["data"] for each in states if each.get("id") == 1)
        assert first["cwd"] == str(other)
        again = run_in(machine, other, "attach", "--mode", "rpc", stdin='{"type": "get_state", "id": 1}\n')
        assert again.stderr == ""
        second = next(each["data"] for each in map(json.loads, again.stdout.splitlines()) if each.get("id") == 1)
        assert second["sessionId"] == first["sessionId"]
        refused = run_in(machine, other, "serve", "--model", "scripted/echo")
        assert refused.returncode == 1
        assert f"process {host.os_pid} serves {other} already" in refused.stderr
        assert str(other) in run_in(machine, other, "sessions", "live").stdout


def test_serve_stop_in_a_folder_that_was_added_leaves_that_one_alone(machine):
    """Its sessions are stored and end; those of the first go on, and another host may serve it."""
    other = folder(machine, "other")
    with served(machine) as host, host.client() as here:
        with host.client(cwd=str(other)) as there:
            there.prompt("hello there")
            assert there.answer() == "hello there"
        stopped = run_in(machine, other, "serve", "stop")
        assert stopped.returncode == 0
        assert "has stored 1 sessions and left" in stopped.stderr
        here.prompt("still here")
        assert here.answer() == "still here"
        (only,) = hosts(host)
        assert only["folders"] == [str(machine.project)]
        detached = run_in(machine, other, "serve", "--detach", "--model", "scripted/echo")
        assert detached.returncode == 0, detached.stderr
        assert run_in(machine, other, "serve", "stop").returncode == 0


def test_folders_of_the_command_line_have_all_of_its_flags(machine):
    """`--folder` names one: what flags allow holds there; a folder that is none is refused."""
    other = folder(machine, "other")
    with served(machine, "--permission-mode", "full", "--folder", str(other)) as host:
        with host.client(cwd=str(other)) as there:
            there.prompt('@tool bash {"command": "touch made"}\n@turn\n@text done')
            assert there.answer() == "done"
            assert (other / "made").exists()
        with pytest.raises(EOFError), host.client(cwd=str(machine.home / "missing")) as nobody:
            assert "there is no folder" in nobody.greeting["error"]
            nobody.read()
    refused = machine.run("serve", "--model", "scripted/echo", "--folder", str(machine.home / "missing"))
    assert refused.returncode == 2
    assert "there is no folder" in refused.stderr


def test_a_session_of_another_folder_goes_on_in_that_folder(machine):
    """Switched to from a client that looks elsewhere: tools, files and settings are those of its own folder."""
    other = folder(machine, "other")
    with served(machine) as host, host.client() as here:
        with host.client(cwd=str(other)) as there:
            there.prompt("first words")
            there.answer()
            file = there.greeting["file"]
        listed = here.ask("list_sessions")["data"]["sessions"]
        assert [(one["cwd"], one["live"]) for one in listed if one["path"] == file] == [(str(other), True)]
        assert here.ask("switch_session", sessionPath=file)["success"]
        assert state_of(here)["cwd"] == str(other)
        here.prompt(ASKING)
        asked = here.event("extension_ui_request")
        here.send({"type": "extension_ui_response", "id": asked["id"], "value": "Allow once"})
        assert here.answer() == "It was done."
        assert (other / "made.txt").exists()
        assert here.ask("new_session")["success"]
        assert state_of(here)["cwd"] == str(other)


def test_a_folder_that_is_not_trusted_says_so_to_whoever_comes(machine):
    """Its own settings cannot allow more until the person says yes; that is told once to each client."""
    other = folder(machine, "other", permissions={"mode": "full"})
    with served(machine) as host, host.client(cwd=str(other)) as there:
        told = there.event("extension_ui_request")
        assert "is not trusted" in told["message"]
        assert there.ask("get_permissions")["data"]["mode"] == "ask"
        assert there.ask("get_trust")["data"]["trusted"] is False
        assert there.ask("set_trust", trusted=True)["success"]
        with host.client(cwd=str(other)) as later, host.client() as here:
            assert later.ask("get_permissions")["data"]["mode"] == "full"
            assert here.ask("get_permissions")["data"]["mode"] == "ask"


def test_a_host_with_a_terminal_of_its_own_works_in_one_folder(machine):
    """Whoever asks it for another is refused: its person did not ask for that."""
    other = folder(machine, "other")
    process = subprocess.Popen(
        [sys.executable, "-m", "coding_agent", "--mode", "rpc", "--model", "scripted/echo"],
        cwd=machine.project, env=machine.env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        process.stdin.write(b'{"type": "get_state"}\n')
        process.stdin.flush()
        process.stdout.readline()
        path = machine.runtime_dir / f"host-{process.pid}.sock"
        with Client.to(path, cwd=str(other)) as nobody:
            assert nobody.greeting["error"] == f"this host works in {machine.project} only"
    finally:
        process.communicate(timeout=PATIENCE_S)
    told = run_in(machine, other, "attach", "--mode", "rpc", stdin="")
    assert told.returncode == 2
    assert "no host" in told.stderr


def test_what_flags_allow_is_not_for_folders_they_do_not_name():
    """Rules and modes that allow, and trust, are left out; those that forbid, and the sandbox, stay."""
    given = Arguments(
        None, mode="full", allow=("bash(git *)",), ask=("write",), deny=("bash(rm *)",), sandbox="strict", trust=True
    )
    left = strict(given)
    assert (left.mode, left.allow, left.trust) == (None, (), False)
    assert (left.ask, left.deny, left.sandbox) == (("write",), ("bash(rm *)",), "strict")
    assert strict(Arguments(None, mode="plan")).mode == "plan"
