"""MCP servers of a real host: configured, trusted, used, listed, and gone when the host is."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.coding_agent.mcp.support import ASKING, LIGHT
from tests.flows.hosts import PATIENCE_S, Machine
from tests.flows.rpc_clients import RpcClient, text_of

ASK = '@tool mcp__light__echo {"a": 1}\n@turn\n@text done'


def configure(folder: Path, **entries: dict) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))


def light(**more: object) -> dict:
    return {"command": sys.executable, "args": ["-I", "-S", str(LIGHT)], **more}


def servers_of(machine: Machine) -> list[int]:
    """Processes that carry this machine's mark in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"MARK={machine.home}".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def eventually(condition: Callable[[], bool]) -> None:
    """Return when the machine has come to a state."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)


@pytest.mark.requirement("BR-181")
def test_servers_of_a_project_run_once_it_is_trusted_as_it_is(machine: Machine):
    """Not before, and not any more when the file has changed since; the person is told in a line."""
    marker = machine.project / "started"
    entry = light()
    entry["args"] = ["-I", "-S", "-c", f"open({str(marker)!r}, 'w'); exec(open({str(LIGHT)!r}).read())"]
    configure(machine.project, light=entry)

    before = machine.run("--model", "scripted/echo", "-p", ASK)
    assert "not trusted" in before.stderr
    assert not marker.exists()

    assert machine.run("trust", "yes").returncode == 0
    trusted = machine.run("--model", "scripted/echo", "-p", ASK)
    assert trusted.returncode == 0, trusted.stderr
    assert marker.exists()
    assert "✓ mcp__light__echo" in trusted.stderr

    marker.unlink()
    configure(machine.project, light={**entry, "env": {"OTHER": "1"}})
    changed = machine.run("--model", "scripted/echo", "-p", ASK)
    assert "changed since you trusted it" in changed.stderr
    assert not marker.exists()


def test_rules_name_all_tools_of_a_server(machine: Machine):
    """A rule that denies them holds in the mode that allows everything."""
    configure(machine.project, light=light())

    done = machine.run("--trust", "--deny", "mcp__light__*", "--model", "scripted/echo", "-p", ASK)

    assert "not allowed" in done.stderr
    result = next(m for m in machine.messages() if m["role"] == "toolResult")
    assert "forbids it" in result["content"][0]["text"]


def test_tools_that_were_not_named_are_not_offered_and_need_no_server(machine: Machine):
    """`--tools` names a server's tool like any other; without one, no server is started."""
    entry = light(env={"MARK": str(machine.home)})
    entry["args"] = ["-I", "-S", "-c", f"open('started', 'w'); exec(open({str(LIGHT)!r}).read())"]
    configure(machine.project, light=entry)

    without = machine.run("--trust", "--tools", "read", "--model", "scripted/echo", "-p", ASK)
    assert not (machine.project / "started").exists()
    named = machine.run("--trust", "--tools", "mcp__light__echo", "--model", "scripted/echo", "-p", ASK)

    assert "✗ mcp__light__echo" in without.stderr
    assert "✓ mcp__light__echo" in named.stderr


def test_a_server_that_does_not_start_is_a_line_and_not_an_end(machine: Machine):
    """The others work; nothing it was configured with is shown."""
    configure(
        machine.project,
        light=light(),
        gone={"command": "/no/such/program", "args": ["canary-one"]},
        dies={"command": sys.executable, "args": ["-c", "import os, sys; sys.exit(os.environ['KEY'])"],
              "env": {"KEY": "canary-two"}},
        unset={"url": "http://127.0.0.1:9/${NO_SUCH_VARIABLE}"},
        web={"url": "http://127.0.0.1:9/mcp?key=canary-three", "headers": {"X": "canary-four"}},
    )  # fmt: skip

    done = machine.run("--trust", "--model", "scripted/echo", "-p", ASK)

    assert done.returncode == 0
    assert "MCP: gone is not connected" in done.stderr
    assert "NO_SUCH_VARIABLE is not set" in done.stderr
    assert "✓ mcp__light__echo" in done.stderr
    log = machine.home / "host.log"
    assert "canary" not in done.stderr + done.stdout + (log.read_text() if log.exists() else "")


