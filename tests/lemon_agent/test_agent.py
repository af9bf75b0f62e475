"""An agent: what it takes, what it remembers, what each event changes, and when it is busy."""

import asyncio
import gc

import pytest
from attrs import frozen

from lemon_agent import (
    Agent,
    AgentContext,
    AgentEnd,
    AgentEventMessage,
    AgentOptions,
    AlreadyStreaming,
    CannotContinue,
    LoopStateTransition,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    NextTurn,
    NoMessages,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    WaitTimeout,
    as_messages,
    text_result,
    user_message,
)
from lemon_agent.errors import SubscriberNotAProcess
from lemon_agent.testing import (
    MODEL,
    Fails,
    Pause,
    ScriptedAgent,
    ScriptedModel,
    assert_transcript,
    assert_well_formed,
    next_event,
    of_type,
    terminal,
    tool_call,
    until,
)
from lemon_ai import (
    AssistantMessage,
    ImageContent,
    StreamOptions,
    TextContent,
    TextDelta,
    ToolResultMessage,
    UserMessage,
    get_text,
)
from lemon_otp import (
    CallFailed,
    ReceiveTimeout,
    TaskSupervisor,
    exit_signal,
    mailbox_length,
    receive,
    self_pid,
    spawn,
    sys,
)
from lemon_otp.testing import settle
from tests.lemon_agent.tools import ECHO, tool


@frozen
class Note:
    """A message of an application's own."""

    text: str
    role: str = "note"


# What it takes.


@pytest.mark.requirement("MSG-1")
def test_a_text_is_one_user_message_with_a_text_block_and_a_time():
    """A string becomes a user message whose content is one text block; pictures go after it."""
    [message] = as_messages("Build a web app")
    assert message.role == "user"
    assert message.content == (TextContent("Build a web app"),)
    assert message.timestamp > 1_600_000_000_000

    picture = ImageContent("aGk=")
    assert as_messages("look", [picture])[0].content == (TextContent("look"), picture)


@pytest.mark.requirement("MSG-2")
def test_a_message_is_a_list_of_one_and_a_list_stays_as_it_is():
    """Nothing is copied or changed, and pictures are only added to a text."""
    message = user_message("hi")
    assert as_messages(message) == (message,)
    assert as_messages(message, [ImageContent("aGk=")])[0] is message
    several = [message, AssistantMessage(), Note("mine")]
    assert list(as_messages(several)) == several


@pytest.mark.requirement("MSG-3", "MSG-4")
async def test_messages_of_all_roles_and_blocks_are_carried(tree):
    """User, assistant, tool result and an application's own role stay in the transcript, blocks and fields and all."""
    earlier = (
        UserMessage((TextContent("see"), ImageContent("aGk=", "image/png"))),
        AssistantMessage((TextContent("I see"),), api="a", provider="p", model="m", stop_reason="stop"),
        Note("mine"),
    )
    agent = await ScriptedAgent.start(["ok"], messages=earlier)
    await agent.run("hi")
    messages = (await agent.state()).messages

    assert messages[:3] == earlier
    answer = messages[-1]
    assert (answer.api, answer.provider, answer.model, answer.stop_reason) == ("told", "told", "told", "stop")


@pytest.mark.requirement("MSG-2")
@pytest.mark.parametrize("junk", [5, ["a text in a list"], [None], {"role": "user", "content": "a mapping"}])
async def test_what_is_no_message_is_refused_where_it_is_handed_over(tree, junk):
    """The caller gets the error; the agent and its conversation do not notice."""
    agent = await ScriptedAgent.start(["ok"])
    messages = junk if isinstance(junk, list) else [junk]
    with pytest.raises(TypeError, match="no message"):
        await Agent.prompt(agent.pid, junk)
    with pytest.raises(TypeError, match="no message"):
        Agent.steer(agent.pid, junk)
    with pytest.raises(TypeError, match="no message"):
        await Agent.append_message(agent.pid, messages[0])
    with pytest.raises(TypeError, match="no message"):
        await Agent.replace_messages(agent.pid, messages)
    with pytest.raises(TypeError, match="no message"):
        AgentOptions(model=MODEL, messages=messages)

    assert terminal(await agent.run("hi")).outcome == "completed"


