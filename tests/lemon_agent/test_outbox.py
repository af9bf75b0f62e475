"""Events on their way to a subscriber: batches, credit, and mailboxes that grow too long."""

import pytest

from lemon_agent import Agent, AgentEnd, AgentEventBatch, AgentEventMessage, Delivery, MessageEnd, MessageUpdate
from lemon_agent.testing import Pause, ScriptedAgent, of_type, record, terminal, types
from lemon_ai import Fold, get_text
from lemon_otp import ReceiveTimeout, receive, send, sleep_s, spawn
from lemon_otp.testing import settle


async def second_subscriber(agent, delivery):
    """A process that takes what comes when it is told to, and its log of messages."""
    log = []

    async def body():
        while True:
            message = await receive(lambda m: m == "take all")
            if message == "take all":
                try:
                    while True:
                        log.append(await receive(timeout_s=0))
                except ReceiveTimeout:
                    pass

    pid = spawn(body)
    return pid, log, await Agent.subscribe(agent.pid, pid, delivery)


def events_of(log):
    return [
        event
        for message in log
        for event in (message.events if isinstance(message, AgentEventBatch) else (message.event,))
    ]


def but_for_updates(events):
    return [event for event in events if not isinstance(event, MessageUpdate)]


async def take(pid):
    send(pid, "take all")
    await settle()


@pytest.mark.requirement("LIM-3.1", "LIM-2.1")
async def test_by_default_each_event_is_a_message_of_its_own_and_nobody_waits(tree):
    """No batching, no backpressure: a subscriber that does not read has every event in its mailbox at the end."""
    agent = await ScriptedAgent.start(["x" * 80])
    pid, log, _ = await second_subscriber(agent, Delivery())
    events = await agent.run("hi")
    assert log == []
    await take(pid)
    assert all(isinstance(message, AgentEventMessage) for message in log)
    assert events_of(log) == events


@pytest.mark.requirement("LIM-3.2")
async def test_batches_hold_updates_together_and_let_everything_else_through_at_once(tree):
    """
    Updates of a message that follow each other collapse to the newest; any other event, the terminal one above all, is
    sent at once behind what waits; the order is the same.
    """
    agent = await ScriptedAgent.start(["y" * 80])
    pid, log, _ = await second_subscriber(agent, Delivery(batch_events=50))
    events = await agent.run("hi")
    await take(pid)
    got = events_of(log)

    assert [type(message) for message in log] == [AgentEventBatch] * len(log)
    assert types(got) == types(events)
    assert len(of_type(got, MessageUpdate)) == 1 < len(of_type(events, MessageUpdate))
    assert get_text(of_type(got, MessageUpdate)[0].message) == "y" * 80
    assert but_for_updates(got) == but_for_updates(events)


@pytest.mark.requirement("LIM-3.2")
async def test_a_batch_waits_no_longer_than_it_may(clocked_tree, fake_clock):
    """An update that nothing follows is sent after `batch_ms`."""
    agent = await ScriptedAgent.start([["half", Pause(10), " whole"]])
    pid, log, _ = await second_subscriber(agent, Delivery(batch_events=50, batch_ms=40))
    await Agent.prompt(agent.pid, "hi")
    await fake_clock.advance(0.03)
    await take(pid)
    assert of_type(events_of(log), MessageUpdate) == []
    await fake_clock.advance(0.02)
    await take(pid)
    [update] = of_type(events_of(log), MessageUpdate)
    assert get_text(update.message) == "half"
    await fake_clock.advance(60)


@pytest.mark.requirement("LIM-3.2")
async def test_a_batch_is_never_larger_than_asked_for(tree):
    """The bound counts events of any kind."""
    agent = await ScriptedAgent.start(["x"])
    pid, log, subscription = await second_subscriber(agent, Delivery(batch_events=2, credit=0, credit_timeout_ms=1))
    await agent.run("hi")
    subscription.grant(100)
    await settle()
    await take(pid)
    assert {len(message.events) for message in log} <= {1, 2}
    assert isinstance(events_of(log)[-1], AgentEnd)


@pytest.mark.requirement("LIM-2.3")
async def test_a_run_waits_for_a_subscriber_that_is_out_of_credit(clocked_tree, fake_clock):
    """
    No more events are sent than there is credit for, the reading of the model stops, and goes on when there is credit
    again. No event is lost, only updates that follow each other are thinned out.
    """
    agent = await ScriptedAgent.start(["x" * 8000])
    pid, log, subscription = await second_subscriber(agent, Delivery(credit=5, credit_timeout_ms=60_000))
    await Agent.prompt(agent.pid, "hi")
    await fake_clock.advance(10)
    await take(pid)
    assert len(events_of(log)) == 5
    assert (await agent.state()).is_streaming
    said = get_text((await agent.state()).streaming_message)
    assert len(said) < 8000

    for _ in range(200):
        subscription.grant(50)
        await fake_clock.advance(0.01)
        await take(pid)
        if not (await agent.state()).is_streaming:
            break
    events = await agent.events()
    subscription.grant(10_000)
    await settle()
    await take(pid)
    got = events_of(log)
    assert [e for e in got if not isinstance(e, MessageUpdate)] == [
        e for e in events if not isinstance(e, MessageUpdate)
    ]
    assert get_text(of_type(got, MessageEnd)[-1].message) == "x" * 8000


