import json

import pytest

from coding_agent.errors import NotASession, SessionNotFound, SessionReadOnly, SessionTooLarge
from coding_agent.messages import CompactionSummaryMessage
from coding_agent.storage import copying
from coding_agent.storage.claude_import import LOCAL_COMMAND, PROVENANCE, import_claude
from coding_agent.storage.opening import open_for_reading
from coding_agent.storage.session_manager import SessionManager
from lemon_agent import violations
from lemon_ai import AssistantMessage, ImageContent, ThinkingContent, ToolCall, ToolResultMessage, get_tool_calls
from tests.coding_agent.storage.support import CLAUDE, line, said, user

SAMPLE = CLAUDE / "sample_session.jsonl"


def row(kind, uuid, parent, content=None, second=0, **members):
    message = members.pop("message", None) or {"role": kind, "content": content}
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "sid",
        "cwd": "/work",
        "timestamp": f"2026-01-02T03:04:{second:02d}.000Z",
        "message": message,
        **members,
    }


def call(uuid, parent, tool, second=0, answer="m1", **message):
    block = {"type": "tool_use", "id": tool, "name": "Bash", "input": {"command": tool}}
    body = {
        "id": answer,
        "role": "assistant",
        "model": "claude-opus-4-5",
        "content": [block],
        "stop_reason": None,
        **message,
    }
    return row("assistant", uuid, parent, second=second, message=body)


def outcome(uuid, parent, tool, second=0, **members):
    return row(
        "user",
        uuid,
        parent,
        [{"type": "tool_result", "tool_use_id": tool, "content": f"ran {tool}"}],
        second,
        **members,
    )


def context(tmp_path, *rows):
    path = tmp_path / "c.jsonl"
    path.write_bytes(b"".join(one if isinstance(one, bytes) else line(one) for one in rows))
    with open_for_reading(path) as manager:
        return manager.build_context(repaired=False).messages


def test_the_sample_becomes_a_conversation_a_model_takes():
    """
    Words, calls with their results and names, the title, and the file itself untouched.
    """
    before = SAMPLE.read_bytes()
    with open_for_reading(SAMPLE) as manager:
        messages = manager.build_context().messages
        assert manager.name == "Test session for JSONL parsing"
        assert (manager.session_id, manager.header.cwd) == ("test-session-id", "/project")
        with pytest.raises(SessionReadOnly, match="fork it"):
            manager.append_message(user("x"))

    assert [message.role for message in messages] == [
        "user", "assistant", "tool_result", "assistant", "tool_result", "user", "assistant",
    ]  # fmt: skip
    assert not violations(messages)
    assert isinstance(messages[2], ToolResultMessage)
    assert messages[2].tool_name == "Write"
    assert get_tool_calls(messages[1])[0].arguments["file_path"] == "/project/hello.py"
    assert SAMPLE.read_bytes() == before


def test_a_fork_of_it_goes_on_here(tmp_path):
    """
    The import is read-only; a fork is a session of ours like any other.
    """
    with open_for_reading(SAMPLE) as manager:
        made = copying.clone(manager.log, session_dir=tmp_path)
        imported = manager.build_context()
    with SessionManager.open(made.path) as forked:
        assert forked.build_context() == imported
        assert forked.header.parent_session == str(SAMPLE.absolute())
        forked.append_message(user("go on"))
        assert said(forked.build_context().messages)[-1] == "go on"


def test_every_line_that_became_an_entry_is_named_by_one():
    """
    Where an entry came from can be found again.
    """
    entries = import_claude(SAMPLE).entries
    origins = [entry["data"]["uuid"] for entry in entries if entry.get("customType") == PROVENANCE]
    assert origins == [f"msg-00{number}" for number in range(1, 8)]