async def test_settings_that_make_no_sense_are_refused_and_nothing_is_changed(tree):
    """A caller's mistake is the caller's error; it takes neither the agent nor its settings along."""
    agent = await ScriptedAgent.start(["ok"], tools=[ECHO])
    with pytest.raises(TypeError, match="model: expected Model, not 'bigger'"):
        await Agent.set_model(agent.pid, "bigger")
    with pytest.raises(TypeError, match="no tool: 'bash'"):
        await Agent.set_tools(agent.pid, ["bash"])
    with pytest.raises(ValueError, match="no queue mode 'some'"):
        await Agent.set_steering_mode(agent.pid, "some")

    assert (await agent.state()).tools == (ECHO,)
    assert terminal(await agent.run("hi")).outcome == "completed"


@pytest.mark.requirement("MSG-5")
async def test_messages_of_an_applications_own_reach_the_model_only_through_its_conversion(tree):
    """By default they are left out of the call; `convert_to_llm` may turn them into something a model knows."""
    plain = await ScriptedAgent.start(["ok"], messages=[Note("secret"), user_message("open")])
    await plain.run("hi")
    assert [message.role for message in plain.model.asked[0].messages] == ["user", "user"]
    assert (await plain.state()).messages[0] == Note("secret")

    def spoken(messages):
        return [user_message(m.text) if isinstance(m, Note) else m for m in messages]

    spelled = await ScriptedAgent.start(["ok"], messages=[Note("secret")], convert_to_llm=spoken)
    await spelled.run("hi")
    assert [get_text(message) for message in spelled.model.asked[0].messages] == ["secret", "hi"]


@pytest.mark.requirement("STATE-10")
async def test_a_busy_agent_takes_no_prompt_and_there_must_be_something_to_continue(tree):
    """Busy: already streaming. Empty: no messages. After an answer with nothing queued: cannot continue."""
    agent = await ScriptedAgent.start(["one", ["...", Pause()]])
    with pytest.raises(NoMessages):
        await Agent.continue_(agent.pid)
    await agent.run("hi")
    with pytest.raises(CannotContinue):
        await Agent.continue_(agent.pid)
    await Agent.prompt(agent.pid, "again")
    with pytest.raises(AlreadyStreaming):
        await Agent.prompt(agent.pid, "too early")
    with pytest.raises(AlreadyStreaming):
        await Agent.continue_(agent.pid)
    Agent.abort(agent.pid)
    events = await agent.events()
    assert get_text(terminal(events).messages[0]) == "again"


async def test_continuing_after_an_answer_begins_with_what_is_queued(tree):
    """Steering first, else follow-ups, are the prompts of a run that continues after an answer."""
    agent = await ScriptedAgent.start(["one", "two", "three"])
    await agent.run("hi")
    Agent.follow_up(agent.pid, "B")
    Agent.steer(agent.pid, "A")
    await Agent.continue_(agent.pid)
    events = await agent.events()

    assert [get_text(m) for m in terminal(events).messages] == ["A", "two", "B", "three"]


async def test_continuing_after_a_restored_prompt_answers_it(tree):
    """A conversation that ends with a user message or a tool result is gone on with as it stands."""
    agent = await ScriptedAgent.start(["there you are"], messages=[user_message("hello?")])
    await Agent.continue_(agent.pid)
    events = await agent.events()

    assert [get_text(m) for m in terminal(events).messages] == ["there you are"]
    assert [get_text(m) for m in (await agent.state()).messages] == ["hello?", "there you are"]


# What events change.


