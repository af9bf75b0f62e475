"""Extensions beside a session: what they hear, where they have a say, and what their failures do."""

import asyncio
import json
import os
import threading
from pathlib import Path

import pytest

from coding_agent import client
from coding_agent.errors import CompactionError
from coding_agent.extensions.api import Extension
from coding_agent.extensions.calling import HandlerFailed, call_handler
from coding_agent.extensions.joining import handle
from coding_agent.extensions.runner import Extensions
from coding_agent.session.protocol import model_name
from lemon_agent import AgentTool, Block, text_result
from lemon_ai import UserMessage, get_text
from lemon_ai.testing import Call
from lemon_otp import self_pid
from lemon_otp.testing import settle
from tests.coding_agent.extensions.conftest import failures


def tool(name="look", said="seen"):
    return AgentTool(name, "Looks.", {"type": "object", "properties": {}}, lambda *_: text_result(said))


def results(session_file):
    lines = [json.loads(line) for line in Path(session_file).read_text().splitlines()]
    return [line["message"] for line in lines if line.get("message", {}).get("role") == "toolResult"]


def on(event, handler):
    return lambda lemon: lemon.on(event, handler)


# What they hear.


async def test_handlers_hear_what_happens_in_order(host, extended):
    """From the session's start to its settling, the events under the names extensions know."""
    heard, settled = [], threading.Event()

    def register(lemon: Extension) -> None:
        for name in ("session_start", "agent_start", "message_end", "tool_execution_end", "turn_end", "agent_settled"):
            lemon.on(name, lambda event, session, name=name: heard.append(name))
        lemon.on("agent_settled", lambda event, session: settled.set())

    session = await extended(register, turns=([Call("look", {})], "done"), tools=(tool(),))
    await host.run(session, "hi")
    await client.wait_for_idle(session)
    assert await asyncio.to_thread(settled.wait, 30)  # the plain handlers run on threads
    assert [name for name in heard if name != "message_end"] == [
        "session_start",
        "agent_start",
        "tool_execution_end",
        "turn_end",
        "turn_end",
        "agent_settled",
    ]
    assert heard.count("message_end") == 4


async def test_a_handler_that_fails_is_told_and_the_next_one_still_hears(host, extended):
    """`extension_error` with the extension, the event and the words; the run is as if it were not there."""
    heard = []

    async def bad(event, session):
        raise ValueError("broken")

    async def good(event, session):
        heard.append(event.type)

    session = await extended(on("agent_start", bad), on("agent_start", good), turns=("done",))
    events = await host.run(session, "hi")
    while not failures(events):
        events += await host.until(object)
    assert ("/x0.py", "agent_start", "ValueError: broken") in failures(events)
    assert heard == ["agent_start"]


# Tool calls.


async def test_the_first_that_blocks_a_call_has_the_last_word(host, extended):
    """The reason goes to the model; nobody behind it is asked, the permission gate neither."""
    asked = []

    async def block(event, session):
        asked.append((event.tool_name, dict(event.input)))
        return {"block": True, "reason": "not today"}

    async def later(event, session):
        asked.append("later")

    session = await extended(
        on("tool_call", block),
        on("tool_call", later),
        turns=([Call("look", {})], "done"),
        tools=(tool(),),
        companions=(lambda *_: {"before_tool_call": lambda *_: asked.append("gate")},),
    )
    await host.run(session, "hi")
    (result,) = results((await client.get_state(session)).file)
    assert result["isError"]
    assert "not today" in result["content"][0]["text"]
    assert asked == [("look", {})]


async def test_what_stood_at_the_hook_before_still_has_its_say(host, extended):
    """An extension that has nothing against a call does not get it past the gate."""

    async def fine(event, session):
        return None

    session = await extended(
        on("tool_call", fine),
        turns=([Call("look", {})], "done"),
        tools=(tool(),),
        companions=(lambda *_: {"before_tool_call": lambda *_: Block("the gate says no")},),
    )
    await host.run(session, "hi")
    (result,) = results((await client.get_state(session)).file)
    assert "the gate says no" in result["content"][0]["text"]


