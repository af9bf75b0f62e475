"""Sessions that are forked and deleted, folders beside the working folder, logins: as the schema has them."""

import json
import sys

import pytest

from coding_agent import client, session_registry
from coding_agent.acp.stdio import main
from coding_agent.errors import BadUsage, SessionLocked, SessionNotFound
from coding_agent.storage.deleting import delete_session
from coding_agent.storage.session_manager import SessionManager
from lemon_ai import AssistantMessage
from tests.coding_agent.acp.support import Connection, fits, text
from tests.coding_agent.mcp.support import ASKING


async def said(connection: Connection, session: str, words: str) -> dict:
    answer = await connection.ask("session/prompt", sessionId=session, prompt=text(words))
    return answer.get("result") or answer["error"]


async def listed(connection: Connection) -> list[str]:
    answer = await connection.ask("session/list")
    fits("ListSessionsResponse", answer["result"])
    return [each["sessionId"] for each in answer["result"]["sessions"]]


async def test_what_is_offered_fits_the_schema_and_can_be_asked_for(connection):
    """Every capability has its method; every method of the schema is there."""
    answer = await connection.ask("initialize", protocolVersion=1, clientCapabilities={"auth": {"terminal": True}})
    told = answer["result"]
    fits("InitializeResponse", told)

    assert set(told["agentCapabilities"]["sessionCapabilities"]) == {
        *("list", "resume", "fork", "close", "delete"),
        "additionalDirectories",
    }
    assert [method["id"] for method in told["authMethods"]] == ["login", "terminal"]
    without = await connection.ask("initialize", protocolVersion=1)
    assert [method["id"] for method in without["result"]["authMethods"]] == ["login"]
    for method in ("load", "resume", "close", "delete", "fork", "set_mode", "set_config_option", "prompt"):
        missing = await connection.ask(f"session/{method}", sessionId="nobody", cwd=connection.cwd)
        assert missing["error"]["code"] != -32601, method


async def test_a_fork_holds_what_was_said_and_leaves_the_session_as_it_was(connection):
    """Two sessions, which go on without each other."""
    session = await connection.open()
    await said(connection, session, "the first words")

    answer = await connection.ask("session/fork", sessionId=session, cwd=connection.cwd, mcpServers=[])

    fork = answer["result"]["sessionId"]
    fits("NewSessionResponse", answer["result"])
    assert fork != session
    assert await said(connection, fork, "only here") == {"stopReason": "end_turn"}
    assert await said(connection, session, "only there") == {"stopReason": "end_turn"}
    assert {session, fork} <= set(await listed(connection))
    held = await connection.agent.sessions[fork].desk.look(lambda store: len(store.branch()))
    before = await connection.agent.sessions[session].desk.look(lambda store: len(store.branch()))
    assert held >= before
    missing = await connection.ask("session/fork", sessionId="nobody", cwd=connection.cwd, mcpServers=[])
    assert missing["error"]["code"] == -32002


async def test_a_fork_into_a_folder_that_is_not_there_leaves_nothing(connection, tmp_path):
    """It is refused before anything is written."""
    session = await connection.open()
    await said(connection, session, "the first words")
    before = sorted((tmp_path / "sessions").rglob("*"))

    answer = await connection.ask("session/fork", sessionId=session, cwd=str(tmp_path / "nowhere"), mcpServers=[])

    assert answer["error"]["code"] == -32602
    assert sorted((tmp_path / "sessions").rglob("*")) == before


async def test_a_deleted_session_is_gone_with_what_lay_beside_it(connection, tmp_path):
    """Also one that is open; what is left is listed, and it cannot be loaded any more."""
    session, kept = await connection.open(), await connection.open()
    await said(connection, session, '@tool write {"path": "a.txt", "content": "x"}\n@turn\n@text done')
    await said(connection, kept, "stays")
    assert any("checkpoints" in str(path) for path in (tmp_path / "sessions").rglob("*"))

    answer = await connection.ask("session/delete", sessionId=session)

    fits("DeleteSessionResponse", answer["result"])
    assert await listed(connection) == [kept]
    assert session_registry.lookup(session) is None
    assert not [path for path in (tmp_path / "sessions").rglob("*") if session in path.name]
    again = await connection.ask("session/delete", sessionId=session)
    assert again["error"]["code"] == -32002
    loaded = await connection.ask("session/load", sessionId=session, cwd=connection.cwd, mcpServers=[])
    assert loaded["error"]["code"] == -32002


