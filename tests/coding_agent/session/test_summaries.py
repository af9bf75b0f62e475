"""A session makes its conversation shorter, by request and by itself, and moves about in its tree."""

import json
from pathlib import Path

import pytest
from attrs import evolve, frozen

from coding_agent import client
from coding_agent.errors import CompactionError, EntryNotFound, NothingToCompact, SessionBusy
from coding_agent.events import CompactionEnd, CompactionStart, TreeMoved
from coding_agent.messages import BranchSummaryMessage, CompactionSummaryMessage
from coding_agent.session.compaction import CompactionSettings
from coding_agent.session_supervisor import start_session, stop_session
from lemon_agent import AgentEnd, MessageEnd
from lemon_ai import get_text
from lemon_ai.testing import Count, Delay, Fail, Say, ScriptedModel
from lemon_otp import JobScheduler, receive, self_pid, send, spawn, telemetry
from lemon_otp.testing import settle
from tests.coding_agent.session.conftest import kinds

SMALL = CompactionSettings(reserve_tokens=500, keep_recent_tokens=100)
LONG = "words and more words " * 60


def said(messages) -> list[str]:
    return [get_text(message) if hasattr(message, "content") else type(message).__name__ for message in messages]


async def entries(session) -> list[dict]:
    state = await client.get_state(session)
    return [json.loads(line) for line in Path(state.file).read_text("utf-8").splitlines()]


@pytest.mark.requirement("SESS-3")
async def test_a_compaction_by_request_puts_a_summary_in_place_of_what_is_old(host):
    """
    The model is asked for a summary; afterwards the agent has summary plus recent part, the file holds
    the compaction, and the next prompt works on it.
    """
    counted = [Say("The summary."), Count(input=1_000, output=50)]
    session = await host.session(LONG, LONG, counted, "Fine.", compaction=SMALL)
    await host.run(session, "first")
    await host.run(session, "second")

    end = await client.compact(session, "the colours")
    messages = await client.get_messages(session)
    events = await host.run(session, "third")

    assert isinstance(messages[0], CompactionSummaryMessage)
    assert "The summary." in messages[0].summary
    assert len(messages) < 4
    assert (end.reason, end.error_message) == ("manual", None)
    (stored,) = [entry for entry in await entries(session) if entry["type"] == "compaction"]
    assert stored["usage"]["input"] >= 1_000  # of all questions together
    assert "fromHook" not in stored
    assert [entry["type"] for entry in await entries(session)].count("compaction") == 1
    assert events[-1].event.outcome == "completed"


async def test_there_is_nothing_to_compact_in_a_fresh_conversation(host):
    """The error says so; nothing is written and the model is not asked."""
    session = await host.session()

    with pytest.raises(NothingToCompact):
        await client.compact(session)

    assert not Path((await client.get_state(session)).file).exists()


@pytest.mark.requirement("BR-041")
async def test_a_second_structural_call_during_a_compaction_is_refused(host):
    """Exactly one compaction is made; a prompt and another compaction are told to wait; abort ends it unwritten."""
    session = await host.session(LONG, LONG, [Delay(10_000)], compaction=SMALL)
    await host.run(session, "first")
    await host.run(session, "second")
    spawn(compact_for, self_pid(), session)
    await host.until(CompactionStart)

    with pytest.raises(SessionBusy):
        await client.compact(session)
    with pytest.raises(SessionBusy):
        await client.prompt(session, "now")
    await client.abort(session)
    events = await host.until_settled()

    assert isinstance((await receive(is_answer, timeout_s=10)).value, CompactionError)
    assert [event.event.aborted for event in events if isinstance(event.event, CompactionEnd)] == [True]
    assert [entry["type"] for entry in await entries(session)].count("compaction") == 0


@frozen
class Answered:
    """What a compaction in another process came to."""

    value: object


def is_answer(message: object) -> bool:
    return isinstance(message, Answered)


async def compact_for(asker, session):
    """Compact from a process of its own, and tell the asker what came of it."""
    try:
        send(asker, Answered(await client.compact(session)))
    except CompactionError as error:
        send(asker, Answered(error))


ORDER = ("compaction_start", "compaction_end", "agent_start", "agent_end", "settled")
FULL = [Say(LONG), Count(input=1900, output=50)]


async def long_session(host, *turns, **changes):
    """A session whose model takes so little that one long answer fills it."""
    options = await host.options(ScriptedModel(*turns, context_window=2_000), compaction=SMALL, **changes)
    session = await start_session(options)
    await client.subscribe(session, self_pid())
    return session


def order_of(events) -> list[str]:
    return [kind for kind in kinds(events) if kind in ORDER]


async def test_a_conversation_that_a_run_left_too_long_is_compacted_behind_it(host):
    """The run is over, then the compaction begins and ends, then the session has settled as the run did."""
    session = await long_session(host, FULL, "The summary.", "Fine.")

    first = await host.run(session, "first " + LONG)
    second = await host.run(session, "second")

    assert order_of(first) == ["agent_start", "agent_end", "compaction_start", "compaction_end", "settled"]
    assert [event.event.reason for event in first if isinstance(event.event, CompactionStart)] == ["threshold"]
    assert first[-1].event.outcome == "completed"
    assert order_of(second) == ["agent_start", "agent_end", "settled"]
    assert isinstance((await client.get_messages(session))[0], CompactionSummaryMessage)


