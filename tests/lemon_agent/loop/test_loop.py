"""What a run says, in which order, and how it ends."""

import asyncio

import pytest

from lemon_agent import (
    AbortSignal,
    Agent,
    AgentContext,
    AgentEnd,
    AgentLoopConfig,
    AgentTool,
    CannotContinue,
    ErrorEvent,
    LoopBudgetExhausted,
    LoopStateTransition,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    NextTurn,
    NoMessages,
    ToolSchemaSnapshotted,
    TurnEnd,
    agent_loop,
    agent_loop_continue,
    text_result,
    user_message,
)
from lemon_agent.testing import (
    MODEL,
    Breaks,
    Fails,
    Pause,
    ScriptedAgent,
    ScriptedModel,
    Stops,
    answers,
    assert_transcript,
    assert_well_formed,
    of_type,
    results,
    terminal,
    tool_call,
    types,
    until,
)
from lemon_ai import AssistantMessage, TextContent, ThinkingContent, ToolResultMessage, get_text
from lemon_otp import ReceiveTimeout, TaskSupervisor, exit_signal, receive, whereis
from tests.lemon_agent.tools import ECHO, adding, tool


@pytest.mark.requirement("EVT-2")
async def test_a_plain_prompt_says_its_events_in_the_documented_order(tree):
    """
    A prompt without tools gives agent_start, turn_start, the prompt's start and end, the answer's start, updates and
    end, turn_end, agent_end.
    """
    events = await (await ScriptedAgent.start(["Hello, world."])).run("hi")

    assert types(events) == [
        "agent_start",
        "turn_start",
        "message_start",
        "message_end",
        "message_start",
        "message_update",
        "message_end",
        "turn_end",
        "agent_end",
    ]
    roles = [event.message.role for event in of_type(events, MessageStart)]
    assert roles == ["user", "assistant"]
    assert_well_formed(events)


@pytest.mark.requirement("EVT-3", "EVT-4", "EVT-5", "RCHK-6")
async def test_a_tool_turn_says_its_calls_between_the_answer_and_the_end_of_the_turn(tree):
    """
    The calls of an answer start, update and end after the answer's end, each result is said as a message, and every
    further turn begins with turn_start and ends with one turn_end.
    """
    events = await (
        await ScriptedAgent.start([["Looking.", tool_call("echo", text="a")], "Found it."], tools=[ECHO])
    ).run("hi")

    assert types(events) == [
        *("agent_start", "turn_start", "message_start", "message_end"),
        *("message_start", "message_update", "message_end"),
        *("tool_execution_start", "tool_execution_update", "tool_execution_end", "message_start", "message_end"),
        "turn_end",
        "turn_start",
        *("message_start", "message_update", "message_end"),
        *("turn_end", "agent_end"),
    ]
    assert_well_formed(events)


@pytest.mark.requirement("EVT-6")
async def test_text_thinking_and_calls_all_update_the_message(tree):
    """Each update carries the provider's event and the message as it had grown by then."""
    agent = await ScriptedAgent.start(
        [[ThinkingContent("let me think"), "Well, ", tool_call("echo", text="a")]], tools=[ECHO]
    )
    updates = of_type(await agent.run("hi"), MessageUpdate)

    seen = {update.assistant_event.type for update in updates}
    assert {"thinking_delta", "text_delta", "tool_call_delta"} <= seen
    first_text = next(u for u in updates if u.assistant_event.type == "text_delta")
    assert first_text.message.content == (ThinkingContent("let me think"), TextContent("Well, "))
    assert len({id(update.assistant_event) for update in updates}) == len(updates)


