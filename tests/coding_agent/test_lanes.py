"""Lanes: at most so many work, first come first served, and waiting parents never hold up their children."""

import random

import pytest

from coding_agent.lanes import DEFAULT_CAPS, Lanes


def test_the_lanes_have_the_caps_they_are_known_for():
    """main 4, subagent 8, background_exec 2; a lane nobody named has one seat."""
    assert DEFAULT_CAPS == {"main": 4, "subagent": 8, "background_exec": 2}
    for name, cap in [*DEFAULT_CAPS.items(), ("other", 1)]:
        lanes = Lanes()
        granted = [holder for number in range(10) for holder in lanes.ask(name, number)]
        assert granted == list(range(cap))


def test_seats_go_in_the_order_asked_and_lanes_do_not_disturb_each_other():
    """A seat that comes free goes to who has waited longest in that lane; who gave up is passed over."""
    lanes = Lanes({"a": 1, "b": 1})
    assert [lanes.ask("a", 1), lanes.ask("a", 2), lanes.ask("a", 3), lanes.ask("b", 4)] == [[1], [], [], [4]]
    assert lanes.ask("a", 1) == [1]
    assert lanes.ask("a", 2) == []

    assert lanes.release(2) == []
    assert lanes.release(1) == [3]
    assert lanes.release(1) == []
    assert lanes.counts() == {"a": (1, 0, 0), "b": (1, 0, 0)}


def test_who_steps_aside_gives_its_seat_and_comes_back_first():
    """A parent that waits gives its seat away; when it has work again it is before all who wait."""
    lanes = Lanes({"a": 1})
    lanes.ask("a", "parent")
    lanes.ask("a", "child")
    assert lanes.step_back("parent") == []
    assert lanes.step_aside("parent") == ["child"]
    lanes.ask("a", "other")
    assert lanes.step_back("parent") == []
    assert (lanes.is_seated("parent"), lanes.is_seated("nobody")) == (False, True)

    assert lanes.release("child") == ["parent"]
    assert lanes.step_aside("parent") == ["other"]
    assert lanes.release("parent") == []
    assert lanes.step_aside("nobody") == []


@pytest.mark.requirement("BR-120")
@pytest.mark.parametrize("seed", range(50))
def test_nested_work_always_comes_to_its_end(seed):
    """
    However deep work is nested and however small the lane, when parents step aside for their children everything
    ends, and never more hold a seat than there are.
    """
    dice = random.Random(seed)
    cap = dice.randint(1, 3)
    lanes: Lanes[int] = Lanes({"a": cap})
    todo = {number: dice.randint(0, 3) for number in range(4)}  # children it will start, one after the other
    parent_of: dict[int, int] = {}
    runnable = [holder for number in todo for holder in lanes.ask("a", number)]
    ended = 0
    steps = 0
    while runnable:
        steps += 1
        assert steps < 10_000
        assert lanes.counts()["a"][0] <= cap
        worker = runnable.pop(dice.randrange(len(runnable)))
        if todo[worker] > 0 and len(todo) < 60:
            todo[worker] -= 1
            child = len(todo)
            todo[child], parent_of[child] = dice.randint(0, 2), worker
            runnable += lanes.step_aside(worker)
            runnable += lanes.ask("a", child)
        else:
            ended += 1
            runnable += lanes.release(worker)
            if worker in parent_of:
                runnable += lanes.step_back(parent_of[worker])

    assert ended == len(todo)
    assert lanes.counts()["a"] == (0, 0, 0)
