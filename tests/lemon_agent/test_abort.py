"""Abort: every part of a run hears it, and the run ends soon, well-formed, whatever its tools do."""

import asyncio
import contextlib
import os
import subprocess
import time

import pytest

from lemon_agent import (
    Agent,
    AgentTool,
    Block,
    MessageUpdate,
    ToolError,
    ToolExecutionStart,
    TurnEnd,
    process_group,
    signals_in_use,
    text_result,
)
from lemon_agent.testing import (
    Pause,
    ScriptedAgent,
    answers,
    assert_transcript,
    assert_well_formed,
    of_type,
    results,
    terminal,
    tool_call,
    until,
)
from lemon_ai import get_text
from lemon_otp import TaskSupervisor, sleep_s, zombies
from lemon_otp.testing import settle
from tests.lemon_agent.tools import ECHO, adding, tool


async def stubborn(call_id, params, signal, on_update):
    """Looks at no signal and swallows every cancellation for a while."""
    deadline_s = time.monotonic() + 5
    while time.monotonic() < deadline_s:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.02)


async def sleeper(call_id, params, signal, on_update):
    """Looks at no signal."""
    await asyncio.sleep(60)


async def started(agent, *, prompt="hi", kind=ToolExecutionStart):
    await Agent.prompt(agent.pid, prompt)
    events = await until(kind)
    await settle()
    return events


@pytest.mark.requirement("ABORT-1", "RCHK-7", "LIM-4.1", "LIM-4.2")
@pytest.mark.parametrize("execute", [sleeper, stubborn])
async def test_abort_ends_tools_that_do_not_listen_within_its_bound(clocked_tree, fake_clock, execute):
    """
    Neither a tool that looks at no signal nor one that swallows cancellation holds up the end of the run beyond the
    two graces; no process of it is left.
    """
    agent = await ScriptedAgent.start(
        [[tool_call("t", "a"), tool_call("t", "b")]], tools=[tool("t", execute)], abort_grace_ms=100, kill_grace_ms=200
    )
    events = await started(agent)
    Agent.abort(agent.pid)
    await fake_clock.advance(0.1)
    await fake_clock.advance(0.2)
    assert not (await agent.state()).is_streaming
    events += await agent.events()

    assert terminal(events).outcome == "aborted"
    assert await TaskSupervisor.children("tool_task_supervisor") == []
    assert_well_formed(events)


@pytest.mark.requirement("ABORT-2", "RCHK-9")
async def test_running_and_queued_calls_are_aborted_and_finished_ones_keep_their_result(tree):
    """
    One call done, one running, two waiting for a slot: the first keeps its result, the others get the abort text, in
    the order asked, each with its start and its end.
    """
    calls = [tool_call("echo", "a", text="done"), *(tool_call("t", name) for name in "bcd")]
    agent = await ScriptedAgent.start([calls], tools=[ECHO, tool("t", sleeper)], max_tool_concurrency=1)
    events = await started(agent)
    events += await until(lambda e: isinstance(e, ToolExecutionStart) and e.tool_call_id == "b")
    Agent.abort(agent.pid)
    events += await agent.events()

    assert [get_text(result) for result in results(events)] == ["done", *["Tool execution aborted"] * 3]
    assert [result.is_error for result in results(events)] == [False, True, True, True]
    assert [e.tool_call_id for e in of_type(events, ToolExecutionStart)] == ["a", "b", "c", "d"]
    [turn] = of_type(events, TurnEnd)
    assert len(turn.tool_results) == 4
    assert_well_formed(events)
    assert_transcript((await agent.state()).messages)


@pytest.mark.requirement("ABORT-3", "RCHK-8", "HOOK-8")
async def test_the_stream_the_tools_and_the_hooks_get_the_runs_own_signal(tree):
    """One signal object a run, the same for all that take one; a tool that waits for it can stop early."""
    seen = []

    async def listening(call_id, params, signal, on_update):
        seen.append(signal)
        reason = await signal.wait()
        return text_result(f"stopped: {reason}")

    def before(told, signal):
        seen.append(signal)

    async def transform(messages, signal):
        seen.append(signal)
        return messages

    agent = await ScriptedAgent.start(
        [[tool_call("listen")]], tools=[tool("listen", listening)], before_tool_call=before, transform_context=transform
    )
    events = await started(agent)
    Agent.abort(agent.pid, "lunch")
    events += await agent.events()

    assert len({id(signal) for signal in (*seen, *agent.model.signals)}) == 1
    assert seen[0].aborted
    assert get_text(results(events)[0]) == "stopped: lunch"
    assert terminal(events).reason == "lunch"


