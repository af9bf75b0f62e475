"""Taking from a mailbox."""

import time
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_otp.mailbox import NOTHING, discard, insert_urgent, take


def test_without_a_match_the_oldest_is_taken() -> None:
    """And NOTHING from an empty mailbox, which is not the same as None."""
    box = deque([None, 2])
    assert take(box, None) is None
    assert take(box, None) == 2
    assert take(box, None) is NOTHING
    assert repr(NOTHING) == "NOTHING"


def test_the_oldest_that_matches_is_taken_from_the_start_on() -> None:
    """The others keep their order."""
    box = deque([1, 2, 3, 4])
    assert take(box, lambda message: message % 2 == 0, 2) == 4
    assert take(box, lambda message: message > 9) is NOTHING
    assert list(box) == [1, 2, 3]


def test_an_error_of_the_match_takes_nothing() -> None:
    """The mailbox is as it was."""
    box = deque([1, 2])
    with pytest.raises(ZeroDivisionError):
        take(box, lambda message: 1 / (2 - message) > 5)
    assert list(box) == [1, 2]


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_a_message_is_found_wherever_it_stands(size: int, start: int, wanted: int) -> None:
    """And the others stay."""
    box = deque(range(size))
    expected = wanted if start <= wanted < size else NOTHING
    assert take(box, lambda message: message == wanted, start) == expected
    assert list(box) == [number for number in range(size) if number != expected]


def test_taking_from_the_middle_of_a_long_mailbox_takes_no_longer_than_looking_at_it() -> None:
    """A hundred thousand messages of which the last is wanted: milliseconds, not most of a second."""
    box = deque(range(100_000))
    before_s = time.perf_counter()
    for number in range(99_999, 99_994, -1):
        assert take(box, lambda message, number=number: message == number) == number
    looking_s = time.perf_counter() - before_s
    before_s = time.perf_counter()
    for _ in range(5):
        assert sum(message == -1 for message in list(box)) == 0
    assert looking_s < 6 * (time.perf_counter() - before_s)


def test_discard_drops_all_that_match() -> None:
    """And says how many."""
    box = deque([1, 2, 1, 3])
    assert discard(box, lambda message: message == 1) == 2
    assert discard(box, lambda message: message == 1) == 0
    assert list(box) == [2, 3]


@given(st.lists(st.sampled_from(["tick", "a", "b"]), max_size=12))
def test_an_urgent_message_overtakes_only_repeated_ones(messages: list[str]) -> None:
    """What others have sent keeps its place before it; the order of everything else is kept."""
    box = deque(messages)
    insert_urgent(box, "stop", lambda message: message == "tick")
    position = list(box).index("stop")
    after = list(box)[position + 1 :]
    assert all(message == "tick" for message in after)
    box.remove("stop")
    assert list(box) == messages
