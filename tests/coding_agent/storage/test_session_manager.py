import json

import pytest

from coding_agent.errors import EntryNotFound, SessionClosed, SessionNotFound, StaleCompaction
from coding_agent.messages import BashExecutionMessage, CustomMessage
from coding_agent.storage.entries import Compaction, Label
from coding_agent.storage.session_manager import SessionManager, new_session_file, newest_session
from lemon_ai import ImageContent, TextContent, Usage
from tests.coding_agent.storage.support import PI, answer, disk_texts, line, result, said, user


@pytest.fixture
def manager(tmp_path):
    with SessionManager.create("/p", tmp_path) as made:
        yield made


def reopened(manager):
    manager.close()
    return SessionManager.open(manager.path, read_only=True)


def test_a_new_session_is_not_on_disk_before_its_first_append(tmp_path):
    """
    An unused session leaves no file and no folder; the first entry brings the header with it.
    """
    with SessionManager.create("/home/me/x", tmp_path / "s", session_id="id-1", parent_session="/old.jsonl") as manager:
        assert not (tmp_path / "s").exists()
        manager.append_message(user("hello"))

        header, first = [json.loads(raw) for raw in manager.path.read_bytes().split(b"\n")[:-1]]

    assert manager.path.parent.name == "--home-me-x--"
    assert manager.path.name.endswith("_id-1.jsonl")
    assert header == {
        "type": "session",
        "version": 3,
        "id": "id-1",
        "timestamp": header["timestamp"],
        "cwd": "/home/me/x",
        "parentSession": "/old.jsonl",
    }
    assert first["parentId"] is None


def test_a_session_may_be_given_its_path(tmp_path):
    """
    A host that has announced a path gets the file there.
    """
    session_id, path = new_session_file("/p", tmp_path)
    with SessionManager.create("/p", path=path, session_id=session_id) as manager:
        manager.append_message(user("a"))

    assert path.exists()
    assert newest_session("/p", tmp_path) == path


@pytest.mark.requirement("PERS-4", "PERS-7", "PERS-3")
def test_a_session_restored_from_its_file_is_the_session_that_was_stored(manager):
    """
    Messages of every kind, model, level, tools, labels, name and tree come back as they were.
    """
    stored = [
        user("a"),
        answer("b", "c1"),
        result("c1"),
        BashExecutionMessage("ls", "out", 0, timestamp=4),
        CustomMessage("x", "note", False, {"k": [1, 2.0]}, 5),
    ]
    manager.append_model_change("openai", "gpt-5")
    manager.append_thinking_level_change("high")
    manager.append_active_tools_change(("read", "bash"))
    ids = [manager.append_message(message) for message in stored]
    manager.append_label(ids[0], "begin")
    manager.append_session_name("two\nlines")
    context = manager.build_context()
    branch = manager.branch()

    with reopened(manager) as again:
        assert again.build_context() == context
        assert list(again.build_context().messages) == stored
        assert again.labels == {ids[0]: "begin"}
        assert again.name == "two lines"
        assert again.leaf_id == manager.leaf_id
        assert again.branch() == branch
        assert again.report.clean()


@pytest.mark.requirement("SESS-4", "PERS-6")
def test_every_type_can_be_appended_and_read_back_with_its_fields(manager):
    """
    All eleven types go through the file.
    """
    first = manager.append_message(user("a"))
    appended = {
        "message": first,
        "model_change": manager.append_model_change("p", "m"),
        "thinking_level_change": manager.append_thinking_level_change("low"),
        "active_tools_change": manager.append_active_tools_change(["read"]),
        "compaction": manager.append_compaction(
            "sum", first_kept_entry_id=first, tokens_before=7, details={"readFiles": []}
        ),
        "branch_summary": manager.append_branch_summary("left", from_hook=True),
        "custom": manager.append_custom("x", {"n": 1}),
        "custom_message": manager.append_custom_message("x", [TextContent("t"), ImageContent("AA==")], False, {"d": 1}),
        "label": manager.append_label(first, "here"),
        "session_info": manager.append_session_name("name"),
        "leaf": manager.set_leaf(first),
    }
    with reopened(manager) as again:
        read = {kind: again.entry(entry_id) for kind, entry_id in appended.items()}

    assert {kind: entry.type for kind, entry in read.items()} == {kind: kind for kind in appended}
    assert read["model_change"].model_id == "m"
    assert read["active_tools_change"].active_tool_names == ("read",)
    assert (read["compaction"].tokens_before, read["compaction"].first_kept_entry_id) == (7, first)
    assert read["compaction"].details == {"readFiles": []}
    assert (read["branch_summary"].summary, read["branch_summary"].from_hook) == ("left", True)
    assert read["branch_summary"].from_id == appended["compaction"]
    assert read["custom"].data == {"n": 1}
    assert read["custom_message"].content[1]["mimeType"] == "image/png"
    assert (read["custom_message"].display, read["custom_message"].details) == (False, {"d": 1})
    assert read["label"] == Label(
        id=appended["label"],
        parent_id=appended["custom_message"],
        timestamp=read["label"].timestamp,
        target_id=first,
        label="here",
    )
    assert read["leaf"].target_id == first


