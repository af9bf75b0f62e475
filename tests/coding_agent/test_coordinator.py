"""A coordinator: subagents side by side, one result for each, and none left behind whatever happens."""

import json
import random
from pathlib import Path

import pytest

from coding_agent import client, session_registry
from coding_agent.coordinator import SUPERVISOR, Coordinator
from coding_agent.session_supervisor import start_session, stop_session
from coding_agent.storage.listing import list_sessions, newest_session
from coding_agent.subagents.coordinating import TASK_SUPERVISOR
from coding_agent.subagents.definitions import Definition
from coding_agent.subagents.delegate import subagents_of, with_subagents
from coding_agent.subagents.run_store import read_runs
from coding_agent.tools import default_tools
from lemon_agent import AgentTool, agent_registry, subagent_supervisor, text_result
from lemon_ai.testing import Call, ScriptedModel
from lemon_otp import (
    CallFailed,
    Down,
    DynamicSupervisor,
    TaskSupervisor,
    exit_signal,
    introspect,
    monitor,
    receive,
    self_pid,
    send,
    sleep_s,
    spawn,
    spawn_monitor,
    stop,
    sys,
)
from tests.coding_agent.subagents.conftest import last_words, obedient, said, team, team_of
from tests.flows.hosts import pids_with

__all__ = ["team"]


async def at_work(team, count: int):
    """The active runs, once so many have a session that is in its turn."""
    while True:
        views = [view for view in await Coordinator.view(team.coordinator) if view.status == "running"]
        agents = [pid for _, _, pid in agent_registry.list_by_session(team.options.session_id)]
        if len(views) >= count and len(agents) >= count + 1:
            return views
        await sleep_s(0.005)


def in_background(team, *specs, **how):
    """Ask for a run in another process; its answer comes to the test's mailbox."""
    me = self_pid()

    async def asking():
        try:
            send(me, ("answer", await team.run(*specs, **how)))
        except CallFailed as failed:
            send(me, ("answer", failed))

    return spawn(asking)


async def answer():
    return (await receive(lambda message: isinstance(message, tuple) and message[0] == "answer", timeout_s=15))[1]


async def gone(pid) -> None:
    watch = monitor(pid)
    await receive(lambda message: isinstance(message, Down) and message.ref is watch, timeout_s=10)


async def test_every_spec_gets_its_result_in_the_order_asked(team):
    """Three subagents with different work: three results, each under its own id, session and file."""
    results = await team.run(said("say one"), said("say two", subagent="review"), said("say three"))

    assert [(result.status, result.result, result.error) for result in results] == [
        ("completed", "one", None), ("completed", "two", None), ("completed", "three", None),
    ]  # fmt: skip
    assert len({result.id for result in results}) == len({result.session_file for result in results}) == 3
    assert await Coordinator.list_active(team.coordinator) == ()
    assert await team.sessions() == []
    assert await team.run() == ()


@pytest.mark.requirement("INV-4.1", "INV-3.1", "INV-3.2", "INV-3.3", "REG-2", "RCHK-17")
async def test_subagents_are_listed_while_they_work_and_nowhere_afterwards(team):
    """
    While they run each is in list_active, in the agent registry under (parent session, role, number) and below
    subagent_supervisor; when the call has returned they are in none of these.
    """
    in_background(team, said("wait a"), said("wait b", subagent="test"), timeout_ms=60_000)
    views = await at_work(team, 2)

    assert set(await Coordinator.list_active(team.coordinator)) == {view.id for view in views}
    listed = agent_registry.list_by_session(team.options.session_id)
    assert sorted((role, index) for role, index, _ in listed) == [("main", 0), ("subagent", 0), ("test", 1)]
    agents = {pid for role, _, pid in listed if role != "main"}
    assert agents == set(await subagent_supervisor.list_subagents())
    assert [pid for _, _, pid in agent_registry.list_by_role("test")] == [
        agent_registry.lookup((team.options.session_id, "test", 1))
    ]

    await Coordinator.abort_all(team.coordinator)
    assert [result.status for result in await answer()] == ["aborted", "aborted"]
    assert await subagent_supervisor.list_subagents() == []
    assert [role for role, _, _ in agent_registry.list_by_session(team.options.session_id)] == ["main"]