@pytest.mark.requirement("EVT-7")
@pytest.mark.parametrize("how", ["abort", "error", "crash"])
async def test_a_message_that_began_ends_also_when_the_run_does_not(tree, how):
    """Whatever ends a run in the middle of an answer, the answer's start has its one end."""
    last = {"abort": Pause(), "error": Fails("overloaded"), "crash": Pause()}[how]
    agent = await ScriptedAgent.start([["Half an ans", last]])
    await Agent.prompt(agent.pid, "hi")
    events = await until(lambda e: isinstance(e, MessageUpdate))
    if how == "abort":
        Agent.abort(agent.pid)
    elif how == "crash":
        [loop] = await TaskSupervisor.children("loop_task_supervisor")
        exit_signal(loop, "kill")
    events += await agent.events()

    assert_well_formed(events)
    assert get_text(answers(events)[0]).startswith("Half")
    assert_transcript((await agent.state()).messages)


@pytest.mark.requirement("EVT-8")
async def test_the_last_event_carries_what_this_run_said_and_nothing_older(tree):
    """agent_end lists the messages of its run in order, the prompt included, and none of the run before."""
    agent = await ScriptedAgent.start(["one", "two"])
    await agent.run("first")
    last = terminal(await agent.run("second"))

    assert isinstance(last, AgentEnd)
    assert [get_text(message) for message in last.messages] == ["second", "two"]


@pytest.mark.requirement("EVT-9")
async def test_every_way_a_run_ends_by_itself_is_an_agent_end_with_its_outcome(tree):
    """Completed, stopped, aborted, failed and out of budget: one agent_end each, and nothing after it."""
    call = tool_call("echo", text="a")
    ways = {
        "completed": {"turns": ["done"]},
        "stopped": {"turns": [[call]], "should_stop_after_turn": lambda turn, signal: True},
        "error": {"turns": [["oh", Fails("overloaded")]]},
        "budget": {"turns": [[call]], "max_tool_turns": 1},
    }
    for outcome, options in ways.items():
        agent = await ScriptedAgent.start(tools=[ECHO], **options)
        events = await agent.run("hi")
        assert_well_formed(events)
        assert terminal(events).outcome == outcome
        await Agent.wait_for_idle(agent.pid)
        with pytest.raises(ReceiveTimeout):
            await receive(timeout_s=0)


@pytest.mark.requirement("EVT-10", "TOOL-10")
async def test_turn_end_carries_the_answer_and_its_results_in_the_order_asked(tree):
    """However the tools finish, turn_end, the transcript and agent_end have the results in the order of the calls."""
    calls = [tool_call("wait", "slow", ticks=3), tool_call("wait", "quick", ticks=0), tool_call("wait", "mid", ticks=1)]
    events = await (await ScriptedAgent.start([calls], tools=[tool("wait", ticks="integer")])).run("hi")

    [turn, _] = of_type(events, TurnEnd)
    assert [result.tool_call_id for result in turn.tool_results] == ["slow", "quick", "mid"]
    assert [result.tool_call_id for result in results(events)] == ["slow", "quick", "mid"]
    assert_well_formed(events)


async def test_the_states_of_a_run_are_said_beside_its_events(tree):
    """The loop says where it goes: from nothing through the model and the tools to its end."""
    events = await (await ScriptedAgent.start([[tool_call("echo", text="a")], "ok"], tools=[ECHO])).run("hi")

    assert [event.to_state for event in of_type(events, LoopStateTransition)] == [
        "initializing",
        "await_model",
        "normalizing_response",
        "executing_tools",
        "awaiting_tool_results",
        "await_model",
        "normalizing_response",
        "finalizing",
    ]
    assert of_type(events, LoopStateTransition)[0].from_state is None


async def test_the_tools_of_a_run_are_said_once_as_a_snapshot(tree):
    """Before its first turn a run says which tools it offers, with a fingerprint: the same for the same tools."""
    agent = await ScriptedAgent.start(["a", "b"], tools=[ECHO])
    [first] = of_type(await agent.run("hi"), ToolSchemaSnapshotted)
    [second] = of_type(await agent.run("again"), ToolSchemaSnapshotted)

    assert first.snapshot.tool_names == ("echo",)
    assert first.snapshot.fingerprint == second.snapshot.fingerprint
    assert len(first.snapshot.fingerprint) == 16
    assert first.snapshot.id != second.snapshot.id
    assert first.snapshot.id.startswith(f"tool_schema_{first.snapshot.fingerprint}_")


