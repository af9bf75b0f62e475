"""The tree of the package: its children, their order, and what the death of one does to the others."""

import asyncio

import pytest

from lemon_agent import APPLICATION, Agent, AgentOptions, agent_registry
from lemon_agent import subagent_supervisor as subagents
from lemon_agent.application import SUPERVISOR, children
from lemon_agent.testing import MODEL, Pause, ScriptedAgent, ScriptedModel, stop_tree, terminal
from lemon_otp import (
    Supervisor,
    TaskSupervisor,
    ensure_all_started,
    exit_signal,
    monitor,
    receive,
    running_applications,
    stop_application,
    trap_exit,
    unlink,
    whereis,
)
from lemon_otp.testing import settle

MANDATED = ["table_owner", "agent_registry", "subagent_supervisor", "loop_task_supervisor", "tool_task_supervisor"]
CHILDREN = [*MANDATED, "model_router"]


def pids():
    return {name: whereis(name) for name in CHILDREN}


@pytest.mark.requirement("TREE-1", "RCHK-24")
async def test_the_tree_has_its_five_children_in_their_order(tree):
    """table_owner, agent_registry, subagent_supervisor, loop_task_supervisor, tool_task_supervisor; extras after."""
    infos = await Supervisor.which_children(tree)
    assert [info.id for info in sorted(infos, key=lambda info: CHILDREN.index(info.id))] == CHILDREN
    assert [spec.id for spec in children()] == CHILDREN
    assert [spec.id for spec in children()][:5] == MANDATED
    assert {info.id: info.pid for info in infos} == pids()
    assert whereis(SUPERVISOR) is tree
    assert {info.id: info.kind for info in infos} == {
        **dict.fromkeys(MANDATED, "supervisor"),
        **dict.fromkeys(["table_owner", "model_router"], "worker"),
    }


@pytest.mark.requirement("TREE-2", "RCHK-26")
@pytest.mark.parametrize("victim", CHILDREN)
async def test_the_death_of_one_child_leaves_the_others_as_they_are(tree, victim):
    """Only the killed child has a new pid; an agent elsewhere keeps its conversation and runs on."""
    agent = await ScriptedAgent.start(["one", "two"])
    await agent.run("hi")
    before = pids()
    exit_signal(before[victim], "kill")
    await settle()
    after = pids()

    assert after[victim] not in (None, before[victim])
    assert {name: pid for name, pid in after.items() if name != victim} == {
        name: pid for name, pid in before.items() if name != victim
    }
    assert len((await agent.state()).messages) == 2
    assert terminal(await agent.run("again")).outcome == "completed"


@pytest.mark.requirement("TREE-2")
async def test_the_death_of_the_loop_supervisor_ends_the_runs_and_nothing_else(tree):
    """A run under way is told as crashed; the agent takes the next prompt under the new supervisor."""
    agent = await ScriptedAgent.start([["...", Pause()], "fine"])
    await Agent.prompt(agent.pid, "hi")
    await settle()
    exit_signal(whereis("loop_task_supervisor"), "kill")
    events = await agent.events()
    assert terminal(events).reason[0] == "loop_crashed"
    await settle()
    assert terminal(await agent.run("again")).outcome == "completed"


@pytest.mark.requirement("TREE-7")
async def test_too_many_deaths_in_a_short_time_end_the_whole_tree(tree):
    """The fourth within five seconds is more than the supervisor allows; everything below it ends with it."""
    trap_exit(True)
    before = pids()
    ref = monitor(tree)
    for _ in range(4):
        owner = whereis("table_owner")
        if owner is not None:
            exit_signal(owner, "kill")
        await settle()
    down = await receive(lambda message: getattr(message, "ref", None) is ref)
    assert down.reason == "shutdown"
    assert set(pids().values()) == {None}
    assert not any(pid.alive for pid in before.values())


@pytest.mark.requirement("TREE-7", "TREE-9")
async def test_the_tree_stops_in_reverse(tree):
    """The last child started is the first to end."""
    order = []
    for name, pid in pids().items():
        from lemon_otp import at_exit

        at_exit(pid, lambda _pid, _reason, name=name: order.append(name))
    await stop_tree()
    assert order == CHILDREN[::-1]


@pytest.mark.requirement("TREE-9")
async def test_an_agent_that_does_not_stop_is_killed_after_its_time(clocked_tree, fake_clock):
    """A subagent has five seconds; one that traps exits and looks at nothing is killed then."""
    from lemon_otp import ChildSpec, spawn_link

    async def stubborn():
        trap_exit(True)
        await asyncio.sleep(3600)

    async def start():
        return spawn_link(stubborn)

    pid = await subagents.start_child(ChildSpec("stubborn", start, restart="temporary", shutdown=subagents.SHUTDOWN_S))
    await settle()
    unlink(whereis(SUPERVISOR))
    exit_signal(whereis(SUPERVISOR), "shutdown")
    await fake_clock.advance(4.9)
    assert pid.alive
    await fake_clock.advance(0.2)
    assert not pid.alive


@pytest.mark.requirement("TREE-8", "RCHK-27")
async def test_the_application_comes_back_empty_after_a_stop(runtime):
    """Started, stopped and started again: all processes are there, no agent is registered any more."""
    started = await ensure_all_started(APPLICATION)
    assert started == ["lemon_ai", "lemon_agent"]
    agent = await Agent.start(
        AgentOptions(model=MODEL, stream_fn=ScriptedModel()), name=agent_registry.via(("s", "main", 0))
    )
    assert agent_registry.count() == 1
    before = pids()
    await stop_application("lemon_agent")
    assert set(pids().values()) == {None}
    assert not agent.alive

    await ensure_all_started(APPLICATION)
    assert "lemon_agent" in running_applications()
    assert all(pid is not None and pid.alive for pid in pids().values())
    assert not set(pids().values()) & set(before.values())
    assert agent_registry.count() == 0


async def test_children_of_the_task_supervisors_are_temporary(tree):
    """A loop or a tool that crashes is not started again and counts for nobody's limit."""
    agent = await ScriptedAgent.start([["...", Pause()]] * 8)
    before = pids()
    for _ in range(8):
        await Agent.prompt(agent.pid, "hi")
        await settle()
        [loop] = await TaskSupervisor.children("loop_task_supervisor")
        exit_signal(loop, "kill")
        await agent.events()
    assert pids() == before
