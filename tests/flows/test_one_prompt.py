"""One prompt from the command line to the disk and back."""

import json

import pytest

from tests.flows.hosts import Machine

SCRIPTED = ("--model", "scripted/echo")
PER_CALL = ("tool_execution_start", "tool_execution_end", "message_start", "message_end")
TWO_READS = """\
@text Looking.
@tool read {"path": "one.txt"}
@tool read {"path": "two.txt"}
@turn
@text Both read."""


def events(machine: Machine, *arguments: str) -> list[dict[str, object]]:
    done = machine.run("--json", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_demo_question_is_answered_from_real_files_by_tools_run_in_one_batch(machine):
    """
    Without key and server the embedded model answers, and says so in a line; asked about the project it calls at least
    two tools at once and quotes what they really returned.
    """
    (machine.project / "README.md").write_text("# Marmalade\n\nA program that counts oranges.\n")

    done = machine.run("-p", "What is in this repository?")

    assert done.returncode == 0, done.stderr
    assert "counts oranges" in done.stdout
    assert "no key and no local server found" in done.stderr
    lines = [line for line in done.stderr.splitlines() if line[:1] in "→✓✗"]
    started_first = [line for line in lines if line.startswith("→")][:2]
    assert lines[:2] == started_first, "the second tool started before the first had ended"


def test_continue_recalls_what_was_asked(machine):
    """A second start with `--continue` goes on with the stored conversation."""
    machine.run("-p", "What is in this repository?")

    done = machine.run("--continue", "-p", "What did I ask you before?")

    assert done.returncode == 0, done.stderr
    assert "What is in this repository?" in done.stdout
    assert len(machine.session_files()) == 1


@pytest.mark.requirement("EVT-2", "EVT-3", "PERS-1", "PERS-2", "PERS-3", "PERS-7")
def test_every_event_is_a_line_of_json_and_every_message_is_stored_in_the_order_told(machine):
    """
    The events of a run with two tool calls come in the seed's order, and the session file holds exactly the messages
    told, each once, in the same order, under the entry ids told. The first line is the header of that file.
    """
    (machine.project / "one.txt").write_text("first\n")
    (machine.project / "two.txt").write_text("second\n")

    told = events(machine, "-p", TWO_READS, *SCRIPTED)
    assert machine.entries()[0].items() <= told[0].items()
    kinds = [
        event["type"] for event in told if event["type"] not in ("loop_state_transition", "message_update", "session")
    ]

    batch = slice(kinds.index("tool_execution_start"), kinds.index("turn_end"))
    assert kinds[: batch.start] == [
        "agent_start", "tool_schema_snapshot", "turn_start", "message_start", "message_end",
        "message_start", "message_end",
    ]  # fmt: skip
    assert kinds[batch][:2] == ["tool_execution_start"] * 2
    assert sorted(kinds[batch]) == sorted(
        ["tool_execution_start", "tool_execution_end", "message_start", "message_end"] * 2
    )
    assert kinds[batch.stop :] == [
        "turn_end", "save_point",
        "turn_start", "message_start", "message_end", "turn_end", "save_point", "agent_end", "settled",
        "agent_settled",
    ]  # fmt: skip
    ended = [(event["entryId"], event["message"]) for event in told if event["type"] == "message_end"]
    stored = [(entry["id"], entry["message"]) for entry in machine.entries() if entry["type"] == "message"]
    assert ended == stored
    assert [message["role"] for _, message in stored] == ["user", "assistant", "toolResult", "toolResult", "assistant"]
    assert "first" in stored[2][1]["content"][0]["text"]
    assert "second" in stored[3][1]["content"][0]["text"]


def test_a_prompt_can_be_piped_in(machine):
    """Without `-p` the prompt is read from standard input when that is no terminal."""
    done = machine.run(*SCRIPTED, stdin="hello from a pipe")

    assert (done.returncode, done.stdout) == (0, "hello from a pipe\n")


def test_a_closed_output_ends_the_program_quietly(machine):
    """When the reader of standard output is gone, there is nobody to complain to."""
    host = machine.start("-p", "@delay 300\n@text late", "--json", *SCRIPTED)
    host.process.stdout.close()
    complaints = host.process.stderr.read()
    host.process.stderr.close()

    assert host.process.wait(timeout=30) == 0
    assert "Traceback" not in complaints


def test_the_growing_message_is_sent_only_on_request(machine):
    """The output is linear in the length of the answer; with `--partials` each update carries the whole."""
    lean = events(machine, "-p", "a b c d e f", *SCRIPTED)
    updates = [event for event in lean if event["type"] == "message_update"]
    done = machine.run("--json", "--partials", "-p", "a b c d e f", *SCRIPTED)
    full = [json.loads(line) for line in done.stdout.splitlines()]
    full_updates = [event for event in full if event["type"] == "message_update"]

    assert updates
    assert all("message" not in event and "partial" not in event["assistantMessageEvent"] for event in updates)
    assert all("message" in event and "partial" in event["assistantMessageEvent"] for event in full_updates)


def test_terminal_codes_of_a_model_do_not_reach_the_terminal(machine):
    """The answer and the progress lines are printed without control characters; the session file keeps them."""
    evil = "before\x1b]0;owned\x07\x1b[31mafter"

    done = machine.run("-p", f"@text {evil}", *SCRIPTED)

    assert done.stdout == "beforeafter\n"
    assert machine.messages()[-1]["content"][0]["text"] == evil
