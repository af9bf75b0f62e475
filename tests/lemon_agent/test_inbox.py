"""The queues of an agent, as a value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_agent.inbox import Inbox, Queued, last_system_prompt, queue_mode

A, B, C = (Queued(text) for text in "abc")


def test_the_three_queues_never_mix():
    """What is put into one is taken from that one only."""
    inbox = Inbox().steer(A).followed_up(B).for_next_turn(C)
    assert inbox.take_steering()[1] == (A,)
    assert inbox.take_follow_up()[1] == (B,)
    assert inbox.take_next_turn()[1] == (C,)
    assert inbox.waiting


@pytest.mark.requirement("QUEUE-2")
def test_a_mode_says_how_much_one_drain_takes():
    """One at a time takes the first; all takes everything; each queue has its own mode."""
    inbox = Inbox(follow_up_mode="all").steer(A).steer(B).followed_up(A).followed_up(B)
    left, taken = inbox.take_steering()
    assert (taken, left.steering) == ((A,), (B,))
    left, taken = inbox.take_follow_up()
    assert (taken, left.follow_up) == ((A, B), ())


@pytest.mark.requirement("QUEUE-4")
def test_steering_is_taken_before_follow_ups():
    """As long as there is steering, that is what comes next."""
    inbox = Inbox().followed_up(A).steer(B)
    inbox, first = inbox.take_next()
    inbox, second = inbox.take_next()
    assert (first, second, inbox.waiting) == ((B,), (A,), False)


def test_queues_are_cleared_one_by_one():
    """Only the named ones are emptied."""
    inbox = Inbox().steer(A).followed_up(B).for_next_turn(C)
    assert inbox.cleared(steering=True) == Inbox().followed_up(B).for_next_turn(C)
    assert inbox.cleared(follow_up=True, next_turn=True) == Inbox().steer(A)


@pytest.mark.parametrize(
    ("name", "mode"), [("one-at-a-time", "one_at_a_time"), ("one_at_a_time", "one_at_a_time"), ("all", "all")]
)
def test_both_spellings_of_a_mode_are_known(name, mode):
    """The dash of the wire and the underscore of Python are the same mode."""
    assert queue_mode(name) == mode


def test_an_unknown_mode_is_refused():
    """The error names the modes there are."""
    with pytest.raises(ValueError, match="one_at_a_time, all"):
        queue_mode("some")


def test_the_last_system_prompt_of_a_batch_counts():
    """Messages without one change nothing."""
    assert last_system_prompt((A, Queued("x", "first"), Queued("y", "second"), B)) == "second"
    assert last_system_prompt((A, B)) is None


@pytest.mark.requirement("QUEUE-7")
@given(st.lists(st.integers()), st.lists(st.sampled_from(["one_at_a_time", "all"]), min_size=40, max_size=40))
def test_everything_put_in_comes_out_once_and_in_order(items, modes):
    """Whatever the modes, drains give the messages first in, first out, none lost and none twice."""
    inbox = Inbox()
    for item in items:
        inbox = inbox.steer(Queued(item))
    out = []
    for mode in modes:
        inbox = Inbox(inbox.steering, steering_mode=mode)
        inbox, taken = inbox.take_steering()
        out += [queued.message for queued in taken]
    while inbox.steering:
        inbox, taken = inbox.take_steering()
        out += [queued.message for queued in taken]
    assert out == items
