"""What is listed for as long as somebody holds it."""

from lemon_otp.held import ROOM_MIN, Held


class Thing:
    """Something that can be held."""


def test_what_somebody_holds_is_listed_in_order_and_what_nobody_holds_is_not() -> None:
    """Listing keeps nothing alive."""
    held: Held[Thing] = Held()
    first, second = Thing(), Thing()
    for thing in (first, second):
        held.note(thing)
    held.note(Thing())
    assert list(held) == [first, second]
    del first, thing
    assert list(held) == [second]


def test_those_that_are_gone_take_no_room() -> None:
    """However many come and go, no more is kept than twice what was there."""
    held: Held[Thing] = Held()
    kept = [Thing() for _ in range(ROOM_MIN)]
    for thing in kept:
        held.note(thing)
    for _ in range(100 * ROOM_MIN):
        held.note(Thing())
    assert list(held) == kept
    assert len(held._noted) <= 2 * ROOM_MIN
