"""The tools for tests of agents: what they play, and that they find what is wrong."""

import pytest

from lemon_agent import (
    Agent,
    AgentEnd,
    AgentStart,
    AgentToolResult,
    Canceled,
    ErrorEvent,
    MessageEnd,
    MessageStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
    user_message,
)
from lemon_agent.application import SUPERVISOR
from lemon_agent.testing import (
    MODEL,
    Fails,
    Pause,
    ScriptedAgent,
    ScriptedModel,
    Stops,
    agent_tree,
    answers,
    assert_transcript,
    assert_well_formed,
    next_event,
    of_type,
    results,
    stop_tree,
    terminal,
    tool_call,
    types,
    until,
)
from lemon_ai import (
    AssistantMessage,
    Context,
    StreamOptions,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    get_text,
)
from lemon_otp import whereis

USER = user_message("hi")
ASKS = AssistantMessage((ToolCall("a", "t"), ToolCall("b", "t")), stop_reason="tool_use", timestamp=1)
A, B = (ToolResultMessage(call, "t", timestamp=1) for call in "ab")
DONE = AssistantMessage((TextContent("done"),), timestamp=1)


def said(*messages):
    return [event for message in messages for event in (MessageStart(message), MessageEnd(message))]


def ran(*calls):
    return [
        *(ToolExecutionStart(call, "t", {}) for call in calls),
        *(ToolExecutionEnd(call, "t", AgentToolResult(), False) for call in calls),
    ]


GOOD = [
    AgentStart(),
    TurnStart(),
    *said(USER, ASKS),
    *ran("a", "b"),
    *said(A, B),
    TurnEnd(ASKS, (A, B)),
    TurnStart(),
    *said(DONE),
    TurnEnd(DONE),
    AgentEnd((USER, ASKS, A, B, DONE)),
]


def without(event):
    return [one for one in GOOD if one is not event]


def with_instead(event, *others):
    return [one for known in GOOD for one in (others if known is event else (known,))]


def find(kind, place=0):
    return [event for event in GOOD if isinstance(event, kind)][place]


def test_a_good_run_passes():
    """The rules accept what a run should be, also one that ends by a failure of its stream."""
    assert_well_formed(GOOD)
    assert_well_formed([*GOOD[:-1], ErrorEvent("x")])
    assert_well_formed([*GOOD[:-1], Canceled("x")])


@pytest.mark.parametrize(
    "events",
    [
        [],
        GOOD[1:],
        GOOD[:-1],
        [*GOOD, TurnStart()],
        [*GOOD, GOOD[-1]],
        with_instead(find(AgentStart), AgentStart(), AgentStart()),
        without(find(TurnStart, 1)),
        without(find(TurnEnd, 1)),
        without(find(MessageEnd, 1)),
        without(find(MessageStart, 1)),
        without(find(ToolExecutionEnd)),
        without(find(ToolExecutionStart)),
        with_instead(find(ToolExecutionStart), find(ToolExecutionStart), find(ToolExecutionStart)),
        with_instead(find(TurnEnd), TurnEnd(ASKS, (B, A))),
        with_instead(find(TurnEnd), TurnEnd(ASKS, (A,))),
        with_instead(find(TurnEnd), TurnEnd(DONE, (A, B))),
        with_instead(GOOD[-1], AgentEnd((USER, ASKS, B, A, DONE))),
        with_instead(GOOD[-1], AgentEnd((DONE,))),
        with_instead(find(MessageEnd, 2), MessageEnd(B)),
    ],
)
def test_each_broken_rule_is_found(events):
    """A missing, doubled or displaced event, and an end that does not say what was said."""
    with pytest.raises(AssertionError):
        assert_well_formed(events)


def test_a_transcript_with_a_gap_is_found():
    """The message says which call has no result."""
    with pytest.raises(AssertionError, match=r"missing_tool_result at message 0 \(b\)"):
        assert_transcript([ASKS, A])
    assert_transcript([ASKS, A, B])


async def test_a_scripted_model_plays_its_turns_one_after_the_other(runtime):
    """Texts in pieces, thoughts, calls, functions of the context; then it says that it is done."""
    thinks = [ThinkingContent("hm"), tool_call("t", x=1)]
    turns = ["0123456789", thinks, lambda context: context.system_prompt, [Stops("length"), "cut"]]
    model = ScriptedModel(turns, piece=4)
    context = Context("be kind", (USER,))
    played = []
    for _ in range(5):
        events = [event async for event in model(MODEL, context, StreamOptions())]
        played.append(events[-1].message)
    assert [get_text(message) for message in played] == ["0123456789", "", "be kind", "cut", "Done."]
    assert played[1].content == (ThinkingContent("hm"), ToolCall("t", "t", {"x": 1}))
    assert [message.stop_reason for message in played] == ["stop", "tool_use", "stop", "length", "stop"]
    assert model.asked == [context] * 5


async def test_a_scripted_model_fails_as_it_is_told_to(runtime):
    """An exception in place of a stream, and a failure in the middle of one."""
    model = ScriptedModel([OSError("no route"), ["half", Fails("overloaded")]])
    with pytest.raises(OSError, match="no route"):
        model(MODEL, Context(), StreamOptions())
    events = [event async for event in model(MODEL, Context(), StreamOptions())]
    assert events[-1].message.error_message == "overloaded"
    assert get_text(events[-1].message) == "half"


async def test_the_readers_of_events(tree):
    """One event, events up to one, the rest; and what there is in them."""
    agent = await ScriptedAgent.start([[tool_call("nothing")], "fine"])
    await Agent.prompt(agent.pid, "hi")
    first = await next_event()
    events = [first, *await until(TurnEnd), *await agent.events()]
    assert isinstance(first, AgentStart)
    assert len(of_type(events, TurnEnd)) == 2
    assert [get_text(message) for message in answers(events)] == ["", "fine"]
    assert [result.tool_name for result in results(events)] == ["nothing"]
    assert terminal(events).outcome == "completed"
    assert types(events)[:3] == ["agent_start", "turn_start", "message_start"]
    with pytest.raises(AssertionError, match="the last event is"):
        terminal(events[:-1])


async def test_a_paused_model_waits_on_the_clock(clocked_tree, fake_clock):
    """So that a test decides how long it takes."""
    agent = await ScriptedAgent.start([["a", Pause(100), "b"]])
    await Agent.prompt(agent.pid, "hi")
    await fake_clock.advance(99)
    assert (await agent.state()).is_streaming
    await fake_clock.advance(2)
    assert not (await agent.state()).is_streaming


async def test_a_tree_of_ones_own():
    """`agent_tree` is a runtime with the package's tree; `stop_tree` ends the tree before the runtime."""
    async with agent_tree() as top:
        assert whereis(SUPERVISOR) is top
        await stop_tree()
        assert not top.alive
        await stop_tree()