@pytest.mark.requirement("ABORT-2")
async def test_a_tool_that_fails_because_of_the_abort_is_told_as_aborted(tree):
    """The abort text comes first, what the tool had to say after it; nothing it said is lost."""

    async def listening(call_id, params, signal, on_update):
        await signal.wait()
        raise ToolError("killed after 3 of 7 files")

    agent = await ScriptedAgent.start([[tool_call("listen")]], tools=[tool("listen", listening)])
    events = await started(agent)
    Agent.abort(agent.pid)
    events += await agent.events()

    [result] = results(events)
    assert [block.text for block in result.content] == ["Tool execution aborted", "killed after 3 of 7 files"]
    assert result.is_error


@pytest.mark.requirement("ABORT-4", "RCHK-9")
async def test_abort_in_the_middle_of_an_answer_keeps_what_was_said(tree):
    """The partial text stays, with stop reason aborted, a message_end and a turn_end."""
    agent = await ScriptedAgent.start([["Once upon a t", Pause()]])
    events = await started(agent, kind=MessageUpdate)
    Agent.abort(agent.pid)
    events += await agent.events()

    [answer] = answers(events)
    assert (get_text(answer), answer.stop_reason) == ("Once upon a t", "aborted")
    [turn] = of_type(events, TurnEnd)
    assert (turn.message, turn.tool_results) == (answer, ())
    assert_well_formed(events)


@pytest.mark.requirement("ABORT-5", "ABORT-8")
async def test_abort_before_the_model_call_makes_no_call(tree):
    """A run aborted while its context is being prepared asks no provider, and still says a whole turn."""
    hold = asyncio.Event()

    async def transform(messages, signal):
        hold.set()
        await signal.wait()
        return messages

    agent = await ScriptedAgent.start(["never said"], transform_context=transform)
    await Agent.prompt(agent.pid, "hi")
    await hold.wait()
    Agent.abort(agent.pid)
    events = await agent.events()

    assert agent.model.asked == []
    assert answers(events)[0].error_message == "Request was aborted"
    assert terminal(events).outcome == "aborted"
    assert_well_formed(events)


@pytest.mark.requirement("ABORT-6")
@pytest.mark.parametrize("turn", [["...", Pause()], [tool_call("t")]])
async def test_after_an_abort_the_agent_is_idle_and_takes_the_next_prompt(tree, turn):
    """Idle, nothing pending, waiters released, signals off the table, and a transcript the next call accepts."""
    agent = await ScriptedAgent.start([turn, "fresh"], tools=[tool("t", sleeper)])
    await started(agent, kind=MessageUpdate)
    Agent.abort(agent.pid)
    await Agent.wait_for_idle(agent.pid, timeout_s=5)
    await agent.events()

    state = await agent.state()
    assert not state.is_streaming
    assert state.pending_tool_calls == frozenset()
    assert signals_in_use() == []
    assert terminal(await agent.run("again")).outcome == "completed"


@pytest.mark.requirement("BR-076")
async def test_an_interrupted_call_has_a_result_and_the_next_prompt_works(tree):
    """After an abort during a tool the model is shown the call and its aborted result, then the new prompt."""
    agent = await ScriptedAgent.start([[tool_call("t")], "fine"], tools=[tool("t", sleeper)])
    await started(agent)
    Agent.abort(agent.pid)
    await agent.events()
    await agent.run("go on")

    assert [message.role for message in agent.model.asked[1].messages] == ["user", "assistant", "tool_result", "user"]
    assert_transcript(agent.model.asked[1].messages)


@pytest.mark.requirement("ABORT-7")
async def test_queued_steering_is_not_injected_after_an_abort_and_stays_queued(tree):
    """The queues of an aborted agent are as they were; what waits for the next turn too."""
    agent = await ScriptedAgent.start([[tool_call("t")]], tools=[tool("t", sleeper)])
    await started(agent)
    Agent.steer(agent.pid, "left")
    Agent.follow_up(agent.pid, "then")
    Agent.next_turn(agent.pid, "later")
    Agent.abort(agent.pid)
    events = await agent.events()

    assert [m.role for m in terminal(events).messages] == ["user", "assistant", "tool_result"]
    queues = await Agent.queued(agent.pid)
    assert (queues.steering, queues.follow_up, queues.next_turn) == (("left",), ("then",), ("later",))