@pytest.mark.parametrize("how", ["raises", "hangs", "hangs on a thread", "answers nonsense"])
async def test_a_handler_that_cannot_judge_a_call_stops_it(host, extended, how):
    """The one place where a failure means no. One that hangs is bounded, on a thread too, and the run goes on."""
    release = threading.Event()

    async def raises(event, session):
        raise RuntimeError("oops")

    async def hangs(event, session):
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    def blocks(event, session):
        release.wait(60)

    async def nonsense(event, session):
        return "yes"

    handler = {"raises": raises, "hangs": hangs, "hangs on a thread": blocks, "answers nonsense": nonsense}[how]
    session = await extended(
        on("tool_call", handler), turns=([Call("look", {})], "done"), tools=(tool(),), handler_s=0.2
    )
    try:
        events = await host.run(session, "hi")
    finally:
        release.set()
    (result,) = results((await client.get_state(session)).file)
    assert result["isError"]
    assert "could not judge this call" in result["content"][0]["text"]
    assert [name for _, name, _ in failures(events)] == ["tool_call"]


async def test_results_are_changed_part_by_part_each_from_the_one_before(host, extended):
    """The first changes the text, the second the details: both hold, and the second saw the first's text."""
    seen = []

    async def text(event, session):
        from lemon_ai import TextContent

        return {"content": [TextContent("better")]}

    async def details(event, session):
        seen.append(event.content[0].text)
        return {"details": {"checked": True}}

    session = await extended(
        on("tool_result", text),
        on("tool_result", details),
        turns=([Call("look", {})], "done"),
        tools=(tool(),),
    )
    await host.run(session, "hi")
    (result,) = results((await client.get_state(session)).file)
    assert result["content"][0]["text"] == "better"
    assert result["details"] == {"checked": True}
    assert seen == ["better"]


# Model calls.


async def test_the_context_is_changed_for_one_call_and_not_for_the_session(host, extended):
    """Each list is made from the one before; the file holds what was said."""

    async def add(event, session):
        return {"messages": [*event.messages, UserMessage("added")]}

    session = await extended(on("context", add), on("context", add), turns=("done",))
    await host.run(session, "hi")
    (request,) = extended.model.requests
    assert [get_text(message) for message in request.context.messages] == ["hi", "added", "added"]
    assert "added" not in Path((await client.get_state(session)).file).read_text()


async def test_a_context_no_model_would_take_is_passed_over(host, extended):
    """A result without its call would end the run at the provider; it is told instead."""

    async def broken(event, session):
        return {"messages": list(event.messages)[1:]}

    async def nonsense(event, session):
        return {"messages": ["hi"]}

    session = await extended(
        on("context", broken), on("context", nonsense), turns=([Call("look", {})], "done"), tools=(tool(),)
    )
    events = await host.run(session, "hi")
    assert {name for _, name, _ in failures(events)} == {"context"}
    assert [event.event.outcome for event in events if event.event.type == "settled"] == ["completed"]


async def test_request_options_are_patched_in_turn(host, extended):
    """Scalars replace; headers go name by name, None takes one away; an option nobody knows is told."""

    async def first(event, session):
        return {"options": {"temperature": 0.5, "headers": {"a": "1", "b": "2"}}}

    async def second(event, session):
        return {"options": {"headers": {"a": None, "c": "3"}}}

    async def third(event, session):
        return {"options": {"warmth": 1}}

    session = await extended(*(on("before_provider_request", each) for each in (first, second, third)), turns=("done",))
    events = await host.run(session, "hi")
    (request,) = extended.model.requests
    assert request.options.temperature == 0.5
    assert dict(request.options.headers) == {"b": "2", "c": "3"}
    assert failures(events) == [("/x2.py", "before_provider_request", "there is no option 'warmth'")]


async def test_a_payload_is_changed_in_turn_and_one_that_hangs_is_bounded_and_told(host, extended):
    """Async or plain, as everywhere; the body is that of whoever answered in time."""

    async def first(event, session):
        return {"payload": {**event.payload, "session": (await session.state()).session_id}}

    def second(event, session):
        threading.Event().wait()

    async def third(event, session):
        return {"payload": {**event.payload, "model": event.model}}

    session = await extended(
        *(on("before_provider_payload", each) for each in (first, second, third)), turns=("done",), handler_s=0.2
    )
    state = await client.get_state(session)
    await host.run(session, "hi")
    (request,) = extended.model.requests
    body = await request.options.on_payload({"a": 1})
    assert body == {"a": 1, "session": state.session_id, "model": model_name(request.model)}
    await client.prompt(session, "again")
    assert "did not answer within 0.2 seconds" in failures(await host.until_settled())[0][2]


# Runs.


