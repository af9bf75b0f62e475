import pytest

from coding_agent.messages import CompactionSummaryMessage, CustomMessage
from coding_agent.storage.context import context_json
from coding_agent.storage.session_manager import SessionManager
from lemon_ai import AssistantMessage, ToolResultMessage, UserMessage
from tests.coding_agent.storage.support import PI, answer, chain, entry, said, user, write


def opened(path):
    return SessionManager.open(path, read_only=True)


@pytest.mark.requirement("SESS-2", "SESS-9")
def test_the_sample_with_every_type_gives_the_context_of_its_leaf():
    """
    Branch, projection and state of the file that has every type: the abandoned branch is not in it.
    """
    with opened(PI / "v3-all-entry-types.jsonl") as manager:
        context = manager.build_context()

    assert context.model == "anthropic/claude-sonnet-4-5"
    assert context.thinking_level == "medium"
    assert context.active_tools == ("read", "bash")
    roles = [message.role for message in context.messages]
    assert roles == ["user", "assistant", "tool_result", "tool_result", "assistant", "branchSummary", "user"]


@pytest.mark.requirement("SESS-3")
def test_a_retained_tail_stands_in_for_everything_before_the_compaction():
    """
    Summary, the retained messages, what followed; nothing older, though the pointer is there as well.
    """
    with opened(PI / "v3-all-entry-types.jsonl") as manager:
        context = manager.build_context("a0000012")
        items = manager.context_items()

    assert said(context.messages) == ["## Goal\nFix tests", "Fix it", "Fixed.", "Thanks"]
    assert isinstance(context.messages[0], CompactionSummaryMessage)
    assert context.messages[0].tokens_before == 50_000
    assert len(items) == 7


@pytest.mark.requirement("SESS-3", "SESS-11")
def test_a_compaction_of_format_1_keeps_what_its_number_points_to():
    """
    Without a retained tail the kept part is read from the tree.
    """
    with opened(PI / "v1-compaction-index.jsonl") as manager:
        context = manager.build_context()
    assert said(context.messages) == ["s", "two", "2", "three"]


@pytest.mark.parametrize(
    "pointer", [{}, {"firstKeptEntryId": "gone"}, {"firstKeptEntryId": "e4"}, {"firstKeptEntryId": 7}]
)
def test_a_pointer_to_nothing_keeps_nothing(tmp_path, pointer):
    """
    A pointer that is missing, dangling or behind the compaction: summary and what followed.
    """
    compaction = {"type": "compaction", "id": "c", "parentId": "e2", "timestamp": "t", "summary": "sum", **pointer}
    path = write(tmp_path / "s.jsonl", *chain("a", "b"), compaction, entry("e4", "c", "later"))

    with opened(path) as manager:
        assert said(manager.build_context().messages) == ["sum", "later"]


def test_only_the_newest_compaction_counts(tmp_path):
    """
    An older summary in the kept part is not repeated.
    """
    compactions = [
        {
            "type": "compaction",
            "id": f"c{n}",
            "parentId": parent,
            "timestamp": "t",
            "summary": f"sum{n}",
            "firstKeptEntryId": "e2",
        }
        for n, parent in ((1, "e2"), (2, "e3"))
    ]
    path = write(tmp_path / "s.jsonl", *chain("a", "b"), compactions[0], entry("e3", "c1", "c"), compactions[1])

    with opened(path) as manager:
        assert said(manager.build_context().messages) == ["sum2", "b", "c"]


@pytest.mark.requirement("SESS-7")
def test_custom_entries_stay_out_and_custom_messages_come_in(tmp_path):
    """
    State of an extension never reaches the model, unless a projector turns it into messages.
    """
    custom = {"type": "custom", "id": "c", "parentId": "e1", "timestamp": "t", "customType": "x", "data": {"n": 1}}
    told = {"type": "custom_message", "id": "m", "parentId": "c", "timestamp": "2026-01-02T03:04:05.000Z"}
    told |= {"customType": "x", "content": "told", "display": None}
    path = write(tmp_path / "s.jsonl", *chain("a"), custom, told)

    with opened(path) as manager:
        plain = manager.build_context().messages
        projected = manager.build_context(projectors={"x": lambda entry: [user(str(entry.data))]}).messages

    assert said(plain) == ["a", "told"]
    assert plain[1] == CustomMessage("x", "told", True, None, 1767323045000)
    assert said(projected) == ["a", "{'n': 1}", "told"]


@pytest.mark.requirement("SESS-9")
def test_state_comes_from_the_branch_and_another_branch_may_differ(tmp_path):
    """
    The last model chosen or answering on the branch, the last level, the last tools.
    """
    path = write(
        tmp_path / "s.jsonl",
        *chain("a"),
        {
            "type": "model_change",
            "id": "m",
            "parentId": "e1",
            "timestamp": "t",
            "provider": "github-copilot",
            "modelId": "x/y",
        },
        {"type": "thinking_level_change", "id": "t", "parentId": "m", "timestamp": "t", "thinkingLevel": "high"},
        {"type": "active_tools_change", "id": "w", "parentId": "t", "timestamp": "t", "activeToolNames": []},
        entry("other", "e1", "b"),
    )
    with opened(path) as manager:
        here, there = manager.build_context("w"), manager.build_context("other")
        shown = context_json(manager.log, manager.position("w"))["model"]
        leaf, chosen = manager.build_context(), manager.chosen()

    assert (here.model, here.thinking_level, here.active_tools) == ("github_copilot/x/y", "high", ())
    assert (there.model, there.thinking_level, there.active_tools) == (None, "off", None)
    assert shown == {"provider": "github-copilot", "modelId": "x/y"}
    assert (chosen.model, chosen.thinking_level, chosen.active_tools) == (leaf.model, leaf.thinking_level, None)