@pytest.mark.requirement("SESS-5", "SESS-6", "BR-062")
def test_moving_the_leaf_survives_and_what_follows_is_a_branch(manager):
    """
    After a reload the same leaf is current; appending there leaves the other branch as it was.
    """
    first = manager.append_message(user("a"))
    second = manager.append_message(answer("b"))
    manager.set_leaf(first)

    with reopened(manager) as again:
        assert again.leaf_id == first
    with SessionManager.open(manager.path) as again:
        branch = again.append_message(answer("other"))
        assert again.children(first) == [second, again.tree.ids[3], branch]
        assert said(again.build_context().messages) == ["a", "other"]
        assert said(again.build_context(second).messages) == ["a", "b"]


def test_a_file_never_ends_in_a_leaf_entry(manager):
    """
    Programs that take the last line for the leaf must find one that hangs on the target.
    """
    first = manager.append_message(user("a"))
    manager.append_message(user("b"))
    manager.append_session_name("mine")
    manager.set_leaf(first)
    last = json.loads(manager.path.read_bytes().split(b"\n")[-2])

    assert (last["type"], last["parentId"], last["name"]) == ("session_info", first, "mine")
    with reopened(manager) as again:
        assert again.name == "mine"


def test_the_leaf_may_go_before_the_first_entry(manager):
    """
    What is appended then is a second root.
    """
    first = manager.append_message(user("a"))
    manager.set_leaf(None)
    assert manager.leaf_id is None
    with reopened(manager) as again:
        assert again.leaf_id is None
        assert again.build_context().messages == ()
    with SessionManager.open(manager.path) as again:
        second = again.append_message(user("b"))
        assert set(again.children(None)) >= {first, second}


def test_moving_the_leaf_to_where_it_is_writes_nothing(manager):
    """
    A move that moves nothing is none.
    """
    first = manager.append_message(user("a"))
    size = manager.path.stat().st_size
    assert manager.set_leaf(first) is None
    assert manager.path.stat().st_size == size


@pytest.mark.requirement("SESS-10")
def test_leaving_a_branch_with_a_summary_writes_both_at_once(manager):
    """
    The leaf moves and the summary hangs on the new place, saying which place was left.
    """
    first = manager.append_message(user("a"))
    left = manager.append_message(answer("b"))
    summary = manager.append_branch_summary("tried b", target=first)

    with reopened(manager) as again:
        entry = again.entry(summary)
        assert (entry.parent_id, entry.from_id) == (first, left)
        assert again.leaf_id == summary
        assert said(again.build_context().messages) == ["a", "tried b"]


@pytest.mark.requirement("SESS-8")
def test_a_label_can_be_taken_away_and_a_name_too(manager):
    """
    None and blank text both take away.
    """
    first = manager.append_message(user("a"))
    manager.append_label(first, "x")
    manager.append_label(first, "  ")
    manager.append_session_name("n")
    manager.append_session_name(None)

    assert manager.labels == {}
    assert manager.name is None


