"""The calls of an answer: run at once, answered once each and in order, whatever their tools do."""

import asyncio
import sys
import threading
import time

import pytest
from attrs import evolve

from lemon_agent import (
    Agent,
    AgentOptions,
    AgentTool,
    AgentToolResult,
    Block,
    RetryRule,
    ToolError,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolOverride,
    ToolSchemaSnapshotted,
    text_result,
)
from lemon_agent.errors import InvalidTool
from lemon_agent.testing import (
    MODEL,
    ScriptedAgent,
    ScriptedModel,
    assert_transcript,
    assert_well_formed,
    of_type,
    results,
    terminal,
    tool_call,
    until,
)
from lemon_ai import ProviderRequest, TextContent, ToolCall, get_text
from lemon_ai.providers.openai_compat import dialect_of
from lemon_ai.providers.openai_completions_encode import encode_body
from lemon_otp import TaskSupervisor, exit_process, exit_signal, sleep_s
from lemon_otp.testing import settle
from tests.lemon_agent.tools import ECHO, adding, schema, tool


async def answer_of(execute, /, **options):
    """The result of one call of a tool that does this, without arguments."""
    subject = AgentTool("subject", "", {"type": "object"}, execute, **options)
    agent = await ScriptedAgent.start([[tool_call("subject")], "ok"], tools=[subject])
    events = await agent.run("hi")
    assert_well_formed(events)
    assert terminal(events).outcome == "completed"
    [result] = results(events)
    return result


class Held:
    """A tool whose calls wait until the test lets them go, and counts of them."""

    def __init__(self):
        self.running = 0
        self.most = 0
        self.started = []
        self.gates = {}

    async def execute(self, call_id, params, signal, on_update):
        self.running += 1
        self.most = max(self.most, self.running)
        self.started.append(call_id)
        gate = self.gates.setdefault(call_id, asyncio.Event())
        try:
            await gate.wait()
        finally:
            self.running -= 1
        return text_result(call_id)

    def let_go(self, *call_ids):
        for call_id in call_ids or self.started:
            self.gates.setdefault(call_id, asyncio.Event()).set()

    @property
    def tool(self):
        return AgentTool("held", "", {"type": "object"}, self.execute)


def held_calls(count):
    return [tool_call("held", f"c{number}") for number in range(count)]


@pytest.mark.requirement("TOOL-1", "RCHK-5")
async def test_all_calls_of_an_answer_run_at_the_same_time(clocked_tree, fake_clock):
    """Five tools that sleep ten seconds are done after ten seconds, not fifty."""

    async def execute(call_id, params, signal, on_update):
        await sleep_s(10)
        return text_result(call_id)

    calls = [tool_call("sleeper", f"c{number}") for number in range(5)]
    agent = await ScriptedAgent.start([calls, "ok"], tools=[tool("sleeper", execute)])
    before_s = fake_clock.monotonic_s()
    await Agent.prompt(agent.pid, "hi")
    await fake_clock.advance(10)
    events = await agent.events()

    assert len(results(events)) == 5
    assert fake_clock.monotonic_s() - before_s == 10
    assert_well_formed(events)


@pytest.mark.requirement("INV-1.2")
async def test_each_running_call_is_one_child_of_the_tool_supervisor(tree):
    """While three calls wait the supervisor lists three processes; when they are answered, none."""
    held = Held()
    agent = await ScriptedAgent.start([held_calls(3), "ok"], tools=[held.tool])
    await Agent.prompt(agent.pid, "hi")
    await settle()
    assert len(await TaskSupervisor.children("tool_task_supervisor")) == 3

    held.let_go()
    await agent.events()
    await settle()
    assert await TaskSupervisor.children("tool_task_supervisor") == []


@pytest.mark.requirement("TOOL-11")
@pytest.mark.parametrize(("limit", "most"), [(2, 2), (1, 1), (0, 1), (-4, 1), (None, 5)])
async def test_no_more_calls_run_at_once_than_allowed(tree, limit, most):
    """`max_tool_concurrency` bounds the calls under way; less than one counts as one."""
    held = Held()
    agent = await ScriptedAgent.start([held_calls(5), "ok"], tools=[held.tool], max_tool_concurrency=limit)
    await Agent.prompt(agent.pid, "hi")
    for number in range(5):
        await settle()
        held.let_go(f"c{number}")
    events = await agent.events()

    assert held.most == most
    assert [result.tool_call_id for result in results(events)] == ["c0", "c1", "c2", "c3", "c4"]


async def test_one_sequential_tool_makes_its_whole_batch_run_one_by_one(tree):
    """Start, end and result of a call are said before the next one starts."""
    calm = evolve(ECHO, sequential=True)
    calls = [tool_call("echo", "a", text="x"), tool_call("note", "b", text="y"), tool_call("echo", "c", text="z")]
    agent = await ScriptedAgent.start([calls, "ok"], tools=[calm, adding([])])
    events = await agent.run("hi")

    marks = [e.tool_call_id for e in events if isinstance(e, ToolExecutionStart | ToolExecutionEnd)]
    assert marks == ["a", "a", "b", "b", "c", "c"]