def test_the_command_lists_and_checks(machine: Machine):
    """`list` starts nothing; `check` says of each whether it answers, and that it failed by its exit code."""
    configure(machine.project, light=light(env={"MARK": str(machine.home)}), gone={"command": "/no/such"})

    waiting = machine.run("mcp", "list")
    listed = json.loads(machine.run("mcp", "list", "--trust", "--json").stdout)
    checked = machine.run("mcp", "check", "--trust")
    one = machine.run("mcp", "check", "--trust", "light", "--json")

    assert "waiting for your trust in this project: light, gone" in waiting.stderr
    assert [server["name"] for server in listed["servers"]] == ["light", "gone"]
    assert checked.returncode == 1
    assert "light  ready, 1 tool" in checked.stdout
    assert one.returncode == 0
    assert json.loads(one.stdout)["servers"][0]["tools"] == ["echo"]
    assert servers_of(machine) == []
    assert machine.run("mcp", "check", "nobody").returncode == 2


@pytest.mark.requirement("BR-162")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_servers_go_with_the_host_however_it_ends(machine: Machine, how: signal.Signals):
    """Killed without a word, or told to end: the server and what it started in another session are gone."""
    entry = light(env={"MARK": str(machine.home)})
    entry["args"].append("child")
    configure(machine.project, light=entry)
    host = machine.start("--trust", "--model", "scripted/echo", "-p", '@tool bash {"command": "sleep 60"}\n@text x')
    eventually(lambda: len(servers_of(machine)) >= 2)

    os.kill(host.process.pid, how)
    host.finish()

    eventually(lambda: servers_of(machine) == [])


def test_a_client_of_the_rpc_protocol_sees_and_uses_what_servers_have(machine: Machine):
    """Their state, their prompts among the commands, addresses to complete; one connected anew by name."""
    configure(machine.project, asking={"command": sys.executable, "args": [str(ASKING)]}, light=light())
    client = RpcClient(machine, "--trust")
    try:
        eventually(lambda: all(each["state"] == "ready" for each in client.ask("get_mcp")["servers"]))
        end = client.run("/mcp__light__nothing as it stands")
        assert next(text_of(message) for message in end["messages"]) == "/mcp__light__nothing as it stands"
        states = {server["name"]: server for server in client.ask("get_mcp")["servers"]}
        assert states["asking"]["resources"] == ["notes://today"]
        assert states["asking"]["templates"] == ["notes://{day}/all"]
        names = {command["name"]: command for command in client.ask("get_commands")["commands"]}
        assert names["mcp__asking__review"]["source"] == "mcp"
        assert client.ask("complete_files", prefix="asking:")["paths"] == ["asking:notes://today"]

        assert client.ask("reconnect_mcp", name="light") == {"servers": ["light"]}
        assert "no MCP server 'nobody' here; known are: asking, light" in client.refused("reconnect_mcp", name="nobody")
        assert client.ask("reconnect_mcp") == {"servers": ["asking", "light"]}

        end = client.run("/mcp__asking__review a.py dry")
        said = [text_of(message) for message in end["messages"] if message["role"] == "user"]
        assert said == ["Review a.py in a dry tone."]
        assert "needs file" in client.refused("prompt", message="/mcp__asking__review")
        end = client.run("Do @asking:notes://today")
        (read,) = [text_of(message) for message in end["messages"] if message["role"] == "user"]
        assert read.startswith("Do @asking:notes://today")
        assert "Buy milk." in read
    finally:
        client.kill()


def test_a_server_that_hangs_keeps_no_host_waiting(machine: Machine):
    """The session is there at once; the first prompt waits its short time, and says who is late."""
    configure(machine.project, mute={"command": sys.executable, "args": ["-c", "import time; time.sleep(1000)"]})
    client = RpcClient(machine, "--trust")
    try:
        assert client.ask("get_mcp")["servers"][0]["state"] == "connecting"
        waiting = client.post("prompt", message="not this one")
        client.ask("abort")
        assert client.response(waiting)["error"] == "aborted before it began"
        client.run("hello")
        told = [message for message in client.seen if message["type"] == "extension_ui_request"]
        assert [message["message"] for message in told if message["method"] == "notify"][-1:] == [
            "MCP: mute has not answered yet; its tools come when it does"
        ]
    finally:
        client.kill()