async def test_before_a_run_messages_come_together_and_prompts_are_made_one_from_the_other(host, extended):
    """Messages of the extensions stand behind the person's and are stored; the system prompt is for this run."""

    async def first(event, session):
        return {"messages": [{"custom_type": "note", "content": "one"}], "system_prompt": event.system_prompt + " +1"}

    async def second(event, session):
        return {"messages": [{"custom_type": "note", "content": "two"}], "system_prompt": event.system_prompt + " +2"}

    session = await extended(
        on("before_agent_start", first), on("before_agent_start", second), turns=("done", "done again")
    )
    await host.run(session, "hi")
    request = extended.model.requests[0]
    assert request.context.system_prompt.endswith(" +1 +2")
    assert [get_text(message) for message in request.context.messages] == ["hi", "one", "two"]
    assert "+1" not in (await client.get_options(session)).system_prompt_for(())


async def test_a_handler_may_ask_the_session_while_a_run_waits_for_it(host, extended):
    """The session answers: it is not the session's own process that waits."""

    async def handler(event, session):
        state = await session.state()
        await session.append_entry("seen", {"phase": state.phase})
        await session.set_session_name("named")

    session = await extended(on("before_agent_start", handler), turns=("done",))
    await host.run(session, "hi")
    assert (await client.get_state(session)).name == "named"


async def test_an_abort_ends_the_wait_for_a_handler(host, extended):
    """The run that had not begun is over; the next prompt is taken."""
    waiting = asyncio.Event()

    async def handler(event, session):
        if event.prompt == "first":
            waiting.set()
            await asyncio.Event().wait()

    session = await extended(on("before_agent_start", handler), turns=("done",), handler_s=60.0)
    await client.prompt(session, "first")
    await waiting.wait()
    assert (await client.abort(session)).was_running
    await host.until_settled()
    events = await host.run(session, "second")
    assert events[-1].event.outcome == "completed"
    assert len(extended.model.requests) == 1


async def test_one_that_hangs_before_a_run_is_bounded_and_told(host, extended):
    """The run begins without it."""

    async def handler(event, session):
        await asyncio.Event().wait()

    session = await extended(on("before_agent_start", handler), turns=("done",), handler_s=0.1)
    events = await host.run(session, "hi")
    assert events[-1].event.outcome == "completed"
    assert "did not answer within" in failures(events)[0][2]


# Compaction and the tree.


async def test_a_compaction_can_be_cancelled_or_given_its_summary(host, extended):
    """The first that cancels has the last word; a summary stands in for the model's."""
    answers = [{"cancel": True}, {"summary": "what I know"}]
    told = []

    async def handler(event, session):
        told.append((event.reason, len(event.messages) > 0))
        return answers.pop(0)

    session = await extended(on("session_before_compact", handler), turns=("one", "two", "three"))
    for prompt in ("a", "b", "c"):
        await host.run(session, prompt)
    with pytest.raises(CompactionError, match="against it"):
        await client.compact(session)
    await host.until_settled()
    end = await client.compact(session)
    assert end.summary == "what I know"
    stored = await client.look(session, lambda store: store.last_compaction())
    assert (stored.from_hook, stored.usage, stored.details) == (True, None, None)
    assert told == [("manual", True), ("manual", True)]
    assert len(extended.model.requests) == 3


async def test_without_an_answer_the_model_writes_the_summary(host, extended):
    """Hearing of it changes nothing."""

    async def handler(event, session):
        return None

    session = await extended(on("session_before_compact", handler), turns=("one", "two", "three", "the summary"))
    for prompt in ("a", "b", "c"):
        await host.run(session, prompt)
    assert "the summary" in (await client.compact(session)).summary


async def test_a_move_in_the_tree_can_be_cancelled_labelled_or_given_its_summary(host, extended):
    """It stays, or goes with what was answered."""
    answers = [{"cancel": True}, {"label": "here"}, {"summary": "left behind"}]

    async def handler(event, session):
        return answers.pop(0)

    session = await extended(on("session_before_tree", handler), turns=("one", "two"))
    there = next(event.entry_id for event in reversed(await host.run(session, "a")) if event.entry_id)
    target = next(event.entry_id for event in reversed(await host.run(session, "b")) if event.entry_id)

    assert (await client.navigate_tree(session, there)).cancelled
    await host.until_settled()
    moved = await client.navigate_tree(session, there)
    assert not moved.cancelled
    await host.until_settled()
    assert "here" in Path((await client.get_state(session)).file).read_text()
    back = await client.navigate_tree(session, target)
    assert back.summary_entry_id is not None
    assert "left behind" in Path((await client.get_state(session)).file).read_text()