@pytest.mark.requirement("ABORT-8")
async def test_hooks_hear_the_abort_and_may_answer_safely(tree):
    """A transform may hand the messages back as they are; before_tool_call may block with a reason of its own."""
    agent = None

    async def before(told, signal):
        Agent.abort(agent.pid)
        while not signal.aborted:
            await sleep_s(0)
        await sleep_s(0)
        return Block("we are stopping")

    agent = await ScriptedAgent.start([[tool_call("echo", text="a")]], tools=[ECHO], before_tool_call=before)
    events = await agent.run("hi")

    [result] = results(events)
    assert (get_text(result), result.is_error) == ("we are stopping", True)
    assert terminal(events).outcome == "aborted"
    assert_well_formed(events)


@pytest.mark.requirement("ABORT-2", "ABORT-8")
async def test_a_call_whose_hook_hears_of_the_abort_and_allows_it_does_not_begin(tree):
    """Nothing is started for an aborted run, whatever the hook says; what had finished keeps its result."""
    ran = []

    def before(told, signal):
        if told.tool_call.id == "b":
            signal.abort("enough")

    async def after(told, signal):
        if told.tool_call.id == "a":
            await sleep_s(0)

    turn = [tool_call("note", "a", text="first"), tool_call("note", "b", text="second")]
    agent = await ScriptedAgent.start(
        [turn], tools=[adding(ran)], before_tool_call=before, after_tool_call=after, tool_execution="sequential"
    )
    events = await agent.run("hi")

    assert ran == [{"text": "first"}]
    assert [get_text(result) for result in results(events)] == ["noted", "Tool execution aborted"]
    assert_well_formed(events)


@pytest.mark.parametrize(
    "which",
    ["transform_context", "before_tool_call", "after_tool_call", "should_stop_after_turn", "prepare_next_turn"],
)
async def test_abort_ends_the_wait_for_any_hook(tree, which):
    """However long a hook takes, an abort does not wait for it."""

    async def hangs(*args):
        await asyncio.sleep(60)

    agent = await ScriptedAgent.start([[tool_call("echo", text="a")]], tools=[ECHO], **{which: hangs})
    await Agent.prompt(agent.pid, "hi")
    await asyncio.sleep(0.02)
    began_s = time.monotonic()
    Agent.abort(agent.pid)
    events = await agent.events()

    assert time.monotonic() - began_s < 1.5
    assert terminal(events).outcome == "aborted"
    assert_well_formed(events)


async def test_a_hook_that_will_not_be_stopped_holds_up_an_abort_only_so_long(clocked_tree, fake_clock):
    """
    A hook that swallows every cancellation: once the two graces and two seconds are over the loop itself is killed, the
    run is told as crashed with all its ends in place, and the agent takes the next prompt.
    """
    swallowed = []

    async def deaf(messages, signal):
        while len(swallowed) < 20:
            try:
                await sleep_s(3600)
            except asyncio.CancelledError:
                swallowed.append(len(swallowed))
        return messages

    agent = await ScriptedAgent.start(["fine"], transform_context=deaf, abort_grace_ms=100, kill_grace_ms=400)
    await Agent.prompt(agent.pid, "hi")
    await settle()
    Agent.abort(agent.pid)
    await fake_clock.advance(2.4)
    assert (await agent.state()).is_streaming
    await fake_clock.advance(0.2)
    events = await agent.events()
    assert terminal(events).reason == ("loop_crashed", "killed")
    assert_well_formed(events)
    assert not (await agent.state()).is_streaming
    swallowed.extend(range(20))


@pytest.mark.requirement("ABORT-11", "RCHK-10", "TEL-2")
@pytest.mark.parametrize("turn", [["...", Pause()], [tool_call("t")]])
async def test_an_aborted_run_ends_once_for_readers_and_for_telemetry(tree, heard, turn):
    """One terminal event, one loop.end, however often abort is said."""
    agent = await ScriptedAgent.start([turn], tools=[tool("t", sleeper)])
    events = await started(agent, kind=MessageUpdate)
    for _ in range(3):
        Agent.abort(agent.pid)
    events += await agent.events()
    Agent.abort(agent.pid)
    await Agent.wait_for_idle(agent.pid)

    assert_well_formed(events)
    assert len(heard.of("loop", "start")) == len(heard.of("loop", "end")) == 1


@pytest.mark.requirement("ABORT-12")
async def test_abort_closes_the_providers_stream(tree):
    """The stream that was being read is closed, so that its connection and its place in the queue are given back."""
    agent = await ScriptedAgent.start([["...", Pause()]])
    await started(agent, kind=MessageUpdate)
    Agent.abort(agent.pid)
    await agent.events()

    assert agent.model.given_up == 1


