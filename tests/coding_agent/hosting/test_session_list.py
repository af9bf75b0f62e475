"""The stored sessions with what a person tells them apart by."""

import json

from coding_agent.hosting.session_list import NO_MESSAGES, listed_sessions
from coding_agent.storage.session_manager import SessionManager
from lemon_ai import TextContent, UserMessage


def stored(folder, cwd: str, *texts: str, name: str | None = None) -> SessionManager:
    with SessionManager.create(cwd, folder) as manager:
        manager.append_model_change("scripted", "echo")
        for text in texts:
            manager.append_message(UserMessage((TextContent(text),), 1))
        if name is not None:
            manager.append_session_name("an older name")
            manager.append_session_name(name)
        return manager


def test_sessions_are_listed_with_name_first_words_and_how_much_was_said(tmp_path):
    """The one written last comes first; those that run are marked."""
    stored(tmp_path, "/a", "first\nwords", "more", name="good")
    other = stored(tmp_path, "/b")
    found = {one.cwd: one for one in listed_sessions(tmp_path, None, {other.session_id})}
    assert (found["/a"].name, found["/a"].first_message, found["/a"].message_count) == ("good", "first words", 2)
    assert (found["/b"].first_message, found["/b"].message_count, found["/b"].live) == (NO_MESSAGES, 0, True)
    assert [one.cwd for one in listed_sessions(tmp_path, "/a", ())] == ["/a"]
    assert set(found["/a"].to_json()) == {
        "path", "id", "name", "cwd", "updated", "firstMessage", "messageCount", "live",
    }  # fmt: skip


def test_damaged_lines_and_files_that_are_no_sessions_do_no_harm(tmp_path):
    """A torn line counts for nothing; another program's file is not listed."""
    manager = stored(tmp_path, "/a", "kept")
    with manager.path.open("a") as file:
        file.write('{"type":"message","message":{"role":"user","conte\n{"type":"session_info","name":7}\n')
    (tmp_path / "other.jsonl").write_text(json.dumps({"type": "something"}))
    (one,) = listed_sessions(tmp_path, None, ())
    assert (one.first_message, one.name) == ("kept", None)
