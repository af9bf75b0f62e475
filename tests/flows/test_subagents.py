"""A host whose session has a subagent at work: killed, interrupted, and asked again."""

import json
import signal

import pytest

from tests.flows.hosts import Machine, gone_within, pids_with

SCRIPTED = ("--model", "scripted/echo")


def delegating(marker: str) -> str:
    """A prompt whose one tool call starts a subagent whose one tool call sleeps."""
    inner = f'@tool bash {{"command": "exec -a {marker} sleep 600"}}\n@turn\n@text Never said.'
    call = json.dumps({"prompt": inner, "description": "sleeps"})
    return f"@tool task {call}\n@turn\n@text Never said."


def start(machine: Machine, marker: str):
    host = machine.start("--json", "-p", delegating(marker), *SCRIPTED)
    host.wait_for("tool_execution_start")
    while not [pid for pid in pids_with(marker) if name_of(pid) == marker]:
        assert host.process.poll() is None, host.finish()
    return host


def name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")[0].decode()
    except OSError:
        return ""


def stored(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.requirement("INV-4.3", "INV-4.4", "BR-071")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_host_that_ends_takes_the_processes_of_its_subagents_along(machine, number):
    """
    kill -9, Ctrl-C or SIGTERM while a subagent's tool runs: the tool's processes are gone, each conversation is in its
    own file, the run of a killed host is recorded as lost once the session goes on, and the next prompt works.
    """
    marker = f"lemon-subagent-{number}"
    host = start(machine, marker)

    host.send(number)
    host.finish()
    assert gone_within(marker, 5.0)

    (child,) = machine.session_dir.rglob("subagents/*.jsonl")
    (parent,) = [path for path in machine.session_files() if path != child]
    assert stored(child)[0]["parentSession"] == str(parent)
    assert "sleep 600" in child.read_text()
    again = f"@tool task {json.dumps({'prompt': 'short'})}\n@turn\n@text Over."
    done = machine.run("--continue", "-p", again, *SCRIPTED)
    assert (done.returncode, done.stdout) == (0, "Over.\n"), done.stderr
    statuses = [line["status"] for line in stored(parent.with_name(parent.name + ".runs"))]
    assert statuses[-3:] == ["queued", "running", "completed"]
    assert ("lost" if number == signal.SIGKILL else "aborted") in statuses


def test_prompts_from_the_command_line_wait_for_work_in_the_background(machine):
    """
    The run that starts a subagent beside it ends at once; the program goes on until the subagent has, and the answer is
    that of the run in which its news was heard. A prompt after it begins then.
    """
    inner = "@delay 300\n@text The child has looked."
    call = json.dumps({"prompt": inner, "async": True, "description": "looks"})

    done = machine.run("-p", f"@tool task {call}\n@turn\n@text Started.", *SCRIPTED)
    both = machine.run("-p", f"@tool task {call}\n@turn\n@text Started.", "And then.", *SCRIPTED)

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("has completed:\nThe child has looked.\n")
    assert "waiting for 1 subagent" in done.stderr
    assert (both.returncode, both.stdout) == (0, "And then.\n"), both.stderr


def test_an_interrupt_ends_the_wait_for_work_in_the_background(machine):
    """Ctrl-C while only a subagent is at work: the program ends with it, and nothing is left."""
    marker = "lemon-waits"
    inner = f'@tool bash {{"command": "exec -a {marker} sleep 600"}}'
    call = json.dumps({"prompt": inner, "async": True})
    host = machine.start("--json", "-p", f"@tool task {call}\n@turn\n@text Started.", *SCRIPTED)
    host.wait_for("settled")
    while not [pid for pid in pids_with(marker) if name_of(pid) == marker]:
        assert host.process.poll() is None, host.finish()

    host.send(signal.SIGINT)

    assert host.finish()[0] == 130
    assert gone_within(marker, 5.0)


def told(machine: Machine, inner: list[str], **call: object) -> str:
    """What the subagent's tools answered and what the parent heard, after a run with one subagent."""
    script = json.dumps({"prompt": "\n".join([*inner, "@turn", "@text Child done."]), **call})
    done = machine.run("--quiet", "-p", f"@tool task {script}\n@turn\n@text Over.", *SCRIPTED)
    assert (done.returncode, done.stdout) == (0, "Over.\n"), done.stderr
    files = sorted(machine.session_dir.rglob("*.jsonl"), key=lambda file: "subagents" in file.parts)
    lines = [line for file in files for line in stored(file)]
    results = [line["message"]["content"][0]["text"] for line in lines if line.get("message", {}).get("toolName")]
    return "\n".join(results)


def test_a_subagent_works_in_a_folder_below_with_all_its_tools(machine):
    """Files are read and written there, searches look there, commands run there; what is elsewhere is refused."""
    (machine.project / "lib").mkdir()
    (machine.project / "lib" / "a.txt").write_text("needle of lib")
    (machine.project / "a.txt").write_text("needle of the root")
    heard = told(
        machine,
        [
            '@tool read {"path": "a.txt"}',
            '@tool write {"path": "made.txt", "content": "x"}',
            '@tool grep {"pattern": "needle"}',
            '@tool bash {"command": "pwd; cat a.txt # here"}',
        ],
        cwd="lib",
    )
    assert heard.count("needle of lib") >= 3
    assert "needle of the root" not in heard
    assert f"{machine.project}/lib" in heard
    assert (machine.project / "lib" / "made.txt").exists()
    assert not (machine.project / "made.txt").exists()
    child = next(machine.session_dir.rglob("subagents/*.jsonl"))
    assert stored(child)[0]["cwd"] == str(machine.project / "lib")


def test_a_subagent_in_a_folder_elsewhere_is_not_started(machine):
    """The parent's model is told why."""
    assert "is not below the working folder" in told(machine, ["@text hi"], cwd="..")


def test_a_policy_takes_tools_away_and_has_others_asked_about(machine):
    """A tool it has not is not run; one that must be approved is not, where nobody is there to do so."""
    heard = told(
        machine,
        [
            '@tool bash {"command": "touch made-by-bash"}',
            '@tool write {"path": "made-by-write", "content": "x"}',
        ],
        tool_policy={"deny": ["bash"], "require_approval": ["write"]},
    )
    assert "this subagent must ask before each write; nobody is there to allow it" in heard
    assert not list(machine.project.glob("made-*"))
    refused = told(machine, ["@text hi"], tool_policy={"profile": "godmode"})
    assert "tool_policy" in refused
