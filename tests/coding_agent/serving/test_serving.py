"""serve and attach, with real programs on real sockets: who dies, who goes on, who is asked."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from coding_agent import sessions_command
from coding_agent.control.client import sockets
from coding_agent.errors import BadUsage
from coding_agent.serving import attach, serve
from tests.coding_agent.serving.served import ASKING, served, sleeping
from tests.flows.hosts import PATIENCE_S, Machine, gone_within, pids_with


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, {"LEMON_LOCAL_SERVERS": "off"})


def test_a_client_that_is_killed_ends_nothing(machine):
    """SIGKILL in the middle of a run: the run goes on to its end, and whoever comes next finds it."""
    with served(machine) as host:
        client = host.attach()
        client.stdin.write(b'{"type": "prompt", "message": "@text before\\n@delay 600\\n@text and after"}\n')
        client.stdin.flush()
        while b"before" not in client.stdout.readline():
            pass
        client.kill()
        client.communicate(timeout=PATIENCE_S)
        (session,) = host.live()
        with host.client(session=session["id"]) as other:
            if other.ask("get_state")["data"]["isStreaming"]:
                other.event("agent_settled")
            assert other.ask("get_last_assistant_text")["data"]["text"] == "beforeand after"
        assert host.process.poll() is None


def test_two_clients_see_the_same_events(machine):
    """A prompt of one is a prompt for both, event for event, in the same order."""
    with served(machine) as host, host.client() as one, host.client(session=one_id(host)) as other:
        assert other.greeting["session"] == one.greeting["session"]
        one.prompt("@think hm\n@text said to both")
        assert one.answer() == "said to both"
        other.event("agent_settled")
        assert told(one) == told(other)
        assert "message_update" in told(other)
        assert host.live()[0]["clients"] == 2


def one_id(host) -> str:
    (session,) = host.live()
    return session["id"]


def told(client) -> list[str]:
    return [message["type"] for message in client.seen if message["type"] not in ("response", "session_opened")]


def test_a_question_goes_to_everybody_and_is_answered_once(machine):
    """Both clients are asked; the first answer counts, the other hears that it is over, a second changes nothing."""
    with served(machine) as host, host.client() as one, host.client(session=one_id(host)) as other:
        one.prompt(ASKING)
        asked = one.event("extension_ui_request")
        assert other.event("extension_ui_request") == asked
        assert asked["kind"] == "permission"
        assert host.live()[0]["state"] == "asking"
        other.send({"type": "extension_ui_response", "id": asked["id"], "value": "Allow once"})
        assert one.event("extension_ui_closed") == {"type": "extension_ui_closed", "id": asked["id"], "answered": True}
        one.send({"type": "extension_ui_response", "id": asked["id"], "value": "Deny"})
        assert one.answer() == "It was done."
        assert (machine.project / "made.txt").read_text() == "done"


def test_a_question_with_nobody_there_waits_for_whoever_comes(machine):
    """The client that asked is gone; the next one is asked the same question."""
    with served(machine) as host:
        with host.client() as one:
            one.prompt(ASKING)
            asked = one.event("extension_ui_request")
        with host.client(session=one.greeting["session"]) as other:
            assert other.event("extension_ui_request")["id"] == asked["id"]
            other.send({"type": "extension_ui_response", "id": asked["id"], "value": "Deny"})
            assert other.answer() == "It was done."
        assert not (machine.project / "made.txt").exists()


def test_a_host_that_is_killed_leaves_files_to_go_on_with(machine):
    """
    SIGKILL of the host in the middle of a tool call: what tools ran ends, clients end with an error, everything said
    is in the file; the next host takes the dead one's socket away and goes on with the file.
    """
    marker = "lemon-served-sleeper"
    with served(machine, "--permission-mode", "full") as host:
        client = host.attach()
        client.stdin.write(json.dumps({"type": "prompt", "message": sleeping(marker)}).encode() + b"\n")
        client.stdin.flush()
        while b"tool_execution_start" not in client.stdout.readline():
            pass
        while not pids_with(marker):
            pass
        os.kill(host.os_pid, signal.SIGKILL)
        assert client.wait(PATIENCE_S) == 1  # with its input still open
        assert client.communicate(timeout=PATIENCE_S)[1] == b"error: the host has ended\n"
        assert gone_within(marker, 5.0)
        (left,) = sockets(machine.runtime_dir)
    (file,) = machine.session_files()
    with served(machine) as again, again.client(file=str(file)) as other:
        assert sockets(machine.runtime_dir) == [again.socket]
        assert not left.exists()
        roles = [message["role"] for message in other.ask("get_messages")["data"]["messages"]]
        assert roles == ["user", "assistant", "toolResult"]
        other.prompt("still there")
        assert other.answer() == "still there"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stores_every_session_and_ends_the_host_well(machine, number):
    """Exit code 0; what ran is aborted and stored, clients see the end, nothing is left."""
    marker = f"lemon-served-{number}"
    with served(machine, "--permission-mode", "full") as host, host.client() as one:
        one.prompt(sleeping(marker))
        one.event("tool_execution_start")
        host.process.send_signal(number)
        with pytest.raises(EOFError):
            one.event("never")
        assert host.process.wait(PATIENCE_S) == 0
        assert gone_within(marker, 2.0)
    assert [message["role"] for message in machine.messages()] == ["user", "assistant", "toolResult"]
    assert sockets(machine.runtime_dir) == []


def test_a_second_signal_does_not_wait(machine):
    """
    A session that takes long to end holds up the first; the second ends the host at once, with 130, and what was said
    is in the file all the same.
    """
    with served(machine, "--permission-mode", "full") as host, host.client() as one:
        one.prompt('@text Waiting.\n@tool bash {"command": "trap : TERM; while :; do sleep 1; done"}')
        one.event("tool_execution_start")
        host.process.send_signal(signal.SIGTERM)
        host.process.send_signal(signal.SIGINT)
        assert host.process.wait(PATIENCE_S) in (0, 130)
    assert [message["role"] for message in machine.messages()][:2] == ["user", "assistant"]


def test_sessions_are_found_by_id_by_name_and_by_folder(machine):
    """Without an id the one that was opened last; a beginning is enough if it is the only one."""
    with served(machine) as host, host.client() as first, host.client() as second:
        first.ask("set_session_name", name="the first one")
        ids = [client.greeting["session"] for client in (first, second)]
        found = {session["id"]: session for session in host.live()}
        assert list(found) == ids
        assert found[ids[0]]["name"] == "the first one"
        assert session_of(host, "the first one") == ids[0]
        assert session_of(host, ids[0]) == ids[0]
        assert session_of(host) == ids[1]
        assert session_of(host, "--new") not in ids
        text = machine.run("sessions", "live").stdout
        assert "the first one" in text
        assert "1 looking" in text
        both = ids[0][:4]  # the time they were made: the same for more than a day
        for wanted, said in (("nothing", "no session nothing runs; these do: "), (both, "give more of it")):
            done = machine.run("attach", wanted, "--mode", "rpc")
            assert done.returncode == 2
            assert said in done.stderr


def session_of(host, *arguments: str) -> str:
    client = host.attach(*arguments)
    out, said = client.communicate(b'{"type": "get_state", "id": 1}\n', timeout=PATIENCE_S)
    assert client.returncode == 0, said
    responses = [json.loads(line) for line in out.splitlines()]
    return next(one["data"]["sessionId"] for one in responses if one["type"] == "response")


def test_a_host_that_serves_is_looked_into_and_acted_on_as_any_other(machine):
    """`repl` shows its sessions, and stopping one of its processes does not end the host."""
    with served(machine) as host, host.client() as client:
        shown = machine.run("repl", "--attach", "--once", "sessions", "--json")
        assert [each["session"] for each in json.loads(shown.stdout)["sessions"]] == [client.greeting["session"]]
        stopped = machine.run("repl", "--attach", "--once", "stop todo_store")
        assert stopped.returncode == 0, stopped.stderr
        assert [each["id"] for each in host.live()] == [client.greeting["session"]]


def test_one_session_can_be_ended_and_the_others_go_on(machine):
    """`sessions stop ID`: what it did is aborted and stored; its file is named."""
    with served(machine) as host, host.client() as one, host.client() as other:
        one.prompt("something")
        one.answer()
        done = machine.run("sessions", "stop", one.greeting["session"])
        assert done.returncode == 0
        assert one.greeting["file"] in done.stderr
        assert [session["id"] for session in host.live()] == [other.greeting["session"]]
        assert machine.run("sessions", "stop", "nothing").returncode == 2
    assert len(machine.session_files()) == 1


def test_input_that_ends_gets_its_answers_and_output_nobody_reads_is_no_error(machine):
    """A pipe of commands is answered to the last one; a reader that leaves ends the client without a word."""
    with served(machine) as host:
        commands = b'{"type": "prompt", "message": "x", "id": 1}\n{"type": "get_state", "id": 2}'
        client = host.attach()
        out, said = client.communicate(commands, timeout=PATIENCE_S)
        answered = [json.loads(line) for line in out.splitlines()]
        assert [one["id"] for one in answered if one["type"] == "response"] == [1, 2]
        assert (client.returncode, said) == (0, b"")

        reading, writing = os.pipe()
        os.close(reading)
        quiet = host.attach(stdout=writing)
        os.close(writing)
        with quiet.stdin, quiet.stderr:
            assert quiet.wait(PATIENCE_S) == 0
            assert quiet.stderr.read() == b""
        assert host.process.poll() is None


def test_nonsense_is_answered_and_harms_nobody(machine):
    """Lines that are no commands, half a line, invalid UTF-8, wrong first lines."""
    with served(machine) as host, host.client() as one:
        for line in (b"nonsense\n", b"[]\n", b"\xff\xfe\n", b"\n", b'{"type": 7}\n'):
            one.connection.sendall(line)
        assert [one.event("response")["success"] for _ in range(4)] == [False] * 4
        with host.client() as half:
            half.connection.sendall(b'{"type": "get_st')
        for request in (
            {"session": "nowhere"},
            {"session": 7},
            {"file": "relative"},
            {"file": str(machine.home / "no")},
        ):
            with host.client(**request) as refused:
                assert refused.greeting["ok"] is False
                assert refused.greeting["error"]
        assert one.ask("get_state")["success"]
        assert len(host.live()) == 2


@pytest.mark.requirement("BR-154", "BR-155")
def test_lines_end_at_line_feeds_only_and_may_be_long(machine):
    """U+2028 and its like are characters of a line, both ways and through `attach`; a megabyte is no trouble."""
    odd = "a\u2028b\u2029c\u0085d\x0ce\x0bf"
    with served(machine) as host, host.client() as one:
        one.prompt(odd)
        assert one.answer() == odd
        assert one.ask("set_session_name", name=(long := "n" * 2_000_000))["success"]
        assert one.ask("get_state")["data"]["sessionName"] == long
        client = host.attach(one.greeting["session"])
        out, _ = client.communicate(b'{"type": "get_messages", "id": 1}\r\n', timeout=PATIENCE_S)
    lines = out.split(b"\n")
    response = next(json.loads(line) for line in lines if line.startswith(b'{"id": 1'))
    said = [message["content"] for message in response["data"]["messages"] if message["role"] == "user"]
    assert [blocks[0]["text"] for blocks in said] == [odd]


@pytest.mark.requirement("BR-155")
def test_a_client_that_reads_is_kept_however_much_comes_at_once(machine):
    """A prompt of 25 MB is told of several times over, in one burst; whoever reads it is still there afterwards."""
    with served(machine) as host, host.client() as one:
        one.prompt("long " * 5_000_000 + "\n@text short")
        assert one.answer() == "short"
        told = [
            message for message in one.seen if len(str(message.get("message", message.get("messages")))) > 25_000_000
        ]
        assert [message["type"] for message in told] == ["message_start", "message_end", "agent_end"]


def test_only_one_host_serves_a_folder(machine, tmp_path):
    """The second is refused with the process of the first; another folder has a host of its own."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with served(machine) as host:
        done = machine.run("serve")
        assert done.returncode == 1
        assert f"process {host.os_pid} serves" in done.stderr
        assert machine.run("serve", "--detach", "--cwd", str(elsewhere)).returncode == 0
        missing = machine.run("attach", "--mode", "rpc", "--cwd", str(tmp_path / "missing"))
        assert missing.returncode == 2
        assert "there is no folder" in missing.stderr
        stopped = machine.run("serve", "stop", "--cwd", str(elsewhere))
        assert stopped.returncode == 0, stopped.stderr
        assert host.process.poll() is None
    assert "no host serves" in machine.run("serve", "stop").stderr