@pytest.mark.requirement("INV-4.2", "INV-3.4", "BR-031")
@pytest.mark.parametrize("victim", ["session", "agent", "runner"])
async def test_a_subagent_that_crashes_is_an_error_and_its_siblings_go_on(team, victim):
    """Whichever process of it is killed, its result is an error that says so; the other one completes."""
    in_background(team, said("wait for ever"), timeout_ms=60_000)
    await at_work(team, 1)
    pid = {
        "session": (await team.sessions())[0],
        "agent": agent_registry.lookup((team.options.session_id, "subagent", 0)),
        "runner": (await TaskSupervisor.children(TASK_SUPERVISOR))[0],
    }[victim]

    exit_signal(pid, "kill")
    (sibling,) = await team.run(said("say fine"))
    (crashed,) = await answer()

    assert (sibling.status, sibling.result) == ("completed", "fine")
    assert crashed.status == "error"
    assert "killed" in str(crashed.error)
    assert await Coordinator.list_active(team.coordinator) == ()
    await team.quiet()


async def test_a_run_that_ended_in_an_error_is_not_completed(team):
    """A refused key ends the subagent's run: error, with what the provider said; so does a name nobody knows."""
    failed, unknown, strange = await team.run(
        said("fail now"), said("say x", subagent="nobody"), said("say x", model="no-such/model")
    )

    assert failed.status == "error"
    assert "uthentication" in failed.error
    assert (unknown.status, unknown.error.split(";")[0]) == ("error", "Unknown subagent: nobody")
    assert strange.status == "error"
    assert "no-such/model" in strange.error


@pytest.mark.requirement("INV-4.3")
@pytest.mark.parametrize("end", ["stop", "crash", "kill", "supervisor"])
async def test_however_a_coordinator_ends_none_of_its_subagents_is_left(team, end):
    """Stopped, crashed, killed or stopped with its supervisor: its callers hear of it and its subagents are gone."""
    in_background(team, said("wait a"), said("wait b"), timeout_ms=60_000)
    await at_work(team, 2)
    sessions = await team.sessions()

    match end:
        case "stop":
            await stop(team.coordinator, "normal")
        case "crash":
            await sys.replace_state(team.coordinator, lambda state: "no state at all")
            with pytest.raises(CallFailed):
                await Coordinator.list_active(team.coordinator)
        case "kill":
            exit_signal(team.coordinator, "kill")
        case "supervisor":
            await DynamicSupervisor.terminate_child(SUPERVISOR, team.coordinator)
    for session in sessions:
        await gone(session)

    told = await answer()
    assert isinstance(told, CallFailed) or [result.status for result in told] == ["aborted", "aborted"]
    await team.quiet()
    assert await subagent_supervisor.list_subagents() == []
    assert await TaskSupervisor.children(TASK_SUPERVISOR) == []
    assert team.session.alive


@pytest.mark.requirement("INV-4.3", "INV-4.4")
@pytest.mark.parametrize("end", ["coordinator", "session"])
async def test_two_floors_of_subagents_go_with_the_first(host, end):
    """Subagents of subagents are gone too when the topmost coordinator, or the session of a person, is killed."""
    kind = Definition("lead", "d", "You lead.", ("task",))

    def play(request):
        lead = last_words(request) == "lead"
        return (Call("task", {"prompt": "wait x"}),) if lead else obedient(request)

    team = await team_of(host, turns=[play] * 20, extra=(kind,), depth=2)
    in_background(team, said("lead", subagent="lead"), said("lead", subagent="lead"), timeout_ms=60_000)
    while len(await team.sessions()) < 4:
        await sleep_s(0.01)

    exit_signal(team.coordinator if end == "coordinator" else team.session, "kill")
    await team.quiet()
    while await TaskSupervisor.children(TASK_SUPERVISOR):
        await sleep_s(0.01)

    assert await subagent_supervisor.list_subagents() == []
    left = {child.id for child in await DynamicSupervisor.which_children(SUPERVISOR)}
    assert left <= {f"coordinator[{team.options.session_id}]"}


@pytest.mark.requirement("INV-4.4")
@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_the_death_of_the_parent_session_takes_coordinator_and_subagents_along(team, end):
    """Stopped or killed, a session leaves neither its coordinator nor a subagent."""
    in_background(team, said("wait a"), said("wait b"), timeout_ms=60_000)
    await at_work(team, 2)

    await (stop_session(team.session) if end == "stop" else kill(team.session))
    await gone(team.coordinator)
    await team.quiet()

    assert await subagent_supervisor.list_subagents() == []
    assert await TaskSupervisor.children(TASK_SUPERVISOR) == []


async def kill(pid) -> None:
    exit_signal(pid, "kill")


@pytest.mark.requirement("INV-4.5")
async def test_a_deadline_stops_who_is_late_and_keeps_what_is_there(team):
    """
    One deadline for the call: who has completed keeps its result, the others count as timeout with what they had said,
    are stopped, and nothing is active when the call returns.
    """
    early, late, silent = await team.run(said("say early"), said("partly half of it"), said("wait x"), timeout_ms=1500)

    assert (early.status, early.result) == ("completed", "early")
    assert (late.status, late.error) == ("timeout", "timeout")
    assert late.result == "half of it"
    assert (silent.status, silent.result) == ("timeout", "")
    assert await Coordinator.list_active(team.coordinator) == ()
    assert await team.sessions() == []


