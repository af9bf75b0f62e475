"""Steering, follow-ups and next-turn messages: each accepted one is seen by the model or handed back."""

import asyncio

import pytest

from lemon_agent import (
    Agent,
    AgentEnd,
    MessageEnd,
    MessageUpdate,
    ToolExecutionStart,
    TurnEnd,
    text_result,
    user_message,
)
from lemon_agent.testing import (
    Pause,
    ScriptedAgent,
    assert_well_formed,
    of_type,
    results,
    terminal,
    tool_call,
    until,
)
from lemon_ai import get_text
from lemon_otp import TaskSupervisor, exit_signal, telemetry
from lemon_otp.testing import settle
from tests.lemon_agent.tools import ECHO, tool


def said(events):
    """The texts of the messages a run said, in order."""
    return [get_text(event.message) for event in events if isinstance(event, MessageEnd)]


class Gate:
    """A tool that waits until the test opens it."""

    def __init__(self):
        self.open = asyncio.Event()

    async def execute(self, call_id, params, signal, on_update):
        await self.open.wait()
        return text_result("through")

    @property
    def tool(self):
        return tool("gate", self.execute)


async def in_a_tool(turns, **options):
    """An agent in the middle of its first turn's tool, and the tool's gate."""
    gate = Gate()
    agent = await ScriptedAgent.start([[tool_call("gate")], *turns], tools=[gate.tool], **options)
    await Agent.prompt(agent.pid, "go")
    await until(ToolExecutionStart)
    return agent, gate


@pytest.mark.requirement("QUEUE-1", "QUEUE-6")
async def test_steering_during_a_turn_is_part_of_the_next_model_call(tree):
    """The tools of the turn run to their end; the steering message follows their results and the model sees both."""
    agent, gate = await in_a_tool(["ok"])
    Agent.steer(agent.pid, "use React")
    gate.open.set()
    events = await agent.events()

    assert [message.role for message in agent.model.asked[1].messages] == ["user", "assistant", "tool_result", "user"]
    assert get_text(agent.model.asked[1].messages[-1]) == "use React"
    assert [result.is_error for result in results(events)] == [False]


@pytest.mark.requirement("QUEUE-2", "QUEUE-7", "BR-108")
@pytest.mark.parametrize(
    ("mode", "seen"),
    [
        ("one_at_a_time", [["1"], ["2"], ["3"]]),
        ("one-at-a-time", [["1"], ["2"], ["3"]]),
        ("all", [["1", "2", "3"]]),
    ],
)
async def test_a_drain_takes_one_message_or_all_in_the_order_they_came(tree, mode, seen):
    """Three messages queued during one tool call: all reach the model, in order, as many at a time as the mode says."""
    agent, gate = await in_a_tool(["a", "b", "c"], steering_mode=mode)
    for text in "123":
        Agent.steer(agent.pid, text)
    gate.open.set()
    await agent.events()

    new = []
    for before, after in zip(agent.model.asked, agent.model.asked[1:], strict=False):
        added = after.messages[len(before.messages) :]
        new.append([get_text(m) for m in added if m.role == "user"])
    assert new == seen


@pytest.mark.requirement("QUEUE-3", "QUEUE-4", "BR-112")
async def test_follow_ups_wait_until_the_agent_would_stop_and_steering_goes_before_them(tree):
    """A follow-up queued first is said after a steering message queued later; both in the same run."""
    agent, gate = await in_a_tool(["one", "two", "three"])
    Agent.follow_up(agent.pid, "A")
    Agent.steer(agent.pid, "B")
    gate.open.set()
    events = await agent.events()

    assert said(events) == ["through", "B", "one", "A", "two"]
    assert len(of_type(events, AgentEnd)) == 1


@pytest.mark.requirement("QUEUE-3")
async def test_follow_ups_are_not_taken_while_there_is_something_to_do(tree):
    """Between two tool turns nobody asks for follow-ups."""
    agent = await ScriptedAgent.start(
        [[tool_call("echo", text="a")], [tool_call("echo", "e2", text="b")], "x", "y"], tools=[ECHO]
    )
    Agent.follow_up(agent.pid, "later")
    await agent.run("go")

    counts = [
        sum(get_text(m) == "later" for m in context.messages if m.role == "user") for context in agent.model.asked
    ]
    assert counts == [0, 0, 0, 1]


@pytest.mark.requirement("QUEUE-2")
async def test_continuing_with_the_queue_takes_one_message_a_turn(tree):
    """What the run begins with is the drain of its first turn: the second message waits for the second."""
    agent = await ScriptedAgent.start(["hello", "one", "two"])
    await agent.run("hi")
    Agent.steer(agent.pid, [user_message("a"), user_message("b")])
    await Agent.continue_(agent.pid)

    assert said(await agent.events()) == ["a", "one", "b", "two"]


