"""Runs as trees of steps, put together from telemetry."""

import gc

from coding_agent import client
from coding_agent.measuring.steps import Step, Steps
from coding_agent.session_supervisor import start_session
from coding_agent.subagents.delegate import with_subagents
from lemon_agent import AgentTool, text_result
from lemon_ai.testing import Call, Delay, Say, ScriptedModel
from lemon_otp import TaskSupervisor, exit_signal, receive, self_pid, telemetry
from lemon_otp.testing import settle


async def look(call_id, params, signal, on_update):
    return text_result("seen")


LOOK = AgentTool("look", "Looks.", {"type": "object", "properties": {}}, look)


class Told:
    def __init__(self) -> None:
        self.begun: list[Step] = []
        self.ended: list[Step] = []
        self.steps = Steps(self.begun.append, self.ended.append)
        self.steps.start("test")


async def test_a_run_is_told_as_turns_with_model_calls_and_tools_in_it(host):
    """Each step has its parent, its session, a beginning and an end; the run's end is the last."""
    told = Told()
    session = await host.session([Call("look", {})], "Done.", tools=(LOOK,))
    await host.run(session, "go")
    await settle()

    run = told.begun[0]
    assert [step.kind for step in told.begun] == ["run", "turn", "model", "tool", "turn", "model"]
    assert all(step.parent is run for step in told.begun[1:])
    assert {step.session_id for step in told.begun} == {run.session_id}
    assert told.ended[-1] is run
    assert set(told.ended) == set(told.begun)
    assert all(step.failure is None and step.ended_ms >= step.began_ms for step in told.ended)
    assert run.facts["turns"] == 2


async def test_subagents_side_by_side_are_each_below_their_own_call(host):
    """Two task calls of one message: each call holds the run that it asked for."""
    told = Told()
    both = [Call("task", {"prompt": "a", "description": "a"}), Call("task", {"prompt": "b", "description": "b"})]
    model = ScriptedModel(both, "One.", "Two.", "Done.")
    session = await start_session(with_subagents(await host.options(model)))
    await client.subscribe(session, self_pid())
    await host.run(session, "go")
    await settle()

    children = [step for step in told.begun if step.kind == "run" and step.parent is not None]
    assert len(children) == 2
    assert {child.parent.name for child in children} == {"task"}
    assert children[0].parent is not children[1].parent
    assert {child.name for child in children} == {"subagent"}


async def test_a_run_that_is_killed_ends_whatever_was_open_in_it(host):
    """Its loop dies in the middle of a model call: call, turn and run have ended badly, and nothing is remembered."""
    told = Told()
    session = await host.session([Say("Hel"), Delay(60_000), Say("lo")])
    await client.prompt(session, "go")
    while (await receive()).event.type != "message_update":
        pass
    exit_signal((await TaskSupervisor.children("loop_task_supervisor"))[0], "kill")
    await host.until_settled()
    await settle()

    assert set(told.ended) == set(told.begun)
    assert all(step.failure for step in told.ended)
    assert [told.steps._runs, told.steps._tools, told.steps._models] == [{}, {}, {}]


async def test_stopping_ends_what_is_under_way_and_lets_go_of_telemetry(host):
    """Nothing stays open, and nobody listens any more."""
    told = Told()
    session = await host.session([Say("Hel"), Delay(60_000), Say("lo")])
    await client.prompt(session, "go")
    while (await receive()).event.type != "message_update":
        pass
    told.steps.stop()

    assert set(told.ended) == set(told.begun)
    assert telemetry.list_handlers() == []
    await client.abort(session)


async def test_a_tools_process_is_remembered_only_while_somebody_may_ask_in_its_name(host):
    """Calls that are over do not pile up."""
    told = Told()
    session = await host.session(*[[Call("look", {})]] * 5, "Done.", tools=(LOOK,))
    await host.run(session, "go")
    await settle()
    gc.collect()
    assert len(told.steps._processes) <= 1