async def test_a_run_that_uses_up_its_tool_turns_says_so_and_ends(tree):
    """
    A model that calls tools for ever is stopped after `max_tool_turns`: the budget event, a message that explains, and
    an agent_end with outcome budget.
    """
    agent = await ScriptedAgent.start([[tool_call("nonsense")]] * 50, max_tool_turns=3)
    events = await agent.run("hi")

    [budget] = of_type(events, LoopBudgetExhausted)
    assert (budget.details.max_tool_turns, budget.details.tool_turns) == (3, 3)
    assert budget.details.reason == "max_tool_turns_exhausted"
    last = answers(events)[-1]
    assert (last.stop_reason, last.error_message) == ("error", "max_tool_turns_exhausted")
    assert terminal(events).outcome == "budget"
    assert len(agent.model.asked) == 3
    assert_well_formed(events)


@pytest.mark.parametrize(("limit", "turns"), [(0, 1), (-3, 1), ("many", 25), (None, 40), ("infinity", 40)])
async def test_the_limit_of_tool_turns_is_a_number_from_one_or_none(tree, limit, turns):
    """Less than one counts as one, nonsense as the default of 25, None and infinity as no limit."""
    agent = await ScriptedAgent.start([[tool_call("nonsense")]] * 40, max_tool_turns=limit)
    await agent.run("hi")

    assert len(agent.model.asked) == (turns if turns < 40 else 41)


async def test_an_answer_cut_by_the_output_limit_runs_none_of_its_calls(tree):
    """
    When an answer stops at the output limit its calls may be half of what was meant: none runs, each gets an error
    result that says so, and the model is asked again.
    """
    ran = []
    agent = await ScriptedAgent.start([[tool_call("note", text="a"), Stops("length")], "ok"], tools=[adding(ran)])
    events = await agent.run("hi")

    assert ran == []
    [result] = results(events)
    assert result.is_error
    assert "output limit" in get_text(result)
    assert terminal(events).outcome == "completed"
    assert len(agent.model.asked) == 2
    assert_well_formed(events)


async def test_a_provider_failure_ends_the_run_with_the_partial_answer_kept(tree):
    """The answer so far is said with stop reason error, and agent_end says what went wrong."""
    agent = await ScriptedAgent.start([["I was about", Fails("overloaded")]])
    events = await agent.run("hi")

    [answer] = answers(events)
    assert get_text(answer) == "I was about"
    assert (answer.stop_reason, answer.error_message) == ("error", "overloaded")
    assert terminal(events).reason == ("assistant_error", "overloaded")
    assert (await agent.state()).error_message == "overloaded"
    assert_well_formed(events)


@pytest.mark.parametrize("turn", [RuntimeError("no route"), lambda context: 7])
async def test_a_call_that_cannot_be_made_is_told_as_an_answer_of_the_agents_own(tree, turn):
    """When no stream opens, the run still says a whole turn with an error message in it, and ends."""
    events = await (await ScriptedAgent.start([turn])).run("hi")

    [answer] = answers(events)
    assert answer.stop_reason == "error"
    assert answer.error_message
    assert terminal(events).outcome == "error"
    assert_well_formed(events)


async def test_the_reason_of_a_failed_call_is_the_exception_itself(tree):
    """Nothing is wrapped: who reads agent_end finds the very exception that `stream_fn` raised."""
    failure = RuntimeError("no route")
    last = terminal(await (await ScriptedAgent.start([failure])).run("hi"))

    assert last.reason is failure
    assert last.error is failure


@pytest.mark.requirement("STATE-10")
async def test_a_loop_does_not_continue_from_nothing_nor_from_an_answer(tree):
    """`agent_loop_continue` refuses an empty conversation and one that ends with an answer; nothing is started.

    Both are values that will not do, so both are ValueErrors.
    """
    assert issubclass(NoMessages, ValueError)
    assert issubclass(CannotContinue, ValueError)
    config = AgentLoopConfig(model=MODEL, stream_fn=ScriptedModel(["x"]))

    with pytest.raises(NoMessages):
        await agent_loop_continue(AgentContext(), config)
    with pytest.raises(CannotContinue):
        await agent_loop_continue(AgentContext(messages=(AssistantMessage(),)), config)
    assert await TaskSupervisor.children("loop_task_supervisor") == []


