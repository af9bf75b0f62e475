"""The bounded buffer, without any stream."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_otp.event_queue import EventQueue

EVENTS = st.lists(st.sampled_from(["push", "take"]), max_size=40)


@pytest.mark.requirement("INV-2.1", "ES-2", "ES-3", "ES-4")
@given(events=EVENTS, bound=st.integers(1, 4), strategy=st.sampled_from(["error", "drop_oldest", "drop_newest"]))
def test_a_queue_keeps_what_its_strategy_says_and_never_more_than_its_bound(
    events: list[str], bound: int, strategy: Any
) -> None:
    """Compared with a plain list: contents, answers, drops and high-water mark."""
    queue: EventQueue[int] = EventQueue(bound, strategy)
    model: list[int] = []
    dropped = high = 0
    for number, event in enumerate(events):
        if event == "take":
            assert (queue.events.popleft() if queue.events else None) == (model.pop(0) if model else None)
            continue
        full = len(model) >= bound
        assert queue.offer(number) is (not full or strategy != "error")
        dropped += full
        if not full:
            model.append(number)
        elif strategy == "drop_oldest":
            model = [*model[1:], number]
        high = max(high, len(model))
        assert list(queue.events) == model
        assert len(queue) <= bound
    stats = queue.stats()
    assert (stats.queue_size, stats.max_queue, stats.dropped, stats.high_water) == (len(model), bound, dropped, high)


@pytest.mark.requirement("ES-5")
@pytest.mark.parametrize("strategy", ["error", "drop_oldest", "drop_newest"])
def test_a_terminal_event_always_finds_room(strategy: Any) -> None:
    """At the cost of the oldest event, or of one more slot when that is asked for."""
    for extra_slot, kept, dropped in ((False, [2, "end"], 1), (True, [1, 2, "end"], 0)):
        queue: EventQueue[Any] = EventQueue(2, strategy)
        queue.offer(1)
        queue.offer(2)
        queue.end_with("end", extra_slot=extra_slot)
        assert list(queue.events) == kept
        assert queue.dropped == dropped


@pytest.mark.parametrize(("bound", "strategy"), [(0, "error"), (-1, "error"), (True, "error"), (1, "drop_some")])
def test_nonsense_is_refused(bound: Any, strategy: Any) -> None:
    """A bound below 1 and an unknown strategy are ValueErrors."""
    with pytest.raises(ValueError, match="must be"):
        EventQueue(bound, strategy)
