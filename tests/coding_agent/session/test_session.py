"""A session: prompts down, events up, stored before told, and independent of every other."""

import json
from pathlib import Path

import pytest
from attrs import evolve

from coding_agent import client, session_registry, session_supervisor
from coding_agent.errors import SessionBusy, SessionIdTaken, SessionLocked, SessionNotRunning, UnknownTool
from coding_agent.events import SavePoint, SessionEvent, Settled
from coding_agent.session import protocol
from coding_agent.session_supervisor import start_session, stop_session
from coding_agent.storage.session_manager import SessionManager
from lemon_agent import (
    AgentEnd,
    AgentTool,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    TurnEnd,
    agent_registry,
    text_result,
)
from lemon_ai import get_text
from lemon_ai.testing import Call, Delay, Fail, Say, ScriptedModel
from lemon_otp import NotFound, Pid, Task, exit_signal, info, monitor, receive, self_pid, spawn
from lemon_otp.testing import settle
from tests.coding_agent.session.conftest import kinds


def stored(session_file) -> list[dict]:
    path = Path(session_file)
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def roles(session_file) -> list[str]:
    return [line["message"]["role"] for line in stored(session_file) if line["type"] == "message"]


async def file_of(session) -> str:
    return (await client.get_state(session)).file


@pytest.mark.requirement("EVT-12", "PERS-1", "PERS-2", "PERS-7", "RCHK-28", "RCHK-29")
async def test_a_subscriber_that_hears_of_a_message_can_already_read_it(host):
    """When `MessageEnd` arrives its entry is in the file, under the id the event names."""
    session = await host.session("Hello.")
    file = await file_of(session)
    assert stored(file) == []

    await client.prompt(session, "hi")
    told = []
    while not isinstance((event := await receive(timeout_s=20)).event, Settled):
        if isinstance(event.event, MessageEnd):
            told.append(event.entry_id)
            assert event.entry_id in [line["id"] for line in stored(file)]

    assert told == [line["id"] for line in stored(file) if line["type"] == "message"]
    assert roles(file) == ["user", "assistant"]


@pytest.mark.requirement("PERS-3", "RCHK-30")
async def test_tool_results_are_stored_with_what_belongs_to_them(host):
    """Call id, name, details, trust and error flag of a result are in the file."""

    async def look(call_id, params, signal, on_update):
        return text_result("seen", details={"lines": 1}, trust="untrusted")

    tool = AgentTool("look", "Looks.", {"type": "object", "properties": {}}, look)
    session = await host.session([Call("look", {}, id="c1")], "Done.", tools=(tool,))
    await host.run(session, "look")

    (result,) = [
        line["message"]
        for line in stored(await file_of(session))
        if line.get("message", {}).get("role") == "toolResult"
    ]
    assert (result["toolCallId"], result["toolName"], result["isError"]) == ("c1", "look", False)
    assert result["details"] == {"lines": 1}
    assert result["trust"] == "untrusted"


@pytest.mark.requirement("PERS-2")
async def test_an_answer_that_failed_is_stored_too(host):
    """The file says what went wrong, where the conversation stood."""
    session = await host.session([Fail("auth")])
    events = await host.run(session, "hi")

    assert events[-1].event.outcome == "error"
    assert stored(await file_of(session))[-1]["message"]["stopReason"] == "error"


@pytest.mark.requirement("PERS-5", "PERS-6", "SESS-4")
async def test_what_is_asked_for_during_a_run_is_stored_in_order_at_the_end_of_the_turn(host):
    """
    Model, level, tools, labels, names and custom entries asked for while the model answers wait, then follow in the
    order asked, before the turn's save point; asked for when idle they are stored at once.
    """
    session = await host.session([Delay(300), Say("Later.")])
    file = await file_of(session)
    target = await client.append_custom_entry(session, "mine", {"n": 0})
    assert stored(file)[-1]["id"] == target
    await client.prompt(session, "hi")
    await host.until(MessageStart)

    await client.set_thinking_level(session, "high")
    assert await client.append_label(session, target, "here") is None
    await client.append_custom_entry(session, "mine", {"n": 1})
    await client.append_custom_message_entry(session, "mine", "note this")
    await client.append_session_name(session, "A name")
    await client.set_active_tools(session, ())
    before = len(stored(file))
    events = await host.until(SavePoint)

    assert (before, events[-1].event) == (len(stored(file)) - 7, SavePoint(had_pending_mutations=True))
    assert [line["type"] for line in stored(file)[before:]] == [
        "message", "thinking_level_change", "label", "custom", "custom_message", "session_info", "active_tools_change",
    ]  # fmt: skip
    await host.until_settled()