async def test_abort_of_an_idle_agent_does_nothing(tree):
    """Without a run there is nothing to abort, and the next prompt is not touched."""
    agent = await ScriptedAgent.start(["fine"])
    Agent.abort(agent.pid)
    assert terminal(await agent.run("hi")).outcome == "completed"


@pytest.mark.requirement("LIM-4.3")
async def test_a_thread_that_cannot_be_stopped_is_reported_and_its_late_result_dropped(tree, heard):
    """
    A plain function that blocks its thread beyond every grace: the run ends, telemetry names the orphan, and what the
    thread returns later changes nothing.
    """

    def execute(call_id, params, signal, on_update):
        time.sleep(0.5)
        on_update(text_result("late update"))
        return text_result("late result")

    agent = await ScriptedAgent.start(
        [[tool_call("block")], "fine"], tools=[tool("block", execute)], abort_grace_ms=20, kill_grace_ms=50
    )
    events = await started(agent)
    Agent.abort(agent.pid)
    events += await agent.events()

    assert get_text(results(events)[0]) == "Tool execution aborted"
    assert heard.of("tool_task", "orphaned") == [{"tool_name": "block", "tool_call_id": "block", "runs_on": "thread"}]
    before = (await agent.state()).messages
    await asyncio.sleep(0.6)
    assert (await agent.state()).messages == before
    assert terminal(await agent.run("again")).outcome == "completed"


async def test_a_thread_that_looks_at_the_signal_ends_by_itself_and_is_no_orphan(tree, heard):
    """`signal.wait_in_thread` wakes on the abort; the tool's own answer is kept."""

    def execute(call_id, params, signal, on_update):
        assert signal.wait_in_thread(30)
        return text_result("stopped in time")

    agent = await ScriptedAgent.start([[tool_call("block")]], tools=[tool("block", execute)])
    events = await started(agent)
    Agent.abort(agent.pid)
    events += await agent.events()

    assert get_text(results(events)[0]) == "stopped in time"
    assert heard.of("tool_task", "orphaned") == []


@pytest.mark.requirement("LIM-4.2", "BR-070", "BR-071")
@pytest.mark.parametrize("end", ["abort", "crash"])
async def test_a_tools_process_group_dies_with_its_call(tree, tmp_path, end):
    """
    A tool that runs a program which ignores SIGTERM and forks: when the call is ended by force, by an abort or by the
    death of the run, every process of the group is gone.
    """
    mark = tmp_path / "mark"
    program = f"trap '' TERM; (sleep 60 & echo $! > {mark}; wait) & wait"

    async def execute(call_id, params, signal, on_update):
        child = subprocess.Popen(["sh", "-c", program], start_new_session=True)
        try:
            with process_group(child.pid):
                while True:
                    try:
                        await asyncio.sleep(60)
                    except asyncio.CancelledError:
                        await asyncio.sleep(0.3)
        finally:
            child.wait()

    agent = await ScriptedAgent.start(
        [[tool_call("sh")]], tools=[tool("sh", execute)], abort_grace_ms=20, kill_grace_ms=60
    )
    await started(agent)
    while not (mark.exists() and mark.read_text().strip()):
        await asyncio.sleep(0.01)
    grandchild = int(mark.read_text())
    if end == "abort":
        Agent.abort(agent.pid)
    else:
        from lemon_otp import exit_signal

        [loop] = await TaskSupervisor.children("loop_task_supervisor")
        exit_signal(loop, "kill")
    await agent.events()

    deadline_s = time.monotonic() + 3
    while alive(grandchild):
        assert time.monotonic() < deadline_s, "the grandchild is still there"
        await asyncio.sleep(0.02)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().split(")")[1].split()[0] != "Z"


@pytest.mark.requirement("INV-1.4", "BR-074")
@pytest.mark.parametrize("end", ["abort", "kill the loop", "stop the agent"])
async def test_nothing_of_a_run_outlives_it(tree, end, runtime):
    """Provider stream, tool tasks, signal and event stream are all released, whichever way the run ends."""
    from lemon_otp import exit_signal, stop, unlink

    agent = await ScriptedAgent.start([[tool_call("t", "a"), tool_call("t", "b")]], tools=[tool("t", sleeper)])
    before = set(runtime.processes)
    await started(agent)
    assert len(runtime.processes) > len(before)
    if end == "abort":
        Agent.abort(agent.pid)
        await agent.events()
    elif end == "kill the loop":
        [loop] = await TaskSupervisor.children("loop_task_supervisor")
        exit_signal(loop, "kill")
        await agent.events()
    else:
        unlink(agent.pid)
        await stop(agent.pid)
        before.discard(agent.pid)
        await asyncio.sleep(0.15)
    await asyncio.sleep(0.15)
    await settle()

    assert set(runtime.processes) == before
    assert zombies() == []
    assert signals_in_use() == []


