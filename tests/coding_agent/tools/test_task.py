"""The task tool: what the model can ask of subagents, and how it hears of them."""

import json
from pathlib import Path

import pytest

from coding_agent import client
from coding_agent.coordinator import Coordinator
from coding_agent.events import Settled
from coding_agent.messages import CustomMessage
from coding_agent.subagents.definitions import Definition
from coding_agent.subagents.delegate import SubagentSettings, subagents_of
from coding_agent.subagents.protocol import SubagentSpec
from coding_agent.tools.task import PARAMETERS, task_tool
from lemon_agent import AgentTool, MessageEnd, ToolError, ToolExecutionUpdate, text_result
from lemon_ai import TextContent, ToolResultMessage
from lemon_ai.testing import Call, Delay, Say
from lemon_otp import self_pid, sleep_s, spawn
from tests.coding_agent.subagents.conftest import MANY, definitions, last_words, obedient, said, team, team_of
from tests.coding_agent.test_coordinator import at_work

__all__ = ["team"]


def tool_of(team) -> AgentTool:
    settings = SubagentSettings(definitions=definitions(), timeout_ms=None)
    delegate = subagents_of(team.session, team.options.session_id, settings)
    kinds = definitions()(team.options.cwd).by_name.values()
    known = definitions()(team.options.cwd).named
    return task_tool(str(team.options.cwd), delegate=delegate, kinds=kinds, known=known)


async def use(tool, **params) -> str:
    return (await tool.execute("c1", params, None, None)).content[0].text


def messages(events) -> list:
    return [event.event.message for event in events if isinstance(event.event, MessageEnd)]


def answered(events) -> list[str]:
    """The texts of the tool results among these events."""
    return [
        block.text
        for message in messages(events)
        if isinstance(message, ToolResultMessage)
        for block in message.content
        if isinstance(block, TextContent)
    ]


async def test_a_model_hands_work_to_a_subagent_and_gets_its_last_words(host):
    """The call's result is what the subagent said last, its details say which run and file it was."""
    team = await team_of(host, turns=[[Call("task", {"prompt": "say found", "role": "research"})], obedient, "Good."])
    await client.subscribe(team.session, self_pid())

    events = await host.run(team.session, "go")

    assert answered(events) == ["found"]
    (result,) = [message for message in messages(events) if isinstance(message, ToolResultMessage)]
    assert result.details["status"] == "completed"
    assert Path(result.details["session_file"]).exists()


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "prompt is required"),
        ({"prompt": "  "}, "prompt must not be empty"),
        ({"prompt": 3}, "prompt must be a string"),
        ({"prompt": "x", "role": "nobody"}, "Unknown role: nobody; there are: "),
        ({"action": "fly"}, "Unknown action: fly"),
        ({"action": "get"}, "task_id is required for action=get"),
        ({"action": "get", "task_id": "none"}, "Unknown task_id: none"),
        ({"action": "join"}, "task_ids is required for action=join"),
        ({"action": "join", "task_ids": ["none"]}, "Unknown task_id: none"),
        ({"action": "steer", "task_id": "none"}, "text is required for action=steer"),
        ({"action": "stop", "task_id": "none"}, "Unknown task_id: none"),
        ({"action": "answer", "task_id": "none", "text": "x"}, "Unknown task_id: none"),
    ],
)
async def test_what_cannot_be_done_says_why(team, params, words):
    """Every refusal is a tool error in plain words; nothing was started."""
    with pytest.raises(ToolError, match=words):
        await use(tool_of(team), **params)

    assert await Coordinator.list_active(team.coordinator) == ()


async def test_a_subagent_that_fails_or_is_late_is_an_error_with_what_it_had_said(team):
    """The model reads what went wrong and what there was before it did."""
    tool = tool_of(team)
    with pytest.raises(ToolError, match=r"Task failed: .*uthentication"):
        await use(tool, prompt="fail now")
    with pytest.raises(ToolError, match=r"(?s)Task timed out.*half of it"):
        await use(tool, prompt="partly half of it", timeout_ms=1_200)
    assert await use(tool, action="poll") != "No tasks."