@pytest.mark.requirement("TOOL-2", "TOOL-7", "RCHK-2")
async def test_a_call_whose_process_is_killed_gets_an_error_and_the_others_do_not_notice(tree):
    """The killed call is told as crashed with the reason; its neighbours give their own results."""
    held = Held()
    agent = await ScriptedAgent.start([held_calls(3), "ok"], tools=[held.tool])
    await Agent.prompt(agent.pid, "hi")
    await settle()
    victim = (await TaskSupervisor.children("tool_task_supervisor"))[1]
    exit_signal(victim, "kill")
    await settle()
    held.let_go()
    events = await agent.events()

    first, second, third = results(events)
    assert (get_text(second), second.is_error) == ("Tool task crashed: killed", True)
    assert [get_text(first), get_text(third)] == ["c0", "c2"]
    assert_well_formed(events)


@pytest.mark.requirement("TOOL-2")
async def test_answers_of_processes_that_are_no_more_are_ignored(tree):
    """A tool that goes on after it was timed out cannot change the result its call has got."""
    kept = []

    async def execute(call_id, params, signal, on_update):
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            kept.append("went on")
            return text_result("too late")

    result = await answer_of(execute, timeout_ms=20)
    assert kept == ["went on"]
    assert get_text(result) == "Tool task timed out after 20ms"


@pytest.mark.requirement("TOOL-3", "RCHK-1")
async def test_what_a_tool_returns_reaches_the_transcript_unchanged(tree):
    """Content and details are the tool's own, and the result is no error."""
    blocks = (TextContent("one"), TextContent("two"))
    details = {"rows": [1, 2]}

    async def execute(call_id, params, signal, on_update):
        return AgentToolResult(blocks, details)

    result = await answer_of(execute)
    assert (result.content, result.is_error) == (blocks, False)
    assert result.details is details


@pytest.mark.requirement("TOOL-4", "TOOL-8")
@pytest.mark.parametrize(
    ("value", "text", "is_error"),
    [
        (text_result("fine"), "fine", False),
        (("ok", text_result("fine")), "fine", False),
        (("error", "no such row"), "no such row", True),
        (("error", {"code": 7}), "{'code': 7}", True),
        ("just text", "Unexpected tool result: 'just text'", True),
        (None, "Unexpected tool result: None", True),
        (("ok", "text"), "Unexpected tool result: ('ok', 'text')", True),
    ],
)
async def test_the_forms_a_result_may_take(tree, value, text, is_error):
    """A result, ok with one, error with a reason; anything else is an error that shows what came."""

    async def execute(call_id, params, signal, on_update):
        return value

    result = await answer_of(execute)
    assert (get_text(result), result.is_error, result.details) == (text, is_error, None)


@pytest.mark.requirement("TOOL-4")
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"content": [5]}, "content is made of text and image blocks, not of int"),
        ({"content": None}, "'NoneType' object is not iterable"),
        ({"usage": 5}, "usage: expected Usage, not 5"),
        ({"added_tool_names": [5]}, "added_tool_names are the names of tools"),
        ({"added_tool_names": 5}, "'int' object is not iterable"),
    ],
)
async def test_a_result_that_makes_no_sense_is_an_error_of_its_tool_alone(tree, fields, words):
    """It never gets into the conversation, which no provider would take any more; the run goes on."""

    async def execute(call_id, params, signal, on_update):
        return AgentToolResult(**fields)

    agent = await ScriptedAgent.start([tool_call("odd"), "ok"], tools=[tool("odd", execute)])
    events = await agent.run("hi")

    (result,) = results(events)
    assert (get_text(result), result.is_error) == (words, True)
    assert terminal(events).outcome == "completed"


def test_a_text_is_content_enough():
    """A text stands for one block of text, a name for a list of one."""
    assert AgentToolResult("done").content == (TextContent("done"),)
    assert AgentToolResult(added_tool_names="deploy").added_tool_names == ("deploy",)
    assert AgentToolResult(added_tool_names=["deploy"]).added_tool_names == ("deploy",)


@pytest.mark.requirement("HOOK-9")
@pytest.mark.parametrize("which", ["before_tool_call", "after_tool_call"])
@pytest.mark.parametrize("error", [asyncio.CancelledError("gone"), SystemExit("out"), GeneratorExit("closed")])
async def test_whatever_a_hook_around_a_call_raises_is_an_error_of_that_call(tree, which, error):
    """Exceptions that are no `Exception` are told to the model like any other; the run goes on."""

    async def hook(told, signal):
        raise error

    agent = await ScriptedAgent.start([tool_call("nop"), "ok"], tools=[tool("nop")], **{which: hook})
    events = await agent.run("hi")

    (result,) = results(events)
    assert (get_text(result), result.is_error) == (str(error), True)
    assert terminal(events).outcome == "completed"
    assert_well_formed(events)


