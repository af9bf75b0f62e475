"""Looks take turns."""

from typing import Any

import pytest

from lemon_otp.repl.connections import Pending
from lemon_otp.repl.operations import Operation
from lemon_otp.repl.turns import LATER, Turns

HELD_S = 1_000.0
LOOK = Operation("look", lambda _: {})


def pending() -> Pending:
    nobody: Any = None
    return Pending(nobody, {}, LOOK, 0.0)


class FakeHandover:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.held = False
        self.posted: list[Pending] = []

    def begin(self, pending: Pending) -> None:
        self.posted.append(pending)


@pytest.fixture
def handover() -> FakeHandover:
    return FakeHandover()


@pytest.fixture
def posted(handover: FakeHandover) -> list[Pending]:
    """What was given to the loop."""
    return handover.posted


@pytest.fixture
def turns(handover: Any) -> Turns:
    return Turns(handover, HELD_S)


def test_one_look_at_a_time_is_given_to_the_loop_in_the_order_of_asking(turns: Turns, posted: list[Pending]) -> None:
    """The next one when it is over; what waits for its turn has no deadline yet."""
    looks = [pending() for _ in range(3)]
    for look in looks:
        turns.add(look)
    assert posted == looks[:1]
    assert [look.deadline_s < LATER for look in looks] == [True, False, False]
    turns.over(looks[1])  # it is not its turn
    assert posted == looks[:1]
    turns.over(looks[0])
    turns.over(looks[1])
    assert posted == looks


def test_one_that_nobody_wants_any_more_is_passed_over(turns: Turns, posted: list[Pending]) -> None:
    """It was cancelled while it waited."""
    looks = [pending() for _ in range(3)]
    for look in looks:
        turns.add(look)
    looks[1].cancelled = True
    turns.over(looks[0])
    assert posted == [looks[0], looks[2]]


def test_while_the_loop_is_known_to_be_held_nobody_waits_for_it(turns: Turns, handover: FakeHandover) -> None:
    """The deadline is now."""
    patient, at_once = pending(), pending()
    turns.add(patient)
    handover.held = True
    turns.add(at_once)
    turns.over(patient)
    assert patient.deadline_s - at_once.deadline_s > HELD_S / 2