def test_a_session_that_somebody_writes_is_not_deleted(tmp_path):
    """Nothing of it is gone; neither is a file that was never there."""
    with SessionManager.create(tmp_path, path=tmp_path / "s.jsonl", session_id="s") as manager:
        manager.append_message(AssistantMessage())
        manager.flush()
        with pytest.raises(SessionLocked):
            delete_session(tmp_path / "s.jsonl")
        assert (tmp_path / "s.jsonl").exists()
    delete_session(tmp_path / "s.jsonl")
    with pytest.raises(SessionNotFound):
        delete_session(tmp_path / "s.jsonl")
    assert list(tmp_path.iterdir()) == []


async def test_a_folder_beside_the_working_folder_is_worked_in(connection, tmp_path):
    """Files there are read and written without a question; the model is told of it, and so are MCP servers."""
    other, third = tmp_path / "other", tmp_path / "third"
    other.mkdir()
    third.mkdir()
    (other / "a.txt").write_text("over there")
    server = {"name": "asking", "command": sys.executable, "args": [str(ASKING)], "env": []}
    await connection.ask("initialize", protocolVersion=1)
    opened = await connection.ask(
        "session/new", cwd=connection.cwd, mcpServers=[server], additionalDirectories=[str(other)]
    )
    session = opened["result"]["sessionId"]
    await connection.until(lambda message: "mcp__asking__review" in json.dumps(message))  # the server is there

    words = f'@tool read {{"path": "{other}/a.txt"}}\n@turn\n@tool write {{"path": "{other}/b.txt", "content": "x"}}\n'
    answer = await said(connection, session, f"{words}@turn\n@tool mcp__asking__folders\n@turn\n@text done")

    assert answer == {"stopReason": "end_turn"}
    assert (other / "b.txt").read_text() == "x"
    assert "over there" in json.dumps(connection.written)
    asked = [
        message["params"] for message in connection.written if message.get("method") == "session/request_permission"
    ]
    assert [each["toolCall"]["title"] for each in asked if "other" in json.dumps(each)] == []
    pid = await connection.agent.sessions[session].desk.pid()
    assert str(other) in (await client.get_options(pid)).extra_prompt
    bad = await connection.ask(
        "session/new", cwd=connection.cwd, mcpServers=[], additionalDirectories=[str(third / "gone")]
    )
    assert bad["error"]["code"] == -32602


async def test_after_a_logout_nothing_is_begun_until_somebody_logs_in(connection):
    """What runs is cancelled; what is stored stays."""
    session = await connection.open()
    number = await connection.post(
        "session/prompt", sessionId=session, prompt=text('@tool bash {"command": "sleep 60"}\n@turn\n@text no')
    )
    await connection.until(lambda message: "in_progress" in json.dumps(message))

    out = await connection.ask("logout")

    fits("LogoutResponse", out["result"])
    ended = await connection.until(lambda message: message.get("id") == number)
    assert ended["result"] == {"stopReason": "cancelled"}
    assert (await said(connection, session, "again"))["code"] == -32000
    new = await connection.ask("session/new", cwd=connection.cwd, mcpServers=[])
    assert new["error"]["code"] == -32000
    await connection.ask("authenticate", methodId="login")
    assert await said(connection, session, "again") == {"stopReason": "end_turn"}


def test_an_editor_runs_its_command_line_with_login_behind_it_in_a_terminal(monkeypatch):
    """Whatever stands before it, that is a login, and no agent."""
    called = []
    monkeypatch.setattr("coding_agent.credentials.login_command.login", lambda argv: called.append(argv) or 0)

    assert main(["--model", "scripted/echo", "login"]) == 0
    assert called == [[]]
    with pytest.raises(BadUsage, match="prompts come from the editor"):
        main(["login", "now"])