async def test_a_loop_can_be_run_without_an_agent(tree):
    """`agent_loop` gives a stream whose events end with agent_end and whose result is that event."""
    model = ScriptedModel(["Hello."])
    stream = await agent_loop(
        [user_message("hi")], AgentContext("Be kind."), AgentLoopConfig(model=MODEL), stream_fn=model
    )
    events = [event async for event in stream.events()]

    assert_well_formed(events)
    assert (await stream.result()) is events[-1]
    assert model.asked[0].system_prompt == "Be kind."


@pytest.mark.requirement("MSG-1", "MSG-2")
async def test_a_loop_takes_a_text_a_message_or_several(tree):
    """As an agent's prompt; what is none of them is the caller's error and starts nothing."""
    config = AgentLoopConfig(model=MODEL, stream_fn=ScriptedModel(["yes"] * 3))
    for prompt in ("hi", user_message("hi"), [user_message("hi")]):
        end = await (await agent_loop(prompt, AgentContext(), config)).result()
        assert [get_text(message) for message in end.messages] == ["hi", "yes"]
    with pytest.raises(TypeError, match="no message"):
        await agent_loop([5], AgentContext(), AgentLoopConfig(model=MODEL))


async def test_continuing_says_no_message_again(tree):
    """A run that goes on from a prompt already there begins with the model's answer and reports only that."""
    context = AgentContext(messages=(user_message("hi"),))
    config = AgentLoopConfig(model=MODEL, stream_fn=ScriptedModel(["Hello."]))
    events = [event async for event in (await agent_loop_continue(context, config)).events()]

    assert [get_text(message) for message in events[-1].messages] == ["Hello."]
    assert types(events)[:3] == ["agent_start", "turn_start", "message_start"]


@pytest.mark.requirement("INV-1.1", "EVT-1")
async def test_a_run_is_a_task_under_the_loop_supervisor_for_as_long_as_it_goes_on(tree):
    """During a run the supervisor lists exactly its process; afterwards none."""
    agent = await ScriptedAgent.start([["...", Pause()]])
    await Agent.prompt(agent.pid, "hi")
    await until(MessageUpdate)
    assert len(await TaskSupervisor.children("loop_task_supervisor")) == 1

    Agent.abort(agent.pid)
    await agent.events()
    await Agent.wait_for_idle(agent.pid)
    assert await TaskSupervisor.children("loop_task_supervisor") == []


@pytest.mark.requirement("INV-1.3", "INV-1.5")
async def test_a_crash_of_the_loop_is_seen_told_and_survived(tree):
    """
    When the loop's process is killed its supervisor and the agent live on; whoever waits is released, the error is told
    and remembered, and the next prompt runs.
    """
    supervisor = whereis("loop_task_supervisor")
    agent = await ScriptedAgent.start([["...", Pause()], "fine"])
    await Agent.prompt(agent.pid, "hi")
    await until(MessageUpdate)
    [loop] = await TaskSupervisor.children("loop_task_supervisor")
    exit_signal(loop, "kill")
    await Agent.wait_for_idle(agent.pid, timeout_s=5)
    events = await agent.events()

    assert events[-1] == ErrorEvent(("loop_crashed", "killed"), None)
    assert whereis("loop_task_supervisor") is supervisor
    state = await agent.state()
    assert not state.is_streaming
    assert "loop_crashed" in state.error_message
    assert terminal(await agent.run("again")).outcome == "completed"