def test_pieces_of_one_answer_become_one_answer(tmp_path):
    """
    One response is spread over lines that share its id: blocks in order, usage and reason of the last, once.
    """
    usage = {"input_tokens": 3, "output_tokens": 7, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2}
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    hidden = {"type": "redacted_thinking", "data": "opaque"}
    pieces = [
        row("user", "u1", None, "go"),
        row(
            "assistant",
            "a1",
            "u1",
            message={"id": "m1", "model": "claude-opus-4-5", "content": [thought], "stop_reason": None},
        ),
        row("assistant", "a2", "a1", message={"id": "m1", "content": [hidden, {"type": "text", "text": "hi"}]}),
        call("a3", "a2", "t1", usage=usage, stop_reason="tool_use"),
        outcome("r1", "a3", "t1", toolUseResult={"stdout": "x"}),
    ]
    _, answer, result = context(tmp_path, *pieces)

    assert isinstance(answer, AssistantMessage)
    assert [type(block).__name__ for block in answer.content] == [
        "ThinkingContent", "ThinkingContent", "TextContent", "ToolCall",
    ]  # fmt: skip
    assert answer.content[0] == ThinkingContent("hm", "sig")
    assert answer.content[1] == ThinkingContent("", "opaque", redacted=True)
    assert (answer.usage.input, answer.usage.output, answer.usage.cache_read, answer.usage.cache_write) == (3, 7, 5, 2)
    assert answer.usage.total_tokens == 17
    assert answer.stop_reason == "tool_use"
    assert answer.response_id == "m1"
    assert result.details == {"stdout": "x"}


def test_results_of_parallel_calls_follow_one_another(tmp_path):
    """
    Each names another piece of the answer as its parent; none may be lost from the conversation.
    """
    rows = [
        row("user", "u1", None, "go"),
        call("a1", "u1", "t1"),
        outcome("r1", "a1", "t1"),
        call("a2", "a1", "t2"),
        outcome("r2", "a2", "t2"),
        row("assistant", "a3", "r2", message={"id": "m2", "content": [{"type": "text", "text": "done"}]}),
    ]
    messages = context(tmp_path, *rows)

    assert said(messages) == ["go", "", "ran t1", "ran t2", "done"]
    assert not violations(messages)


def test_the_newest_line_is_the_leaf_and_other_branches_stay(tmp_path):
    """
    A prompt that was edited leaves two branches; subagents and repeated lines are no part of it.
    """
    path = tmp_path / "c.jsonl"
    rows = [
        row("user", "u1", None, "first"),
        row("assistant", "a1", "u1", [{"type": "text", "text": "one"}], 1),
        row("user", "u3", "a1", "kept", 9),
        row("user", "u2", "a1", "dropped", 2),
        row("user", "u2", "a1", "dropped", 2),
        row("user", "s1", "a1", "subagent", 30, isSidechain=True, agentId="x"),
    ]
    path.write_bytes(b"".join(map(line, rows)))

    with open_for_reading(path) as manager:
        assert said(manager.build_context().messages) == ["first", "one", "kept"]
        texts = [entry["message"]["content"] for entry in import_claude(path).entries if entry["type"] == "message"]
    assert texts == ["first", [{"type": "text", "text": "one"}], "kept", "dropped"]
    assert import_claude(path).skipped == {"sidechain": 1}


def test_a_line_that_others_follow_is_no_leaf_however_late_its_clock_was(tmp_path):
    """
    Lines are written by programs whose clocks may be moved: what follows a line is newer than it, whatever they say.
    """
    said_so = context(
        tmp_path,
        row("user", "u1", None, "one", 1),
        row("user", "u2", "u1", "two", 59),
        row("user", "u3", "u2", "three", 3),
    )

    assert said(said_so) == ["one", "two", "three"]


def test_a_compaction_there_is_a_compaction_here(tmp_path):
    """
    The summary hides what came before, whose lines it does not name as parents any more.
    """
    rows = [
        row("user", "u1", None, "old"),
        {
            "type": "system",
            "subtype": "compact_boundary",
            "uuid": "b",
            "parentUuid": None,
            "logicalParentUuid": "u1",
            "timestamp": "2026-01-02T03:04:01.000Z",
        },
        row("user", "c", "b", "This session is being continued. Summary: x", 2, isCompactSummary=True),
        row("user", "u2", "c", "new", 3),
    ]
    messages = context(tmp_path, *rows)
    assert isinstance(messages[0], CompactionSummaryMessage)
    assert said(messages) == ["This session is being continued. Summary: x", "new"]