async def test_prompts_of_servers_are_commands_once_they_are_there(connection):
    """The list is told again when it has changed; typed, the prompt says what the server says."""
    server = {"name": "asking", "command": sys.executable, "args": [str(ASKING)], "env": []}
    await connection.ask("initialize", protocolVersion=1)
    opened = await connection.ask("session/new", cwd=connection.cwd, mcpServers=[server])
    session = opened["result"]["sessionId"]

    update = await connection.until(lambda message: "mcp__asking__review" in json.dumps(message))
    fits("SessionNotification", update["params"])
    answer = await said(connection, session, "/mcp__asking__review a.py")

    assert answer == {"stopReason": "end_turn"}
    assert "Review a.py in a kind tone." in connection.said()


async def test_a_server_that_fails_is_told_as_a_thought(connection):
    """With the first prompt, which goes on without it."""
    await connection.ask("initialize", protocolVersion=1)
    server = {"name": "gone", "command": "/no/such/program", "args": [], "env": []}
    opened = await connection.ask("session/new", cwd=connection.cwd, mcpServers=[server])

    answer = await said(connection, opened["result"]["sessionId"], "hello")

    assert answer == {"stopReason": "end_turn"}
    thoughts = [message for message in connection.written if "agent_thought_chunk" in json.dumps(message)]
    assert "MCP: gone is not connected: it could not be started" in json.dumps(thoughts)


async def test_a_servers_question_is_a_form_of_the_editor(connection):
    """From the server's tool through the session to the person, and back."""
    await connection.ask("initialize", protocolVersion=1, clientCapabilities={"elicitation": {"form": {}}})
    server = {"name": "asking", "command": sys.executable, "args": [str(ASKING)], "env": []}
    opened = await connection.ask("session/new", cwd=connection.cwd, mcpServers=[server])
    await connection.until(lambda message: "mcp__asking__review" in json.dumps(message))  # it is there
    number = await connection.post(
        "session/prompt",
        sessionId=opened["result"]["sessionId"],
        prompt=text("@tool mcp__asking__order\n@turn\n@text done"),
    )

    seen: list[str] = []
    for answer in ("Answer", "Ann", "3", "large", "Yes"):
        form = await connection.until(
            lambda message: message.get("method") == "elicitation/create" and message["id"] not in seen
        )
        seen.append(form["id"])
        fits("CreateElicitationRequest", form["params"])
        await connection.send(id=form["id"], result={"action": "accept", "content": {"answer": answer}})
    ended = await connection.until(lambda message: message.get("id") == number)

    assert ended["result"] == {"stopReason": "end_turn"}
    assert '\\"count\\":3,\\"size\\":\\"large\\"' in json.dumps(connection.written)


async def test_a_client_with_switches_is_offered_one(connection):
    """Others are not told of it; what it is switched to holds."""
    session = await connection.open(session={"configOptions": {"boolean": {}}})

    switched = await connection.ask(
        "session/set_config_option", sessionId=session, configId="compaction", type="boolean", value=False
    )

    fits("SetSessionConfigOptionResponse", switched["result"])
    options = {each["id"]: each for each in switched["result"]["configOptions"]}
    assert options["compaction"]["currentValue"] is False
    assert (await connection.agent.sessions[session].desk.state()).auto_compaction is False
    wrong = await connection.ask(
        "session/set_config_option", sessionId=session, configId="model", type="boolean", value=True
    )
    assert wrong["error"]["code"] == -32602
    await connection.ask("initialize", protocolVersion=1)
    other = await connection.ask("session/new", cwd=connection.cwd, mcpServers=[])
    assert "compaction" not in {each["id"] for each in other["result"]["configOptions"]}


async def test_pieces_of_one_message_belong_together(connection):
    """Each answer has a name of its own, while it comes and when it is told again."""
    session = await connection.open()
    await said(connection, session, "one two")
    await said(connection, session, "three four")
    live = [each["messageId"] for each in connection.chunks()]

    await connection.ask("session/close", sessionId=session)
    connection.written.clear()
    await connection.ask("session/load", sessionId=session, cwd=connection.cwd, mcpServers=[])

    assert len(set(live)) == 2
    assert live == sorted(live)
    assert len({each["messageId"] for each in connection.chunks()}) == 2
