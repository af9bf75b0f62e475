"""A fan: every stream gets what it would have got from a push of its own, for less."""

import random

import pytest

from lemon_otp import EventFan, EventStream, StreamReady, receive, self_pid, spawn
from lemon_otp.testing import settle


def open_stream(**options) -> EventStream:
    return EventStream.start(timeout_ms=None, **options)


async def first_of(stream, got) -> None:
    async for event in stream.events():
        got.append(event)
        return


@pytest.mark.requirement("FAN-2", "FAN-4")
@pytest.mark.parametrize("seed", range(40))
async def test_a_fan_does_what_a_push_to_each_stream_would(runtime, seed):
    """
    Streams of every size and strategy, half in a fan, half pushed to one by one: whatever is read, waited for, ended
    or left in between, each pair has the same events, the same drops and the same high water.
    """
    dice = random.Random(seed)
    fan = EventFan()
    pairs = []
    for _ in range(4):
        options = {
            "max_queue": dice.randint(1, 6),
            "drop_strategy": dice.choice(["error", "drop_oldest", "drop_newest"]),
        }
        pairs.append((open_stream(**options), open_stream(**options)))
        fan.add(pairs[-1][0])
    read = [([], []) for _ in pairs]
    for number in range(120):
        at = dice.randrange(len(pairs))
        match dice.choice(["push"] * 6 + ["take", "read", "wait", "listen", "end", "leave"]):
            case "push":
                fan.push(number)
                for _, single in pairs:
                    single.push_async(number)
            case "take":
                for stream, got in zip(pairs[at], read[at], strict=True):
                    got += stream.take_all()
            case "read" | "wait" as how:
                for stream, got in zip(pairs[at], read[at], strict=True):
                    if how == "wait" or stream.stats().queue_size:
                        spawn(first_of, stream, got)
                await settle()
            case "listen" if dice.random() < 0.2:
                for stream in pairs[at]:
                    stream.deliver_to(self_pid())
            case "end" if dice.random() < 0.2:
                for stream in pairs[at]:
                    stream.cancel("over")
            case "leave" if dice.random() < 0.1:
                fan.remove(pairs[at][0])
                pairs[at][1].cancel("left")
                pairs[at][0].cancel("left")
        await settle()
        for (fanned, single), (got, wanted) in zip(pairs, read, strict=True):
            assert fanned.stats() == single.stats()
            assert got == wanted
    for (fanned, single), _ in zip(pairs, read, strict=True):
        assert fanned.take_all() == single.take_all()


async def test_a_stream_that_left_a_fan_hears_nothing_more(runtime):
    """Removed twice does no harm; what it had is still there."""
    fan, stream = EventFan(), open_stream()
    fan.add(stream)
    for number in range(3):
        fan.push(number)
    assert len(fan) == 1

    fan.remove(stream)
    fan.remove(stream)
    fan.push(3)

    assert len(fan) == 0
    assert stream.take_all() == [0, 1, 2]


async def test_a_listener_is_told_of_what_a_fan_brings(runtime):
    """A process that reads by message gets its message, also when the stream was quiet before."""
    fan, stream = EventFan(), open_stream()
    fan.add(stream)
    fan.push(1)
    fan.push(2)
    stream.deliver_to(self_pid())
    assert isinstance(await receive(timeout_s=5), StreamReady)
    assert stream.take_all() == [1, 2]

    fan.push(3)

    assert isinstance(await receive(timeout_s=5), StreamReady)
    assert stream.take_all() == [3]
