"""Slots and the queue for them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lemon_ai.admission import Lane, Waiting


def lane(cap: int = 1, queue: int = 2) -> Lane:
    return Lane(cap, queue)


def names(admitted: object) -> list[int]:
    return [waiting.token for waiting in admitted]  # type: ignore[attr-defined]


def test_a_free_slot_is_given_at_once() -> None:
    """Up to the cap."""
    two = lane(2)
    assert (two.take(1), two.take(2), two.take(3)) == (True, True, False)


def test_whoever_waited_longest_gets_the_slot_that_comes_free() -> None:
    """In the same step, so that nobody who comes later can be faster."""
    one = lane()
    one.take(1)
    assert one.wait(Waiting(2, 0.0, None))
    assert one.wait(Waiting(3, 0.0, None))
    assert not one.wait(Waiting(4, 0.0, None)), "the queue is bounded"
    assert names(one.give_back(1)) == [2]
    assert not one.take(5), "the slot belongs to the one that waited"
    assert names(one.give_back(2)) == [3]


def test_a_slot_is_given_back_once_however_often_it_is_said() -> None:
    """The count never goes below zero."""
    one = lane()
    one.take(1)
    assert names(one.give_back(1)) == []
    assert names(one.give_back(1)) == []
    assert (one.take(2), one.take(3)) == (True, False)


def test_who_leaves_the_queue_takes_no_slot() -> None:
    """A caller that died or gave up."""
    one = lane()
    one.take(1)
    one.wait(Waiting(2, 0.0, None))
    one.wait(Waiting(3, 0.0, None))
    assert one.leave(2) is not None
    assert one.leave(9) is None
    assert names(one.give_back(1)) == [3]


def test_raising_the_cap_lets_those_in_who_wait() -> None:
    """At once, in order."""
    one = lane()
    one.take(1)
    one.wait(Waiting(2, 0.0, None))
    one.wait(Waiting(3, 0.0, None))
    one.cap = 3
    assert names(one.admit_waiting()) == [2, 3]


@given(st.integers(1, 4), st.lists(st.tuples(st.sampled_from(["ask", "end", "leave"]), st.integers(0, 9)), max_size=60))
def test_never_more_than_the_cap_and_always_in_order(cap: int, steps: list[tuple[str, int]]) -> None:
    """Whatever happens in whatever order: the cap holds, no slot idles while somebody waits, nobody is overtaken."""
    busy = Lane(cap, 100)
    asked, let_in = [], []
    for action, token in steps:
        if action == "ask" and token not in busy.active and all(w.token != token for w in busy.queue):
            asked.append(token)
            if busy.take(token):
                let_in.append(token)
            else:
                busy.wait(Waiting(token, 0.0, None))
        elif action == "end" and token in busy.active:
            let_in += names(busy.give_back(token))
        elif action == "leave" and busy.leave(token) is not None:
            asked.reverse()
            asked.remove(token)
            asked.reverse()
        assert len(busy.active) <= cap
        assert not busy.queue or len(busy.active) == cap
    assert let_in == asked[: len(let_in)]