async def test_the_tool_names_the_roles_and_its_actions(team):
    """The model can know what to ask for: each role with what it is good for, each action in the schema."""
    tool = tool_of(team)

    assert "- review: Reads a change" in tool.description
    assert PARAMETERS["properties"]["action"]["enum"] == ["run", "poll", "join", "get", "steer", "stop", "answer"]


async def test_work_in_the_background_is_polled_joined_and_got(team):
    """A queued run is seen at work, joined with another, and its whole result is there afterwards."""
    tool = tool_of(team)
    queued = await use(tool, prompt="say one", **{"async": True, "description": "first"})
    other = await use(tool, prompt="wait x", **{"async": True})
    one, two = (text.removeprefix("Task queued: ") for text in (queued, other))
    await at_work(team, 1)
    assert f"{two}: running" in await use(tool, action="poll", task_id=two)

    assert f"## {one}\none" in await use(tool, action="join", task_ids=[one, two], mode="wait_any")
    assert await use(tool, action="get", task_id=one) == "one"
    assert "aborted" in await use(tool, action="stop", task_id=two)
    joined = await use(tool, action="join", task_ids=[one, two])
    assert "Task was aborted" in joined
    with pytest.raises(ToolError, match="it has ended"):
        await use(tool, action="steer", task_id=two, text="more")


async def test_an_idle_parent_is_woken_when_its_background_work_is_done(host):
    """
    The end of a background run is a custom message in the conversation, with the run's id, and starts a run, in which
    the model reads it; it is stored in the parent's file.
    """
    turns = [[Call("task", {"prompt": "slow", "async": True})], "Started.", "Thanks."]

    def slow(request):
        return (Delay(100), Say("background result")) if last_words(request) == "slow" else other(request)

    def other(request):
        return turns.pop(0) if isinstance(turns[0], list) else (Say(turns.pop(0)),)

    team = await team_of(host, turns=[slow] * 10)
    await client.subscribe(team.session, self_pid())
    first = await host.run(team.session, "go")
    second = await host.until_settled()

    assert answered(first)[0].startswith("Task queued: ")
    (news,) = [message for message in messages(second) if isinstance(message, CustomMessage)]
    assert news.custom_type == "async_followup"
    assert "background result" in news.content
    assert news.details["status"] == "completed"
    assert [message.role for message in messages(second)] == ["custom", "assistant"]
    stored = [json.loads(line) for line in team.options.session_file.read_text().splitlines()]
    assert "background result" in json.dumps(stored[-2])


async def test_a_working_parent_hears_of_background_work_when_its_run_would_end(host):
    """While the parent is in a run the news waits in the queue: one run, which goes on with it."""
    turns = [
        [Call("task", {"prompt": "say quick", "async": True})],
        [Call("pause", {})],
        "Working.",
        "Heard it.",
    ]

    async def pause(call_id, params, signal, on_update):
        while not any(view.result for view in await Coordinator.view(team.coordinator)):
            await sleep_s(0.005)
        return text_result("rested")

    def play(request):
        if last_words(request) == "say quick" and request.context.messages[-1].role == "user":
            return (Say("quick result"),)
        return tuple(Say(step) if isinstance(step, str) else step for step in as_list(turns.pop(0)))

    pausing = AgentTool("pause", "Pauses.", {"type": "object", "properties": {}}, pause)
    team = await team_of(host, turns=[play] * 10, tools=(pausing,))
    await client.subscribe(team.session, self_pid())

    events = await host.run(team.session, "go")

    assert [message.role for message in messages(events)][-3:] == ["assistant", "custom", "assistant"]
    assert sum(isinstance(event.event, Settled) for event in events) == 1
    assert turns == []


def as_list(turn):
    return [turn] if isinstance(turn, str) else turn


async def test_a_joined_run_is_not_told_again(team):
    """Whoever waited for a background run has its result; the conversation gets no message about it."""
    tool = tool_of(team)
    run_id = (await use(tool, prompt="partly x", **{"async": True})).removeprefix("Task queued: ")
    await at_work(team, 1)
    await client.subscribe(team.session, self_pid())

    spawn(Coordinator.join, team.coordinator, [run_id])
    await sleep_s(0.05)
    await Coordinator.stop_one(team.coordinator, run_id)
    await sleep_s(0.05)

    assert [message.role for message in await client.get_messages(team.session)] == []