async def test_a_prompt_during_the_compaction_behind_a_run_waits_for_its_end(host):
    """It is accepted, one of them: it runs on what the compaction left; steering is taken up as ever."""
    session = await long_session(host, FULL, [Delay(150), Say("The summary.")], "Fine.")
    await client.prompt(session, "first " + LONG)
    await host.until(CompactionStart)

    await client.prompt(session, "second")
    with pytest.raises(SessionBusy):
        await client.prompt(session, "third")
    ended = await host.until_settled()
    events = await host.until_settled()

    assert order_of(ended) == ["compaction_end", "settled"]
    assert order_of(events) == ["agent_start", "agent_end", "settled"]
    assert said(await client.get_messages(session))[-2:] == ["second", "Fine."]


async def test_a_run_stays_completed_when_there_is_no_summary_behind_it(host):
    """The failure is the compaction's, not the run's; the session goes on."""
    session = await long_session(host, FULL, [Fail("auth")], "The summary.", "Fine.")

    first = await host.run(session, "first " + LONG)
    (end,) = [event.event for event in first if isinstance(event.event, CompactionEnd)]
    second = await host.run(session, "second")

    assert end.error_message
    assert first[-1].event.outcome == second[-1].event.outcome == "completed"


async def test_a_subagents_conversation_is_not_compacted_when_it_is_over(host):
    """It ends with its run, so nothing needs the room."""
    session = await long_session(host, FULL, "Never.", owner=self_pid())

    assert order_of(await host.run(session, "first " + LONG)) == ["agent_start", "agent_end", "settled"]


async def test_a_conversation_too_long_for_another_model_is_compacted_before_the_next_prompt(host):
    """The prompt is accepted, the compaction comes first, then the run."""
    roomy = ScriptedModel([Say(LONG), Count(input=1900, output=50)], provider="roomy")
    session = await start_session(await host.options(roomy, compaction=SMALL))
    await client.subscribe(session, self_pid())
    await host.run(session, "first " + LONG)
    small = await ScriptedModel("The summary.", "Fine.", provider="small", context_window=2_000).install()
    await client.switch_model(session, small)

    events = await host.run(session, "second")

    assert order_of(events) == ["compaction_start", "compaction_end", "agent_start", "agent_end", "settled"]
    assert [event.event.reason for event in events if isinstance(event.event, CompactionStart)] == ["threshold"]


@pytest.mark.requirement("BR-039")
async def test_a_run_refused_as_too_long_goes_on_after_a_compaction(host):
    """
    The provider refuses the conversation: the end of the run is told as one that is tried again, then comes the
    compaction, then a run that goes on from there. A stream ends with the run that worked.
    """
    recovery = ("coding_agent", "session", "overflow_recovery")
    heard = []
    telemetry.attach_many(
        "test",
        [(*recovery, stage) for stage in ("attempt", "success", "failure")],
        lambda event, _count, about, _config: heard.append((event[-1], about)),
    )
    session = await host.session(LONG, [Fail("context")], "The summary.", "Made it.", compaction=SMALL)
    await host.run(session, "first")

    events = await host.run(session, "second")

    ends = [event.event for event in events if isinstance(event.event, AgentEnd)]
    assert [(end.outcome, end.will_retry) for end in ends] == [("error", True), ("completed", False)]
    assert order_of(events) == [
        "agent_start", "agent_end", "compaction_start", "compaction_end", "agent_start", "agent_end", "settled",
    ]  # fmt: skip
    assert [event.event.reason for event in events if isinstance(event.event, CompactionStart)] == ["overflow"]
    assert [stage for stage, _ in heard] == ["attempt", "success"]
    assert set(heard[1][1]) == {"session_id", "provider", "model", "reason", "duration_ms"}
    assert said(await client.get_messages(session))[-1] == "Made it."


@pytest.mark.parametrize("summary", [Say("The summary."), Fail("auth")], ids=["it helps", "there is none"])
async def test_a_stream_ends_with_the_last_run_of_a_prompt(host, summary):
    """The end of a run that is tried again does not end it; where no compaction helps, the end that was told does."""
    session = await host.session(LONG, [Fail("context")], [summary], "Made it.", compaction=SMALL)
    await host.run(session, "first")
    stream = await client.subscribe_stream(session, self_pid())

    events = await host.run(session, "second")

    streamed = [event async for event in stream.events()]
    helped = isinstance(summary, Say)
    assert events[-1].event.outcome == ("completed" if helped else "error")
    assert isinstance(streamed[-1], AgentEnd)
    assert kinds(events).count("agent_end") == (2 if helped else 1)
    assert "compaction_end" in kinds(streamed[:-1])