def test_a_host_in_the_background_goes_on_without_its_terminal_until_it_is_stopped(machine):
    """`--detach` returns when clients may come; `serve stop` returns when everything is stored and the host is gone."""
    started = machine.run("serve", "--detach", "--model", "scripted/echo")
    assert started.returncode == 0, started.stderr
    host = int(started.stderr.rpartition("as process ")[2].split(";")[0])
    client = subprocess.run(
        attach_command(), cwd=machine.project, env=machine.env(), input=PROMPT,
        capture_output=True, timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    assert b'"success": true' in client.stdout
    stopped = machine.run("serve", "stop", "--all")
    assert stopped.returncode == 0
    assert "has stored 1 sessions and ended" in stopped.stderr
    assert machine.messages()[0]["role"] == "user"
    assert machine.run("serve", "stop").returncode == 1
    assert machine.run("sessions", "live").returncode == 1
    assert not [pid for pid in pids_with("--detached-child") if pid == host]


PROMPT = b'{"type": "prompt", "message": "from a pipe"}\n'


def attach_command() -> list[str]:
    import sys

    return [sys.executable, "-m", "coding_agent", "attach", "--mode", "rpc"]


def test_a_host_that_cannot_start_in_the_background_says_why(machine):
    """The message of the child is the parent's, with an exit code that is not 0; nothing stays behind."""
    done = machine.run("serve", "--detach", "--model", "no/such")
    assert done.returncode == 1
    assert "no/such" in done.stderr
    assert machine.run("sessions", "live").stderr.startswith("no host runs;")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serve", "-p", "hello"], "takes no prompts"),
        (["serve", "hello"], "takes no prompts"),
        (["serve", "--mode", "rpc"], "takes no prompts"),
        (["serve", "--continue"], "attach --session FILE"),
        (["serve", "--no-session"], "attach --session FILE"),
        (["serve", "--nope"], "unrecognized arguments"),
        (["serve", "stop", "--nope"], "unrecognized arguments"),
        (["attach"], "start one with"),
        (["attach", "x", "--new"], "give one of them"),
        (["attach", "--nope"], "unrecognized arguments"),
        (["sessions", "live", "--nope"], "unrecognized arguments"),
        (["sessions", "stop"], "ID"),
    ],
)
def test_bad_usage_says_what_to_do(machine, monkeypatch, arguments, said):
    """One line; the program ends with 2."""
    monkeypatch.chdir(machine.project)
    command = {"serve": serve.main, "attach": attach.main, "sessions": sessions_command.main}[arguments[0]]
    with pytest.raises(BadUsage, match=said) as bad:
        command(arguments[1:], machine.env()) if command is not sessions_command.main else command(arguments[1:])
    assert len(str(bad.value).splitlines()) == 1