@pytest.mark.requirement("TOOL-5", "RCHK-3")
async def test_an_unknown_tool_is_an_error_result_and_the_run_goes_on(tree):
    """The model is told that there is no such tool, under the name it used, and asked again."""
    agent = await ScriptedAgent.start([[tool_call("fetch_moon")], "Then not."], tools=[ECHO])
    events = await agent.run("hi")

    [result] = results(events)
    assert (get_text(result), result.tool_name, result.is_error) == ("Tool fetch_moon not found", "fetch_moon", True)
    assert terminal(events).outcome == "completed"


class Odd(BaseException):
    """Not an Exception."""


class Shy(Exception):
    """Says nothing and cannot be shown."""

    def __repr__(self):
        raise RuntimeError("no")


def raising(error):
    async def execute(call_id, params, signal, on_update):
        raise error

    return execute


@pytest.mark.requirement("TOOL-6", "TOOL-8", "RCHK-4")
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("row 7 is missing"), "row 7 is missing"),
        (ValueError(), "ValueError"),
        (ToolError("not today"), "not today"),
        (ToolError({"code": 7}), "{'code': 7}"),
        (Odd("boo"), "throw: Odd('boo')"),
        (SystemExit(3), "exit: SystemExit(3)"),
        (GeneratorExit(), "exit: GeneratorExit()"),
        (asyncio.CancelledError(), "exit: CancelledError()"),
        (Shy(), "Shy"),
    ],
)
async def test_what_a_tool_raises_is_what_its_result_says(tree, error, text):
    """An exception's message, or the kind and value of what is no exception; nothing escapes into the run."""
    result = await answer_of(raising(error))
    assert (get_text(result), result.is_error, result.details) == (text, True, None)


@pytest.mark.requirement("TOOL-6")
async def test_a_tool_that_ends_its_process_says_so_in_its_result(tree):
    """`exit_process` inside a tool ends the call, not the run."""

    async def execute(call_id, params, signal, on_update):
        exit_process("had enough")

    assert get_text(await answer_of(execute)) == "exit: 'had enough'"


async def test_the_cause_of_an_error_is_beside_its_text_for_programs(tree):
    """`error_info` of the event's result names the kind of failure; details stay the tool's own."""
    agent = await ScriptedAgent.start([[tool_call("subject")], "ok"], tools=[tool("subject", raising(KeyError("x")))])
    [end] = of_type(await agent.run("hi"), ToolExecutionEnd)

    assert end.result.error_info.type == "tool_exception"
    assert end.result.error_info.exception == "KeyError"
    assert end.result.details is None


@pytest.mark.requirement("TOOL-9")
async def test_the_model_is_not_asked_before_every_call_has_its_one_result(tree):
    """Bad, unknown, failing and good calls of one answer: each is answered once before the next model call."""
    calls = [
        tool_call("echo", "good", text="a"),
        tool_call("nothing", "unknown"),
        tool_call("echo", "bad", wrong=1),
        tool_call("breaks", "raises"),
        ToolCall("torn", "echo", {}, invalid='{"text": "a'),
    ]
    agent = await ScriptedAgent.start([calls, "ok"], tools=[ECHO, tool("breaks", raising(OSError("disk")))])
    events = await agent.run("hi")

    seen = agent.model.asked[1].messages
    assert [message.tool_call_id for message in seen if message.role == "tool_result"] == [call.id for call in calls]
    assert_transcript(seen)
    assert_well_formed(events)


@pytest.mark.requirement("TOOL-12")
async def test_a_hanging_tool_is_stopped_when_its_time_is_up(clocked_tree, fake_clock):
    """The call gets the timeout text after the time allowed, and its process is gone."""
    agent = await ScriptedAgent.start([held_calls(1), "ok"], tools=[Held().tool], tool_timeout_ms=1500)
    await Agent.prompt(agent.pid, "hi")
    await fake_clock.advance(1.4)
    assert len(await TaskSupervisor.children("tool_task_supervisor")) == 1
    await fake_clock.advance(0.2)
    events = await agent.events()

    assert get_text(results(events)[0]) == "Tool task timed out after 1500ms"
    assert await TaskSupervisor.children("tool_task_supervisor") == []
    assert_well_formed(events)


@pytest.mark.requirement("TOOL-12")
async def test_a_tools_own_time_limit_goes_before_the_agents(tree):
    """`AgentTool.timeout_ms` overrides `tool_timeout_ms`, in the text too."""
    quick = evolve(Held().tool, timeout_ms=10)
    agent = await ScriptedAgent.start([held_calls(1), "ok"], tools=[quick], tool_timeout_ms=60_000)
    assert get_text(results(await agent.run("hi"))[0]) == "Tool task timed out after 10ms"