@pytest.mark.requirement("BR-039", "BR-046")
async def test_a_second_refusal_is_told_as_it_is(host):
    """One compaction is tried for a prompt; when the provider refuses again the user sees its error."""
    session = await host.session(LONG, [Fail("context")], "The summary.", [Fail("context")], compaction=SMALL)
    await host.run(session, "first")

    events = await host.run(session, "second")

    ends = [event.event for event in events if isinstance(event.event, AgentEnd)]
    assert [(end.outcome, end.will_retry) for end in ends] == [("error", True), ("error", False)]
    assert events[-1].event.outcome == "error"
    assert kinds(events).count("compaction_start") == 1


@pytest.mark.requirement("BR-043")
async def test_automatic_compaction_can_be_switched_off(host):
    """A refusal is then told at once, and nothing is compacted."""
    session = await host.session(LONG, [Fail("context")], compaction=evolve(SMALL, enabled=False))
    await host.run(session, "first")

    events = await host.run(session, "second")

    assert "compaction_start" not in kinds(events)
    assert events[-1].event.outcome == "error"


@pytest.mark.requirement("BR-045")
async def test_what_is_stored_while_a_summary_is_made_stays(host):
    """An entry appended meanwhile is behind the summary afterwards."""
    session = await host.session(LONG, LONG, [Delay(300), Say("The summary.")], compaction=SMALL)
    await host.run(session, "first")
    await host.run(session, "second")
    spawn(compact_for, self_pid(), session)
    await host.until(CompactionStart)
    await client.append_custom_message_entry(session, "mine", "remember this")
    await host.until_settled()
    assert (await receive(is_answer, timeout_s=10)).value.error_message is None

    assert "remember this" in [getattr(message, "content", None) for message in await client.get_messages(session)]


@pytest.mark.requirement("SESS-5", "SESS-6", "SESS-9")
async def test_going_back_to_a_prompt_gives_its_words_and_a_new_branch(host):
    """The leaf goes in front of the prompt, its words come back for editing, and the next prompt makes a branch."""
    session = await host.session("One.", "Two.", "Other.")
    events = await host.run(session, "first")
    asked = await host.run(session, "second")
    (entry,) = [e.entry_id for e in asked if isinstance(e.event, MessageEnd) and e.event.message.role == "user"]

    moved = await client.navigate_tree(session, entry)
    told = await host.until(TreeMoved)
    await host.run(session, "another way")

    assert moved.editor_text == "second"
    assert told[-1].event.new_leaf_id == moved.leaf_id
    assert said(await client.get_messages(session)) == ["first", "One.", "another way", "Other."]
    assert events
    lines = {line["id"]: line for line in await entries(session)}
    assert lines[entry]["message"]["content"][0]["text"] == "second"


@pytest.mark.requirement("SESS-10")
async def test_a_branch_that_is_left_can_be_summarised(host):
    """The summary stands where the conversation goes on, and names the place that was left."""
    session = await host.session("One.", "Two.", "What happened there.", "Fine.")
    first = await host.run(session, "first")
    await host.run(session, "second")
    (entry,) = [e.entry_id for e in first if isinstance(e.event, MessageEnd) and e.event.message.role == "assistant"]

    moved = await client.navigate_tree(session, entry, summarize=True)
    messages = await client.get_messages(session)

    assert moved.summary_entry_id is not None
    assert isinstance(messages[-1], BranchSummaryMessage)
    assert "What happened there." in messages[-1].summary
    await host.until_settled()
    assert (await host.run(session, "third"))[-1].event.outcome == "completed"


async def test_an_unknown_entry_is_refused_and_nothing_moves(host):
    """The error names it."""
    session = await host.session("One.")
    await host.run(session, "first")
    before = await entries(session)

    with pytest.raises(EntryNotFound, match="nowhere"):
        await client.navigate_tree(session, "nowhere")

    assert await entries(session) == before


async def test_a_session_stopped_in_the_middle_of_a_summary_leaves_nothing_running(host):
    """The model call ends with the session; the file is as it was."""
    session = await host.session(LONG, LONG, [Delay(10_000)], compaction=SMALL)
    await host.run(session, "first")
    await host.run(session, "second")
    before = await entries(session)
    file = Path((await client.get_state(session)).file)
    spawn(client.compact, session)
    await host.until(CompactionStart)
    await stop_session(session)
    await settle()

    assert [json.loads(line) for line in file.read_text("utf-8").splitlines()] == before
    assert (await JobScheduler.count("job_scheduler")).active == 0


async def test_what_was_queued_during_a_compaction_starts_a_run_once_it_is_done(host):
    """A text that is steered while a summary is made waits for it and is then answered."""
    summary = [Delay(50), "The summary."]
    session = await host.session(LONG, LONG, summary, summary, "Answered.", compaction=SMALL)
    await host.run(session, "first")
    await host.run(session, "second")
    spawn(client.compact, session)
    await host.until(CompactionStart)
    await client.steer(session, "and this")
    await host.until(AgentEnd)

    messages = await client.get_messages(session)
    assert isinstance(messages[0], CompactionSummaryMessage)
    assert said(messages[-2:]) == ["and this", "Answered."]