async def states_at(agent, prompt, wanted):
    """The agent's state as its subscriber finds it at the first event of a class."""
    await Agent.prompt(agent.pid, prompt)
    events = await until(wanted)
    return events[-1], await agent.state()


@pytest.mark.requirement("STATE-1", "STATE-2", "STATE-7", "EVT-11")
async def test_what_is_being_said_is_seen_while_it_is_said(tree):
    """message_start and message_update set the streaming message before subscribers hear of them; the end clears it."""
    agent = await ScriptedAgent.start([["Hello, w", Pause(0.05), "orld."]])
    event, state = await states_at(agent, "hi", MessageUpdate)
    events = [event, *await until(lambda e: isinstance(e, MessageUpdate) and e.assistant_event.type == "text_delta")]
    state = await agent.state()
    assert state.streaming_message == events[-1].message
    assert get_text(state.streaming_message) == "Hello, w"
    assert state.is_streaming

    await agent.events()
    state = await agent.state()
    assert (state.streaming_message, state.is_streaming) == (None, False)


@pytest.mark.requirement("STATE-1", "STATE-3")
async def test_the_end_of_a_message_puts_it_into_the_transcript(tree):
    """At message_end the message is the transcript's last and nothing is being said."""
    agent = await ScriptedAgent.start([["a", Pause()]])
    event, state = await states_at(agent, "hi", MessageEnd)
    assert event.message in state.messages
    Agent.abort(agent.pid)
    await agent.events()


@pytest.mark.requirement("STATE-4", "STATE-5")
async def test_calls_are_pending_from_their_start_to_their_end(tree):
    """Ids come and go with the start and end of calls, each time as a new set."""
    gate = asyncio.Event()

    async def wait(call_id, params, signal, on_update):
        await gate.wait()
        return text_result("ok")

    agent = await ScriptedAgent.start([[tool_call("t", "a"), tool_call("t", "b")]], tools=[tool("t", wait)])
    await Agent.prompt(agent.pid, "hi")
    await until(ToolExecutionStart)
    await settle()
    both = (await agent.state()).pending_tool_calls
    assert both == {"a", "b"}
    gate.set()
    await until(ToolExecutionEnd)
    await agent.events()

    assert (await agent.state()).pending_tool_calls == frozenset()
    assert both == {"a", "b"}


@pytest.mark.requirement("STATE-6", "STATE-8")
async def test_the_last_error_is_remembered_until_the_next_run_begins(tree):
    """turn_end of a message with an error sets it, other turns leave it, a new run starts without one."""
    agent = await ScriptedAgent.start([["x", Fails("overloaded")], ["fine", Pause()]])
    event, state = await states_at(agent, "hi", TurnEnd)
    assert state.error_message == event.message.error_message == "overloaded"
    await agent.events()
    assert (await agent.state()).error_message == "overloaded"

    _, state = await states_at(agent, "again", MessageStart)
    assert (state.error_message, state.is_streaming) == (None, True)
    Agent.abort(agent.pid)
    await agent.events()


@pytest.mark.requirement("STATE-8", "ABORT-9")
async def test_each_run_has_a_signal_of_its_own(tree):
    """The signal of an aborted run says nothing to the next one."""
    agent = await ScriptedAgent.start([["a", Pause()], "b"])
    await Agent.prompt(agent.pid, "hi")
    await until(MessageUpdate)
    Agent.abort(agent.pid)
    await agent.events()
    await agent.run("again")

    first, second = agent.model.signals
    assert (first.aborted, second.aborted) == (True, False)


@pytest.mark.requirement("STATE-9")
async def test_a_state_that_was_handed_out_does_not_change(tree):
    """Later messages, settings and runs leave a snapshot as it was."""
    agent = await ScriptedAgent.start(["one", "two"], tools=[ECHO])
    await agent.run("hi")
    before = await agent.state()
    copy = (before.messages, before.tools, before.model, before.system_prompt)
    await agent.run("again")
    await Agent.set_tools(agent.pid, [])
    await Agent.set_system_prompt(agent.pid, "other")
    await Agent.reset(agent.pid)

    assert (before.messages, before.tools, before.model, before.system_prompt) == copy