@pytest.mark.requirement("TOOL-13", "HOOK-1")
async def test_arguments_are_checked_before_any_hook_or_tool_sees_them(tree):
    """Bad arguments are told to the model, path and all; neither the hook nor the tool is called."""
    seen = []
    ran = []
    agent = await ScriptedAgent.start(
        [[tool_call("note", text=7)], "ok"],
        tools=[adding(ran)],
        before_tool_call=lambda told, signal: seen.append(told),
    )
    [result] = results(await agent.run("hi"))

    assert get_text(result) == "Invalid tool arguments: text: expected string"
    assert (seen, ran) == ([], [])


async def test_a_call_whose_arguments_are_no_json_never_runs(tree):
    """Half a JSON object is not guessed at."""
    ran = []
    torn = ToolCall("torn", "note", {}, invalid='{"text": "a')
    agent = await ScriptedAgent.start([[torn], "ok"], tools=[adding(ran)])
    [result] = results(await agent.run("hi"))

    assert ran == []
    assert get_text(result).startswith("Invalid tool arguments: ")


async def test_a_tool_may_bend_old_arguments_into_todays_before_they_are_checked(tree):
    """`prepare_arguments` sees what the model wrote; the event still shows that."""
    ran = []
    older = evolve(adding(ran), prepare_arguments=lambda args: {"text": args["txt"]})
    agent = await ScriptedAgent.start([[tool_call("note", txt="a")], "ok"], tools=[older])
    [begun] = of_type(await agent.run("hi"), ToolExecutionStart)

    assert ran == [{"text": "a"}]
    assert begun.args == {"txt": "a"}


@pytest.mark.requirement("TOOL-14")
async def test_updates_of_a_tool_are_told_while_it_runs_and_ignored_afterwards(tree):
    """Each update carries id, name, checked arguments and the partial result; one that comes late says nothing."""
    late = []

    async def execute(call_id, params, signal, on_update):
        late.append(on_update)
        assert on_update(text_result("half")) is None
        return text_result("whole")

    subject = AgentTool("count", "", schema(to="integer"), execute)
    agent = await ScriptedAgent.start(
        [[tool_call("count", to="3")], ["...", tool_call("count", "again", to=1)]], tools=[subject]
    )
    await Agent.prompt(agent.pid, "hi")
    events = await until(ToolExecutionEnd)
    late[0](text_result("too late"))
    events += await agent.events()

    updates = [u for u in of_type(events, ToolExecutionUpdate) if u.tool_call_id == "count"]
    assert [(u.tool_name, u.args, get_text(u.partial_result)) for u in updates] == [("count", {"to": 3}, "half")]
    assert_well_formed(events)


async def test_a_flood_of_updates_leaves_room_for_what_counts(tree):
    """A hundred thousand updates cost bounded memory, the newest is told, and no start, end or result is lost."""

    async def execute(call_id, params, signal, on_update):
        for number in range(100_000):
            on_update(text_result(str(number)))
        return text_result("done")

    agent = await ScriptedAgent.start([[tool_call("flood")], "ok"], tools=[tool("flood", execute)], max_queue=100)
    events = await agent.run("hi")

    updates = of_type(events, ToolExecutionUpdate)
    assert len(updates) <= 100
    assert get_text(updates[-1].partial_result) == "99999"
    assert_well_formed(events)


async def test_updates_may_come_from_any_thread(tree):
    """A tool on a thread reports from there; the event is told before the call's end."""

    def execute(call_id, params, signal, on_update):
        on_update(text_result("from a thread"))
        time.sleep(0.02)
        return text_result("done")

    agent = await ScriptedAgent.start([[tool_call("threaded")], "ok"], tools=[tool("threaded", execute)])
    events = await agent.run("hi")

    assert [get_text(u.partial_result) for u in of_type(events, ToolExecutionUpdate)] == ["from a thread"]
    assert_well_formed(events)


@pytest.mark.requirement("TOOL-15", "HOOK-4")
async def test_the_end_of_a_call_is_told_after_the_hook_and_before_its_message(tree):
    """after_tool_call, tool_execution_end with what the hook made of the result, message_start, message_end."""
    order = []

    def after(told, signal):
        order.append("hook")
        return ToolOverride(content=(TextContent("changed"),))

    agent = await ScriptedAgent.start([[tool_call("echo", text="a")], "ok"], tools=[ECHO], after_tool_call=after)
    events = await agent.run("hi")

    place = next(index for index, event in enumerate(events) if isinstance(event, ToolExecutionEnd))
    assert get_text(events[place].result) == "changed"
    assert [event.type for event in events[place + 1 : place + 3]] == ["message_start", "message_end"]
    assert get_text(results(events)[0]) == "changed"
    assert order == ["hook"]