@pytest.mark.requirement("FAN-1", "FAN-2", "FAN-3", "FAN-5", "FAN-9", "RCHK-11", "RCHK-14", "RCHK-15")
async def test_every_subscriber_hears_every_event_in_order(host):
    """
    Direct and stream subscribers get the same `SessionEvent`s in the same order; the stream ends with the bare terminal
    event of the run. One that never reads slows nobody.
    """
    session = await host.session("One.", "Two.")
    asleep = spawn(receive, lambda message: message == "never")
    await client.subscribe(session, asleep)
    stream = await client.subscribe_stream(session, self_pid())
    lazy = await client.subscribe_stream(session, asleep, max_queue=3)

    direct = await host.run(session, "hi")
    streamed = [event async for event in stream.events()]

    assert direct[0].session_id == (await client.get_state(session)).session_id
    assert [event for event in direct if not isinstance(event.event, Settled)] == streamed[:-1]
    assert isinstance(streamed[-1], AgentEnd)
    assert lazy.stats().queue_size <= 3 + 1
    assert info(asleep).mailbox_length == len(direct)


@pytest.mark.requirement("FAN-4", "RCHK-12")
async def test_a_stream_subscriber_that_never_reads_holds_a_bounded_queue(host):
    """By default at most a thousand events, the newest; the run goes on as if nobody were there."""
    session = await host.session(" ".join(["word"] * 4000))
    stream = await client.subscribe_stream(session, self_pid())
    events = await host.run(session, "talk")

    assert len(events) > 1001
    assert stream.stats().queue_size <= 1000
    assert stream.stats().dropped > 0


@pytest.mark.requirement("FAN-6", "RCHK-13")
async def test_a_dead_subscriber_is_forgotten(host):
    """Its direct subscription is gone and its stream is cancelled with `subscriber_down`."""
    session = await host.session("One.")
    mortal = spawn(receive)
    await client.subscribe(session, mortal)
    stream = await client.subscribe_stream(session, mortal)
    before = await client.get_state(session)

    exit_signal(mortal, "kill")
    await settle()

    after = await client.get_state(session)
    assert (before.direct_subscribers, before.stream_subscribers) == (2, 1)
    assert (after.direct_subscribers, after.stream_subscribers) == (1, 0)
    assert stream.done


@pytest.mark.requirement("FAN-7")
async def test_unsubscribing_stops_delivery_and_may_be_repeated(host):
    """Nothing more arrives; a second time does no harm."""
    session = await host.session("One.")
    await client.unsubscribe(session, self_pid())
    await client.unsubscribe(session, self_pid())
    await client.prompt(session, "hi")
    await client.wait_for_idle(session)
    await settle()

    assert info(self_pid()).mailbox_length == 0


@pytest.mark.requirement("FAN-8", "ISO-4", "ISO-6", "RCHK-23", "RCHK-21", "ISO-2")
async def test_ten_sessions_run_at_once_and_their_events_do_not_mix(host):
    """Each event carries its session's id, each session its own conversation and file."""
    sessions = [await host.session(f"Answer {number}.") for number in range(10)]
    ids = [(await client.get_state(session)).session_id for session in sessions]
    for number, session in enumerate(sessions):
        await client.prompt(session, f"Question {number}")
    for session in sessions:
        await client.wait_for_idle(session)

    assert len(set(ids)) == 10
    assert session_registry.list_ids() == sorted(ids)
    for number, session in enumerate(sessions):
        said = [get_text(message) for message in await client.get_messages(session)]
        assert said == [f"Question {number}", f"Answer {number}."]
    await settle()
    heard = {}
    for _ in range(info(self_pid()).mailbox_length):
        event = await receive()
        if isinstance(event.event, MessageEnd):
            heard.setdefault(event.session_id, []).append(get_text(event.event.message))
    assert heard == {session_id: [f"Question {n}", f"Answer {n}."] for n, session_id in enumerate(ids)}