@pytest.mark.requirement("INV-1.5")
async def test_a_loop_started_by_a_plain_process_takes_nobody_along(tree):
    """Whoever starts a loop with `agent_loop` is not linked to it: its crash is the stream's last event and no more."""
    stream = await agent_loop(
        [user_message("hi")], AgentContext(), AgentLoopConfig(model=MODEL), stream_fn=ScriptedModel([["...", Pause()]])
    )
    events = stream.events()
    async for event in events:
        if isinstance(event, MessageUpdate):
            break
    [loop] = await TaskSupervisor.children("loop_task_supervisor")
    exit_signal(loop, "kill")
    rest = [event async for event in events]

    assert isinstance(rest[-1], ErrorEvent)
    assert rest[-1].reason == ("task_crashed", "killed")


async def test_a_run_that_cannot_be_started_is_a_stream_that_has_failed(runtime):
    """Without the tree there is no supervisor to run the loop: the stream says so."""
    stream = await agent_loop(
        [user_message("hi")], AgentContext(), AgentLoopConfig(model=MODEL, stream_fn=ScriptedModel())
    )
    [event] = [event async for event in stream.events()]

    assert isinstance(event, ErrorEvent)
    assert event.reason[0] == "task_start_failed"


async def test_a_redirect_gives_up_the_model_call_in_flight_and_asks_again(tree):
    """
    The answer so far leaves the conversation the model sees but stays in what the run said; the correction comes next,
    and tools already done are kept.
    """
    agent = await ScriptedAgent.start([["Going the wrong w", Pause()], "Right."])
    await Agent.prompt(agent.pid, "go")
    events = await until(MessageUpdate)
    Agent.redirect(agent.pid, "the other way")
    events += await agent.events()

    first, second = answers(events)
    assert first.stop_reason == "redirected"
    assert first.error_message is None
    assert get_text(second) == "Right."
    assert [get_text(message) for message in agent.model.asked[1].messages] == ["go", "the other way"]
    assert agent.model.given_up == 1
    assert_well_formed(events)


async def test_a_stream_that_ends_without_saying_so_is_an_answer_of_what_there_is(tree):
    """No terminal event: what had been said counts; when nothing had, the run fails with no_response."""
    events = await (await ScriptedAgent.start([["Some words.", Breaks()]])).run("hi")
    assert get_text(answers(events)[0]) == "Some words."
    assert terminal(events).outcome == "completed"


@pytest.mark.requirement("BR-011", "BR-012")
async def test_calls_of_a_stream_that_ends_without_saying_so_do_not_run(tree):
    """Nobody knows whether the call is whole: the answer is an error, the tool does not run, the next prompt works."""
    ran = []
    turns = [["Let me. ", tool_call("note", text="rm -"), Breaks()], "ok"]
    agent = await ScriptedAgent.start(turns, tools=[adding(ran)])
    events = await agent.run("hi")

    assert ran == []
    assert answers(events)[0].error_message == "The stream ended early."
    assert terminal(events).outcome == "error"
    assert_well_formed(events)
    assert terminal(await agent.run("again")).outcome == "completed"


@pytest.mark.parametrize("text", ["", "   ", ThinkingContent("hmm")])
async def test_an_answer_that_says_and_asks_nothing_is_a_failure(tree, text):
    """Thinking alone is no answer: the message becomes an error that says the provider returned nothing."""
    events = await (await ScriptedAgent.start([[text]])).run("hi")

    [answer] = answers(events)
    assert answer.error_message == "empty_assistant_response"
    assert terminal(events).outcome == "error"
    assert_well_formed(events)


@pytest.mark.parametrize("error", [ConnectionError("reset"), asyncio.CancelledError("reset")])
async def test_a_stream_that_raises_in_the_middle_keeps_what_was_said(tree, error):
    """An exception between two events becomes the answer's error; start and end still pair up."""
    events = await (await ScriptedAgent.start([["Some w", Breaks(error)]])).run("hi")

    [answer] = answers(events)
    assert get_text(answer) == "Some w"
    assert (answer.stop_reason, answer.error_message) == ("error", "reset")
    assert_well_formed(events)