@pytest.mark.requirement("TOOL-16")
async def test_details_of_a_result_never_reach_the_model(tree):
    """What the model is sent of a result is its content; details stay in the transcript of the agent."""

    async def execute(call_id, params, signal, on_update):
        return AgentToolResult((TextContent("seen"),), {"secret": "CANARY"})

    agent = await ScriptedAgent.start([[tool_call("subject")], "ok"], tools=[tool("subject", execute)])
    await agent.run("hi")

    body = encode_body(ProviderRequest(MODEL, agent.model.asked[1]), dialect_of(MODEL))
    assert "seen" in repr(body)
    assert "CANARY" not in repr(body)
    assert (await agent.state()).messages[2].details == {"secret": "CANARY"}


@pytest.mark.requirement("TOOL-17")
async def test_a_result_can_bring_in_tools_for_the_turns_that_follow(tree):
    """Names in `added_tool_names` that the wider pool has are offered from the next call on, and said in a snapshot."""

    async def execute(call_id, params, signal, on_update):
        return AgentToolResult((TextContent("unlocked"),), added_tool_names=("note", "no_such_tool"))

    ran = []
    agent = await ScriptedAgent.start(
        [[tool_call("unlock")], [tool_call("note", text="a")], "ok"],
        tools=[tool("unlock", execute)],
        tool_pool=[adding(ran)],
    )
    events = await agent.run("hi")

    assert [[t.name for t in context.tools] for context in agent.model.asked] == [
        ["unlock"],
        ["unlock", "note"],
        ["unlock", "note"],
    ]
    assert [e.snapshot.tool_names for e in of_type(events, ToolSchemaSnapshotted)] == [("unlock",), ("unlock", "note")]
    assert ran == [{"text": "a"}]
    assert results(events)[0].added_tool_names == ("note", "no_such_tool")


@pytest.mark.requirement("TOOL-18")
@pytest.mark.parametrize(("hints", "calls"), [((True, True), 1), ((True, False), 2), ((True, None), 2)])
async def test_a_batch_ends_the_run_only_when_every_result_says_so(tree, hints, calls):
    """All results with `terminate` true: no further model call. Some: the model sees the results."""

    async def execute(call_id, params, signal, on_update):
        return AgentToolResult((TextContent("x"),), terminate=hints[int(call_id)])

    asked = [tool_call("end", "0"), tool_call("end", "1")]
    agent = await ScriptedAgent.start([asked, "ok"], tools=[tool("end", execute)])
    events = await agent.run("hi")

    assert len(agent.model.asked) == calls
    assert terminal(events).outcome == "completed"
    assert_well_formed(events)


@pytest.mark.requirement("TOOL-18")
async def test_follow_ups_are_still_taken_after_a_batch_that_ends_the_run(tree):
    """A terminating batch is like an answer without calls: what waits is taken up."""

    async def execute(call_id, params, signal, on_update):
        return AgentToolResult((TextContent("x"),), terminate=True)

    agent = await ScriptedAgent.start([[tool_call("end")], "ok"], tools=[tool("end", execute)])
    Agent.follow_up(agent.pid, "and now?")
    await agent.run("hi")
    assert len(agent.model.asked) == 2


@pytest.mark.requirement("TOOL-19")
@pytest.mark.parametrize("name", [" echo", "echo\u00a0", "\u2003echo\n", "\u3000echo\u2009"])
async def test_stray_spaces_around_a_tools_name_are_forgiven(tree, heard, name):
    """The tool is found, the result keeps the model's spelling, telemetry says what was matched."""
    agent = await ScriptedAgent.start([[ToolCall("c", name, {"text": "a"})], "ok"], tools=[ECHO])
    [result] = results(await agent.run("hi"))

    assert (get_text(result), result.tool_name) == ("a", name)
    assert heard.of("tool_call", "name_normalized") == [{"original_name": name, "matched_tool_name": "echo"}]


@pytest.mark.requirement("TOOL-19")
async def test_spaces_inside_a_name_count_as_one_and_letters_by_their_case(tree):
    """Any run of white space matches one blank; another case is another name; the first tool of a name counts."""
    first, second = adding([], "my tool"), adding([], "my  tool")
    agent = await ScriptedAgent.start(
        [[ToolCall("a", "my \u202f tool", {"text": "a"}), ToolCall("b", "My tool", {"text": "a"})], "ok"],
        tools=[first, second],
    )
    found, missed = results(await agent.run("hi"))
    assert (found.is_error, missed.is_error) == (False, True)


