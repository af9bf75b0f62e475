"""How a conversation is held can be changed while it is going on; what the user runs beside it is kept."""

import json
from pathlib import Path

import pytest

from coding_agent import client
from coding_agent.errors import BadUsage, CodingAgentError
from coding_agent.events import QueueUpdate
from coding_agent.messages import BashExecutionMessage
from lemon_agent import AgentTool, ToolExecutionStart, TurnStart, text_result
from lemon_ai import get_text
from lemon_ai.testing import Call, Say

COMMAND = BashExecutionMessage("ls", "a file", 0, timestamp=1)


def roles(file: str) -> list[str]:
    lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
    return [line["message"]["role"] for line in lines if line["type"] == "message"]


async def test_a_thinking_level_there_is_none_of_is_refused(host):
    """Nothing is stored; every level of the list is taken."""
    session = await host.session("one")
    with pytest.raises(BadUsage, match="'bogus'; there are: off, minimal"):
        await client.set_thinking_level(session, "bogus")
    for level in ("minimal", "max", "off"):
        await client.set_thinking_level(session, level)
    stored = await client.look(session, lambda store: [entry.thinking_level for entry in store.branch()])

    assert stored == ["minimal", "max", "off"]


async def test_a_mode_decides_how_much_of_a_queue_one_look_takes(host):
    """The state shows it; a mode there is not is refused."""
    session = await host.session("one", "two")
    await client.set_queue_mode(session, "steering", "all")
    await client.set_queue_mode(session, "follow_up", "one-at-a-time")
    state = await client.get_state(session)
    assert (state.steering_mode, state.follow_up_mode) == ("all", "one_at_a_time")
    with pytest.raises(BadUsage):
        await client.set_queue_mode(session, "steering", "some")


async def test_the_queues_are_told_when_something_is_put_in_and_when_it_is_taken_out(host):
    """Between the turns, before the next one begins."""
    gate: list = []

    async def execute(_id, _params, _signal, _on_update):
        import asyncio

        gate.append(asyncio.get_running_loop().create_future())
        await gate[0]
        return text_result("done")

    tool = AgentTool("wait", "waits", {"type": "object", "properties": {}}, execute)
    session = await host.session((Call("wait", {}),), "steered", tools=(tool,))
    await client.prompt(session, "go")
    await host.until(ToolExecutionStart)
    await client.steer(session, "left")
    while not gate:
        await client.get_state(session)
    assert (await client.get_state(session)).pending_messages == 1
    gate[0].set_result(None)
    events = [event.event for event in await host.until_settled()]
    queues = [event for event in events if isinstance(event, QueueUpdate)]
    assert queues == [QueueUpdate(("left",), ()), QueueUpdate((), ())]
    assert isinstance(events[events.index(queues[1]) + 1], TurnStart)


async def test_automatic_compaction_can_be_switched_off(host):
    """The state shows it."""
    session = await host.session("one")
    await client.set_auto_compaction(session, False)
    assert (await client.get_state(session)).auto_compaction is False


async def test_a_command_of_the_users_is_kept_at_once_when_idle_and_read_with_the_next_prompt(host):
    """No event tells of it; the model sees it in front of the prompt."""
    session = await host.session(lambda request: (Say(f"saw {len(request.context.messages)}"),))
    await client.record_bash(session, COMMAND)
    file = (await client.get_state(session)).file
    assert roles(file) == ["bashExecution"]
    events = await host.run(session, "hi")
    assert not [
        event for event in events if getattr(getattr(event.event, "message", None), "role", "") == "bashExecution"
    ]
    assert get_text((await client.get_messages(session))[-1]) == "saw 2"


async def test_a_session_answers_about_its_store_and_survives_bad_questions(host):
    """Whatever a question does wrong is told to whoever asked."""
    session = await host.session("one")
    await host.run(session, "hi")
    assert await client.look(session, lambda store: store.leaf_id)
    with pytest.raises(CodingAgentError, match="division"):
        await client.look(session, lambda store: 1 / 0)
    assert session.alive
