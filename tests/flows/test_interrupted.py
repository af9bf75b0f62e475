"""Ctrl-C, SIGTERM, a closed terminal, and kill -9 in the middle of a tool call."""

import os
import signal

import pytest

from tests.flows.hosts import Machine, gone_within, pids_with

SCRIPTED = ("--model", "scripted/echo")


def sleeping(marker: str) -> str:
    """A prompt whose one tool call sleeps; the marker tells its processes from all others."""
    return f'@text Waiting.\n@tool bash {{"command": "exec -a {marker} sleep 600"}}\n@turn\n@text Never said.'


def start_sleeping(machine: Machine, marker: str):
    host = machine.start("--json", "-p", sleeping(marker), *SCRIPTED)
    host.wait_for("tool_execution_start")
    while not [pid for pid in pids_with(marker) if pid != host.process.pid and is_sleeper(pid, marker)]:
        pass
    return host


def is_sleeper(pid: int, marker: str) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")[0].decode() == marker
    except OSError:
        return False


@pytest.mark.requirement("BR-069", "BR-076", "ABORT-1")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_ends_the_run_and_stores_what_there_is(machine, number):
    """
    A signal in the middle of a tool call aborts the run: the call gets its one result, everything said is stored, the
    exit code is 130, and no child, socket or lock is left. The conversation can be continued.
    """
    marker = f"lemon-sleeper-{number}"
    host = start_sleeping(machine, marker)

    host.send(number)
    code, out, err = host.finish()

    assert code == 130, err
    assert '"outcome": "aborted"' in out
    assert [message["role"] for message in machine.messages()] == ["user", "assistant", "toolResult"]
    assert gone_within(marker, 2.0)
    assert leftovers(machine) == []
    assert machine.run("-c", "-p", "again", *SCRIPTED).stdout == "again\n"


def test_a_second_signal_ends_the_program(machine):
    """Two signals, one right after the other: the program ends with 130 and leaves nothing behind."""
    host = start_sleeping(machine, "lemon-sleeper-twice")

    host.send(signal.SIGINT)
    host.send(signal.SIGINT)
    code, _, _ = host.finish()

    assert code == 130
    assert gone_within("lemon-sleeper-twice", 2.0)
    assert leftovers(machine) == []


@pytest.mark.requirement("PERS-8", "PERS-9", "BR-076")
def test_a_killed_host_leaves_a_conversation_that_goes_on(machine):
    """
    kill -9 in the middle of a tool call: the tool's processes end with the host, what was said is in the file, and
    after `--continue` the dangling call has a synthetic error result, so that the next prompt works.
    """
    host = start_sleeping(machine, "lemon-sleeper-killed")

    host.send(signal.SIGKILL)
    host.finish()
    assert gone_within("lemon-sleeper-killed", 5.0)
    assert [message["role"] for message in machine.messages()] == ["user", "assistant"]

    done = machine.run("--continue", "-p", "still there?", *SCRIPTED)

    assert (done.returncode, done.stdout) == (0, "still there?\n"), done.stderr
    assert "1 unfinished tool call" in done.stderr
    messages = machine.messages()
    assert [message["role"] for message in messages] == ["user", "assistant", "toolResult", "user", "assistant"]
    assert messages[2]["isError"] is True
    assert messages[2]["toolCallId"] == messages[1]["content"][1]["id"]


@pytest.mark.parametrize("module", ["coding_agent.application", "coding_agent.host", "coding_agent.print_mode"])
def test_an_interrupt_while_the_program_is_read_ends_it_without_a_traceback(machine, module):
    """Before there is anything to abort: the shell sees 130, and nobody sees where Python was."""
    folder = machine.home / "early"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Early:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Early())\n"
    )
    machine.extra_env["PYTHONPATH"] = os.pathsep.join([str(folder), machine.env()["PYTHONPATH"]])
    done = machine.run("-p", "hi", *SCRIPTED)
    assert done.returncode in (130, -signal.SIGINT)
    assert (done.stdout, done.stderr) == ("", "")


def leftovers(machine: Machine) -> list[str]:
    """Sockets and locks that should be gone."""
    sockets = list(machine.runtime_dir.glob("*"))
    locks = [path for path in machine.session_dir.rglob("*") if path.is_file() and path.suffix != ".jsonl"]
    return [path.name for path in [*sockets, *locks]]
