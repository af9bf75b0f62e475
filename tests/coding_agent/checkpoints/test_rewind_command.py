"""`rewind`: from the command line, on sessions that real hosts have written."""

import pytest

from tests.flows.hosts import Machine

SCRIPTED = ("--model", "scripted/echo")
CHANGES = """\
@tool write {"path": "a.txt", "content": "agent"}
@tool write {"path": "b.txt", "content": "new"}
@tool bash {"command": "echo x > by-command"}
@turn
@text Done."""


@pytest.fixture
def machine(tmp_path_factory):
    made = Machine(tmp_path_factory.mktemp("m"))
    (made.project / "a.txt").write_text("mine")
    first = made.run("-p", "First words.", *SCRIPTED)
    second = made.run("--continue", "-p", CHANGES, *SCRIPTED)
    assert (first.returncode, second.returncode) == (0, 0), second.stderr
    return made


def entry(machine: Machine, role: str, number: int = -1) -> str:
    found = [line["id"] for line in machine.entries() if line["type"] == "message" and line["message"]["role"] == role]
    return found[number]


def rewind(machine: Machine, *arguments: str):
    (file,) = machine.session_files()
    return machine.run("rewind", str(file), *arguments)


def test_results_name_their_checkpoint(machine):
    """The tree entry of a call that changed a file has the checkpoint's id."""
    details = [message.get("details") or {} for message in machine.messages() if message["role"] == "toolResult"]

    assert [sorted(set(each) & {"checkpoint_id", "changed_files"}) for each in details] == [
        ["checkpoint_id"],
        ["checkpoint_id"],
        ["changed_files"],
    ]


def test_files_and_conversation_go_back_together(machine):
    """Back to my second words: files as before them, the conversation before them, commands named."""
    done = rewind(machine, entry(machine, "user"))

    assert done.returncode == 0, done.stderr
    assert (machine.project / "a.txt").read_text() == "mine"
    assert not (machine.project / "b.txt").exists()
    assert (machine.project / "by-command").exists()
    assert "changed by a command, not undone: by-command" in done.stderr
    assert "your words there: @tool write" in done.stdout
    recalled = machine.run("--continue", "-p", "What did I ask you before?", *SCRIPTED)
    assert recalled.returncode == 0
    assert len(machine.session_files()) == 1


def test_a_preview_changes_nothing(machine):
    """It shows what would be done, with differences."""
    (file,) = machine.session_files()
    before = file.read_bytes()

    done = rewind(machine, entry(machine, "user"), "--preview")

    assert done.returncode == 0
    assert "would restore a.txt" in done.stdout
    assert "would delete b.txt" in done.stdout
    assert "-agent" in done.stdout
    assert (machine.project / "a.txt").read_text() == "agent"
    assert file.read_bytes() == before


def test_code_and_chat_go_back_alone(machine):
    """`--code` leaves the conversation, `--chat` the files."""
    (file,) = machine.session_files()
    before = file.read_bytes()
    assert rewind(machine, entry(machine, "user"), "--code").returncode == 0
    assert (machine.project / "a.txt").read_text() == "mine"
    assert file.read_bytes() == before

    (machine.project / "a.txt").write_text("kept")
    assert rewind(machine, entry(machine, "user"), "--chat").returncode == 0
    assert (machine.project / "a.txt").read_text() == "kept"
    shown = machine.run("sessions", "show", str(file))
    assert "First words." in shown.stdout
    assert "by-command" not in shown.stdout


def test_an_entry_after_the_changes_keeps_them(machine):
    """Back to the results of the calls: the files stay as the calls left them."""
    done = rewind(machine, entry(machine, "toolResult"), "--code")

    assert done.returncode == 0, done.stderr
    assert (machine.project / "a.txt").read_text() == "agent"


def test_a_foreign_edit_is_reported_and_the_exit_code_says_so(machine):
    """1 when a file was left alone."""
    (machine.project / "a.txt").write_text("somebody")

    done = rewind(machine, entry(machine, "user"))

    assert done.returncode == 1
    assert "left alone: a.txt: it was changed by somebody else" in done.stderr
    assert (machine.project / "a.txt").read_text() == "somebody"
    assert not (machine.project / "b.txt").exists()


def test_what_cannot_be_done_is_one_line_and_exit_code_2(machine, tmp_path):
    """No such entry, no such file, no session."""
    assert rewind(machine, "ffffffff").returncode == 2
    for file in (tmp_path / "absent.jsonl", machine.project / "a.txt"):
        done = machine.run("rewind", str(file), "ffffffff")
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1, done.stderr


def test_without_checkpoints_nothing_is_kept(tmp_path_factory):
    """`--no-checkpoints` writes no copies."""
    machine = Machine(tmp_path_factory.mktemp("m"))
    assert machine.run("--no-checkpoints", "-p", CHANGES, *SCRIPTED).returncode == 0

    assert list(machine.session_dir.rglob("checkpoints")) == []
    done = rewind(machine, entry(machine, "user"), "--code")
    assert (done.returncode, done.stdout) == (0, "no file was changed by the agent since\n")