@pytest.mark.requirement("REG-1", "REG-3", "REG-4", "RCHK-16", "RCHK-18", "RCHK-19")
async def test_a_session_and_its_agent_are_found_by_id_while_they_run(host):
    """The session under its id, its agent as `(id, "main", 0)`; both are gone as soon as the session is."""
    session = await host.session()
    session_id = (await client.get_state(session)).session_id

    assert session_registry.lookup(session_id) == session
    assert session_registry.metadata(session_id) == {"cwd": str(host.folder)}
    agent = agent_registry.lookup((session_id, "main", 0))
    assert agent.alive

    await stop_session(session_id)

    assert not session.alive
    assert not agent.alive
    assert session_registry.lookup(session_id) is None
    with pytest.raises(NotFound):
        agent_registry.lookup((session_id, "main", 0))
    with pytest.raises(SessionNotRunning):
        await stop_session(session_id)


@pytest.mark.requirement("ISO-1", "RCHK-20")
async def test_killing_one_session_leaves_the_others_at_work(host):
    """The others answer as if nothing had happened."""
    doomed, other = await host.session([Delay(10_000)]), await host.session("Still here.")
    await client.prompt(doomed, "hang")

    exit_signal(doomed, "kill")
    await client.prompt(other, "hi")
    await client.wait_for_idle(other)

    assert not doomed.alive
    assert [get_text(message) for message in await client.get_messages(other)] == ["hi", "Still here."]


@pytest.mark.requirement("ISO-3", "PERS-4", "RCHK-22", "RCHK-31")
async def test_a_session_comes_back_from_its_file_only_when_asked_to(host):
    """
    By default a killed session stays dead. Started as transient it comes back under its id, with its messages, and
    takes the next prompt.
    """
    temporary, transient = await host.session("One."), await host.session("One.", "Two.", restart="transient")
    await host.run(transient, "first")
    state = await client.get_state(transient)
    before = [get_text(message) for message in await client.get_messages(transient)]

    for session in (temporary, transient):
        exit_signal(session, "kill")
    await settle()

    assert not temporary.alive
    back = session_registry.lookup(state.session_id)
    assert back is not None
    assert back != transient
    assert [get_text(message) for message in await client.get_messages(back)] == before
    await client.prompt(back, "second")
    await client.wait_for_idle(back)
    assert [get_text(message) for message in await client.get_messages(back)] == [*before, "second", "Two."]


@pytest.mark.requirement("ISO-5")
async def test_stopping_a_session_stops_its_agent_tools_and_streams(host):
    """In the middle of a tool call: afterwards nothing of it runs, and its file can be opened by another."""
    started = []

    async def hang(call_id, params, signal, on_update):
        started.append(self_pid())
        await receive(lambda message: False)

    tool = AgentTool("hang", "Hangs.", {"type": "object", "properties": {}}, hang)
    session = await host.session([Call("hang", {})], tools=(tool,))
    stream = await client.subscribe_stream(session, self_pid())
    state = await client.get_state(session)
    await client.prompt(session, "go")
    while not started:
        await settle()

    await stop_session(session)
    await settle()

    assert not started[0].alive
    assert not state.agent.alive
    assert stream.done
    again = await start_session(await host.options(ScriptedModel("Fine."), session_file=Path(state.file)))
    assert [message.role for message in await client.get_messages(again)] == ["user", "assistant", "tool_result"]


@pytest.mark.requirement("ABORT-5", "ABORT-10", "ABORT-11", "BR-158", "BR-160")
async def test_abort_right_after_a_prompt_makes_no_request_and_one_terminal(host):
    """The model is not asked; the next prompt works and gets the answer that was not asked for before."""
    session = await host.session("Asked once.")
    await client.prompt(session, "hi")

    report = await client.abort(session)
    events = await host.until_settled()
    await host.run(session, "once more")

    assert report.was_running
    assert [event.event.outcome for event in events if isinstance(event.event, AgentEnd)] == ["aborted"]
    assert get_text((await client.get_messages(session))[-1]) == "Asked once."


@pytest.mark.requirement("ABORT-4", "ABORT-6", "ABORT-11")
async def test_abort_in_the_middle_of_an_answer_keeps_what_was_said(host):
    """The partial answer is stored as aborted, there is one terminal, and the next prompt works."""
    session = await host.session([Say("Half of"), Delay(10_000)], "Again.")
    await client.prompt(session, "hi")
    await host.until(MessageUpdate)

    await client.abort(session)
    events = await host.until_settled()
    again = await host.run(session, "once more")

    assert [event.event.outcome for event in events if isinstance(event.event, AgentEnd)] == ["aborted"]
    stopped = [line["message"] for line in stored(await file_of(session)) if line["type"] == "message"][1]
    assert stopped["stopReason"] == "aborted"
    assert "Half of".startswith(stopped["content"][0]["text"].strip())
    assert again[-1].event.outcome == "completed"