@pytest.mark.requirement("QUEUE-7")
async def test_several_messages_may_be_queued_at_once(tree):
    """A list queues up in its order, none is left out; an empty one is nothing."""
    agent = await ScriptedAgent.start(["ok"])
    for queue in (Agent.steer, Agent.follow_up, Agent.next_turn):
        queue(agent.pid, [user_message("a"), user_message("b")])
        queue(agent.pid, [])
    queued = await Agent.queued(agent.pid)

    assert queued.steering == queued.follow_up == queued.next_turn == ("a", "b")


@pytest.mark.requirement("QUEUE-5")
async def test_injected_messages_are_said_like_prompts(tree):
    """Each has its message_start and message_end and is in the transcript and in agent_end."""
    agent, gate = await in_a_tool(["one", "two"])
    Agent.steer(agent.pid, "S")
    Agent.follow_up(agent.pid, "F")
    gate.open.set()
    events = await agent.events()

    assert [get_text(m) for m in terminal(events).messages] == ["go", "", "through", "S", "one", "F", "two"]
    assert [get_text(m) for m in (await agent.state()).messages] == ["go", "", "through", "S", "one", "F", "two"]


@pytest.mark.requirement("QUEUE-7")
async def test_a_changed_mode_holds_from_the_next_drain_on(tree):
    """Two of four messages are taken one by one, then the mode changes and the rest comes at once."""
    agent, gate = await in_a_tool(["a", ["b", Pause(0.05)], "c", "d"])
    for text in "1234":
        Agent.steer(agent.pid, text)
    gate.open.set()
    await until(lambda e: isinstance(e, MessageUpdate) and get_text(e.message) == "b")
    await Agent.set_steering_mode(agent.pid, "all")
    events = await agent.events()

    assert await Agent.get_steering_mode(agent.pid) == "all"
    assert said(events) == ["b", "3", "4", "c"]


@pytest.mark.requirement("QUEUE-8")
async def test_next_turn_messages_wait_for_a_prompt_and_go_before_it(tree):
    """They are not taken by the running conversation, nor by a continuation; the next prompt brings them along."""
    agent, gate = await in_a_tool(["one", "two", "three"])
    Agent.next_turn(agent.pid, "also deploy")
    Agent.next_turn(agent.pid, "to production")
    gate.open.set()
    assert said(await agent.events()) == ["through", "one"]
    Agent.follow_up(agent.pid, "f")
    await Agent.continue_(agent.pid)
    assert said(await agent.events()) == ["f", "two"]

    assert said(await agent.run("now")) == ["also deploy", "to production", "now", "three"]


@pytest.mark.requirement("QUEUE-9")
async def test_queueing_is_a_plain_function_that_never_waits(tree):
    """Steer, follow-up and next turn return at once, also for an agent that is busy or gone."""
    from lemon_otp import sys

    agent = await ScriptedAgent.start()
    await sys.suspend(agent.pid)
    for tell in (Agent.steer, Agent.follow_up, Agent.next_turn, Agent.redirect):
        assert tell(agent.pid, "x") is None
    await sys.resume(agent.pid)
    queues = await Agent.queued(agent.pid)
    assert (queues.steering, queues.follow_up, queues.next_turn) == (("x",), ("x", "x"), ("x",))


@pytest.mark.requirement("QUEUE-10")
async def test_a_follow_up_that_comes_within_the_window_is_part_of_the_run(clocked_tree, fake_clock):
    """A run that would end waits fifty milliseconds; a follow-up in that time keeps it going."""
    agent = await ScriptedAgent.start(["one", "two"], follow_up_window_ms=50)
    await Agent.prompt(agent.pid, "go")
    await fake_clock.advance(0.04)
    Agent.follow_up(agent.pid, "and?")
    await fake_clock.advance(0.2)
    events = await agent.events()

    assert said(events) == ["go", "one", "and?", "two"]
    assert_well_formed(events)


@pytest.mark.requirement("QUEUE-10")
async def test_a_run_without_a_follow_up_ends_after_the_window(clocked_tree, fake_clock):
    """Nobody waits longer than that."""
    agent = await ScriptedAgent.start(["one"], follow_up_window_ms=50)
    await Agent.prompt(agent.pid, "go")
    await fake_clock.advance(0.049)
    assert (await agent.state()).is_streaming
    await fake_clock.advance(0.002)
    assert not (await agent.state()).is_streaming


@pytest.mark.requirement("QUEUE-10", "BR-107")
async def test_what_comes_after_the_last_look_at_the_queue_is_still_part_of_the_run(tree):
    """
    A message accepted between the loop's last look and the run's end does not wait for another prompt: the run goes on,
    with one start, one end, and all messages in it.
    """
    agent = await ScriptedAgent.start(["one", "two"])

    def say_one_more(_event, _measurements, metadata, _config):
        if metadata["to"] == "finalizing":
            telemetry.detach("test")
            Agent.steer(agent.pid, "wait, one more")

    telemetry.attach("test", ("lemon_agent", "loop", "state_transition"), say_one_more)
    events = await agent.run("go")

    assert said(events) == ["go", "one", "wait, one more", "two"]
    assert [get_text(m) for m in terminal(events).messages] == said(events)
    assert_well_formed(events)