@pytest.mark.parametrize(
    "ask",
    [
        lambda m: m.entry("gone"),
        lambda m: m.branch("gone"),
        lambda m: m.children("gone"),
        lambda m: m.build_context("gone"),
        lambda m: m.append_label("gone", "x"),
        lambda m: m.set_leaf("gone"),
    ],
)
def test_an_entry_that_is_not_there_is_a_typed_error_and_nothing_is_written(manager, ask):
    """
    Asking for an unknown entry names it.
    """
    manager.append_message(user("a"))
    size = manager.path.stat().st_size
    with pytest.raises(EntryNotFound, match="gone"):
        ask(manager)
    assert manager.path.stat().st_size == size


@pytest.mark.requirement("SESS-3", "BR-045")
def test_what_was_said_while_a_summary_was_made_is_kept(manager):
    """
    The kept part is taken when the compaction is appended: summary, kept part, what came meanwhile.
    """
    manager.append_message(user("old"))
    kept = manager.append_message(user("kept"))
    manager.append_message(user("meanwhile"))
    manager.append_compaction("sum", first_kept_entry_id=kept)

    assert said(manager.build_context().messages) == ["sum", "kept", "meanwhile"]
    with reopened(manager) as again:
        assert said(again.build_context().messages) == ["sum", "kept", "meanwhile"]
        entry = again.branch()[-1]
        assert isinstance(entry, Compaction)
        assert [message["content"][0]["text"] for message in entry.retained_tail] == ["kept", "meanwhile"]


@pytest.mark.requirement("BR-045")
def test_a_summary_of_a_branch_that_was_left_is_dropped(manager):
    """
    The kept part is not on the branch any more: nothing is written.
    """
    first = manager.append_message(user("a"))
    kept = manager.append_message(user("b"))
    manager.set_leaf(first)
    size = manager.path.stat().st_size

    with pytest.raises(StaleCompaction):
        manager.append_compaction("sum", first_kept_entry_id=kept)
    with pytest.raises(StaleCompaction):
        manager.append_compaction("sum", kept=(), as_of=kept)
    assert manager.path.stat().st_size == size


def test_a_change_of_model_belongs_to_what_follows_it(manager):
    """
    Entries without words in front of the kept part are kept with it.
    """
    manager.append_message(user("old"))
    change = manager.append_model_change("p", "m")
    kept = manager.append_message(user("kept"))
    manager.append_compaction("sum", first_kept_entry_id=kept)

    assert manager.branch()[-1].first_kept_entry_id == change
    assert said(manager.build_context().messages) == ["sum", "kept"]


def test_a_second_compaction_keeps_messages_only_the_first_one_holds(manager):
    """
    Files of newer programs have a tail without a pointer; such messages can be kept again by value.
    """
    manager.append_message(user("old"))
    manager.append_compaction("sum", kept=(user("held"),), as_of=manager.leaf_id)
    items = manager.context_items()
    assert items[1][0] is None

    leaf = manager.leaf_id
    manager.append_message(user("meanwhile"))
    manager.append_compaction("sum 2", kept=(items[1][1],), as_of=leaf, usage={"input": 1})
    assert said(manager.build_context().messages) == ["sum 2", "held", "meanwhile"]


def test_the_newest_compaction_of_the_branch_can_be_asked_for(manager):
    """
    What it was made of, and whether anything was said since: a change of model is no saying.
    """
    assert manager.last_compaction() is None
    assert not manager.ends_in_compaction
    first = manager.append_message(user("a"))
    manager.append_compaction("one")
    manager.append_compaction("two", details={"readFiles": ["a"]})
    manager.append_model_change("p", "m")
    assert manager.last_compaction().summary == "two"
    assert manager.last_compaction().details == {"readFiles": ["a"]}
    assert manager.ends_in_compaction

    manager.append_message(user("b"))
    assert not manager.ends_in_compaction
    manager.set_leaf(first)
    assert manager.last_compaction() is None


def test_a_compaction_that_keeps_nothing_leaves_only_its_summary(manager):
    """
    A conversation that is too long in every part can still be gone on with.
    """
    manager.append_message(user("a"))
    manager.append_compaction("sum")
    assert said(manager.build_context().messages) == ["sum"]


