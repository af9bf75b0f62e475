"""What can be said on the command line, with real programs."""

import json
import subprocess
import sys

import pexpect
import pytest

from tests.flows.hosts import Machine

ECHO = ("--model", "scripted/echo", "--quiet")


def user_texts(machine: Machine) -> list[str]:
    return [
        "".join(block.get("text", "") for block in message["content"])
        for message in machine.messages()
        if message["role"] == "user"
    ]


def test_several_messages_run_one_after_the_other_and_the_last_answer_is_printed(machine: Machine):
    """In one session, whose name is the one given."""
    done = machine.run(*ECHO, "-p", "one", "two", "three", "--name", "three words")
    assert (done.returncode, done.stdout, done.stderr) == (0, "three\n", "")
    assert user_texts(machine) == ["one", "two", "three"]
    assert [entry["name"] for entry in machine.entries() if entry["type"] == "session_info"] == ["three words"]


def test_a_run_that_fails_ends_the_row(machine: Machine):
    """What comes behind it is not said; exit code 1."""
    done = machine.run(*ECHO, "-p", "@error auth no such key", "never")
    assert done.returncode == 1
    assert "no such key" in done.stderr
    assert len(user_texts(machine)) == 1


def test_files_and_what_is_piped_in_go_with_the_first_message(machine: Machine):
    """`@FILE` among the messages, standard input without `-p`."""
    (machine.project / "notes.txt").write_text("from a file")
    done = machine.run(*ECHO, "@notes.txt", "look at it", stdin="from a pipe")
    assert done.returncode == 0
    for part in ("from a file", "from a pipe", "look at it"):
        assert part in done.stdout
    missing = machine.run(*ECHO, "@none.txt", "look", stdin="")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "none.txt" in missing.stderr