@pytest.mark.requirement("EVT-11")
async def test_state_is_changed_before_anybody_is_told(tree):
    """Whoever asks for the state on hearing of a call's start finds the call pending."""
    agent = await ScriptedAgent.start([[tool_call("echo", text="a")], "ok"], tools=[ECHO])
    await Agent.prompt(agent.pid, "hi")
    found = []
    while not isinstance(event := await next_event(), AgentEnd):
        if isinstance(event, MessageEnd):
            found.append(event.message in (await agent.state()).messages)
    assert found == [True] * 4
    assert not (await agent.state()).is_streaming


# Being busy and being idle.


async def test_an_agent_is_idle_when_its_subscribers_hear_of_the_end(tree):
    """On agent_end a subscriber may prompt at once: the run's task has ended by then."""
    agent = await ScriptedAgent.start(["one", "two"])
    await agent.run("hi")
    assert await TaskSupervisor.children("loop_task_supervisor") == []
    await Agent.prompt(agent.pid, "again")
    assert terminal(await agent.events()).outcome == "completed"


async def test_a_prompt_from_a_subscriber_does_not_inherit_the_old_signal(tree):
    """A run started on hearing of an abort is not aborted itself."""
    agent = await ScriptedAgent.start([["a", Pause()], "b"])
    await Agent.prompt(agent.pid, "hi")
    await until(MessageUpdate)
    Agent.abort(agent.pid)
    await agent.events()
    assert terminal(await agent.run("at once")).outcome == "completed"


async def test_waiting_for_an_idle_agent_returns_when_the_run_is_over(tree):
    """At once when idle; after the last event when busy; an error when the time is up, which disturbs nobody."""
    agent = await ScriptedAgent.start([["a", Pause()]])
    await Agent.wait_for_idle(agent.pid)
    await Agent.prompt(agent.pid, "hi")
    with pytest.raises(WaitTimeout):
        await Agent.wait_for_idle(agent.pid, timeout_s=0.01)
    Agent.abort(agent.pid)
    await Agent.wait_for_idle(agent.pid, timeout_s=5)
    events = await agent.events(timeout_s=0)
    assert isinstance(events[-1], AgentEnd)


async def test_a_subscriber_can_ask_for_something_once_the_agent_is_idle(tree):
    """`run_when_idle` calls a function in a process of its own, after the run, without anybody waiting."""
    done = []
    agent = await ScriptedAgent.start([["a", Pause()]])

    async def then(value):
        done.append((value, (await agent.state()).is_streaming))

    await Agent.prompt(agent.pid, "hi")
    Agent.run_when_idle(agent.pid, then, 7)
    await settle()
    assert done == []
    Agent.abort(agent.pid)
    await agent.events()
    await settle()
    assert done == [(7, False)]


async def test_an_agent_that_is_gone_fails_its_callers(tree):
    """A call to an agent that has ended says so; telling it something does nothing."""
    from lemon_otp import stop, unlink

    agent = await ScriptedAgent.start()
    unlink(agent.pid)
    await stop(agent.pid)
    with pytest.raises(CallFailed):
        await Agent.prompt(agent.pid, "hi")
    Agent.steer(agent.pid, "hi")
    Agent.abort(agent.pid)


async def test_reset_forgets_the_conversation_and_keeps_the_settings(tree):
    """Messages, queues and the last error go; prompt, model, tools and subscribers stay."""
    agent = await ScriptedAgent.start([["x", Fails("bad")], "ok"], tools=[ECHO], system_prompt="Be kind.")
    await agent.run("hi")
    Agent.steer(agent.pid, "s")
    Agent.next_turn(agent.pid, "n")
    await Agent.reset(agent.pid)

    state = await agent.state()
    assert (state.messages, state.error_message, state.system_prompt, state.tools) == ((), None, "Be kind.", (ECHO,))
    queues = await Agent.queued(agent.pid)
    assert (queues.steering, queues.follow_up, queues.next_turn) == ((), (), ())
    assert terminal(await agent.run("fresh")).outcome == "completed"