@pytest.mark.requirement("QUEUE-11")
async def test_messages_queued_while_idle_come_with_the_next_run(tree):
    """Steering is said after the prompt, before the first model call; a follow-up once the run would stop."""
    agent = await ScriptedAgent.start(["one", "two"])
    Agent.follow_up(agent.pid, "F")
    Agent.steer(agent.pid, "S")
    assert not (await agent.state()).is_streaming
    assert said(await agent.run("go")) == ["go", "S", "one", "F", "two"]


@pytest.mark.requirement("BR-107")
async def test_steering_at_the_turn_limit_becomes_part_of_the_next_prompt(tree):
    """A run out of budget leaves what is queued; nothing of it is lost."""
    agent, gate = await in_a_tool(["late"], max_tool_turns=1)
    Agent.steer(agent.pid, "one more thing")
    gate.open.set()
    assert terminal(await agent.events()).outcome == "budget"
    assert (await Agent.queued(agent.pid)).steering == ("one more thing",)
    assert said(await agent.run("go on")) == ["go on", "one more thing", "late"]


async def test_a_message_taken_by_a_run_that_dies_is_handed_back(tree):
    """The loop is killed between taking a message and saying it: the message is in the queue again, first in line."""
    agent, gate = await in_a_tool(["ok"], steering_mode="all")
    [loop] = await TaskSupervisor.children("loop_task_supervisor")
    from lemon_agent import agent_runs

    original = agent_runs.Work.take_steering

    def take_steering(work, number):
        taken = original(work, number)
        if taken:
            exit_signal(loop, "kill")
        return taken

    agent_runs.Work.take_steering = take_steering
    try:
        Agent.steer(agent.pid, "1")
        Agent.steer(agent.pid, "2")
        gate.open.set()
        await agent.events()
    finally:
        agent_runs.Work.take_steering = original

    assert (await Agent.queued(agent.pid)).steering == ("1", "2")
    assert said(await agent.run("again"))[:3] == ["again", "1", "2"]


async def test_clearing_a_queue_hands_back_what_was_in_it(tree):
    """Texts for people, messages for programs; the other queues stay."""
    agent = await ScriptedAgent.start()
    message = user_message("S")
    Agent.steer(agent.pid, message)
    Agent.follow_up(agent.pid, "F")
    Agent.next_turn(agent.pid, "N")

    cleared = await Agent.clear_steering_queue(agent.pid)
    assert (cleared.steering, cleared.steering_messages) == (("S",), (message,))
    assert (await Agent.clear_follow_up_queue(agent.pid)).follow_up == ("F",)
    Agent.steer(agent.pid, "again")
    rest = await Agent.clear_all_queues(agent.pid, next_turn=True)
    assert (rest.steering, rest.follow_up, rest.next_turn) == (("again",), (), ("N",))


async def test_a_queued_message_may_bring_a_system_prompt(tree):
    """The last one in a batch holds for the rest of the run, and only for it."""
    agent, gate = await in_a_tool(["one", "two"], steering_mode="all", system_prompt="A")
    Agent.steer(agent.pid, "x", system_prompt="B")
    Agent.steer(agent.pid, "y", system_prompt="C")
    gate.open.set()
    await agent.events()
    await agent.run("next")
    assert [context.system_prompt for context in agent.model.asked] == ["A", "C", "A"]


async def test_a_redirect_of_an_idle_agent_is_a_follow_up(tree):
    """Without a request in flight there is nothing to give up."""
    agent = await ScriptedAgent.start(["one", "two"])
    Agent.redirect(agent.pid, "R")
    assert (await Agent.queued(agent.pid)).follow_up == ("R",)
    assert said(await agent.run("go")) == ["go", "one", "R", "two"]


async def test_a_redirect_during_tools_does_not_stop_them(tree):
    """The tools finish; the correction is part of the next call, which is not given up."""
    agent, gate = await in_a_tool(["ok"])
    Agent.redirect(agent.pid, "R")
    await settle()
    gate.open.set()
    events = await agent.events()

    assert said(events) == ["through", "R", "ok"]
    assert agent.model.given_up == 0


async def test_steering_while_a_run_waits_for_follow_ups_goes_on_at_once(clocked_tree, fake_clock):
    """The wait at the end of a run ends with any message, not only with a follow-up."""
    agent = await ScriptedAgent.start(["one", "two"], follow_up_window_ms=50)
    await Agent.prompt(agent.pid, "go")
    await fake_clock.advance(0.01)
    Agent.steer(agent.pid, "S")
    await fake_clock.advance(0.1)
    assert said(await agent.events()) == ["go", "one", "S", "two"]


async def test_a_stopped_run_leaves_its_queues_untouched(tree):
    """`should_stop_after_turn` ends the run; what waits is there for the next one."""
    agent = await ScriptedAgent.start(["one", "two", "three"], should_stop_after_turn=lambda turn, signal: True)
    Agent.follow_up(agent.pid, "F")
    events = await agent.run("go")
    assert said(events) == ["go", "one"]
    assert len(of_type(events, TurnEnd)) == 1
    assert (await Agent.queued(agent.pid)).follow_up == ("F",)
