"""A session with an owner lives no longer than it; news that comes from beside starts a run."""

from pathlib import Path

import pytest

from coding_agent import client
from coding_agent.messages import CustomMessage
from coding_agent.session import protocol
from coding_agent.session_supervisor import list_sessions, start_session
from lemon_agent import Agent, MessageEnd, MessageStart, agent_registry, subagent_supervisor
from lemon_ai.testing import Delay, Say, ScriptedModel
from lemon_otp import Down, NotFound, OtpError, cast, exit_signal, monitor, receive, self_pid, send, spawn, sys
from lemon_otp.testing import settle


async def idle() -> None:
    await receive(lambda message: message == "end")


@pytest.mark.requirement("INV-4.3", "INV-3.4", "ISO-5")
@pytest.mark.parametrize("reason", ["normal", "kill", "a fault"])
@pytest.mark.parametrize("busy", [True, False])
async def test_a_session_ends_with_its_owner_however_that_ends(host, reason, busy):
    """Finished, killed or crashed, in a run or idle: the session stops and its agent with it; no entry is left."""
    owner = spawn(idle)
    options = await host.options(
        ScriptedModel([Say("Hel"), Delay(600_000)]), owner=owner, agent_key=("parent", "helper", 0)
    )
    session = await start_session(options)
    agent = agent_registry.lookup(("parent", "helper", 0))
    if busy:
        await client.subscribe(session, self_pid())
        await client.prompt(session, "hi")
        await host.until(MessageStart)
    watch = monitor(session)

    if reason == "normal":
        send(owner, "end")
    else:
        exit_signal(owner, reason)
    down = await receive(lambda message: isinstance(message, Down) and message.ref is watch, timeout_s=10)
    await settle()

    assert down.reason == "shutdown"
    assert not agent.alive
    assert await list_sessions() == []
    assert await subagent_supervisor.list_subagents() == []
    with pytest.raises(NotFound):
        agent_registry.lookup(("parent", "helper", 0))


async def test_a_session_whose_owner_is_gone_already_ends_at_once(host):
    """The owner died while the session was being started: no session stays."""
    owner = spawn(idle)
    exit_signal(owner, "kill")
    await settle()

    session = await start_session(await host.options(ScriptedModel("x"), owner=owner))
    await settle()

    assert not session.alive


@pytest.mark.requirement("INV-3.3")
async def test_two_subagents_cannot_have_one_key(host):
    """The second session of the same key does not start, and says who has it; the first one is not disturbed."""
    key = ("parent", "helper", 0)
    first = await start_session(await host.options(ScriptedModel("x"), agent_key=key))

    with pytest.raises(OtpError, match=r"(?i)already"):
        await start_session(await host.options(ScriptedModel("y"), agent_key=key))

    assert first.alive
    assert await list_sessions() == [first]


async def test_an_agent_that_dies_ends_a_session_that_is_a_subagent(host):
    """As with a session's own agent: the session ends and says why."""
    session = await start_session(await host.options(ScriptedModel("x"), agent_key=("parent", "helper", 0)))
    watch = monitor(session)
    exit_signal(agent_registry.lookup(("parent", "helper", 0)), "kill")

    down = await receive(lambda message: isinstance(message, Down) and message.ref is watch, timeout_s=10)

    assert down.reason == ("agent_down", "killed")


@pytest.mark.parametrize("delivery", ["follow_up", "steer"])
async def test_news_reaches_a_model_that_is_at_work_and_one_that_is_idle(host, delivery):
    """During a run it is part of that run; when idle it starts one. Either way it is stored where it was told."""
    session = await host.session([Delay(100), Say("One.")], "Heard.", "Again.")
    await client.prompt(session, "hi")
    await host.until(MessageStart)
    cast(session, protocol.Deliver("async_followup", "first news", {"n": 1}, delivery))
    during = await host.until_settled()
    cast(session, protocol.Deliver("async_followup", "second news", {"n": 2}, delivery))
    after = await host.until_settled()

    def told(events):
        return [
            event.event.message.content
            for event in events
            if isinstance(event.event, MessageEnd) and isinstance(event.event.message, CustomMessage)
        ]

    assert (told(during), told(after)) == (["first news"], ["second news"])
    stored = open_text(await client.get_state(session))
    assert stored.count("first news") == stored.count("second news") == 1


def open_text(state) -> str:
    return Path(state.file).read_text()


async def test_news_that_comes_too_late_for_a_run_starts_another(host):
    """The run ends while the news is on its way to its agent: the model hears of it all the same, once."""
    session = await host.session([Delay(50), Say("One.")], "Heard.")
    await client.prompt(session, "hi")
    await host.until(MessageStart)
    agent = (await client.get_state(session)).agent
    await sys.suspend(session)
    cast(session, protocol.Deliver("async_followup", "late news"))
    await Agent.wait_for_idle(agent)
    await sys.resume(session)

    first = await host.until_settled()
    second = await host.until_settled()

    assert "late news" not in str([event.event for event in first if isinstance(event.event, MessageEnd)])
    told = [event.event.message for event in second if isinstance(event.event, MessageEnd)]
    assert [message.role for message in told] == ["custom", "assistant"]
    assert (await client.get_state(session)).phase == "idle"


async def test_news_during_a_compaction_waits_for_its_end(host):
    """A session that is busy with something else takes the news up when it is idle again."""
    session = await host.session("One.", [Delay(200), Say("A summary.")], "Heard.")
    await host.run(session, "hi")
    spawn(client.compact, session)
    while (await client.get_state(session)).phase != "compaction":
        await settle()

    cast(session, protocol.Deliver("async_followup", "news"))
    await host.until_settled()
    events = await host.until_settled()

    assert any(isinstance(event.event, MessageEnd) and "news" in str(event.event.message) for event in events)