async def test_background_work_can_end_without_a_message(team):
    """With auto_followup false nobody is told; whoever looks finds the result, and what was noted with it."""
    tool = tool_of(team)
    params = {"prompt": "say one", "async": True, "auto_followup": False, "meta": {"ticket": 7}}
    queued = await tool.execute("c1", params, None, None)
    run_id = queued.details["task_id"]

    joined = await Coordinator.join(team.coordinator, [run_id])
    other = (await use(tool, prompt="say two", **{"async": True, "auto_followup": False})).removeprefix("Task queued: ")
    while not (await Coordinator.view(team.coordinator, [other]))[0].result:
        await sleep_s(0.005)
    await client.wait_for_idle(team.session)

    assert queued.details == {
        "task_id": run_id, "run_id": run_id, "status": "queued", "description": "", "meta": {"ticket": 7},
    }  # fmt: skip
    assert joined[0].result.result == "one"
    assert await client.get_messages(team.session) == ()
    assert await use(tool, action="get", task_id=other) == "two"


async def test_a_subagent_can_be_steered(host):
    """Text for a subagent at work reaches its model before the next call."""
    heard = []

    async def look(call_id, params, signal, on_update):
        while not heard:
            await sleep_s(0.005)
        return text_result("seen")

    def play(request):
        if request.context.messages[-1].role == "tool_result":
            return (Say("Done."),)
        words = last_words(request)
        return (Say(f"heard {words}"),) if words == "look left" else (Call("look", {}),)

    tool = AgentTool("look", "Looks.", {"type": "object", "properties": {}}, look)
    team = await team_of(host, turns=[play] * 10, tools=(tool,))
    run_id = await Coordinator.run_in_background(team.coordinator, SubagentSpec(prompt="begin"))
    while (await Coordinator.view(team.coordinator, [run_id]))[0].current_action is None:
        await sleep_s(0.005)

    await use(tool_of(team), action="steer", task_id=run_id, text="look left")
    heard.append(True)
    (view,) = await Coordinator.join(team.coordinator, [run_id])

    assert view.result.result == "heard look left"


async def test_a_subagent_has_what_its_definition_allows_and_cannot_start_others(host):
    """Only the parent's tools that are named, in the parent's order; the model, level and words it says; no task."""
    offered = []

    def look(request):
        offered.append(
            ([tool.name for tool in request.context.tools], request.options.reasoning, request.context.system_prompt)
        )
        return (Say("x"),)

    def tool(name: str) -> AgentTool:
        async def execute(call_id, params, signal, on_update):
            return text_result(name)

        return AgentTool(name, name, {"type": "object", "properties": {}}, execute)

    kind = Definition("narrow", "d", "You are narrow.", ("grep", "read", "task", "no-such"), None, "low")
    tools = tuple(map(tool, ("read", "write", "grep")))
    team = await team_of(host, turns=[look] * 4, tools=tools, extra=(kind,))
    await team.run(said("a", subagent="narrow"))
    await team.run(said("b", tools=("write",)))
    await team.run(said("c", thinking_level="high"))

    assert [names for names, _, _ in offered] == [
        ["read", "grep", "ask_parent"], ["write", "ask_parent"], ["read", "write", "grep", "ask_parent"],
    ]  # fmt: skip
    assert [level for _, level, _ in offered] == ["low", None, "high"]
    assert "You are narrow." in offered[0][2]


@pytest.mark.requirement("BR-120")
async def test_parents_that_wait_give_their_seats_to_their_children(host):
    """
    Eight seats, eight subagents, and each starts one of its own and waits: all sixteen come to their end.
    """
    kind = Definition("lead", "d", "You lead.", ("task",))

    def play(request):
        if request.context.messages[-1].role == "tool_result":
            return (Say("led"),)
        if last_words(request) == "lead":
            return (Call("task", {"prompt": "say leaf"}),)
        return (Say("leaf"),)

    team = await team_of(host, turns=[play] * MANY, extra=(kind,), depth=2)
    results = await team.run(*[said("lead", subagent="lead") for _ in range(8)], timeout_ms=20_000)

    assert [(result.status, result.result, result.error) for result in results] == [("completed", "led", None)] * 8
    await team.quiet()