# What they bring.


async def test_tools_of_extensions_are_the_sessions_and_names_that_are_taken_are_said(host, extended):
    """One made for the working folder among them; a built-in name is never taken over."""
    from coding_agent.extensions.joining import with_extensions
    from lemon_ai.testing import ScriptedModel

    lemon = Extension("x", "/x.py")
    lemon.register_tool(tool("mine"))
    lemon.register_tool(lambda cwd: tool("made", cwd))
    lemon.register_tool(tool("look"))
    lemon.register_tool(lambda cwd: 1 / 0)
    lemon.register_tool(lambda cwd: "no tool")
    problems: list[str] = []
    options = await host.options(ScriptedModel("done"), tools=(tool("look"),))
    joined = with_extensions(options, Extensions([lemon]), problems=problems)
    assert [each.name for each in joined.tools] == ["look", "mine", "made"]
    assert [each.split(": ", 1)[1] for each in problems] == [
        "the tool name look is taken",
        "a tool cannot be made: ZeroDivisionError: division by zero",
        "'no tool' is no AgentTool",
    ]


async def test_what_an_extension_can_do_with_a_session(host, extended, tmp_path):
    """Messages, names, labels, tools, model, level, programs: each reaches the session."""
    session_pid = await extended(lambda lemon: lemon.on("turn_end", lambda *_: None), turns=("one", "two", "three"))
    lemon = Extension("x", "/x.py")
    lemon.register_command("count", lambda args, session: None, description="Counts.")
    session = handle(Extensions([lemon]), session_pid, tmp_path, None)
    assert [(command.name, command.source) for command in await session.commands()] == [("count", "extension")]
    await host.run(session_pid, "hi")
    await session.send_message("note", "for next time", details={"a": 1})
    await session.set_thinking_level("high")
    assert await session.thinking_level() == "high"
    await session.set_active_tools(())
    assert await session.active_tools() == ()
    await session.send_user_message("again")
    await host.until_settled()
    assert [get_text(m) for m in extended.model.requests[-1].context.messages][-2:] == ["for next time", "again"]
    await session.send_message("news", "at once", deliver_as="follow_up")
    await host.until_settled()
    assert get_text(extended.model.requests[-1].context.messages[-1]) == "at once"
    assert not await session.ui.confirm("?", "?")
    ran = await session.exec(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (ran.code, ran.stdout, ran.stderr) == (3, "out\n", "err\n")
    late = await session.exec(["sh", "-c", "sleep 600 & wait"], timeout_s=0.3)
    assert late.killed


async def test_a_program_of_an_extension_gets_no_secrets_unless_it_is_given_them(tmp_path, monkeypatch):
    """By default the environment that tools give to programs; with `env` exactly that."""
    monkeypatch.setenv("SOME_API_KEY", "canary")
    session = handle(Extensions(), None, tmp_path, None)
    assert "canary" not in (await session.exec(["env"])).stdout
    assert (await session.exec(["env"], env={"PATH": os.environ["PATH"], "A_KEY": "given"})).stdout.count("given") == 1


async def test_a_handler_gets_what_it_answers_and_fails_as_itself(runtime):
    """Plain or async, by object or function; the caller is not linked to it afterwards."""

    class Callable_:  # noqa: N801 - reads like a phrase
        async def __call__(self, value):
            return value + 1

    async def ends(value):
        raise SystemExit(3)

    assert await call_handler(lambda value: value * 2, 21) == 42
    assert await call_handler(Callable_(), 41) == 42
    with pytest.raises(HandlerFailed, match="SystemExit"):
        await call_handler(ends, 1)
    with pytest.raises(HandlerFailed, match="async function"):
        await call_handler(lambda value: Callable_()(value), 1)
    await settle()
    assert self_pid().alive


async def test_what_goes_along_with_a_session_is_found_behind_the_extensions(host, extended):
    """With an extension loaded a client is still told of the session's MCP servers, and they can be ended with it."""
    from coding_agent.mcp.session_servers import SessionServers, mcp_status

    servers = SessionServers(problems=("one cannot be used",))
    session = await extended(on("turn_end", lambda event, session: None), companions=(servers.join,))

    assert (await client.get_options(session)).companion(SessionServers) is servers
    assert (await mcp_status(session))["problems"] == ["one cannot be used"]