@pytest.mark.requirement("TOOL-20", "LIM-1.1")
@pytest.mark.parametrize("how", ["raise", "crash"])
async def test_a_call_is_never_made_twice_by_itself(tree, how):
    """Unless a tool asks for it, a call that fails is not repeated: its effect may have happened."""
    made = []

    async def execute(call_id, params, signal, on_update):
        made.append(call_id)
        if how == "raise":
            raise OSError("half way")
        await asyncio.sleep(30)

    agent = await ScriptedAgent.start([[tool_call("once")], "ok"], tools=[tool("once", execute)])
    await Agent.prompt(agent.pid, "hi")
    if how == "crash":
        await settle()
        [pid] = await TaskSupervisor.children("tool_task_supervisor")
        exit_signal(pid, "kill")
    assert results(await agent.events())[0].is_error
    assert made == ["once"]


@pytest.mark.requirement("LIM-1.2")
async def test_a_tool_that_says_it_may_be_repeated_is_after_a_pause(clocked_tree, fake_clock):
    """
    An idempotent tool with a retry rule is called again after the rule's pause, doubled each time; the call has one
    start, one result, and telemetry that counts the attempts.
    """
    from lemon_otp import telemetry
    from tests.lemon_agent.conftest import HEARD, Heard

    heard = Heard()
    telemetry.attach_many("attempts", HEARD, heard)
    made = []

    async def execute(call_id, params, signal, on_update):
        made.append(fake_clock.monotonic_s())
        if len(made) < 3:
            raise ConnectionError("not yet")
        return text_result("there")

    rule = RetryRule(max_attempts=3, backoff_ms=100)
    steady = AgentTool("steady", "", {"type": "object"}, execute, idempotent=True, retry=rule)
    agent = await ScriptedAgent.start([[tool_call("steady")], "ok"], tools=[steady])
    await Agent.prompt(agent.pid, "hi")
    await fake_clock.advance(1)
    events = await agent.events()

    assert [round(later - made[0], 3) for later in made] == [0.0, 0.1, 0.3]
    assert [get_text(result) for result in results(events)] == ["there"]
    assert len(heard.of("tool_task", "start")) == 1
    assert [entry["attempt"] for entry in heard.of("tool_task", "retry")] == [2, 3]
    assert [entry["attempt"] for entry in heard.of("tool_task", "end")] == [3]
    assert len(heard.of("tool_result", "emit")) == 1
    assert_well_formed(events)


@pytest.mark.requirement("LIM-1.2")
async def test_attempts_end_when_they_are_used_up_and_the_last_error_counts(tree):
    """The result of a call that failed every time is its last failure."""
    made = []

    async def execute(call_id, params, signal, on_update):
        made.append(call_id)
        raise ConnectionError(f"attempt {len(made)}")

    rule = RetryRule(max_attempts=2, backoff_ms=1)
    assert get_text(await answer_of(execute, idempotent=True, retry=rule)) == "attempt 2"


@pytest.mark.requirement("LIM-1.2")
async def test_a_crashed_attempt_is_repeated_and_a_timed_out_one_is_not(tree):
    """What became of a timed-out call nobody knows, so it is never made again, whatever the rule says."""
    made = []

    async def execute(call_id, params, signal, on_update):
        made.append(call_id)
        if len(made) == 1:
            exit_signal((await TaskSupervisor.children("tool_task_supervisor"))[0], "kill")
        await asyncio.sleep(30)

    rule = RetryRule(max_attempts=5, backoff_ms=1, retry_on=("tool_task_crashed", "tool_task_timeout"))
    result = await answer_of(execute, idempotent=True, retry=rule, timeout_ms=30)
    assert get_text(result) == "Tool task timed out after 30ms"
    assert len(made) == 2


@pytest.mark.requirement("LIM-1.2")
def test_only_a_tool_declared_idempotent_may_have_a_retry_rule():
    """The mistake is told where the tool is declared."""
    with pytest.raises(InvalidTool, match="idempotent"):
        AgentTool("write", "", {"type": "object"}, raising(OSError()), retry=RetryRule())


@pytest.mark.requirement("HOOK-2")
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Block("not in this folder"), "not in this folder"),
        ({"block": True, "reason": "not in this folder"}, "not in this folder"),
        (Block(), "Tool execution was blocked"),
        ({"block": False}, "a"),
        (None, "a"),
    ],
)
async def test_a_hook_can_keep_a_call_from_running(tree, answer, text):
    """A blocked call is an error result that says the reason, or that it was blocked; anything else lets it run."""
    agent = await ScriptedAgent.start(
        [[tool_call("echo", text="a")], "ok"], tools=[ECHO], before_tool_call=lambda told, signal: answer
    )
    [result] = results(await agent.run("hi"))
    assert get_text(result) == text
    assert result.is_error == (text != "a")