@pytest.mark.requirement("INV-4.5", "BR-079")
async def test_a_deadline_ends_the_programs_of_a_subagent(host):
    """A program that a subagent's tool has started is gone when the call returns or a moment after."""
    marker = f"lemon-late-{random.randrange(10**9)}"
    call = Call("bash", {"command": f"exec -a {marker} sleep 600"})
    team = await team_of(host, turns=[[call]], tools=tuple(default_tools(str(host.folder))))

    in_background(team, said("go"), timeout_ms=1_500)
    while not pids_with(marker):
        await sleep_s(0.02)
    (late,) = await answer()

    assert late.status == "timeout"
    while pids_with(marker):
        await sleep_s(0.02)


@pytest.mark.requirement("ISO-3", "INV-4.4")
async def test_a_session_that_came_back_has_a_coordinator_of_its_own(host):
    """The subagents of the process that crashed are gone; the new one's first subagent is under a new coordinator."""
    options = with_subagents(await host.options(ScriptedModel(*[obedient] * 20)))
    session = await start_session(options, restart="transient")
    subagents = subagents_of(session, options.session_id)
    first = await subagents.coordinator()
    assert await subagents.coordinator() == first
    await subagents.run_in_background(said("wait x"))

    exit_signal(session, "kill")
    while (again := session_registry.lookup(options.session_id)) in (None, session):
        await sleep_s(0.005)
    (result,) = await subagents_of(again, options.session_id).run_all([said("say new")])

    assert result.result == "new"
    assert not first.alive
    statuses = {record.status for record in read_runs(options.session_file).values()}
    assert statuses == {"aborted", "completed"}


@pytest.mark.requirement("INV-4.5")
async def test_a_subagent_can_have_a_deadline_of_its_own(team):
    """Only the one that is late is stopped; the call goes on for the other."""
    late, fine = await team.run(said("wait x", timeout_ms=300), said("say fine"), timeout_ms=60_000)

    assert (late.status, fine.status) == ("timeout", "completed")


async def test_a_call_that_names_no_deadline_has_that_of_its_coordinator(host):
    """The default deadline stops a subagent that never answers."""
    team = await team_of(host, timeout_ms=300)

    assert [result.status for result in await team.run(said("wait x"))] == ["timeout"]


@pytest.mark.requirement("INV-4.6")
async def test_the_first_to_complete_wins_when_asked_for(team):
    """With until=first a failure decides nothing; the first that completes does, and the rest count as aborted."""
    results = await team.run(said("wait a"), said("fail b"), said("say c"), said("wait d"), until="first")

    assert [result.status for result in results] == ["aborted", "error", "completed", "aborted"]
    assert results[2].result == "c"
    assert await Coordinator.list_active(team.coordinator) == ()
    assert await team.sessions() == []


@pytest.mark.requirement("INV-4.6")
async def test_by_default_the_others_go_on_when_one_completes(team):
    """With until=all the one that has completed changes nothing for the one that has not."""
    in_background(team, said("say a"), said("wait b"), timeout_ms=60_000)
    while len(await Coordinator.list_active(team.coordinator)) != 1:
        await sleep_s(0.005)

    (left,) = await Coordinator.list_active(team.coordinator)
    view = await Coordinator.stop_one(team.coordinator, left)

    assert view.status == "aborted"
    assert [result.status for result in await answer()] == ["completed", "aborted"]


async def test_a_coordinator_answers_while_subagents_work(team):
    """Another call, a listing and an end for all are served during a run; abort_all is harmless when nothing runs."""
    in_background(team, said("wait a"), timeout_ms=60_000)
    await at_work(team, 1)

    assert [result.result for result in await team.run(said("say b"))] == ["b"]
    assert len(await Coordinator.list_active(team.coordinator)) == 1
    await Coordinator.abort_all(team.coordinator)
    assert await Coordinator.list_active(team.coordinator) == ()
    assert [result.status for result in await answer()] == ["aborted"]
    await Coordinator.abort_all(team.coordinator)
    await stop(team.coordinator)
    await Coordinator.abort_all(team.coordinator)


@pytest.mark.requirement("BR-080")
async def test_a_caller_that_ends_takes_its_subagents_along(team):
    """The process that waits for a run is killed: its subagents stop, those of others do not."""
    caller = in_background(team, said("wait a"), timeout_ms=60_000)
    await at_work(team, 1)

    exit_signal(caller, "kill")
    while await Coordinator.list_active(team.coordinator):
        await sleep_s(0.005)

    assert await team.sessions() == []


