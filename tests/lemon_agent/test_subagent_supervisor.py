"""Agents under a supervisor: started, listed, stopped, reported."""

import pytest

from lemon_agent import Agent, AgentOptions, agent_registry
from lemon_agent import subagent_supervisor as subagents
from lemon_agent.testing import MODEL, Pause, ScriptedModel
from lemon_otp import AlreadyRegistered, AlreadyStarted, NotFound, TaskSupervisor, exit_signal, whereis
from lemon_otp.testing import settle


def options(*turns):
    return AgentOptions(model=MODEL, stream_fn=ScriptedModel(list(turns)), follow_up_window_ms=0)


@pytest.mark.requirement("INV-3.2", "TEL-7", "TEL-8")
async def test_subagents_are_listed_by_their_supervisor_and_their_start_is_told(tree, heard):
    """Each is a child; telemetry says its pid, its key and whether it has one."""
    key = ("s", "worker", 1)
    first = await subagents.start_subagent(options(), registry_key=key, name="ignored")
    second = await subagents.start_subagent(options(), name="helper")
    assert await subagents.list_subagents() == [first, second]
    assert await subagents.count() == 2
    assert whereis("helper") is second
    assert whereis("ignored") is None
    assert heard.of("subagent", "spawn") == [
        {"pid": first, "registry_key": key, "has_registry_key": True},
        {"pid": second, "registry_key": None, "has_registry_key": False},
    ]


@pytest.mark.requirement("TEL-9")
async def test_an_explicit_stop_is_told_once_and_a_crash_not_at_all(tree, heard):
    """Stopped: an end event with reason stopped; the second stop finds nothing. Crashed: nothing is said."""
    stopped = await subagents.start_subagent(options())
    await subagents.stop_subagent(stopped)
    with pytest.raises(NotFound):
        await subagents.stop_subagent(stopped)
    crashed = await subagents.start_subagent(options())
    exit_signal(crashed, "kill")
    await settle()
    assert heard.of("subagent", "end") == [{"pid": stopped, "reason": "stopped"}]
    assert await subagents.list_subagents() == []


async def test_a_start_that_fails_is_not_told(tree, heard):
    """The key or the name is taken: the error says by whom, and telemetry is silent."""
    key = ("s", "worker", 1)
    by_key = await subagents.start_subagent(options(), registry_key=key)
    by_name = await subagents.start_subagent(options(), name="helper")
    with pytest.raises(AlreadyRegistered) as registered:
        await subagents.start_subagent(options(), registry_key=key)
    with pytest.raises(AlreadyStarted) as started:
        await subagents.start_subagent(options(), name="helper")
    assert (registered.value.pid, started.value.pid) == (by_key, by_name)
    assert len(heard.of("subagent", "spawn")) == 2


async def test_a_crashed_subagent_is_not_started_again_and_the_supervisor_goes_on(tree):
    """Temporary children: however many crash, the supervisor and the others stay."""
    supervisor = whereis("subagent_supervisor")
    pids = [await subagents.start_subagent(options()) for _ in range(10)]
    for pid in pids[:9]:
        exit_signal(pid, "kill")
    await settle()
    assert whereis("subagent_supervisor") is supervisor
    assert await subagents.list_subagents() == pids[9:]


async def test_stopping_a_subagent_ends_its_run_too(tree):
    """Its loop and its tools go with it."""
    pid = await subagents.start_subagent(options(["...", Pause()]))
    await Agent.prompt(pid, "hi")
    await settle()
    assert len(await TaskSupervisor.children("loop_task_supervisor")) == 1
    await subagents.stop_subagent(pid)
    import asyncio

    await asyncio.sleep(0.15)
    assert await TaskSupervisor.children("loop_task_supervisor") == []


async def test_subagents_are_stopped_by_key_and_all_at_once(tree, heard):
    """By key: not found once it is gone. All: one end event each."""
    await subagents.start_subagent(options(), registry_key=("s", "worker", 1))
    await subagents.stop_subagent_by_key(("s", "worker", 1))
    with pytest.raises(NotFound):
        await subagents.stop_subagent_by_key(("s", "worker", 1))
    for number in range(3):
        await subagents.start_subagent(options(), registry_key=("s", "worker", number))
    assert await subagents.stop_all() == 3
    assert len(heard.of("subagent", "end")) == 4
    assert agent_registry.count() == 0


async def test_any_child_can_be_started_under_the_supervisor(tree):
    """`start_child` takes a specification of the caller's own."""
    spec = Agent.child_spec(options(), id="mine", name="mine", restart="temporary")
    assert await subagents.start_child(spec) is whereis("mine")