async def test_a_question_reaches_the_parent_and_its_answer_the_subagent(host):
    """
    A background subagent asks, the parent's model is woken with the question and answers it with the task tool, and
    the subagent goes on with the answer.
    """

    def play(request):
        last, words = request.context.messages[-1], last_words(request)
        if words == "child" and last.role == "user":
            return (Call("ask_parent", {"question": "left or right?", "why_blocked": "two ways", "options": ["left"]}),)
        if words == "child":
            return (Say(f"I go {last.content[0].text}"),)
        if "left or right?" in words and last.role == "user":
            run_id = words.split()[1]
            return (Call("task", {"action": "answer", "task_id": run_id, "text": "left"}),)
        return (Say("ok"),)

    team = await team_of(host, turns=[play] * 20)
    run_id = await Coordinator.run_in_background(team.coordinator, SubagentSpec(prompt="child"))
    while (await Coordinator.view(team.coordinator, [run_id]))[0].result is None:
        await sleep_s(0.005)

    (view,) = await Coordinator.view(team.coordinator, [run_id])
    assert view.result.result == "I go left"


async def test_a_question_nobody_can_answer_is_answered_at_once(host):
    """In the foreground the parent waits for the subagent: it is told to decide itself, and its fallback counts."""
    asked = {"question": "which?", "why_blocked": "b", "can_continue_without_answer": True, "fallback": "the first"}

    def play(request):
        last = request.context.messages[-1]
        return (Say(last.content[0].text),) if last.role == "tool_result" else (Call("ask_parent", asked),)

    team = await team_of(host, turns=[play] * 4)
    (result,) = await team.run(said("child"), timeout_ms=20_000)

    assert result.status == "completed"
    assert "Go on with your fallback: the first" in result.result


async def test_a_question_waits_only_so_long(host):
    """No answer in time: the subagent hears that, and can go on."""
    asked = {"question": "which?", "why_blocked": "b", "timeout_ms": 50}

    def play(request):
        last = request.context.messages[-1]
        if last_words(request) != "child":
            return (Say("busy with something else"),)
        return (Say(last.content[0].text),) if last.role == "tool_result" else (Call("ask_parent", asked),)

    team = await team_of(host, turns=[play] * 8)
    run_id = await Coordinator.run_in_background(team.coordinator, SubagentSpec(prompt="child"))
    while (await Coordinator.view(team.coordinator, [run_id]))[0].result is None:
        await sleep_s(0.005)

    (view,) = await Coordinator.view(team.coordinator, [run_id])
    assert "the parent did not answer in time" in view.result.result


async def test_a_call_reports_what_its_subagent_is_doing(host):
    """While the parent's call waits, its updates name the tool its subagent is at."""

    async def look(call_id, params, signal, on_update):
        return text_result("seen")

    tool = AgentTool("look", "Looks.", {"type": "object", "properties": {}}, look)
    turns = [[Call("task", {"prompt": "call look"})], *[obedient] * 5]
    team = await team_of(host, turns=turns, tools=(tool,))
    await client.subscribe(team.session, self_pid())

    events = await host.run(team.session, "go")

    updates = [event.event.partial_result for event in events if isinstance(event.event, ToolExecutionUpdate)]
    assert [update.details["current_action"] for update in updates] == ["look", None]
    assert answered(events) == ["Done."]


async def test_the_progress_of_a_tool_call_is_seen_from_outside(host):
    """Polling says which tool a subagent is at."""

    async def look(call_id, params, signal, on_update):
        await sleep_s(600)

    tool = AgentTool("look", "Looks.", {"type": "object", "properties": {}}, look)
    team = await team_of(host, tools=(tool,))
    run_id = await Coordinator.run_in_background(team.coordinator, said("call look"))
    while (await Coordinator.view(team.coordinator, [run_id]))[0].current_action is None:
        await sleep_s(0.005)

    assert "at: look" in await use(tool_of(team), action="poll", task_id=run_id)