@pytest.mark.requirement("BR-080", "ABORT-1")
async def test_an_abort_of_the_parent_ends_the_subagent_it_waits_for(host):
    """The parent's model waits in its task call; the abort ends parent and subagent alike."""
    team = await team_of(host, turns=[[Call("task", {"prompt": "wait x"})], obedient, obedient])
    await client.prompt(team.session, "go")
    await at_work(team, 1)

    report = await client.abort(team.session)

    assert report.was_running
    await team.quiet()
    assert await Coordinator.list_active(team.coordinator) == ()


@pytest.mark.requirement("BR-059", "BR-062")
async def test_what_a_subagent_says_is_in_its_own_file_and_nowhere_else(host, team):
    """
    Its file names the parent's in its header and holds its conversation; the parent's file holds none of it, and a
    person's list of sessions, and what `--continue` takes up, are the parent's.
    """
    (result,) = await team.run(said("say only here", subagent="review"))
    await client.append_session_name(team.session, "mine")
    parent = (await client.get_state(team.session)).file

    header, *entries = [json.loads(line) for line in Path(result.session_file).read_text().splitlines()]
    assert header["parentSession"] == parent
    assert [entry["message"]["role"] for entry in entries if entry["type"] == "message"] == ["user", "assistant"]
    assert "only here" not in Path(parent).read_text()
    assert [str(summary.path) for summary in list_sessions(host.folder / "sessions")] == [parent]
    assert str(newest_session(host.folder, host.folder / "sessions")) == parent
    (record,) = read_runs(team.options.session_file).values()
    assert (record.status, record.session_file, record.parent_session) == (
        "completed", result.session_file, team.options.session_id,
    )  # fmt: skip


@pytest.mark.requirement("BR-118")
async def test_subagents_leave_no_process_behind(host):
    """Ten subagents one after the other, each with a tool call: as many processes as before the first."""

    async def look(call_id, params, signal, on_update):
        return text_result("seen")

    tool = AgentTool("look", "Looks.", {"type": "object", "properties": {}}, look)
    team = await team_of(host, tools=(tool,))
    await team.run(said("call look"))

    def count() -> int:
        return sum(1 for line in introspect.render(introspect.tree()).splitlines() if line.strip())

    before = count()
    for _ in range(10):
        (result,) = await team.run(said("call look"))
        assert (result.status, result.result) == ("completed", "Done.")

    assert count() == before


@pytest.mark.requirement("INV-4.2", "INV-4.3", "INV-4.4", "INV-4.5")
@pytest.mark.parametrize("seed", range(12))
async def test_nothing_is_left_when_processes_of_a_busy_tree_are_killed_at_random(host, seed):
    """
    Callers ask, subagents work, and processes are killed at random: coordinators, runners, sessions, agents, callers.
    Every caller that lives hears something, and when the parent session has stopped nothing of the tree is left.
    """
    dice = random.Random(seed)
    team = await team_of(host)
    callers = []
    for number in range(6):
        specs = [said(dice.choice(["say x", "wait y", "fail z", "partly w"])) for _ in range(dice.randint(1, 4))]
        how = {"until": dice.choice(["all", "first"]), "timeout_ms": dice.choice([400, 1200])}
        callers.append(spawn_monitor(asking, team.coordinator, specs, how))
        if number % 2:
            await sleep_s(dice.random() * 0.05)
        victims = [
            *await team.sessions(),
            *await TaskSupervisor.children(TASK_SUPERVISOR),
            *await subagent_supervisor.list_subagents(),
            *([team.coordinator] if dice.random() < 0.1 else []),
            *([callers[0][0]] if dice.random() < 0.2 else []),
        ]
        for victim in dice.sample(victims, min(len(victims), 2)):
            exit_signal(victim, "kill")

    for _, watch in callers:
        await receive(lambda message, watch=watch: isinstance(message, Down) and message.ref is watch, timeout_s=15)
    if team.coordinator.alive:
        assert await Coordinator.list_active(team.coordinator) == ()
    await stop_session(team.session)
    await team.quiet()
    while await TaskSupervisor.children(TASK_SUPERVISOR) or await subagent_supervisor.list_subagents():
        await sleep_s(0.01)
    assert agent_registry.list_by_session(team.options.session_id) == []


async def asking(coordinator, specs, how) -> None:
    try:
        results = await Coordinator.run_subagents(coordinator, specs, **how)
    except CallFailed:
        return
    assert len(results) == len(specs)