@pytest.mark.requirement("BR-080")
async def test_a_run_inside_a_tool_ends_with_the_outer_one(tree):
    """A tool that waits for an agent of its own hands the signal down; aborting the outer run ends the inner one."""
    inner = await ScriptedAgent.start([["thinking", Pause()]])

    async def delegate(call_id, params, signal, on_update):
        undo = signal.on_abort(lambda reason: Agent.abort(inner.pid, reason))
        try:
            await Agent.prompt(inner.pid, "sub-task")
            await Agent.wait_for_idle(inner.pid)
        finally:
            undo()
        return text_result("inner is done")

    outer = await ScriptedAgent.start([[tool_call("task")]], tools=[tool("task", delegate)])
    await Agent.prompt(outer.pid, "hi")
    await settle()
    Agent.abort(outer.pid)
    await Agent.wait_for_idle(outer.pid, timeout_s=5)

    assert not (await inner.state()).is_streaming


@pytest.mark.requirement("BR-079")
async def test_a_call_that_was_aborted_takes_no_effect_afterwards(tree):
    """A queued side effect of an aborted call is fenced off: its process is gone before its moment comes."""
    effects = []

    async def execute(call_id, params, signal, on_update):
        await sleep_s(0.4)
        effects.append(call_id)

    agent = await ScriptedAgent.start([[tool_call("later")]], tools=[tool("later", execute)], abort_grace_ms=20)
    await started(agent)
    Agent.abort(agent.pid)
    await agent.events()
    await asyncio.sleep(0.5)

    assert effects == []


@pytest.mark.requirement("BR-158", "BR-160")
async def test_prompts_and_aborts_in_turn_each_end_once(tree):
    """prompt, abort, prompt, abort, prompt: one terminal each, none of them late, the last one completes."""
    agent = await ScriptedAgent.start([["...", Pause()], ["...", Pause()], "done"])
    outcomes = []
    for _ in range(2):
        await started(agent, kind=MessageUpdate)
        Agent.abort(agent.pid)
        outcomes.append(terminal(await agent.events()).outcome)
    outcomes.append(terminal(await agent.run("last")).outcome)

    assert outcomes == ["aborted", "aborted", "completed"]


@pytest.mark.requirement("BR-157")
async def test_no_event_of_an_aborted_run_comes_after_its_end(tree):
    """While a tool still cleans up, the next prompt can begin, and its events are not mixed with older ones."""
    cleaned = []

    async def execute(call_id, params, signal, on_update):
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            on_update(text_result("still here"))
            cleaned.append(call_id)

    agent = await ScriptedAgent.start(
        [[tool_call("t")], "new"], tools=[tool("t", execute)], abort_grace_ms=10, kill_grace_ms=20
    )
    await started(agent)
    Agent.abort(agent.pid)
    await agent.events()
    events = await agent.run("again")
    await asyncio.sleep(0.15)

    assert_well_formed(events)
    assert cleaned == ["t"]


@pytest.mark.requirement("BR-159")
async def test_an_open_question_ends_with_the_abort(tree):
    """A hook that waits for a person's answer ends with the abort; its call gets a result and the turn ends."""
    asked = asyncio.Event()

    async def permission(told, signal):
        asked.set()
        await asyncio.Event().wait()

    agent = await ScriptedAgent.start([[tool_call("echo", text="a")]], tools=[ECHO], before_tool_call=permission)
    await Agent.prompt(agent.pid, "hi")
    await asked.wait()
    Agent.abort(agent.pid)
    events = await agent.events()

    assert get_text(results(events)[0]) == "Tool execution aborted"
    assert_well_formed(events)


@pytest.mark.requirement("LIM-4.2")
async def test_a_tool_in_its_own_process_is_killed(tree):
    """A tool that blocks a process of its own is stopped by ending that process; nothing is left to be reported."""
    apart = AgentTool("apart", "", {"type": "object"}, sleep_long, on="process")
    agent = await ScriptedAgent.start([[tool_call("apart")]], tools=[apart], abort_grace_ms=50, kill_grace_ms=1000)
    await started(agent)
    await asyncio.sleep(0.2)
    began_s = time.monotonic()
    Agent.abort(agent.pid)
    events = await agent.events()

    assert time.monotonic() - began_s < 1.5
    assert get_text(results(events)[0]) == "Tool execution aborted"


def sleep_long(call_id, params, signal, on_update):
    time.sleep(60)