@pytest.mark.requirement("PERS-9", "BR-076")
def test_interrupted_calls_are_answered_on_disk_by_the_next_append(manager):
    """
    A host that died in a tool: the session opens, the missing result is made up, and the next prompt is accepted.
    """
    manager.append_message(user("a"))
    manager.append_message(answer("b", "c1", "c2"))
    manager.append_message(result("c1"))
    manager.close()

    with SessionManager.open(manager.path) as again:
        before = again.path.stat().st_size
        (added,) = again.repair_dangling_calls()
        messages = (*again.build_context().messages, added)
        assert again.path.stat().st_size == before
        again.append_message(user("next"))
        assert again.build_context().messages[:-1] == messages

    with SessionManager.open(manager.path) as third:
        assert third.repair_dangling_calls() == []
        assert [message.role for message in third.build_context().messages][-2:] == ["tool_result", "user"]


def test_results_that_are_owed_are_not_written_on_another_branch(manager):
    """
    Whoever goes elsewhere first does not take the made-up results along.
    """
    first = manager.append_message(user("a"))
    manager.append_message(answer("b", "c1"))
    assert len(manager.repair_dangling_calls()) == 1
    manager.set_leaf(first)
    manager.append_message(user("c"))

    assert said(manager.build_context().messages) == ["a", "c"]


def test_a_running_call_is_not_answered_by_asking_for_the_context(manager):
    """
    Calls of the last answer may still be running.
    """
    manager.append_message(answer("b", "c1"))
    assert [message.role for message in manager.build_context().messages] == ["assistant"]


@pytest.mark.requirement("BR-058")
def test_a_record_stays_small_whatever_a_tool_says_about_its_work(manager):
    """
    Details that hold a file before and after are stored as hashes and ends; what the model saw is stored whole.
    """
    whole = "x" * 5_000_000
    message = result("c1", "text for the model")
    message = type(message)("c1", "edit", message.content, details={"before": whole, "after": whole + "y", "path": "a"})
    manager.append_message(answer("b", "c1"))
    manager.append_message(message)

    assert manager.path.stat().st_size < 20_000
    with reopened(manager) as again:
        stored = again.build_context().messages[-1]
    assert said([stored]) == ["text for the model"]
    assert stored.details["path"] == "a"
    assert stored.details["before"]["bytes"] == 5_000_000


def test_a_closed_session_takes_nothing_and_closing_twice_is_fine(manager):
    """
    The error says what happened.
    """
    manager.append_message(user("a"))
    manager.close()
    manager.close()
    with pytest.raises(SessionClosed):
        manager.append_message(user("b"))
    assert disk_texts(manager.path) == ["a"]


def test_usage_and_cost_and_signatures_survive(manager):
    """
    What an answer cost is part of the history.
    """
    message = answer("b")
    message = type(message)(
        (TextContent("b", "sig"),),
        "anthropic_messages",
        "anthropic",
        "m",
        Usage(1, 2, 3, 4, 10),
        response_id="r",
        timestamp=1,
    )
    manager.append_message(message)
    with reopened(manager) as again:
        assert again.build_context().messages == (message,)


@pytest.mark.requirement("BR-056")
def test_the_session_written_last_is_the_one_to_continue(tmp_path):
    """
    Newest by its file, only of the same working folder; none gives a new session.
    """
    with SessionManager.create("/a-b/c", tmp_path) as first:
        first.append_message(user("first"))
    with SessionManager.create("/a/b-c", tmp_path) as second:
        second.append_message(user("same folder name, other folder"))
    assert first.path.parent == second.path.parent

    with SessionManager.continue_recent("/a-b/c", tmp_path) as again:
        assert again.path == first.path
    with SessionManager.continue_recent("/else", tmp_path) as new:
        assert not new.path.exists()


def test_a_session_that_is_not_there_is_a_typed_error(tmp_path):
    """
    A missing file and a missing folder are the same to a user.
    """
    (tmp_path / "file").write_bytes(line({"a": 1}))
    for path in (tmp_path / "no.jsonl", tmp_path / "no" / "no.jsonl", tmp_path / "file" / "no.jsonl"):
        with pytest.raises(SessionNotFound):
            SessionManager.open(path)


def test_reading_a_sample_does_not_need_to_write_beside_it():
    """
    The samples are read-only files in a read-only folder.
    """
    with SessionManager.open(PI / "v2-hook-message.jsonl", read_only=True) as manager:
        assert said(manager.build_context().messages) == ["hi", "hello"]
        assert isinstance(manager.build_context().messages[0], CustomMessage)
