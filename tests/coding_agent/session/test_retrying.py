"""A session hears of second tries, can end the wait for them and can do without."""

import pytest
from attrs import evolve

from coding_agent import client
from coding_agent.events import AutoRetryEnd, AutoRetryStart
from coding_agent.session.retrying import Retries, RetryCutShort, with_retries_told
from lemon_agent import MessageEnd
from lemon_ai import Context, Model, StreamOptions
from lemon_ai.testing import Fail
from lemon_otp import Down, receive, spawn_monitor
from lemon_otp.testing import settle

MODEL = Model(id="m", provider="p", api="a")
BUSY = Fail("server", message="busy")


def told(events, kind):
    return [event.event for event in events if isinstance(event.event, kind)]


async def test_each_try_is_told_before_the_wait_and_the_end_with_the_answer(host):
    """A number, how many there may be, how long is waited, what had failed; then that it went well."""
    session = await host.session(BUSY, BUSY, "fine")
    events = await host.run(session, "hi")
    starts = told(events, AutoRetryStart)
    assert [start.attempt for start in starts] == [1, 2]
    assert all(start.max_attempts >= 2 and "busy" in start.error_message for start in starts)
    assert told(events, AutoRetryEnd) == [AutoRetryEnd(True, 2)]
    order = [type(event.event) for event in events]
    assert order.index(AutoRetryEnd) > order.index(MessageEnd)


async def test_without_retries_a_failure_is_told_at_once(host):
    """`set_auto_retry` holds from the next call on, and shows in the state."""
    session = await host.session(BUSY, "fine")
    await client.set_auto_retry(session, False)
    assert (await client.get_state(session)).auto_retry is False
    events = await host.run(session, "hi")
    assert told(events, AutoRetryStart) == []
    assert events[-1].event.outcome == "error"


async def test_a_session_begun_without_retries_can_be_told_to_have_them(host):
    """The settings may say none; somebody may change their mind."""
    session = await host.session(BUSY, "fine", stream_options=StreamOptions(max_retries=0))
    assert (await client.get_state(session)).auto_retry is False
    await client.set_auto_retry(session, True)
    events = await host.run(session, "hi")
    assert len(told(events, AutoRetryStart)) == 1
    assert events[-1].event.outcome == "completed"


async def test_a_wait_can_be_cut_short(clocked_runtime, fake_clock):
    """Whoever waits is told so by an exception; a wait that runs out says nothing; without one nothing happens."""
    retries = Retries()
    retries.cut_short()
    _, whole = spawn_monitor(retries.wait, 60.0)
    await settle()
    await fake_clock.advance(60.0)
    assert (await receive(lambda message: isinstance(message, Down) and message.ref is whole)).reason == "normal"
    _, cut = spawn_monitor(retries.wait, 60.0)
    await settle()
    retries.cut_short()
    down = await receive(lambda message: isinstance(message, Down) and message.ref is cut)
    assert isinstance(down.reason, RetryCutShort)


async def test_options_of_the_callers_own_are_left_alone():
    """Who waits and hears himself goes on doing so."""

    async def mine(_delay_s: float) -> None:
        pass

    given = evolve(StreamOptions(), retry_sleep=mine)
    seen = await with_retries_told(Retries(), lambda _model, _context, options: options, print)(MODEL, Context(), given)
    assert seen is given


@pytest.mark.parametrize(("success", "error", "end"), [(True, None, None), (False, "why", "why")])
def test_an_end_is_told_once_and_only_after_tries(success, error, end):
    """Without tries there is nothing to tell."""
    retries = Retries()
    assert retries.over(success=success, error=error) is None
    retries.attempt = 2
    assert retries.over(success=success, error=error) == AutoRetryEnd(success, 2, end)
    assert retries.over(success=success, error=error) is None