async def test_reset_during_a_run_aborts_it_first(tree):
    """The run ends as aborted, then the conversation is forgotten, then the caller is answered."""
    agent = await ScriptedAgent.start([["x", Pause()], "ok"])
    await Agent.prompt(agent.pid, "hi")
    await until(MessageUpdate)
    await Agent.reset(agent.pid)
    events = await agent.events()

    assert terminal(events).outcome == "aborted"
    assert (await agent.state()).messages == ()


# Settings.


@pytest.mark.requirement("CTX-1")
async def test_a_run_keeps_the_settings_it_began_with(tree):
    """Prompt, model, thinking level and tools changed during a run hold from the next run on."""
    gate = asyncio.Event()

    async def wait(call_id, params, signal, on_update):
        await gate.wait()
        return text_result("ok")

    other = MODEL.__class__(id="other", api="told", provider="told")
    agent = await ScriptedAgent.start([[tool_call("t")], "one", "two"], tools=[tool("t", wait)], system_prompt="A")
    await Agent.prompt(agent.pid, "hi")
    await until(ToolExecutionStart)
    await Agent.set_system_prompt(agent.pid, "B")
    await Agent.set_model(agent.pid, other)
    await Agent.set_thinking_level(agent.pid, "high")
    await Agent.set_tools(agent.pid, [ECHO])
    gate.set()
    first = await agent.events()
    second = await agent.run("again")

    prompts = [context.system_prompt for context in agent.model.asked]
    assert prompts == ["A", "A", "B"]
    assert [[t.name for t in context.tools] for context in agent.model.asked] == [["t"], ["t"], ["echo"]]
    assert [options.reasoning for options in agent.model.options] == [None, None, "high"]
    assert terminal(first).messages[-1].model == "told"
    assert terminal(second).messages[-1].model == "other"


async def test_options_of_the_stream_carry_session_level_and_key(tree):
    """The session id, the thinking level, its budgets and the key of the moment go into each call's options."""
    keys = iter(["first", "second", None])

    async def key(provider):
        assert provider == "told"
        return next(keys)

    agent = await ScriptedAgent.start(
        ["a", "b", "c"],
        session_id="s1",
        thinking_level="low",
        thinking_budgets={"low": 100},
        get_api_key=key,
        stream_options=StreamOptions(temperature=0.5, api_key="fallback"),
    )
    for prompt in "abc":
        await agent.run(prompt)

    assert [options.api_key for options in agent.model.options] == ["first", "second", "fallback"]
    [options, *_] = agent.model.options
    assert (options.session_id, options.reasoning, options.temperature) == ("s1", "low", 0.5)
    assert options.thinking_budgets == {"low": 100}
    assert await Agent.get_session_id(agent.pid) == "s1"


async def test_the_transcript_can_be_replaced_and_added_to(tree):
    """Without a run and without an event; the next run goes on from it."""
    agent = await ScriptedAgent.start(["ok"])
    await Agent.replace_messages(agent.pid, [user_message("a"), AssistantMessage((TextContent("b"),))])
    await Agent.append_message(agent.pid, user_message("c"))
    await agent.run("d")

    assert [get_text(message) for message in agent.model.asked[0].messages] == ["a", "b", "c", "d"]


# Subscribers.


async def subscriber_of(agent, seen):
    await Agent.subscribe(agent)
    seen.append("ready")
    while True:
        seen.append((await receive()).event)


