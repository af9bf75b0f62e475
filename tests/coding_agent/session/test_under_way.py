"""What somebody who begins to listen in the middle is told first."""

from coding_agent import client
from coding_agent.events import QueueUpdate, SessionEvent, Settled
from coding_agent.session.under_way import UnderWay
from coding_agent.terminal.blocks import Prose, Thought, ToolRan
from coding_agent.terminal.view import View
from coding_agent.wire import event_to_wire
from lemon_agent import AgentStart, AgentTool, MessageStart, MessageUpdate, ToolExecutionStart, text_result
from lemon_ai import get_text, get_thinking
from lemon_ai.testing import Call, Delay, Say, Think
from lemon_otp import self_pid
from tests.coding_agent.session.conftest import Host

WORDS = "The first paragraph.\n\nThe second one, which is **longer**.\n\n- a list\n- of two\n"


async def _look(_call_id, _params, _signal, on_update):
    on_update(text_result("half of it"))
    return text_result("all of it")


LOOK = AgentTool("look", "Looks.", {"type": "object"}, _look)


async def whole_run(host: Host) -> list[SessionEvent]:
    model_says = [Think("Let me see. "), Think("I look."), Say("I look now."), Call("look")]
    session = await host.session(model_says, [Say(WORDS)], tools=(LOOK,))
    return await host.run(session, "hi")


def shown(events: list[SessionEvent]) -> dict[str, str]:
    """What a terminal prints of a run, told in parts: its answers, its thoughts, its calls."""
    view, blocks = View(), []
    for event in events:
        blocks += view.take(event_to_wire(event, deltas=True), 0.0)
        if view.answer is not None:
            blocks += [Prose(piece.text, piece.joined) for piece in view.answer.text.take()]
    return {
        "said": "".join(block.text for block in blocks if isinstance(block, Prose)).replace("\n", ""),
        "thought": "".join(block.text for block in blocks if isinstance(block, Thought)),
        "ran": "".join(f"{block.name}: {block.text}" for block in blocks if isinstance(block, ToolRan)),
    }


async def test_whoever_comes_in_the_middle_reads_what_is_being_said_from_its_beginning(host):
    """At every event of a run: what was missed and what comes are all of it, nothing twice."""
    events = await whole_run(host)
    whole = shown(events)
    assert whole["ran"] == "look: all of it"
    assert whole["thought"] == "Let me see. I look."
    seen = UnderWay()
    first = next(at for at, event in enumerate(events) if isinstance(event.event, MessageUpdate))
    for at, event in enumerate(events):
        missed = [SessionEvent(event.session_id, what, missed_by_ms=age_ms) for what, age_ms in seen.missed()]
        told = shown([*missed, *events[at:]])
        assert whole["said"].endswith(told["said"])
        assert whole["thought"].endswith(told["thought"])
        if isinstance(event.event, MessageUpdate):  # some message is under way
            final = next(each.event.message for each in events[at:] if each.event.type == "message_end")
            assert get_text(final).replace("\n", "") in told["said"]
            assert (get_thinking(final) or "") in told["thought"]
        if at <= first:
            assert told == whole
        seen.saw(event.event)
    assert list(seen.missed()) == []


async def test_a_call_that_runs_is_told_with_the_last_of_its_output(host):
    """One beginning and one piece of output, whatever it has printed; nothing of it once it has ended."""
    events = await whole_run(host)
    seen, told = UnderWay(), []
    for event in events:
        seen.saw(event.event)
        told.append([each.type for each, _ in seen.missed() if each.type.startswith("tool_execution")])
    assert ["tool_execution_start", "tool_execution_update"] in told
    assert told[-1] == []


async def test_queues_are_told_while_something_waits_in_them(runtime):
    """They outlive the run; empty ones are not worth a word."""
    seen = UnderWay()
    seen.saw(QueueUpdate(("look",), ()))
    seen.saw(Settled("completed"))
    assert [each for each, _ in seen.missed()] == [QueueUpdate(("look",), ())]
    seen.saw(QueueUpdate((), ()))
    assert list(seen.missed()) == []


async def test_it_is_told_how_long_ago_each_of_them_was(clocked_runtime, fake_clock):
    """A newcomer counts the time of the run, of a call and until the next try from when they began."""
    seen = UnderWay()
    seen.saw(AgentStart())
    await fake_clock.advance(60)
    seen.saw(ToolExecutionStart("c1", "look", {}))
    await fake_clock.advance(5)
    assert [(each.type, age_ms) for each, age_ms in seen.missed()] == [
        ("agent_start", 65_000),
        ("tool_execution_start", 5_000),
    ]


async def test_a_late_subscriber_is_told_first_what_it_has_missed_if_it_wants_to_be(host):
    """Marked as missed, before anything new; whoever does not ask hears what happens from now on and nothing else."""
    session = await host.session([Think("Hm."), Say("Half of"), Delay(600_000)])
    await client.prompt(session, "hi")
    while get_text((await host.until(MessageUpdate))[-1].event.message) != "Half of":
        pass
    await client.subscribe(session, self_pid(), missed=True)  # a second time, as somebody else would
    heard = await host.until(MessageStart)
    assert [event.event.type for event in heard] == ["agent_start", "turn_start", "message_start"]
    assert all(event.missed_by_ms is not None for event in heard)
    assert get_text(heard[-1].event.message) == "Half of"
    assert event_to_wire(heard[-1])["missed"] is True
    await client.abort(session)
