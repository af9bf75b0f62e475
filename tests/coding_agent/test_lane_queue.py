"""The process that hands out seats: it tells whose turn it is, and takes back the seats of the dead."""

import pytest

from coding_agent.lane_queue import NAME, LaneQueue, Seated
from lemon_otp import exit_signal, receive, self_pid, spawn, whereis
from lemon_otp.testing import settle


async def idle() -> None:
    await receive(lambda message: message == "never")


async def seated() -> object:
    return (await receive(lambda message: isinstance(message, Seated), timeout_s=5)).holder


async def test_a_seat_comes_back_from_a_holder_that_dies(host):
    """Killed while seated or while waiting: the next in line is told, and the books are empty in the end."""
    holders = [spawn(idle) for _ in range(4)]
    for holder in holders:
        LaneQueue.ask("background_exec", holder, self_pid())
    assert [await seated(), await seated()] == holders[:2]
    assert await LaneQueue.counts() == {"background_exec": (2, 2, 0)}

    exit_signal(holders[2], "kill")
    exit_signal(holders[0], "kill")
    assert await seated() == holders[3]
    for holder in (holders[1], holders[3]):
        exit_signal(holder, "kill")
    await settle()

    assert await LaneQueue.counts() == {"background_exec": (0, 0, 0)}


@pytest.mark.requirement("BR-120")
async def test_who_steps_back_is_told_when_its_seat_is_there(host):
    """At once when nobody took it, else when one comes free; one that never had a seat is not held up."""
    parent, child, stranger = (spawn(idle) for _ in range(3))
    LaneQueue.ask("one", parent, self_pid())
    assert await seated() == parent
    LaneQueue.step_aside(parent)
    LaneQueue.ask("one", child, self_pid())
    assert await seated() == child

    LaneQueue.step_back(parent, self_pid())
    await settle()
    assert await LaneQueue.counts() == {"one": (1, 1, 0)}
    LaneQueue.release(child)
    assert await seated() == parent
    LaneQueue.step_back(stranger, self_pid())
    assert await seated() == stranger


async def test_asking_a_queue_that_is_down_harms_nobody(host):
    """Nothing is raised in the caller, and the queue comes back with empty books."""
    LaneQueue.ask("one", self_pid(), self_pid())
    assert await seated() == self_pid()
    exit_signal(whereis(NAME), "kill")
    LaneQueue.release(self_pid())
    LaneQueue.step_aside(self_pid())
    await settle()

    assert await LaneQueue.counts() == {}