def test_the_model_that_answered_last_is_the_model(tmp_path):
    """
    The stamp of an answer counts like a change of model; the header of format 1 is the beginning.
    """
    with SessionManager.create("/p", tmp_path) as manager:
        manager.append_model_change("openai", "gpt-5")
        manager.append_message(answer("hi"))
        assert manager.build_context().model == "anthropic/claude-sonnet-4-5"
        manager.append_model_change("openai", "gpt-5")
        assert manager.build_context().model == "openai/gpt-5"

    with opened(PI / "v1-large-session.jsonl") as large:
        first = large.branch()[0].id
        assert large.build_context(first).model == "anthropic/claude-sonnet-4-5"


def test_the_answer_before_a_compaction_still_says_which_model_it_was(tmp_path):
    """
    State is derived from the whole branch, also from what is not in the context any more.
    """
    with SessionManager.create("/p", tmp_path) as manager:
        manager.append_message(user("a"))
        manager.append_message(answer("b"))
        manager.append_compaction("sum")
    with opened(manager.path) as again:
        assert again.build_context().model == "anthropic/claude-sonnet-4-5"
        assert said(again.build_context().messages) == ["sum"]


@pytest.mark.requirement("PERS-4")
def test_restored_messages_are_message_objects():
    """
    What comes out of a file is what lemon_ai's providers and the agent work with.
    """
    with opened(PI / "v1-large-session.jsonl") as manager:
        messages = manager.build_context(repaired=False).messages

    assert len(messages) == 914
    assert {type(message) for message in messages} == {UserMessage, AssistantMessage, ToolResultMessage}


def test_messages_no_message_can_be_made_of_are_left_out_and_named(tmp_path):
    """
    One damaged message does not take the conversation with it, and check can say which it was.
    """
    bad = entry("bad", "e1") | {"message": {"role": "user", "content": 5}}
    path = write(tmp_path / "s.jsonl", *chain("a"), bad, entry("no", "bad") | {"message": None}, entry("e2", "no", "b"))

    with opened(path) as manager:
        assert said(manager.build_context().messages) == ["a", "b"]
        assert set(manager.report.undecodable) == {"bad", "no"}


def test_content_that_is_null_is_no_content_and_unknown_roles_are_carried(tmp_path):
    """
    Null content is an empty message; a role nobody here knows stays in the conversation.
    """
    empty = entry("x", None) | {"message": {"role": "user", "content": None, "timestamp": 1}}
    future = entry("y", "x") | {"message": {"role": "x_future", "payload": 1}}
    path = write(tmp_path / "s.jsonl", empty, future)

    with opened(path) as manager:
        messages = manager.build_context().messages
        shown = context_json(manager.log)["messages"]

    assert [message.role for message in messages] == ["user", "x_future"]
    assert shown == [{"role": "user", "content": [], "timestamp": 1}, {"role": "x_future", "payload": 1}]


@pytest.mark.requirement("SESS-11")
def test_a_file_of_older_lemon_is_read(tmp_path):
    """
    Times in milliseconds, type names in camel case, roles with an underscore.
    """
    call = {"type": "tool_call", "id": "c1", "name": "bash", "arguments": {}}
    asked = {"role": "assistant", "content": [call], "provider": "anthropic", "model": "m", "stop_reason": "tool_use"}
    done = {
        "role": "tool_result",
        "tool_call_id": "c1",
        "tool_name": "bash",
        "content": [{"type": "text", "text": "ok"}],
    }
    path = write(
        tmp_path / "s.jsonl",
        {"type": "modelChange", "id": "a", "parentId": None, "timestamp": 5, "provider": "openai", "modelId": "gpt-5"},
        {"type": "thinkingLevelChange", "id": "b", "parentId": "a", "timestamp": 6, "thinkingLevel": "high"},
        {"type": "message", "id": "c", "parentId": "b", "timestamp": 7, "message": asked},
        {"type": "message", "id": "d", "parentId": "c", "timestamp": 8, "message": done},
        {"type": "customMessage", "id": "e", "parentId": "d", "timestamp": 9, "customType": "x", "content": "note"},
        {"type": "branchSummary", "id": "f", "parentId": "e", "timestamp": 10, "fromId": "a", "summary": "left"},
        {"type": "sessionInfo", "id": "g", "parentId": "f", "timestamp": 11, "name": "old"},
        header={"type": "session", "version": 3, "id": "s", "timestamp": 4, "cwd": "/p"},
    )
    with opened(path) as manager:
        context = manager.build_context()
        assert manager.name == "old"
    assert (context.model, context.thinking_level) == ("anthropic/m", "high")
    assert [message.role for message in context.messages] == ["assistant", "tool_result", "custom", "branchSummary"]
    assert context.messages[1].timestamp == 0
    assert context.messages[2].timestamp == 9