def test_what_is_piped_in_stands_in_front_of_the_prompt_behind_p(machine: Machine):
    """Both are one prompt; nothing piped in leaves the prompt as it is."""
    done = machine.run(*ECHO, "-p", "explain it", stdin="the output of a command\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert user_texts(machine) == ["the output of a command\n\nexplain it"]
    assert machine.run(*ECHO, "-p", "explain it", stdin="").stdout == "explain it\n"


def test_a_pipe_that_stays_silent_is_waited_for_and_said(machine: Machine):
    """Whoever inherited it by accident is told how to leave it out; what comes late still goes in front."""
    host = subprocess.Popen(
        [sys.executable, "-m", "coding_agent", "--model", "scripted/echo", "-p", "now"],
        cwd=machine.project, env=machine.env(), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert host.stderr is not None
    assert "</dev/null leaves it out" in host.stderr.readline()
    assert host.communicate("late", timeout=30) == ("late\nnow\n", "")
    assert host.returncode == 0


def test_a_stored_session_is_meant_by_its_id_and_as_the_latest(machine: Machine):
    """One rule for every command and flag that takes a session."""
    machine.run(*ECHO, "-p", "first")
    session_id = machine.entries()[0]["id"]
    for word in (session_id, session_id[:8], "latest"):
        for command in ("show", "tree", "context", "check", "export"):
            done = machine.run("sessions", command, word)
            assert (done.returncode, done.stderr) == (0, "")
    assert machine.run(*ECHO, "--session", session_id[:8], "-p", "second").stdout == "second\n"
    assert machine.run("rewind", "latest", machine.entries()[-1]["id"], "--chat", "--preview").returncode == 0
    assert machine.run(*ECHO, "--fork", "latest", "-p", "third").stdout == "third\n"
    assert len(machine.session_files()) == 2
    unclear = machine.run(*ECHO, "--session", session_id[:2], "-p", "x")
    assert (unclear.returncode, unclear.stdout) == (2, "")
    assert "may be" in unclear.stderr


def test_a_session_is_exported_in_the_format_that_its_file_is_named_for(machine: Machine):
    """A page without a name, Markdown, and never over a file that is there."""
    machine.run(*ECHO, "-p", "violets are blue")
    written = machine.run("--export", "latest")
    assert "violets are blue" in (machine.project / written.stdout.strip()).read_text()
    assert written.stdout.strip().endswith(".html")
    assert machine.run("--export", "latest", "said.md").returncode == 0
    assert "violets are blue" in (machine.project / "said.md").read_text()
    again = machine.run("--export", "latest", "said.md")
    assert (again.returncode, again.stdout) == (2, "")
    assert "said.md is there already" in again.stderr
    assert machine.run("--export", "nothing").returncode == 2


def test_without_a_session_nothing_is_left_behind(machine: Machine):
    """The answer is printed, no file is kept."""
    done = machine.run(*ECHO, "--no-session", "-p", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert machine.session_files() == []


def test_a_copy_of_a_session_goes_on_beside_it(machine: Machine):
    """`--fork` leaves the file it copies alone."""
    machine.run(*ECHO, "-p", "first")
    (file,) = machine.session_files()
    before = file.read_bytes()
    done = machine.run(*ECHO, "--fork", str(file), "-p", "second")
    assert (done.returncode, done.stdout) == (0, "second\n")
    assert file.read_bytes() == before
    (copy,) = (each for each in machine.session_files() if each != file)
    lines = [json.loads(line) for line in copy.read_text().splitlines()]
    assert lines[0]["parentSession"] == str(file)
    assert len([line for line in lines if line["type"] == "message"]) == 4
    assert machine.run(*ECHO, "--fork", "none.jsonl", "-p", "x").returncode == 2


def test_only_the_tools_that_are_named_are_offered(machine: Machine):
    """Another one cannot be called; a name there is not is refused before anything runs."""
    call = '@tool bash {"command": "touch made"}\n@turn\n@text done'
    assert machine.run(*ECHO, "--tools", "read,ls", "-p", call).returncode == 0
    assert machine.run(*ECHO, "--no-tools", "-p", call).returncode == 0
    assert not (machine.project / "made").exists()
    refused = machine.run(*ECHO, "--tools", "read,fly", "-p", "x")
    assert refused.returncode == 2
    assert "fly" in refused.stderr


def test_further_tools_are_offered_when_they_are_asked_for(machine: Machine):
    """By name with `--tools`, or by the setting; else nobody has them, and a name there is not is refused."""
    write = '@tool write {"path": "a.txt", "content": "one"}'
    back = '@turn\n@tool checkpoint {"action": "restore", "checkpoint_id": "c00000001"}\n@turn\n@text done'
    script = f"{write}\n{back}"
    assert machine.run(*ECHO, "-p", script).stdout == "done\n"
    assert (machine.project / "a.txt").exists()
    (machine.project / "a.txt").unlink()
    assert machine.run(*ECHO, "--tools", "write,checkpoint", "-p", script).stdout == "done\n"
    assert not (machine.project / "a.txt").exists()
    machine.extra_env["LEMON_EXTRA_TOOLS"] = "execute_code"
    code = '@tool execute_code {"script": "6 * 7"}\n@turn\n@text done'
    done = machine.run(*ECHO, "--json", "-p", code)
    assert '"42' in done.stdout
    machine.extra_env["LEMON_EXTRA_TOOLS"] = "flying"
    refused = machine.run(*ECHO, "-p", "hi")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "flying" in refused.stderr


def test_events_as_lines_have_their_mode(machine: Machine):
    """`--mode json` is `--json`."""
    done = machine.run(*ECHO, "--mode", "json", "-p", "hi")
    types = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert types[0] == "session"
    assert types[-2:] == ["settled", "agent_settled"]


def test_the_models_there_are_can_be_listed(machine: Machine):
    """`--list-models` prints them and does nothing else."""
    done = machine.run("--list-models", "scripted")
    assert done.returncode == 0
    assert "scripted/echo" in done.stdout
    assert machine.session_files() == []


def test_a_session_is_chosen_at_a_terminal_alone(machine: Machine):
    """Elsewhere one line says what to give instead."""
    for words in (("--resume",), ("--resume", "-p", "x"), ("-r", "--mode", "rpc")):
        done = machine.run(*ECHO, *words, stdin="")
        assert (done.returncode, done.stdout) == (2, "")
        assert "--continue" in done.stderr


@pytest.mark.xdist_group("terminal")
def test_the_sessions_are_listed_to_choose_from(machine: Machine):
    """`--resume` shows what can be gone on with by its first words, in the terminal."""
    machine.run(*ECHO, "-p", "violets are blue")
    env = machine.env() | {"TERM": "xterm-256color"}
    command = [sys.executable, "-m", "coding_agent", "--model", "scripted/echo", "--resume"]
    terminal = pexpect.spawn(
        command[0], command[1:], cwd=machine.project, env=env, dimensions=(30, 100), timeout=30, encoding="utf-8"
    )
    try:
        terminal.expect("violets are blue")
    finally:
        terminal.close(force=True)
