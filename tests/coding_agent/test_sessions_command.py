import json
import subprocess
import sys

import pytest

from coding_agent.sessions_command import main
from coding_agent.storage.session_manager import SessionManager
from tests.coding_agent.storage.support import CLAUDE, PI, answer, chain, disk_texts, entry, said, user, write

SAMPLE = PI / "v3-all-entry-types.jsonl"
LARGE = PI / "v1-large-session.jsonl"


@pytest.fixture
def run(capsys):
    def command(*argv):
        status = main([str(one) for one in argv])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return command


@pytest.fixture
def ask(run):
    def command(*argv):
        status, out, err = run(*argv, "--json")
        assert status in (0, 1), err
        return json.loads(out)

    return command


def test_context_is_what_a_model_would_be_given(ask):
    """
    Model, level, tools and the messages of the leaf, as they are stored.
    """
    found = ask("context", SAMPLE)
    stored = {
        data["id"]: data for data in map(json.loads, filter(None, SAMPLE.read_bytes().split(b"\n"))) if "id" in data
    }

    assert list(found) == ["model", "thinking_level", "active_tools", "messages"]
    assert found["model"] == {"provider": "anthropic", "modelId": "claude-sonnet-4-5"}
    assert (found["thinking_level"], found["active_tools"]) == ("medium", ["read", "bash"])
    for message, entry_id in zip(
        found["messages"], ["a0000004", "a0000005", "a0000006", "a0000007", "a0000008"], strict=False
    ):
        assert message == stored[entry_id]["message"]


def test_context_of_an_old_file_is_its_messages_word_for_word(ask):
    """
    Nothing of nine hundred messages is lost or added.
    """
    stored = [json.loads(raw) for raw in LARGE.read_bytes().split(b"\n") if raw]
    assert ask("context", LARGE)["messages"] == [data["message"] for data in stored if data["type"] == "message"]


def test_context_at_another_entry_holds_the_compaction(ask):
    """
    Any entry can be asked about; a retained tail is shown as it is stored.
    """
    found = ask("context", SAMPLE, "--entry", "a0000012")
    assert [message["role"] for message in found["messages"]] == ["compactionSummary", "user", "assistant", "user"]
    assert found["messages"][1] == {
        "role": "user",
        "content": [{"type": "text", "text": "Fix it"}],
        "timestamp": 1767323049000,
    }


@pytest.mark.parametrize("command", ["tree", "show", "context", "check", "export"])
@pytest.mark.parametrize("sample", [*sorted(PI.glob("*.jsonl")), *CLAUDE.glob("*.jsonl")], ids=lambda path: path.stem)
def test_every_sample_can_be_looked_at_in_every_way(run, ask, command, sample):
    """
    As text and as JSON, without an error and without a change.
    """
    before = sample.read_bytes()
    assert run(command, sample)[0] == 0
    assert ask(command, sample)
    assert sample.read_bytes() == before


def test_tree_shows_branches_labels_and_the_leaf(run, ask, tmp_path):
    """
    A chain stays in its column, a branch moves right, the leaf has a star.
    """
    with SessionManager.create("/p", tmp_path) as manager:
        first = manager.append_message(user("question\nsecond line"))
        other = manager.append_message(answer("one"))
        manager.append_label(first, "begin")
        manager.set_leaf(first)
        leaf = manager.append_message(answer("two"))
    lines = run("tree", manager.path)[1].splitlines()

    assert lines[0] == f"  {first} message/user [begin]  question second line"
    assert f"    {other} message/assistant  one" in lines
    assert lines[-1] == f"*   {leaf} message/assistant  two"
    nodes = {node["id"]: node for node in ask("tree", manager.path)["entries"]}
    assert nodes[leaf]["isLeaf"]
    assert (nodes[first]["label"], nodes[other]["depth"]) == ("begin", 1)


def test_list_shows_the_newest_first(run, ask, tmp_path):
    """
    From the given folder, and only of the given working folder.
    """
    for number in (1, 2):
        header = {
            "type": "session",
            "version": 3,
            "id": f"s{number}",
            "timestamp": f"2026-01-0{number}T00:00:00Z",
            "cwd": f"/p{number}",
        }
        write(tmp_path / f"{number}.jsonl", header=header)

    assert [found["id"] for found in ask("list", tmp_path)] == ["s2", "s1"]
    assert [found["id"] for found in ask("list", "--session-dir", tmp_path, "--cwd", "/p1")] == ["s1"]
    assert run("list", tmp_path)[1].split()[1] == "s2"
    assert run("list", tmp_path)[1].splitlines()[1::2] == ["    (no messages)"] * 2
    assert run("list", tmp_path / "no") == (0, "", f"no sessions in {tmp_path / 'no'}\n")


