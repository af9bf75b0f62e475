"""What the package says by telemetry: once for each thing, with nothing private in it."""

import asyncio

import pytest

from lemon_agent import Agent, AgentContext, AgentLoopConfig, AgentTool, MessageUpdate, agent_loop, text_result
from lemon_agent.testing import MODEL, Fails, Pause, ScriptedAgent, ScriptedModel, results, tool_call, until
from lemon_ai import get_text
from lemon_otp import TaskSupervisor, exit_signal, receive, spawn, telemetry
from lemon_otp.testing import settle
from tests.lemon_agent.conftest import HEARD
from tests.lemon_agent.tools import ECHO, tool
from tests.telemetry_catalogue import emitted, faults


async def sleeper(call_id, params, signal, on_update):
    await asyncio.sleep(60)


@pytest.mark.requirement("TEL-1")
async def test_a_run_says_once_that_it_begins_and_what_with(tree, heard):
    """Prompts, messages before them, tools and model; a continuation has no prompts."""
    agent = await ScriptedAgent.start(["a", "b"], tools=[ECHO])
    await agent.run("hi")
    Agent.follow_up(agent.pid, "more")
    await Agent.continue_(agent.pid)
    await agent.events()
    from lemon_agent import user_message

    await Agent.append_message(agent.pid, user_message("and?"))
    await Agent.continue_(agent.pid)
    await agent.events()

    fixed = {"tool_count": 1, "model": "told", "session_id": None}
    assert heard.of("loop", "start") == [
        {"prompt_count": 1, "message_count": 0, **fixed},
        {"prompt_count": 1, "message_count": 2, **fixed},
        {"prompt_count": 0, "message_count": 5, **fixed},
    ]
    assert all(set(measured) == {"system_time"} for measured in heard.measured("loop", "start"))


@pytest.mark.requirement("TEL-2")
@pytest.mark.parametrize("way", ["completed", "error", "abort", "budget", "stopped", "crash", "hook"])
async def test_a_run_says_once_that_it_is_over_on_every_path(tree, heard, way):
    """Duration, messages, model, and whether it came to its end or left early."""

    def broken(turn, signal):
        raise RuntimeError("hook")

    setups = {
        "completed": (["a"], {}),
        "error": ([["a", Fails("bad")]], {}),
        "abort": ([["a", Pause()]], {}),
        "budget": ([[tool_call("echo", text="a")]] * 3, {"max_tool_turns": 1}),
        "stopped": (["a"], {"should_stop_after_turn": lambda turn, signal: True}),
        "crash": ([["a", Pause()]], {}),
        "hook": (["a"], {"should_stop_after_turn": broken}),
    }
    turns, options = setups[way]
    agent = await ScriptedAgent.start(turns, tools=[ECHO], **options)
    await Agent.prompt(agent.pid, "hi")
    if way in ("abort", "crash"):
        await until(MessageUpdate)
        if way == "abort":
            Agent.abort(agent.pid)
        else:
            exit_signal((await TaskSupervisor.children("loop_task_supervisor"))[0], "kill")
    await agent.events()
    await settle()

    [end] = heard.of("loop", "end")
    [measured] = heard.measured("loop", "end")
    assert end["status"] == ("completed" if way in ("completed", "stopped") else "early_exit")
    assert end["model"] == "told"
    assert end["message_count"] >= 1
    assert measured["duration"] >= 0
    assert "system_time" in measured


