"""A run waits for this host's own bucket, and not for ever."""

import pytest

from coding_agent.session.patience import PATIENCE_S, with_patience
from lemon_ai import Context, Model, RateLimitReached, StreamOptions
from lemon_otp import Down, receive, spawn_monitor
from lemon_otp.testing import settle

MODEL = Model(id="m", provider="p", api="a")


def refusing(times: int, wait_ms: int, asked: list):
    async def stream(model, context, options):
        asked.append(1)
        if len(asked) <= times:
            raise RateLimitReached(provider="p", retry_after_ms=wait_ms)
        return "a stream"

    return with_patience(stream)


async def test_a_call_waits_until_the_bucket_has_room(clocked_runtime, fake_clock):
    """Refused three times for a while, admitted then; it asks no sooner than it was told to."""
    asked: list[int] = []
    _, watch = spawn_monitor(refusing(3, 500, asked), MODEL, Context(None, (), ()), StreamOptions())
    await settle()
    assert len(asked) == 1
    await fake_clock.advance(0.49)
    assert len(asked) == 1
    await fake_clock.advance(1.1)

    down = await receive(lambda message: isinstance(message, Down) and message.ref is watch)
    assert down.reason == "normal"
    assert len(asked) == 4


@pytest.mark.requirement("BR-030")
async def test_a_wait_that_is_too_long_is_told(clocked_runtime):
    """A bucket that asks for more than a run should bear ends the call with the refusal, without a wait."""
    asked: list[int] = []

    with pytest.raises(RateLimitReached):
        await refusing(3, round(PATIENCE_S * 1000) + 1, asked)(MODEL, Context(None, (), ()), StreamOptions())
    assert len(asked) == 1