async def test_abort_of_an_idle_session_does_nothing(host):
    """It says that nothing was running."""
    session = await host.session()

    assert await client.abort(session) == protocol.AbortReport(was_running=False)


@pytest.mark.requirement("ABORT-7", "QUEUE-8")
async def test_abort_hands_back_what_was_queued_and_keeps_what_is_for_the_next_prompt(host):
    """Steering and follow-ups are cleared and reported; a text for the next turn precedes the next prompt."""
    session = await host.session([Say("Well"), Delay(10_000)], "Answer.")
    await client.prompt(session, "hi")
    await host.until(MessageStart)
    await client.steer(session, "left")
    await client.follow_up(session, "then right")
    await client.next_turn(session, "by the way")

    report = await client.abort(session)
    await host.until_settled()
    await host.run(session, "go on")

    assert (report.cleared_steering, report.cleared_follow_up) == (("left",), ("then right",))
    said = [get_text(message) for message in await client.get_messages(session) if message.role == "user"]
    assert said == ["hi", "by the way", "go on"]


@pytest.mark.requirement("QUEUE-5", "EVT-9", "BR-108")
async def test_steering_and_follow_ups_are_stored_like_prompts(host):
    """Both are heard of, both are in the file, in the order the model got them."""
    session = await host.session([Delay(200), Say("One.")], "Two.", "Three.")
    await client.prompt(session, "start")
    await host.until(MessageStart)
    await client.follow_up(session, "afterwards")
    await client.steer(session, "first this")

    events = await host.until_settled()

    assert kinds(events).count("agent_end") == 1
    users = [
        line["message"]["content"][0]["text"]
        for line in stored(await file_of(session))
        if line.get("message", {}).get("role") == "user"
    ]
    assert users == ["start", "first this", "afterwards"]


async def test_a_prompt_to_a_busy_session_is_refused_and_changes_nothing(host):
    """The error says what to do instead."""
    session = await host.session([Delay(300), Say("Done.")])
    await client.prompt(session, "one")

    with pytest.raises(SessionBusy, match="steer"):
        await client.prompt(session, "two")

    await host.until_settled()
    assert roles(await file_of(session)) == ["user", "assistant"]


async def test_unknown_tools_cannot_be_made_active(host):
    """Nothing is stored and the session lives on."""
    session = await host.session("Fine.")
    with pytest.raises(UnknownTool):
        await client.set_active_tools(session, ("nonsense",))

    assert (await host.run(session, "hi"))[-1].event.outcome == "completed"


@pytest.mark.requirement("BR-056")
async def test_a_file_has_one_session(host):
    """A second session on an open file is refused and told who has it; the first is not disturbed."""
    session = await host.session("One.")
    await host.run(session, "hi")
    file = Path(await file_of(session))

    with pytest.raises(SessionLocked):
        await start_session(await host.options(ScriptedModel(), session_file=file))

    assert session.alive
    assert len(await session_supervisor.list_sessions()) == 1


@pytest.mark.requirement("PERS-10", "BR-055")
async def test_a_file_that_is_taken_away_is_reported_and_nothing_is_lost(host):
    """The run goes on, subscribers are told where the session is stored now, and everything said is there."""
    session = await host.session("One.", "Two.")
    await host.run(session, "first")
    file = Path(await file_of(session))
    file.rename(file.with_suffix(".away"))
    file.mkdir()

    events = await host.run(session, "second")
    now = Path(await file_of(session))

    assert "storage_failed" in kinds(events)
    assert events[-1].event.outcome == "completed"
    assert now != file
    assert roles(now) == ["user", "assistant", "user", "assistant"]


@pytest.mark.requirement("PERS-10")
async def test_that_nothing_can_be_stored_is_said_once_and_all_of_it_is_stored_later(host):
    """Runs go on with a file that cannot be written; when it can be, everything said is in it, in order, once."""
    blocked = host.folder / "blocked"
    blocked.write_text("no folder")
    session = await host.session("One.", "Two.", "Three.", session_file=blocked / "s.jsonl")

    first = await host.run(session, "first")
    second = await host.run(session, "second")
    blocked.unlink()
    third = await host.run(session, "third")

    assert [kinds(events).count("storage_failed") for events in (first, second, third)] == [1, 0, 0]
    assert roles(blocked / "s.jsonl") == ["user", "assistant"] * 3