@pytest.mark.requirement("BR-084")
async def test_rejecting_one_of_two_calls_leaves_no_call_unanswered(tree):
    """The rejected call gets its reason, the other its own result, both before the next model call."""

    def only_b(told, signal):
        return Block("rejected") if told.tool_call.id == "a" else None

    calls = [tool_call("echo", "a", text="x"), tool_call("echo", "b", text="y")]
    agent = await ScriptedAgent.start([calls, "ok"], tools=[ECHO], before_tool_call=only_b)
    events = await agent.run("hi")

    assert [get_text(result) for result in results(events)] == ["rejected", "y"]
    assert_transcript(agent.model.asked[1].messages)


@pytest.mark.requirement("BR-082")
async def test_one_failing_call_does_not_cancel_its_siblings(tree):
    """An ordinary failure of one call is a result like any other; the other calls run to their end."""
    calls = [tool_call("breaks", "a"), *(tool_call("echo", f"c{n}", text=str(n)) for n in range(26))]
    agent = await ScriptedAgent.start([calls, "ok"], tools=[ECHO, tool("breaks", raising(ToolError("exit 1")))])
    events = await agent.run("hi")

    assert [result.is_error for result in results(events)] == [True, *[False] * 26]


@pytest.mark.requirement("HOOK-1", "HOOK-3", "HOOK-10")
async def test_hooks_around_parallel_calls_see_their_own_call_arguments_and_result(tree):
    """Each pair of hooks is told the same call, its coerced arguments and, afterwards, its own result."""
    before, after = [], []

    async def asked(told, signal):
        await asyncio.sleep(0)
        before.append(told)

    async def done(told, signal):
        await asyncio.sleep(0)
        after.append(told)

    calls = [tool_call("wait", f"c{n}", ticks=str(5 - n)) for n in range(5)]
    agent = await ScriptedAgent.start(
        [calls, "ok"], tools=[tool("wait", ticks="integer")], before_tool_call=asked, after_tool_call=done
    )
    events = await agent.run("hi")

    assert [told.tool_call.id for told in before] == [call.id for call in calls]
    assert {told.tool_call.id: told.args for told in before} == {f"c{n}": {"ticks": 5 - n} for n in range(5)}
    assert sorted(told.tool_call.id for told in after) == sorted(call.id for call in calls)
    for told in after:
        assert get_text(told.result) == told.tool_call.id
        assert told.args == {"ticks": 5 - int(told.tool_call.id[1:])}
        assert told.is_error is False
        assert told.assistant_message.content == tuple(calls)
        assert told.context.tools
    assert_well_formed(events)


@pytest.mark.requirement("HOOK-3")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ToolOverride(content=(TextContent("new"),)), ("new", {"length": 1}, False)),
        (ToolOverride(details=None), ("a", None, False)),
        (ToolOverride(is_error=True), ("a", {"length": 1}, True)),
        ({"details": {"other": 1}, "is_error": True}, ("a", {"other": 1}, True)),
        (None, ("a", {"length": 1}, False)),
    ],
)
async def test_a_hook_can_replace_single_fields_of_a_result(tree, answer, expected):
    """Each field given replaces the result's whole; absent ones keep theirs; nothing is merged."""
    agent = await ScriptedAgent.start(
        [[tool_call("echo", text="a")], "ok"], tools=[ECHO], after_tool_call=lambda told, signal: answer
    )
    [result] = results(await agent.run("hi"))
    assert (get_text(result), result.details, result.is_error) == expected


@pytest.mark.requirement("HOOK-2", "TOOL-18")
@pytest.mark.parametrize("answer", [Block("no", terminate=True), {"block": True, "reason": "no", "terminate": True}])
async def test_a_hook_that_blocks_can_end_the_run_too(tree, answer):
    """The result of the call that did not run carries the hint."""

    def refuse(call):
        return answer

    agent = await ScriptedAgent.start([tool_call("nop"), "never"], tools=[tool("nop")], before_tool_call=refuse)
    events = await agent.run("hi")

    assert [get_text(result) for result in results(events)] == ["no"]
    assert len(agent.model.asked) == 1
    assert terminal(events).outcome == "completed"


@pytest.mark.requirement("HOOK-3")
async def test_a_hook_can_make_a_result_end_the_run(tree):
    """`terminate` and `usage` are the hook's to replace, too."""
    from lemon_ai import Usage

    answer = ToolOverride(terminate=True, usage=Usage(input=5))
    agent = await ScriptedAgent.start(
        [[tool_call("echo", text="a")], "ok"], tools=[ECHO], after_tool_call=lambda told, signal: answer
    )
    events = await agent.run("hi")
    assert results(events)[0].usage == Usage(input=5)
    assert len(agent.model.asked) == 1