@pytest.mark.requirement("TEL-2", "TEL-6")
@pytest.mark.parametrize("how", ["the owner dies", "the stream is cancelled", "the loop is killed"])
async def test_a_loop_that_is_ended_from_outside_closes_what_its_telemetry_opened(tree, heard, how):
    """Each call that was taken up is said to have failed, with the reason loop_ended, then the loop to have ended."""
    opened = []

    async def own():
        config = AgentLoopConfig(model=MODEL, stream_fn=ScriptedModel([[tool_call("t", "a"), tool_call("t", "b")]]))
        opened.append(await agent_loop("hi", AgentContext(tools=[tool("t", sleeper)]), config))
        await receive()

    owner = spawn(own)
    await settle()
    match how:
        case "the owner dies":
            exit_signal(owner, "kill")
        case "the stream is cancelled":
            opened[0].cancel("enough")
        case _:
            exit_signal((await TaskSupervisor.children("loop_task_supervisor"))[0], "kill")
    async for _ in opened[0].events():
        pass
    await settle()

    assert [told["tool_call_id"] for told in heard.of("tool_task", "start")] == ["a", "b"]
    failed = [(told["tool_call_id"], told["reason"]) for told in heard.of("tool_task", "error")]
    assert failed == [("a", "loop_ended"), ("b", "loop_ended")]
    assert [told["status"] for told in heard.of("loop", "end")] == ["early_exit"]
    names = [event[1:] for event, _, _ in heard.events]
    assert names.index(("tool_task", "error")) < names.index(("loop", "end"))


@pytest.mark.requirement("TEL-3", "TEL-4", "TEL-5", "TEL-6")
async def test_each_call_says_its_start_and_then_its_end_or_its_failure(tree, heard):
    """
    Returned, raised, unknown, bad arguments, crashed, timed out, aborted: one start each, and exactly one of end (with
    is_error) and error (with the reason).
    """

    async def raises(call_id, params, signal, on_update):
        raise ValueError("x")

    async def crashes(call_id, params, signal, on_update):
        [pid] = [p for p in await TaskSupervisor.children("tool_task_supervisor") if p.label == "tool_task[crashes]"]
        exit_signal(pid, "kill")
        await asyncio.sleep(60)

    calls = [
        tool_call("echo", "fine", text="a"),
        tool_call("raises"),
        tool_call("unknown"),
        tool_call("echo", "bad"),
        tool_call("crashes"),
        tool_call("slow"),
        tool_call("stuck"),
    ]
    slow = AgentTool("slow", "", {"type": "object"}, sleeper, timeout_ms=20)
    agent = await ScriptedAgent.start(
        [calls], tools=[ECHO, tool("raises", raises), tool("crashes", crashes), slow, tool("stuck", sleeper)]
    )
    await Agent.prompt(agent.pid, "hi")
    await asyncio.sleep(0.1)
    Agent.abort(agent.pid)
    await agent.events()

    started = [entry["tool_call_id"] for entry in heard.of("tool_task", "start")]
    assert started == [call.id for call in calls]
    ends = {entry["tool_call_id"]: entry["is_error"] for entry in heard.of("tool_task", "end")}
    assert ends == {"fine": False, "raises": True}
    errors = {entry["tool_call_id"]: entry["reason"] for entry in heard.of("tool_task", "error")}
    assert errors == {
        "unknown": "unknown_tool",
        "bad": "invalid_tool_arguments",
        "crashes": "killed",
        "slow": "timeout",
        "stuck": "aborted",
    }


@pytest.mark.requirement("TEL-5")
async def test_a_call_whose_task_cannot_be_started_says_why(tree, heard):
    """Without its supervisor a tool cannot run; the call gets an error result and telemetry the reason."""
    from lemon_otp import Supervisor

    agent = await ScriptedAgent.start([[tool_call("echo", text="a")], "ok"], tools=[ECHO])
    await Supervisor.terminate_child(tree, "tool_task_supervisor")
    [result] = results(await agent.run("hi"))
    assert get_text(result).startswith("Tool task failed to start: ")
    [error] = heard.of("tool_task", "error")
    assert error["reason"][0] == "start_failed"