@pytest.mark.requirement("PERS-10")
async def test_moves_and_compactions_that_cannot_be_stored_hold_all_the_same(host):
    """What waits in memory counts: the session stands where it was asked to, and what follows goes on from there."""
    blocked = host.folder / "blocked"
    blocked.write_text("no folder")
    session = await host.session("One.", "Two.", "Sum.", "Four.", session_file=blocked / "s.jsonl")
    await host.run(session, "first")
    first = await client.look(session, lambda store: store.leaf_id)
    await host.run(session, "second")

    moved = await client.navigate_tree(session, first, label="here")
    shorter = await client.compact(session)
    await host.until_settled()
    said_now = [message.role for message in await client.get_messages(session)]
    blocked.unlink()
    await host.run(session, "third")

    assert (moved.leaf_id is not None, shorter.error_message) == (True, None)
    assert said_now[0] == "compactionSummary"
    with SessionManager.open(blocked / "s.jsonl", read_only=True) as store:
        assert store.build_context().messages == await client.get_messages(session)
        assert "here" in store.labels.values()


async def test_reset_begins_another_session_in_another_file(host):
    """The old file stays as it is, the new id is registered, the conversation is empty."""
    session = await host.session("One.", "Two.")
    await host.run(session, "first")
    before = await client.get_state(session)
    content = Path(before.file).read_text("utf-8")

    new_id = await client.reset(session)
    await host.run(session, "second")
    after = await client.get_state(session)

    assert Path(before.file).read_text("utf-8") == content
    assert (after.session_id, after.file != before.file) == (new_id, True)
    assert session_registry.lookup(new_id) == session
    assert session_registry.lookup(before.session_id) is None
    assert roles(after.file) == ["user", "assistant"]


@pytest.mark.requirement("BR-083")
async def test_everything_is_stored_before_the_run_is_reported_over(host):
    """A subscriber that reacts to `AgentEnd` reads a complete file."""
    session = await host.session("Answer.")
    file = await file_of(session)
    await client.prompt(session, "hi")
    while True:
        event = await receive(timeout_s=20)
        if isinstance(event, SessionEvent) and isinstance(event.event, AgentEnd):
            break

    assert roles(file) == ["user", "assistant"]


async def test_a_dead_agent_ends_its_session_and_says_so(host):
    """Subscribers get an error event and the session ends; its file is free for another."""
    session = await host.session([Delay(10_000)])
    state = await client.get_state(session)
    watch = monitor(session)
    await client.prompt(session, "hi")

    exit_signal(state.agent, "kill")
    events = await host.until_settled()
    down = await receive(lambda message: getattr(message, "ref", None) is watch, timeout_s=10)

    assert [event.event.type for event in events][-2:] == ["error", "settled"]
    assert down.reason == ("agent_down", "killed")
    assert not [event for event in events if isinstance(event.event, TurnEnd)]


@pytest.mark.parametrize("at_once", [False, True], ids=["one after the other", "at one time"])
async def test_a_copy_of_a_session_that_runs_is_refused_in_words_that_help(host, at_once):
    """
    Two files have one id in their headers, as when one was copied by hand: the first is opened, the second is refused
    with what to do, nothing is written to it, and it can be opened once the first is closed.
    """
    first = await host.session("One.")
    await host.run(first, "hello")
    options = await host.options(ScriptedModel("Two."))
    file = Path((await client.get_state(first)).file)
    copy = file.with_name("copy.jsonl")
    copy.write_bytes(file.read_bytes())
    if at_once:
        await stop_session(first)

        async def outcome(path: Path) -> object:
            try:
                return await start_session(evolve(options, session_file=path), restart="transient")
            except SessionIdTaken as error:
                return error

        tried = await Task.await_many([Task.async_(outcome, each) for each in (file, copy)])
        refused, running = sorted(tried, key=lambda one: isinstance(one, Pid))
    else:
        with pytest.raises(SessionIdTaken) as caught:
            await start_session(evolve(options, session_file=copy))
        refused, running = caught.value, first

    assert isinstance(refused, SessionIdTaken)
    assert f"sessions fork {refused.path}" in str(refused)
    assert len(copy.read_bytes().splitlines()) == len(file.read_bytes().splitlines())
    await stop_session(running)
    await start_session(evolve(options, session_file=refused.path))