@pytest.mark.requirement("HOOK-9")
@pytest.mark.parametrize("which", ["before_tool_call", "after_tool_call"])
async def test_a_hook_around_a_call_that_raises_makes_its_result_an_error(tree, which):
    """Before the call it keeps it from running; after it, its message takes the result's place. The run goes on."""
    ran = []

    def hook(told, signal):
        raise PermissionError("the hook fell over")

    agent = await ScriptedAgent.start([[tool_call("note", text="a")], "ok"], tools=[adding(ran)], **{which: hook})
    events = await agent.run("hi")

    [result] = results(events)
    assert (get_text(result), result.is_error) == ("the hook fell over", True)
    assert ran == ([] if which == "before_tool_call" else [{"text": "a"}])
    assert terminal(events).outcome == "completed"


@pytest.mark.parametrize("which", ["before_tool_call", "after_tool_call"])
async def test_a_hook_that_hangs_is_given_up_after_its_time(clocked_tree, fake_clock, which):
    """A hook that does not answer within `hook_timeout_ms` makes the call's result an error; the run goes on."""

    async def hook(told, signal):
        await sleep_s(3600)

    agent = await ScriptedAgent.start(
        [[tool_call("echo", text="a")], "ok"], tools=[ECHO], hook_timeout_ms=2_000, **{which: hook}
    )
    await Agent.prompt(agent.pid, "hi")
    await fake_clock.advance(3)
    events = await agent.events()

    assert results(events)[0].is_error
    assert "hook" in get_text(results(events)[0])
    assert terminal(events).outcome == "completed"


async def test_preparing_is_done_one_call_after_the_other(tree):
    """The hook of the second call is asked only after that of the first has answered; executions overlap."""
    inside = []
    most = []

    async def hook(told, signal):
        inside.append(told.tool_call.id)
        most.append(len(inside))
        await asyncio.sleep(0.01)
        inside.remove(told.tool_call.id)

    held = Held()
    agent = await ScriptedAgent.start([held_calls(3), "ok"], tools=[held.tool], before_tool_call=hook)
    await Agent.prompt(agent.pid, "hi")
    while held.running < 3:
        await asyncio.sleep(0.005)
    held.let_go()
    await agent.events()
    assert most == [1, 1, 1]


@pytest.mark.requirement("BR-148")
async def test_a_blocking_tool_is_timed_out_at_its_time_and_its_sibling_beside_it(tree):
    """Two plain functions that sleep for six seconds under a limit of 50 ms: both end then, together."""

    def execute(call_id, params, signal, on_update):
        time.sleep(6)

    slow = AgentTool("slow", "", {"type": "object"}, execute, timeout_ms=50)
    agent = await ScriptedAgent.start(
        [[tool_call("slow", "a"), tool_call("slow", "b")], "ok"], tools=[slow], kill_grace_ms=50
    )
    began_s = time.monotonic()
    events = await agent.run("hi")

    assert time.monotonic() - began_s < 2
    assert [get_text(result) for result in results(events)] == ["Tool task timed out after 50ms"] * 2


@pytest.mark.requirement("BR-149")
async def test_a_blocking_tool_does_not_hold_up_anybody_else(tree):
    """While a plain function blocks in one agent, another agent's runs go on: it waits for them, in its own thread."""
    others_done = threading.Event()

    def execute(call_id, params, signal, on_update):
        return text_result("let go" if others_done.wait(20) else "held everybody up")

    blocked = await ScriptedAgent.start([[tool_call("slow")], "ok"], tools=[tool("slow", execute)])
    await Agent.prompt(blocked.pid, "hi")
    events = await until(ToolExecutionStart)
    for _ in range(20):
        free = await Agent.start_link(AgentOptions(model=MODEL, stream_fn=ScriptedModel(["x" * 400])))
        await Agent.prompt(free, "hi")
        await Agent.wait_for_idle(free)
    others_done.set()

    assert [get_text(result) for result in results(events + await blocked.events())] == ["let go"]


def double(call_id, params, signal, on_update):
    """A tool for a process of its own: nothing of ours can be called from there."""
    assert signal is None
    assert on_update is None
    return text_result(f"{params['text'] * 2} in {'another' if threading.main_thread() else 'this'} process")


def crash_hard(call_id, params, signal, on_update):
    """Take the whole process down, as a fault in a C library would."""
    import os

    os._exit(7)


async def test_a_tool_can_have_a_process_of_its_own(tree):
    """`on="process"`: it runs elsewhere and its result comes back; a crash there is a crash of the call only."""
    apart = AgentTool("double", "", schema(text="string"), double, on="process")
    fragile = AgentTool("fragile", "", {"type": "object"}, crash_hard, on="process")
    agent = await ScriptedAgent.start(
        [[tool_call("double", text="ab"), tool_call("fragile")], "ok"], tools=[apart, fragile]
    )
    events = await agent.run("hi")

    fine, broken = results(events)
    assert get_text(fine).startswith("abab")
    assert get_text(broken).startswith("Tool task crashed: ")
    assert terminal(events).outcome == "completed"
    assert sys.platform