async def test_every_subscriber_gets_every_event_in_order(tree):
    """Two subscribers and the test itself: the same events, the same order."""
    agent = await ScriptedAgent.start(["Hello, world."])
    logs = [[], []]
    for log in logs:
        spawn(subscriber_of, agent.pid, log)
    await settle()
    events = await agent.run("hi")
    await settle()

    assert logs[0] == logs[1] == ["ready", *events]


async def test_a_subscription_ends_when_called_and_twice_is_harmless(tree):
    """Nothing comes after it, and ending it again does nothing."""
    agent = await ScriptedAgent.start(["one", "two"])
    other = await Agent.subscribe(agent.pid)
    other()
    other()
    events = await agent.run("hi")
    assert len(of_type(events, AgentEnd)) == 1
    with pytest.raises(ReceiveTimeout):
        await receive(timeout_s=0)


async def test_one_process_may_subscribe_twice_and_then_gets_each_event_twice(tree):
    """Subscriptions are counted one by one."""
    agent = await ScriptedAgent.start(["one"])
    await Agent.subscribe(agent.pid)
    await Agent.prompt(agent.pid, "hi")
    await Agent.wait_for_idle(agent.pid)
    events = []
    with pytest.raises(ReceiveTimeout):
        while True:
            events.append((await receive(timeout_s=0)).event)
    assert len(of_type(events, AgentEnd)) == 2


@pytest.mark.requirement("BR-114")
async def test_a_dead_subscriber_is_forgotten_with_all_that_waited_for_it(tree):
    """A subscriber out of credit dies with events waiting: the events are freed at once."""
    import weakref

    from lemon_agent import Delivery

    agent = await ScriptedAgent.start(["x" * 800])
    stalled = spawn(asyncio.sleep, 3600)
    await Agent.subscribe(agent.pid, stalled, Delivery(credit=0, credit_timeout_ms=1))
    events = await agent.run("hi")
    update = weakref.ref(of_type(events, MessageUpdate)[-1])
    del events
    gc.collect()
    assert update() is not None
    from lemon_otp import exit_signal

    exit_signal(stalled, "kill")
    await settle()
    gc.collect()
    assert update() is None


async def test_a_subscriber_that_never_reads_does_not_slow_the_agent(tree):
    """Its events wait in its own mailbox; the run and the other subscribers do not notice."""
    agent = await ScriptedAgent.start(["x" * 8000])
    await Agent.subscribe(agent.pid, spawn(asyncio.sleep, 3600))
    events = await agent.run("hi")
    assert len(of_type(events, MessageUpdate)) > 1000
    assert_well_formed(events)


async def test_code_without_a_mailbox_must_say_who_gets_the_events():
    """Outside any process there is nobody to deliver to, and that is said plainly."""
    with pytest.raises(SubscriberNotAProcess):
        await Agent.subscribe("anyone")


async def test_events_come_as_messages_to_the_mailbox(tree):
    """Each event is an `AgentEventMessage`, so that a server can tell it from everything else it gets."""
    agent = await ScriptedAgent.start(["x"])
    await Agent.prompt(agent.pid, "hi")
    assert isinstance(await receive(), AgentEventMessage)
    await agent.events()


# Crashes.


async def test_an_agent_that_dies_takes_its_run_along(tree):
    """The loop and everything below it end with the agent, within the stream's grace."""
    from lemon_otp import exit_signal, unlink

    agent = await ScriptedAgent.start([["a", Pause()]])
    await Agent.prompt(agent.pid, "hi")
    await until(MessageUpdate)
    unlink(agent.pid)
    exit_signal(agent.pid, "kill")
    await asyncio.sleep(0.15)
    assert await TaskSupervisor.children("loop_task_supervisor") == []
    assert agent.model.given_up == 1


