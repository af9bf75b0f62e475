"""Events of a session as updates of the protocol, and stored messages as their replay."""

import pytest

from coding_agent.acp.replay import replayed
from coding_agent.acp.tool_shapes import absolute, diffs_of, kind_of, locations_of, plan_of, raw, title_of
from coding_agent.acp.updates import Updates
from coding_agent.events import SessionEvent, Settled
from coding_agent.messages import message_to_json
from lemon_agent import ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate, text_result
from lemon_ai import AssistantMessage, TextContent, ToolCall, ToolResultMessage, UserMessage


def updates_of(updates: Updates, *events) -> list[dict]:
    return [update for event in events for update in updates.of(SessionEvent("s", event))]


def test_a_call_is_announced_runs_and_ends_once():
    """Whatever was heard of it before, and it is forgotten then."""
    updates = Updates("/w")
    start = ToolExecutionStart("c", "bash", {"command": "ls"})
    end = ToolExecutionEnd("c", "bash", text_result("a\n", {"exit_code": 0}), False)

    told = updates_of(updates, start, ToolExecutionUpdate("c", "bash", {}, text_result("a")), end, Settled("completed"))

    assert [(each["sessionUpdate"], each.get("status")) for each in told] == [
        ("tool_call", "in_progress"),
        ("tool_call_update", None),
        ("tool_call_update", "completed"),
    ]
    assert updates.open_calls == {}


def test_calls_that_never_end_are_closed_with_the_run():
    """A client does not wait for them for ever."""
    updates = Updates("/w")

    told = updates_of(updates, ToolExecutionStart("c", "bash", {"command": "ls"}), Settled("aborted"))

    assert told[-1] == {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"}


def test_a_written_file_shows_what_it_held_before():
    """Known from the editor; a new file has none."""
    before = {"c": "old"}
    updates = Updates("/w", lambda call_id: before.pop(call_id, None))
    args = {"path": "a.txt", "content": "new"}
    done = text_result("ok")

    told = updates_of(
        updates,
        ToolExecutionStart("c", "write", args),
        ToolExecutionEnd("c", "write", done, False),
        ToolExecutionStart("d", "write", args),
        ToolExecutionEnd("d", "write", done, False),
    )

    assert told[1]["content"] == [{"type": "diff", "path": "/w/a.txt", "newText": "new", "oldText": "old"}]
    assert "oldText" not in told[3]["content"][0]


def test_a_failed_change_shows_why_and_no_change():
    """Its text, not what it would have done."""
    updates = Updates("/w")
    args = {"path": "a", "old_text": "x", "new_text": "y"}
    end = ToolExecutionEnd("c", "edit", text_result("not found"), True)

    told = updates_of(updates, ToolExecutionStart("c", "edit", args), end)

    assert told[-1]["status"] == "failed"
    assert told[-1]["content"][0]["content"] == {"type": "text", "text": "not found"}


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        ("read", "read"),
        ("grep", "search"),
        ("edit", "edit"),
        ("bash", "execute"),
        ("web_fetch", "fetch"),
        ("x", "other"),
    ],
)
def test_tools_are_of_a_kind(tool, kind):
    """What an editor draws a symbol for."""
    assert kind_of(tool) == kind


def test_titles_are_one_bounded_line():
    """Whatever a command holds."""
    title = title_of("bash", {"command": "echo 1\n\x1b[31m" + "x" * 1000})

    assert "\n" not in title
    assert "\x1b" not in title
    assert len(title) <= 200


def test_places_are_absolute_and_begin_at_the_sessions_folder():
    """Not at the program's."""
    assert locations_of("read", {"path": "a/../b.py", "offset": 7}, "/w") == [{"path": "/w/b.py", "line": 7}]
    assert locations_of("edit", {"path": "/x"}, "/w") == [{"path": "/x"}]
    assert locations_of("bash", {"command": "x"}, "/w") == []
    assert locations_of("read", {"path": "\0"}, "/w") == []
    assert absolute("~", "/w").startswith("/")


def test_several_edits_are_several_changes():
    """Each with its own texts."""
    edits = [{"old_text": "a", "new_text": "b"}, {"old_text": "c", "new_text": "d"}, {"odd": 1}]

    assert [diff["newText"] for diff in diffs_of("edit", {"path": "f", "edits": edits}, "/w")] == ["b", "d"]


def test_too_much_raw_output_is_left_out():
    """The content says it already."""
    assert raw({"a": "x" * 200_000}) is None
    assert raw({"a": 1}) == {"a": 1}


def test_a_blocked_todo_is_a_pending_entry_of_the_plan():
    """The protocol knows three states."""
    todos = [{"content": "x", "status": "blocked", "priority": "high"}]

    assert plan_of({"todos": todos}) == [{"content": "x", "priority": "high", "status": "pending"}]
    assert plan_of(None) is None


def test_a_stored_conversation_is_shown_again_in_order():
    """Words, calls with their results, and a call that was interrupted."""
    call = ToolCall("c", "bash", {"command": "ls"})
    lost = ToolCall("d", "read", {"path": "x"})
    assistant = AssistantMessage(content=(TextContent("hm"), call, lost), api="a", provider="p", model="m")
    result = ToolResultMessage("c", "bash", (TextContent("a.txt"),), {"terminal_id": "gone", "exit_code": 0})
    stored = [message_to_json(each) for each in (UserMessage("hi"), assistant, result)]

    told = list(replayed(stored, "/w"))

    assert [each["sessionUpdate"] for each in told] == [
        "user_message_chunk",
        "agent_message_chunk",
        "tool_call",
        "tool_call",
        "tool_call_update",
        "tool_call_update",
    ]
    assert told[4]["content"][0]["content"]["text"] == "a.txt"
    assert (told[5]["toolCallId"], told[5]["status"]) == ("d", "failed")