async def test_a_run_reports_messages_injected_by_whoever_configures_it(tree):
    """`get_steering_messages` and `get_follow_up_messages` may be any function, plain or async."""
    steering, follow_up = [[user_message("also this")]], [[user_message("and then that")]]

    async def more():
        return follow_up.pop() if follow_up else []

    config = AgentLoopConfig(
        model=MODEL,
        stream_fn=ScriptedModel(["one", "two", "three"]),
        get_steering_messages=lambda: steering.pop() if steering else (),
        get_follow_up_messages=more,
    )
    stream = await agent_loop([user_message("do this")], AgentContext(), config)
    last = await stream.result()

    assert [get_text(message) for message in last.messages] == ["do this", "also this", "one", "and then that", "two"]


async def test_prepared_context_replaces_the_conversation_of_the_following_turns(tree):
    """A context answered by `prepare_next_turn` is what the next call sees; the run's own report stays complete."""

    def shorter(turn, signal):
        return NextTurn(context=AgentContext("Be brief.", turn.context.messages[-2:], turn.context.tools))

    agent = await ScriptedAgent.start([[tool_call("echo", text="a")], "ok"], tools=[ECHO], prepare_next_turn=shorter)
    events = await agent.run("a long story")

    assert agent.model.asked[1].system_prompt == "Be brief."
    assert [message.role for message in agent.model.asked[1].messages] == ["assistant", "tool_result"]
    assert [message.role for message in terminal(events).messages] == ["user", "assistant", "tool_result", "assistant"]


async def test_an_abort_signal_of_the_callers_own_ends_a_loop(tree):
    """The signal given to `agent_loop` is the run's: saying it ends the run as aborted."""
    signal = AbortSignal()
    stream = await agent_loop(
        [user_message("hi")],
        AgentContext(),
        AgentLoopConfig(model=MODEL),
        signal,
        ScriptedModel([["...", Pause()]]),
    )
    events = []
    async for event in stream.events():
        events.append(event)
        if isinstance(event, MessageUpdate):
            signal.abort("enough")

    assert events[-1].outcome == "aborted"
    assert events[-1].reason == "enough"


async def test_a_custom_stream_is_let_go_when_nobody_reads_it_on(tree):
    """An aborted call closes the generator it read from, so that its connection can be closed."""
    agent = await ScriptedAgent.start([["...", Pause()]])
    await Agent.prompt(agent.pid, "hi")
    await until(MessageUpdate)
    Agent.abort(agent.pid)
    await agent.events()

    assert agent.model.given_up == 1


async def test_a_tool_result_message_says_all_that_the_result_said(tree):
    """Content, details, usage, trust and added names go into the message; whether it ends the run does not."""
    from lemon_agent import AgentToolResult
    from lemon_ai import Usage

    async def execute(call_id, params, signal, on_update):
        return AgentToolResult([TextContent("seen")], {"hidden": 1}, "untrusted", Usage(input=3), ("more",), None)

    rich = AgentTool("rich", "", {"type": "object"}, execute)
    [message] = results(await (await ScriptedAgent.start([[tool_call("rich")]], tools=[rich])).run("hi"))

    assert message == ToolResultMessage(
        "rich", "rich", (TextContent("seen"),), {"hidden": 1}, "untrusted", False, Usage(input=3), ("more",),
        message.timestamp,
    )  # fmt: skip
    assert text_result("x").terminate is None


async def test_every_message_end_is_said_after_its_start_and_before_the_next(tree):
    """Starts and ends of messages alternate over a whole run with tools, steering and follow-ups."""
    agent = await ScriptedAgent.start([[tool_call("echo", text="a")], "b", "c"], tools=[ECHO])
    Agent.steer(agent.pid, "steer")
    Agent.follow_up(agent.pid, "follow")
    events = await agent.run("hi")

    marks = [e for e in events if isinstance(e, MessageStart | MessageEnd)]
    assert [type(mark) for mark in marks] == [MessageStart, MessageEnd] * (len(marks) // 2)


async def test_a_stream_fn_may_be_any_object_that_can_be_called(tree):
    """Also one that cannot be hashed."""

    class Plain(ScriptedModel):
        __hash__ = None

    agent = await ScriptedAgent.start(stream_fn=Plain(["hi"]))
    assert get_text(answers(await agent.run("hello"))[0]) == "hi"
