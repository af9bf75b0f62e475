"""Sessions of a client inside this process: what survives when a part of them is killed, and what editors do late."""

import asyncio
import json

from coding_agent import session_registry
from lemon_ai import find_model
from lemon_otp import exit_signal
from tests.coding_agent.acp.support import text


async def test_a_session_that_is_killed_fails_its_prompt_and_goes_on_from_its_file(connection):
    """The answer says so; the next prompt finds what was stored."""
    session = await connection.open()
    await connection.ask("session/prompt", sessionId=session, prompt=text("first"))
    number = await connection.post(
        "session/prompt", sessionId=session, prompt=text('@tool bash {"command": "sleep 60"}\n@turn\n@text no')
    )
    await connection.until(lambda message: "in_progress" in json.dumps(message))

    exit_signal(session_registry.lookup(session), "kill")

    failed = await connection.until(lambda message: message.get("id") == number)
    assert failed["error"]["code"] == -32603
    assert "what it had said is stored" in failed["error"]["message"]
    again = await connection.ask("session/prompt", sessionId=session, prompt=text("again"))
    assert again["result"] == {"stopReason": "end_turn"}


async def test_a_terminal_that_comes_after_the_call_was_cancelled_is_released(connection):
    """Slow editors answer late; nothing of theirs is left open."""
    session = await connection.open(terminal=True)
    number = await connection.post(
        "session/prompt", sessionId=session, prompt=text('@tool bash {"command": "sleep 60"}\n@turn\n@text no')
    )
    asked = await connection.until(lambda message: message.get("method") == "terminal/create")
    await connection.send(method="session/cancel", params={"sessionId": session})
    ended = await connection.until(lambda message: message.get("id") == number)

    await connection.send(id=asked["id"], result={"terminalId": "late"})

    released = await connection.until(lambda message: message.get("method") == "terminal/release")
    assert ended["result"] == {"stopReason": "cancelled"}
    assert released["params"] == {"sessionId": session, "terminalId": "late"}


async def test_what_waits_for_trust_is_told_with_the_first_prompt(connection, tmp_path):
    """Once, as a thought, so that nobody wonders where their servers are."""
    (tmp_path / "work" / ".mcp.json").write_text('{"mcpServers": {}}')
    session = await connection.open()

    await connection.ask("session/prompt", sessionId=session, prompt=text("one"))
    await connection.ask("session/prompt", sessionId=session, prompt=text("two"))

    thoughts = [message for message in connection.written if "agent_thought_chunk" in json.dumps(message)]
    assert len(thoughts) == 1
    assert "this project is not trusted" in json.dumps(thoughts)


async def test_models_of_a_folders_extensions_answer_and_their_goodbyes_are_waited_for(connection, tmp_path):
    """Each session has a start of its own: what its extensions bring is there, and they hear its end."""
    heard = tmp_path / "heard"
    extension = tmp_path / "home" / ".config" / "lemon" / "extensions" / "birds.py"
    extension.parent.mkdir(parents=True)
    extension.write_text(
        "import time\n"
        "def extension(lemon):\n"
        "    lemon.register_provider('birds', {'api': 'openai-completions', 'baseUrl': 'http://127.0.0.1:1/v1',\n"
        "        'models': [{'id': 'grey'}]})\n"
        "    lemon.on('session_shutdown', farewell)\n"
        "def farewell(event, session):\n"
        "    time.sleep(0.2)\n"
        f"    open({str(heard)!r}, 'w').close()\n"
    )
    await connection.open()
    assert find_model("birds/grey").id == "grey"

    await connection.agent.close()

    assert heard.exists()


async def test_an_editor_that_fails_to_read_leaves_it_to_the_disk(connection, tmp_path):
    """An error of the client is no error of the tool when the file is there."""
    (tmp_path / "work" / "a.txt").write_text("on the disk")
    session = await connection.open(fs={"readTextFile": True})
    number = await connection.post(
        "session/prompt", sessionId=session, prompt=text('@tool read {"path": "a.txt"}\n@turn\n@text done')
    )
    asked = await connection.until(lambda message: message.get("method") == "fs/read_text_file")
    await connection.send(id=asked["id"], error={"code": -32603, "message": "busy"})

    await connection.until(lambda message: message.get("id") == number)

    assert "1: on the disk" in json.dumps(connection.written)


async def test_a_question_of_an_extension_is_asked_as_a_choice(connection):
    """Yes and no, or one of several; words cannot be asked for."""
    session = await connection.open()
    dialogs = connection.agent.sessions[session].desk.dialogs
    asking = asyncio.ensure_future(dialogs.confirm("Sure?", "It is gone then."))  # noqa: TID251 -- beside the test
    asked = await connection.until(lambda message: message.get("method") == "session/request_permission")
    await connection.send(id=asked["id"], result={"outcome": {"outcome": "selected", "optionId": "0"}})

    assert await asking is True
    assert [option["kind"] for option in asked["params"]["options"]] == ["allow_once", "reject_once"]
    assert await dialogs.input("Name?") is None


async def test_a_client_that_goes_while_a_terminal_runs_keeps_nothing_waiting(connection):
    """Its terminal is given up without an answer, and the session is closed and stored."""
    session = await connection.open(terminal=True)
    await connection.post(
        "session/prompt", sessionId=session, prompt=text('@tool bash {"command": "sleep 60"}\n@turn\n@text no')
    )
    asked = await connection.until(lambda message: message.get("method") == "terminal/create")
    await connection.send(id=asked["id"], result={"terminalId": "t"})
    await connection.until(lambda message: message.get("method") == "terminal/wait_for_exit")

    async with asyncio.timeout(10):
        await connection.agent.close()

    assert any(message.get("method") == "terminal/release" for message in connection.written)
    assert session_registry.lookup(session) is None