def test_housekeeping_and_notices_are_not_part_of_the_conversation(tmp_path):
    """
    Lines in between carry the chain and no words; what the user ran in that program is kept as custom entries.
    """
    path = tmp_path / "c.jsonl"
    rows = [
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
        {"type": "queue-operation", "operation": "enqueue", "sessionId": "sid"},
        row("user", "u0", None, "<command-name>/clear</command-name>"),
        row("user", "u1", "u0", "caveat", isMeta=True),
        row("user", "u2", "u1", "words"),
        {"type": "progress", "uuid": "p", "parentUuid": "u2", "timestamp": "2026-01-02T03:04:01.000Z"},
        row(
            "assistant",
            "a1",
            "p",
            message={"id": "m", "model": "<synthetic>", "content": [{"type": "text", "text": "API Error"}]},
        ),
        row(
            "user",
            "u3",
            "a1",
            [
                {"type": "text", "text": "again"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "AA=="}},
            ],
            5,
        ),
        {"type": "x-future", "uuid": "f"},
    ]
    path.write_bytes(b"".join(map(line, rows)))

    with open_for_reading(path) as manager:
        messages = manager.build_context().messages
    imported = import_claude(path)
    assert said(messages) == ["words", "again"]
    assert messages[1].content[1] == ImageContent("AA==", "image/jpeg")
    assert [one["data"]["text"][:9] for one in imported.entries if one.get("customType") == LOCAL_COMMAND] == [
        "<command-",
        "caveat",
    ]
    assert imported.skipped == {"file-history-snapshot": 1, "queue-operation": 1, "progress": 1, "x-future": 1}


def test_bad_lines_are_passed_over_and_reported(tmp_path):
    """
    Observed files have torn lines too.
    """
    path = tmp_path / "c.jsonl"
    path.write_bytes(line(row("user", "u1", None, "a")) + b"\0\0\0\n{torn\n" + line(row("user", "u2", "u1", "b"))[:-1])

    with open_for_reading(path) as manager:
        assert said(manager.build_context().messages) == ["a", "b"]
        assert len(list(manager.report)) == 2


def test_a_web_export_wraps_its_lines(tmp_path):
    """
    One object with all lines in it reads like the file.
    """
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"loglines": [row("user", "u1", None, "a"), row("user", "u2", "u1", "b")]}))
    with open_for_reading(path) as manager:
        assert said(manager.build_context().messages) == ["a", "b"]


def test_parents_in_a_circle_are_survived(tmp_path):
    """
    Nothing in an observed format can be relied on.
    """
    rows = [row("user", "u1", "u2", "a"), row("user", "u2", "u1", "b", 1), row("user", "u3", "u3", "c", 2)]
    assert said(context(tmp_path, *rows)) == ["c"]


def test_an_answer_keeps_its_calls_when_it_says_nothing_else():
    """
    A tool name is known from the call it answers; without one it is unknown.
    """
    entries = import_claude(SAMPLE).entries
    calls = [
        b
        for e in entries
        if e["type"] == "message"
        for b in e["message"]["content"]
        if isinstance(b, dict) and b["type"] == "toolCall"
    ]
    assert [block["name"] for block in calls] == ["Write", "Bash"]
    assert ToolCall("a").arguments == {}


def test_what_is_none_of_that_programs_files_is_refused(tmp_path):
    """
    A typed error, as for our own files.
    """
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"type":"other"}\n')
    with pytest.raises(NotASession):
        open_for_reading(path)
    with pytest.raises(NotASession):
        import_claude(path)
    with pytest.raises(NotASession):
        import_claude(tmp_path)
    with pytest.raises(SessionNotFound):
        import_claude(tmp_path / "no")
    with pytest.raises(SessionTooLarge):
        import_claude(path, max_bytes=3)
