"""A client of the protocol in this program, which need not be a process."""

import asyncio

from coding_agent.hosting.desk import Desk
from coding_agent.rpc.in_process import CLOSED, InProcessChannel
from tests.coding_agent.hosting.conftest import house  # noqa: F401 - the fixture


async def test_a_task_of_a_user_interface_sends_commands_and_hears_events(house):  # noqa: F811
    """Commands are answered in any order; events that came before anybody listened are not lost."""
    desk = await Desk.start(house)
    await desk.open()
    channel = InProcessChannel(desk)
    heard: list[dict] = []
    settled = asyncio.Event()

    def take(message: dict) -> None:
        heard.append(message)
        if message["type"] == "agent_settled":
            settled.set()

    async def interface() -> list[dict]:
        answers = await asyncio.gather(
            channel.send({"type": "get_state"}), channel.send({"type": "prompt", "message": "hello"})
        )
        channel.listen(take)
        await settled.wait()
        return answers

    ((state, prompt),) = await asyncio.gather(interface())  # in a task of its own
    assert state["data"]["cwd"] == str(house.settings.cwd)
    assert prompt == {"type": "response", "command": "prompt", "success": True}
    assert heard[0]["type"] == "session_opened"
    assert [message["type"] for message in heard].count("agent_end") == 1
    assert all("message" not in message for message in heard if message["type"] == "message_update")
    channel.close("done")
    assert heard[-1] == {"type": CLOSED, "reason": "done"}
    assert (await channel.send({"type": "get_state"}))["success"] is False
    await desk.close()
