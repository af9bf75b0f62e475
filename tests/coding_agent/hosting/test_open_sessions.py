"""Sessions that do not begin leave nothing behind of what was started for them."""

import pytest

from coding_agent.errors import SessionLocked
from coding_agent.hosting.host_parts import Wanted
from coding_agent.mcp.at_start import servers_settled
from coding_agent.storage.session_manager import SessionManager
from lemon_ai import AssistantMessage
from tests.coding_agent.mcp.support import light, running


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
