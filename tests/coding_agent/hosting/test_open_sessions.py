"""Servers of sessions: nothing is left of those of one that does not begin; those of one that does are there."""

import pytest

from coding_agent import client
from coding_agent.errors import SessionLocked
from coding_agent.hosting.desk import Desk
from coding_agent.hosting.host_parts import Wanted
from coding_agent.mcp.at_start import first_wait_s, servers_settled
from coding_agent.storage.session_manager import SessionManager
from lemon_ai import AssistantMessage, get_text
from tests.coding_agent.hosting.conftest import at
from tests.coding_agent.mcp.support import asking, light, running


@pytest.mark.requirement("BR-162")
async def test_servers_of_a_session_that_does_not_begin_are_ended(house, tmp_path):
    """Its file is another's, something that adds to its options fails, or it runs here already."""
    house.client_servers = (light(env={"FOLDER": str(tmp_path)}),)
    file = tmp_path / "sessions" / "held.jsonl"
    with SessionManager.create(house.settings.cwd, path=file, session_id="held") as held:
        held.append_message(AssistantMessage())
        held.flush()
        with pytest.raises(SessionLocked):
            await house.sessions.open(Wanted(file=file))
        assert running(tmp_path) == []

    async def fails(_options, _dialogs):
        raise RuntimeError("no")

    opened = await house.sessions.open(Wanted())
    assert await servers_settled(opened.options, 20.0) == []
    assert len(running(tmp_path)) == 1
    house.extras.append(fails)
    with pytest.raises(RuntimeError):
        await house.sessions.open(Wanted())
    house.extras.clear()
    assert len(running(tmp_path)) == 1
    await house.sessions.close(opened)


async def test_the_first_prompt_may_be_that_of_a_server(house, monkeypatch):
    """It waits until the servers are there, longer than others do, and is what the server makes of it."""
    monkeypatch.setattr("coding_agent.mcp.at_start.ONLY_PROMPT_S", 40.0)
    house.client_servers = (asking(),)
    desk = await Desk.start(house)
    await desk.open()
    heard = await at(desk)
    waits = [first_wait_s(desk.session.options, text) for text in ("/mcp__a__b", "see @asking:x", "hello @b:x")]
    assert waits == [40.0, 40.0, 3.0]

    await desk.submit("/mcp__asking__review a.py")
    await heard.settled()

    said = [get_text(message) for message in await client.get_messages(await desk.pid())]
    assert said[0] == "Review a.py in a kind tone."
    assert [command.name for command in desk.commands()] == ["mcp__asking__review"]