@pytest.mark.requirement("TEL-7")
async def test_each_result_message_is_told_once(tree, heard):
    """Name, id, error and trust of every result that went into the transcript."""
    calls = [tool_call("echo", "a", text="x"), tool_call("nothing", "b")]
    agent = await ScriptedAgent.start([calls, "ok"], tools=[ECHO])
    await agent.run("hi")
    assert heard.of("tool_result", "emit") == [
        {"tool_name": "echo", "tool_call_id": "a", "is_error": False, "trust": "trusted"},
        {"tool_name": "nothing", "tool_call_id": "b", "is_error": True, "trust": "trusted"},
    ]


@pytest.mark.requirement("TEL-11")
async def test_a_handler_that_raises_is_detached_and_disturbs_nobody(tree):
    """It is called at once, in the process that speaks; when it raises the run goes on, and it is called no more."""
    called = []

    def broken(event, measurements, metadata, config):
        called.append(event)
        raise RuntimeError("handler")

    telemetry.attach("broken", ("lemon_agent", "loop", "start"), broken)
    agent = await ScriptedAgent.start(["a", "b"])
    await agent.run("hi")
    await agent.run("again")
    assert called == [("lemon_agent", "loop", "start")]


@pytest.mark.requirement("TEL-12")
async def test_nothing_private_is_told(tree, heard):
    """No prompt, no answer, no argument, no result and no key is anywhere in what telemetry was given."""

    async def secretive(call_id, params, signal, on_update):
        on_update(text_result("CANARY update"))
        return text_result("CANARY result", {"d": "CANARY details"})

    agent = await ScriptedAgent.start(
        ["CANARY", [tool_call("t", text="CANARY argument")], "CANARY answer"],
        tools=[tool("t", secretive, text="string")],
        system_prompt="CANARY system",
        get_api_key=lambda provider: "CANARY key",
    )
    await agent.run("CANARY prompt")
    await agent.run("CANARY again")
    assert len(heard.events) > 20
    assert "CANARY" not in repr(heard.events)


async def test_states_and_snapshots_are_told_as_they_are_said(tree, heard):
    """One event for each state and for each set of tools offered."""
    agent = await ScriptedAgent.start(["a"], tools=[ECHO])
    await agent.run("hi")
    assert [(entry["from"], entry["to"]) for entry in heard.of("loop", "state_transition")] == [
        (None, "initializing"),
        ("initializing", "await_model"),
        ("await_model", "normalizing_response"),
        ("normalizing_response", "finalizing"),
    ]
    [snapshot] = heard.of("tool_schema_snapshot", "created")
    assert (snapshot["tool_count"], snapshot["tool_names"]) == (1, ("echo",))


async def test_the_tree_shows_what_a_run_is_doing(tree):
    """Loop and tool processes carry small facts: phase, model, tool and its main argument, credentials taken out."""
    from lemon_otp import introspect

    shell = AgentTool("bash", "", {"type": "object"}, sleeper, main_argument="command")
    call = tool_call(
        "bash", description="x", command="curl  -H 'Authorization: Bearer sk-abcdefghijklmnop123456'\n url"
    )
    agent = await ScriptedAgent.start([[call]], tools=[shell], session_id="s1")
    await Agent.prompt(agent.pid, "hi")
    await settle()
    [loop] = await TaskSupervisor.children("loop_task_supervisor")
    [task] = await TaskSupervisor.children("tool_task_supervisor")

    assert introspect.info(loop).facts["phase"] == "tools"
    facts = introspect.info(task).facts
    assert (facts["phase"], facts["tool"]) == ("tool", "bash")
    assert facts["argument"].startswith("curl -H")
    assert "sk-abc" not in facts["argument"]
    assert introspect.info(agent.pid).facts["state"] == "running"
    Agent.abort(agent.pid)
    await agent.events()


def test_the_tests_listen_to_everything_the_package_says():
    """The list of events in conftest is all that emit sites say, so that nothing slips by unseen."""
    assert set(HEARD) == set(emitted("lemon_agent"))


@pytest.mark.requirement("TEL-13")
def test_the_catalogue_in_the_docs_is_what_the_source_says():
    """Every executed event is on the page with its keys and its meaning, and nothing else is."""
    assert faults() == []