async def test_a_prompt_whose_run_could_not_begin_is_said_all_the_same(tree):
    """No loop supervisor: the run is a start, a turn with the prompt in it and an error; the prompt is not lost."""
    from lemon_otp import Supervisor

    agent = await ScriptedAgent.start(["ok"])
    await Supervisor.terminate_child(tree, "loop_task_supervisor")
    events = await agent.run("do not forget this")

    assert_well_formed(events)
    assert terminal(events).reason[0] == "task_start_failed"
    assert get_text((await agent.state()).messages[0]) == "do not forget this"
    await Supervisor.restart_child(tree, "loop_task_supervisor")
    await agent.run("again")
    assert [get_text(m) for m in agent.model.asked[0].messages if m.role == "user"] == ["do not forget this", "again"]


async def test_a_loop_killed_in_the_middle_of_its_tools_leaves_a_transcript_without_gaps(tree):
    """Calls that had begun are ended, every call has a result, the turn is closed, and the next prompt works."""
    from lemon_otp import exit_signal

    agent = await ScriptedAgent.start(
        [[tool_call("t", "a"), tool_call("t", "b")], "ok"], tools=[tool("t", asyncio_sleep)]
    )
    await Agent.prompt(agent.pid, "hi")
    events = await until(ToolExecutionStart)
    await settle()
    [loop] = await TaskSupervisor.children("loop_task_supervisor")
    exit_signal(loop, "kill")
    events += await agent.events()

    assert_well_formed(events)
    assert_transcript((await agent.state()).messages)
    assert len([m for m in (await agent.state()).messages if isinstance(m, ToolResultMessage)]) == 2
    assert terminal(await agent.run("again")).outcome == "completed"


async def asyncio_sleep(call_id, params, signal, on_update):
    await asyncio.sleep(60)


# Cost.


async def test_a_thousand_runs_leave_no_process_and_no_stream_behind(tree, runtime):
    """After a thousand runs there are as many processes as before the first."""
    agent = await ScriptedAgent.start()
    await agent.run("warm up")
    await settle()
    before = len(runtime.processes)
    for _ in range(1000):
        await Agent.prompt(agent.pid, "hi")
        await agent.events()
        await Agent.replace_messages(agent.pid, [])
    await settle()
    assert len(runtime.processes) == before


