"""What a host does with a client that sends what it should not, reads nothing, or goes away."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.flows.hosts import PATIENCE_S, Machine
from tests.flows.rpc_clients import RpcClient, text_of

ODD_SEPARATORS = "a\u2028b\u2029c\u0085d\x0ce\x0bf"


@pytest.fixture
def client(machine: Machine) -> Iterator[RpcClient]:
    client = RpcClient(machine, "--permission-mode", "full")
    yield client
    client.kill()


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpcClient]:
    """One client for all the wrong lines and commands: it outlives them one after the other."""
    client = RpcClient(Machine(tmp_path_factory.mktemp("m")), "--permission-mode", "full")
    yield client
    client.kill()


def is_parse_failure(message: dict[str, object]) -> bool:
    return message.get("command") == "parse" and message["success"] is False and "id" not in message


def lives(client: RpcClient) -> bool:
    return client.ask("get_state")["isStreaming"] is False


@pytest.mark.parametrize(
    "line",
    [b"{", b"nonsense", b"[1, 2]", b'"text"', b"null", b'{"type": "prompt", "message": "\xff\xfe"}',
     b"\xf0\x28\x8c\x28", b"[" * 100_000, b'{"id": 7, "type": "get_state"} trailing'],
    ids=["half", "words", "list", "text", "null", "not-utf8", "broken-utf8", "deep", "trailing"],
)  # fmt: skip
def test_a_line_that_is_no_command_is_answered_and_the_connection_lives(patient: RpcClient, line: bytes):
    """A response with the command `parse` and no id, and the next command is carried out."""
    patient.write(line + b"\n")
    assert patient.until(is_parse_failure)["error"].startswith("Failed to parse command")
    assert lives(patient)


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ({"type": "fly"}, "Unknown command: fly"),
        ({"type": 7}, "Unknown command"),
        ({}, "Unknown command"),
        ({"type": "prompt"}, "message"),
        ({"type": "prompt", "message": ["words"]}, "message"),
        ({"type": "prompt", "message": "x", "streamingBehavior": "perhaps"}, "streamingBehavior"),
        (
            {"type": "prompt", "message": "x", "images": [{"type": "image", "data": "?", "mimeType": "image/png"}]},
            "base64",
        ),
        ({"type": "set_auto_retry", "enabled": "yes"}, "enabled"),
        ({"type": "fork", "entryId": "no-such-entry"}, "no-such-entry"),
        ({"type": "switch_session", "sessionPath": "/no/such/file.jsonl"}, "/no/such/file.jsonl"),
        ({"type": "compact"}, "nothing to compact"),
        ({"type": "navigate_tree", "entryId": "nowhere"}, "nowhere"),
        ({"type": "export_html"}, "nothing"),
        ({"type": "set_permission_mode", "mode": "root"}, "mode"),
    ],
)
def test_a_command_that_cannot_be_carried_out_is_refused_with_its_id(
    patient: RpcClient, command: dict[str, object], complaint: str
):
    """The response names what is wrong, echoes the id, and the connection lives."""
    patient.write(json.dumps({"id": "mine", **command}).encode() + b"\n")
    response = patient.response("mine")
    assert response["success"] is False
    assert complaint.lower() in response["error"].lower()
    assert lives(patient)


def test_an_answer_to_a_question_nobody_asked_is_ignored(patient: RpcClient):
    """An `extension_ui_response` with an unknown id has no response and does no harm."""
    patient.write(b'{"type": "extension_ui_response", "id": "q999", "value": "yes"}\n')
    assert lives(patient)
    assert patient.seen[-1]["command"] == "get_state"


@pytest.mark.requirement("BR-154")
def test_separators_inside_a_text_are_no_line_ends_in_either_direction(client: RpcClient):
    """
    U+2028, U+2029, U+0085, form feed and vertical tab come through as what they are: in a prompt, in a tool's output,
    and in the events about both. A line may end in CR LF.
    """
    client.write(
        json.dumps({"id": "p", "type": "prompt", "message": ODD_SEPARATORS}, ensure_ascii=False).encode() + b"\r\n"
    )
    assert client.response("p")["success"]
    end = client.event("agent_end")
    assert text_of(end["messages"][0]) == ODD_SEPARATORS
    client.event("agent_settled")
    script = r"printf 'x\342\200\250y\342\200\251z\302\205.'"
    client.run(f"@tool bash {json.dumps({'command': script})}\n@turn\n@text done")
    result = next(message for message in client.seen if message["type"] == "tool_execution_end")
    assert "x\u2028y\u2029z" in result["result"]["content"][0]["text"]


@pytest.mark.requirement("BR-155")
def test_lines_of_a_megabyte_go_both_ways_and_much_longer_ones_are_taken(client: RpcClient):
    """No 64 KiB limit: a prompt of 1 MB comes back as events of 1 MB, and a line of 20 MB is read."""
    long = "word " * 210_000
    client.ask("steer", message="first")
    client.write(json.dumps({"id": "big", "type": "get_state", "pad": "x" * 20_000_000}).encode() + b"\n")
    assert client.response("big")["success"]
    client.ask("next_turn", message=long)
    assert lives(client)
    assert client.run("@text short")["messages"][0]["content"][0]["text"] == long


@pytest.mark.requirement("BR-155")
def test_a_line_above_the_limit_is_refused_as_a_whole_and_the_connection_lives(client: RpcClient):
    """More than the stated 64 MiB: a `parse` response that names the limit; what follows is read on."""
    block = b"x" * 1_000_000
    client.write(b'{"type": "prompt", "message": "')
    for _ in range(68):
        client.write(block)
    client.write(b'"}\n')
    assert str(64 * 1024 * 1024) in client.until(is_parse_failure)["error"]
    assert lives(client)


def test_a_command_in_pieces_is_one_command(patient: RpcClient):
    """Where a line is cut by the pipe says nothing."""
    for byte in b'{"id": "slow", "type": "get_state"}\n':
        patient.write(bytes([byte]))
    assert patient.response("slow")["success"]


@pytest.mark.parametrize(
    ("last", "answered"), [(b'{"id": "l", "type": "get_state"}', True), (b'{"id": "l", "ty', False)]
)
def test_a_last_line_without_its_end_counts_when_it_is_whole(client: RpcClient, last: bytes, answered: bool):
    """The input ends in the middle of a line: what is a command is answered, what is not is refused; exit code 0."""
    client.write(last)
    client.close_input()
    came = client.rest()
    if answered:
        assert any(message.get("id") == "l" and message["success"] for message in came)
    else:
        assert any(is_parse_failure(message) for message in came)
    assert client.finish() == (0, "")


def test_commands_that_were_sent_before_the_input_ended_are_answered(machine: Machine):
    """A shell pipe that closes at once still gets its answers."""
    done = subprocess.run(
        [sys.executable, "-m", "coding_agent", "--mode", "rpc", "--model", "scripted/echo"],
        input=b'{"id":1,"type":"get_state"}\n{"id":2,"type":"get_messages"}\n',
        cwd=machine.project, env=machine.env(), capture_output=True, timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    ids = [
        message.get("id") for line in done.stdout.splitlines() if (message := json.loads(line))["type"] == "response"
    ]
    assert sorted(ids) == [1, 2]
    assert done.stderr == b""


def test_closing_the_input_in_a_run_aborts_and_stores_it(client: RpcClient, machine: Machine):
    """The tool is ended, what was said is on disk with its result, the end is told, the exit code is 0."""
    client.ask("prompt", message='@text thinking aloud\n@tool bash {"command": "sleep 60"}\n@turn\n@text never')
    client.event("tool_execution_start")
    client.close_input()
    came = client.rest()
    assert [message["type"] for message in came if message["type"] in ("agent_end", "agent_settled")] == [
        "agent_end",
        "agent_settled",
    ]
    assert client.finish() == (0, "")
    roles = [message["role"] for message in machine.messages()]
    assert roles[:2] == ["user", "assistant"]
    assert "never" not in json.dumps(machine.messages()[1:])


def test_a_signal_in_a_run_aborts_and_stores_it(client: RpcClient, machine: Machine):
    """SIGTERM is a request to end: the same as closing the input, with the exit code of an interrupt."""
    client.ask("prompt", message='@tool bash {"command": "sleep 60"}\n@turn\n@text never')
    client.event("tool_execution_start")
    client.process.send_signal(signal.SIGTERM)
    assert any(message["type"] == "agent_end" for message in client.rest())
    assert client.finish() == (130, "")
    assert machine.messages()[0]["role"] == "user"


def test_a_client_that_reads_no_more_is_left_without_a_word(machine: Machine):
    """The output is closed in the middle of a run: the host stores what there is and exits quietly."""
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "coding_agent", "--mode", "rpc", "--model", "scripted/echo",
         "--permission-mode", "full"],
        cwd=machine.project, env=machine.env(), stdin=subprocess.PIPE, stdout=writing, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(writing)
    assert process.stdin is not None
    process.stdin.write(b'{"type":"prompt","message":"@tool bash {\\"command\\": \\"sleep 60\\"}"}\n')
    process.stdin.flush()
    with os.fdopen(reading, "rb") as output:
        for line in output:
            if json.loads(line)["type"] == "tool_execution_start":
                break
    process.stdin.write(b'{"type":"get_state"}\n')
    process.stdin.flush()
    assert process.wait(timeout=PATIENCE_S) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stdin.close()
    process.stderr.close()
    assert machine.messages()[0]["role"] == "user"


def test_a_client_that_never_reads_keeps_no_command_waiting(client: RpcClient):
    """More output than a pipe holds while nobody reads: commands are carried out all the same."""
    for number in range(40):
        client.post("bash", command=f"head -c 30000 /dev/zero | tr '\\0' x; echo {number}")
    assert client.ask("get_state")["cwd"]


def test_two_programs_on_one_session_file_do_not_undo_each_other(client: RpcClient, machine: Machine):
    """The second host is told who has the file, and can go on with another session."""
    client.run("mine")
    file = client.ask("get_state")["sessionFile"]
    other = RpcClient(machine)
    try:
        assert str(client.process.pid) in other.refused("switch_session", sessionPath=file)
        assert other.run("another")["messages"]
        assert other.ask("get_state")["sessionFile"] != file
    finally:
        other.kill()
    assert client.run("still mine")["messages"]


def test_prompts_on_the_command_line_are_refused_with_rpc(machine: Machine):
    """One line on standard error and exit code 2."""
    done = machine.run("--mode", "rpc", "hello")
    assert done.returncode == 2
    assert "standard input" in done.stderr
    assert done.stdout == ""