@pytest.mark.requirement("LIM-2.3")
async def test_a_model_that_has_everything_ready_at_once_is_held_up_too(tree):
    """Between two events the agent has its turn: at most the event that used up the credit, and one more, are read."""
    read = []

    async def ready(model, context, options):
        fold = Fold(model)
        for event in (*fold.start(), *(e for _ in range(20) for e in fold.text("x ")), *fold.done("stop")):
            read.append(event)
            yield event

    agent = await ScriptedAgent.start(stream_fn=ready)
    pid, log, subscription = await second_subscriber(agent, Delivery(credit=10, credit_timeout_ms=60_000))
    await Agent.prompt(agent.pid, "hi")
    while not (await agent.state()).streaming_message:
        await sleep_s(0)
    for _ in range(50):
        await sleep_s(0)
    await take(pid)

    assert len(events_of(log)) == 10
    assert (await agent.state()).is_streaming
    assert len(read) < 10
    subscription.grant(100)
    assert terminal(await agent.events()).outcome == "completed"


@pytest.mark.requirement("LIM-2.3")
async def test_a_run_waits_only_so_long(clocked_tree, fake_clock):
    """A subscriber that gives no credit holds the run up once, for `credit_timeout_ms`; then it goes on without it."""
    agent = await ScriptedAgent.start(["x" * 8000, "more"])
    _, _, subscription = await second_subscriber(agent, Delivery(credit=1, credit_timeout_ms=2_000))
    await Agent.prompt(agent.pid, "hi")
    await fake_clock.advance(1.9)
    assert (await agent.state()).is_streaming
    await fake_clock.advance(0.2)
    assert terminal(await agent.events()).outcome == "completed"
    await Agent.prompt(agent.pid, "again")
    await fake_clock.advance(0.1)
    assert terminal(await agent.events()).outcome == "completed"
    subscription()


@pytest.mark.requirement("LIM-2.3")
async def test_a_run_goes_on_when_the_subscriber_it_waits_for_is_gone(tree, heard):
    """The death of a subscriber, and the end of its subscription, open the gate; each wait is told."""
    agent = await ScriptedAgent.start(["x" * 8000, "y" * 8000])
    for way in ("unsubscribe", "death"):
        pid, _, subscription = await second_subscriber(agent, Delivery(credit=0, credit_timeout_ms=60_000))
        await Agent.prompt(agent.pid, "hi")
        await settle()
        assert (await agent.state()).is_streaming
        if way == "unsubscribe":
            subscription()
        else:
            from lemon_otp import exit_signal

            exit_signal(pid, "kill")
        assert terminal(await agent.events()).outcome == "completed"
        assert heard.of("subscriber", "out_of_credit")[-1] == {"pid": pid}


@pytest.mark.requirement("LIM-2.3")
async def test_an_abort_ends_the_wait_for_credit(tree):
    """Nobody's credit keeps a run from being aborted."""
    agent = await ScriptedAgent.start(["x" * 8000])
    await second_subscriber(agent, Delivery(credit=0, credit_timeout_ms=60_000))
    await Agent.prompt(agent.pid, "hi")
    await settle()
    Agent.abort(agent.pid)
    assert terminal(await agent.events()).outcome == "aborted"


@pytest.mark.requirement("LIM-2.2")
async def test_a_mailbox_above_its_watermark_gets_only_the_newest_updates(tree, heard):
    """
    A subscriber that falls behind gets thinned updates, told by telemetry; what is not an update is never left out, the
    agent never waits, and once the subscriber has caught up everything comes again.
    """
    agent = await ScriptedAgent.start(["x" * 800, "y" * 80])
    pid, log, _ = await second_subscriber(agent, Delivery(watermark=20))
    events = await agent.run("hi")
    await take(pid)
    got = events_of(log)

    assert len(of_type(got, MessageUpdate)) < len(of_type(events, MessageUpdate))
    assert [e for e in got if not isinstance(e, MessageUpdate)] == [
        e for e in events if not isinstance(e, MessageUpdate)
    ]
    assert heard.measured("subscriber", "coalesced")[0]["watermark"] == 20
    assert heard.of("subscriber", "coalesced") == [{"pid": pid}]

    log.clear()
    again = await agent.run("again")
    await take(pid)
    assert heard.of("subscriber", "resumed") == [{"pid": pid}]
    assert len(of_type(events_of(log), MessageUpdate)) == len(of_type(again, MessageUpdate))


@pytest.mark.requirement("LIM-2.2")
async def test_what_was_held_back_is_sent_when_the_mailbox_has_room_again(clocked_tree, fake_clock):
    """The newest update does not have to wait for another event."""
    agent = await ScriptedAgent.start([["x" * 800, Pause(10)]])
    pid, log, _ = await second_subscriber(agent, Delivery(watermark=20))
    await Agent.prompt(agent.pid, "hi")
    await settle()
    await take(pid)
    await fake_clock.advance(0.2)
    await take(pid)
    assert get_text(of_type(events_of(log), MessageUpdate)[-1].message) == "x" * 800
    await fake_clock.advance(20)


async def test_a_recorder_reads_batches_as_well(tree):
    """`record` opens batches, so tests need not care how events come."""
    agent = await ScriptedAgent.start(["one"])
    other = await Agent.subscribe(agent.pid, None, Delivery(batch_events=10))
    await Agent.prompt(agent.pid, "hi")
    await Agent.wait_for_idle(agent.pid)
    assert isinstance((await record())[-1], AgentEnd)
    other()