async def test_a_run_leaves_nothing_for_the_garbage_collector(tree, runtime):
    """Everything of it is freed by its last reference: with tools, without, and with nobody listening."""
    agent = await ScriptedAgent.start(
        [answer for _ in range(20) for answer in ([tool_call("echo", text="a")], "ok")], tools=[ECHO]
    )
    for _ in range(2):
        await agent.run("once")
    quiet = await Agent.start_link(AgentOptions(model=MODEL, stream_fn=ScriptedModel(["ok"] * 20)))
    await settle()
    gc.collect()
    gc.freeze()  # what earlier tests left, and something still holds, is not of these runs when it is let go
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(5):
            await agent.run("again")
            await Agent.prompt(quiet, "hi")
            await Agent.wait_for_idle(quiet)
        await settle()
        gc.collect()
        ours = [type(thing) for thing in gc.garbage if type(thing).__module__.startswith(("lemon", "_asyncio"))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()
    assert ours == []


async def test_an_agent_that_nobody_listens_to_knows_as_much_of_itself(clocked_tree, fake_clock):
    """What it is asked in the middle of a run and after it is answered as if it had subscribers."""
    agent = await Agent.start_link(
        AgentOptions(model=MODEL, stream_fn=ScriptedModel([["so ", Pause(1.0), "far"], "2"]))
    )
    await Agent.prompt(agent, "hi")
    await fake_clock.advance(0.5)
    state = await Agent.get_state(agent)
    assert state.is_streaming
    assert get_text(state.streaming_message) == "so "
    assert [message.role for message in state.messages] == ["user"]
    await fake_clock.advance(1.0)
    await Agent.wait_for_idle(agent)
    state = await Agent.get_state(agent)
    assert (state.is_streaming, state.streaming_message, state.error_message) == (False, None, None)
    assert [get_text(message) for message in state.messages] == ["hi", "so far"]


@pytest.mark.parametrize("listened", [True, False])
async def test_a_loop_killed_in_the_middle_of_an_answer_leaves_what_had_come_of_it(clocked_tree, fake_clock, listened):
    """In the transcript, as a message that failed, whether anybody heard it come or not."""
    agent = await Agent.start_link(AgentOptions(model=MODEL, stream_fn=ScriptedModel([["so ", Pause(1.0), "far"]])))
    if listened:
        await Agent.subscribe(agent)
    await Agent.prompt(agent, "hi")
    await fake_clock.advance(0.5)
    [loop] = await TaskSupervisor.children("loop_task_supervisor")
    exit_signal(loop, "kill")
    await Agent.wait_for_idle(agent)
    state = await Agent.get_state(agent)
    assert [(message.role, get_text(message)) for message in state.messages] == [("user", "hi"), ("assistant", "so ")]
    assert state.messages[-1].stop_reason == "error"
    assert state.streaming_message is None
    assert "loop_crashed" in state.error_message


async def test_whoever_subscribes_in_the_middle_of_a_run_hears_everything_from_there_on(clocked_tree, fake_clock):
    """The states of the loop and the terminal among it, though nothing was said of them before."""
    agent = await Agent.start_link(AgentOptions(model=MODEL, stream_fn=ScriptedModel([["so ", Pause(1.0), "far"]])))
    await Agent.prompt(agent, "hi")
    await fake_clock.advance(0.5)
    await Agent.subscribe(agent)
    await fake_clock.advance(1.0)
    events = [event async for event in _heard()]
    assert [event.to_state for event in of_type(events, LoopStateTransition)] == ["normalizing_response", "finalizing"]
    assert [type(event) for event in events if not isinstance(event, MessageUpdate | LoopStateTransition)] == [
        MessageEnd,
        TurnEnd,
        AgentEnd,
    ]


async def _heard():
    while True:
        event = (await receive()).event
        yield event
        if isinstance(event, AgentEnd):
            return


async def test_an_agent_is_started_with_what_was_said_before(tree):
    """Messages of a restored session are the beginning of the conversation."""
    pid = await Agent.start_link(
        AgentOptions(model=MODEL, messages=[user_message("a")], stream_fn=ScriptedModel(["b"]))
    )
    await Agent.subscribe(pid, self_pid())
    await Agent.prompt(pid, "c")
    await Agent.wait_for_idle(pid)
    assert [get_text(m) for m in (await Agent.get_state(pid)).messages] == ["a", "c", "b"]


async def test_a_context_prepared_for_the_next_turn_is_not_the_agents_transcript(tree):
    """What a hook cuts from the context of a run stays in the agent's own messages."""

    def forget(turn, signal):
        return NextTurn(context=AgentContext(None, turn.context.messages[-2:], turn.context.tools))

    agent = await ScriptedAgent.start([[tool_call("echo", text="a")], "ok"], tools=[ECHO], prepare_next_turn=forget)
    await agent.run("remember me")
    assert get_text((await agent.state()).messages[0]) == "remember me"


async def test_a_suspended_agent_passes_nothing_on_and_afterwards_everything_in_order(clocked_tree, fake_clock):
    """An agent at rest needs no turn for an update; one that is suspended is not at rest, and its events wait."""
    agent = await ScriptedAgent.start([["one ", Pause(1.0), "two ", "three"]])
    await Agent.prompt(agent.pid, "hi")
    events = await until(MessageUpdate)
    await settle()
    await sys.suspend(agent.pid)
    waiting = mailbox_length(self_pid())
    await fake_clock.advance(2.0)
    assert mailbox_length(self_pid()) == waiting

    await sys.resume(agent.pid)
    events += await agent.events()
    said = [event.assistant_event for event in of_type(events, MessageUpdate)]
    assert "".join(event.delta for event in said if isinstance(event, TextDelta)) == "one two three"
    assert [event.at for event in said] == sorted(event.at for event in said)
    assert_well_formed(events)