def test_list_tells_sessions_apart_by_their_name_or_first_words(run, tmp_path):
    """
    Below each session stands its name, else what was said first, on one line.
    """
    with SessionManager.create("/p", tmp_path) as manager:
        manager.append_message(user("question\nsecond line"))
        assert run("list", tmp_path)[1].splitlines()[1] == "    question second line"
        manager.append_session_name("my name")
        assert run("list", tmp_path)[1].splitlines()[1] == "    my name"


def test_show_lists_the_branch(ask):
    """
    The entries from the root to the leaf.
    """
    entries = ask("show", SAMPLE)["entries"]
    assert [entry["id"] for entry in entries][-3:] == ["a0000015", "a0000016", "a0000017"]


def test_check_says_what_is_wrong_by_its_status_too(run, ask, tmp_path):
    """
    0 for a clean file, 1 for a damaged one, 2 for none at all.
    """
    path = write(tmp_path / "s.jsonl", *chain("a"), b"\0\0\n", entry("a", "b"), entry("b", "a"), b'{"torn')
    before = path.read_bytes()
    status, out, _ = run("check", path)
    found = ask("check", path)

    assert status == 1
    assert "line 3: only zero bytes" in out
    assert "circle" in out
    assert (found["clean"], found["torn_tail"]["length"], len(found["bad_lines"])) == (False, 6, 1)
    assert path.read_bytes() == before
    assert run("check", SAMPLE)[0] == 0
    assert run("check", tmp_path / "no")[0] == 2


def test_check_counts_calls_without_a_result(ask, tmp_path):
    """
    An interrupted conversation is no damage, but it is worth knowing.
    """
    with SessionManager.create("/p", tmp_path) as manager:
        manager.append_message(answer("a", "c1", "c2"))
    assert ask("check", manager.path)["unansweredCalls"] == ["c1", "c2"]


def test_fork_makes_a_new_session(ask, run, tmp_path):
    """
    At an entry, before words of the user, of the current branch, or of everything.
    """
    at = ask("fork", SAMPLE, "--at", "a0000008", "--session-dir", tmp_path)
    before = ask("fork", SAMPLE, "--before", "a000000e", "--session-dir", tmp_path, "--cwd", "/elsewhere")
    whole = run("fork", CLAUDE / "sample_session.jsonl", "--session-dir", tmp_path)[1].strip()

    assert at["parentSession"] == str(SAMPLE.absolute())
    assert before["editorText"] == "Fix it"
    with SessionManager.open(at["path"]) as forked:
        assert said(forked.build_context().messages)[-1] == "test_add fails."
    with SessionManager.open(before["path"]) as forked:
        assert forked.header.cwd == "/elsewhere"
        assert forked.name == "Fix tests"
    assert disk_texts(tmp_path / whole)[0] == "Create a hello world function"
    assert ask("fork", SAMPLE, "--clone", "--session-dir", tmp_path)["entries"] == 12


def test_export_writes_a_file_and_never_over_one(run, tmp_path):
    """
    An existing file is not replaced.
    """
    target = tmp_path / "out.html"
    assert run("export", SAMPLE, "--format", "html", "-o", target) == (0, "", f"wrote {target}\n")
    status, _, err = run("export", SAMPLE, "--format", "html", "-o", target)
    assert status == 2
    assert "is there already" in err


@pytest.mark.parametrize(
    "argv", [["context", "no.jsonl"], ["tree", "."], ["fork", SAMPLE, "--at", "gone"], ["show", SAMPLE, "--entry", "x"]]
)
def test_what_cannot_be_done_is_said_in_one_line(run, argv):
    """
    No traceback, status 2, the reason on standard error.
    """
    status, out, err = run(*argv)
    assert (status, out) == (2, "")
    assert err.startswith("sessions: ")
    assert err.count("\n") == 1


def test_it_works_beside_a_running_host(ask, tmp_path):
    """
    Looking at a session needs no lock.
    """
    with SessionManager.create("/p", tmp_path) as manager:
        manager.append_message(user("a"))
        assert len(ask("context", manager.path)["messages"]) == 1
        manager.append_message(user("b"))
        assert manager.report.foreign_entries == 0


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_any_text_can_be_printed_anywhere(tmp_path, encoding):
    """
    Half a character in a message, on a terminal that knows only ASCII.
    """
    with SessionManager.create("/p", tmp_path) as manager:
        manager.append_message(user("naïve \ud800 \x1b[31m ✓"))
    program = "import sys; from coding_agent.sessions_command import main; sys.exit(main(sys.argv[1:]))"
    for command in (["context", "--json"], ["show"], ["tree"], ["export"], ["export", "--json"]):
        done = subprocess.run(
            [sys.executable, "-c", program, *command, str(manager.path)],
            capture_output=True,
            env={"PYTHONIOENCODING": encoding, "PATH": ""},
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        if command == ["context", "--json"]:
            assert "na\u00efve \ud800" in json.loads(done.stdout)["messages"][0]["content"][0]["text"]
