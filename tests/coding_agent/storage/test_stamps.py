import re
from uuid import UUID

import pytest

from coding_agent.storage.stamps import (
    Stamper,
    derived_entry_id,
    file_stamp,
    iso,
    new_entry_id,
    new_session_id,
    parse_iso,
)
from lemon_otp import wall_ms


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1767323045678, "2026-01-02T03:04:05.678Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (10**18, "1970-01-01T00:00:00.000Z"),
    ],
)
def test_a_time_is_written_as_iso_text_in_utc(milliseconds, text):
    """
    Milliseconds and a Z; a time beyond every calendar is the epoch, never an error.
    """
    assert iso(milliseconds) == text


@pytest.mark.parametrize(
    ("stamp", "milliseconds"),
    [
        ("2026-01-02T03:04:05.678Z", 1767323045678),
        ("2026-01-02T03:04:05", 1767323045000),
        ("2026-01-02T05:04:05+02:00", 1767323045000),
        (5, 5),
        (True, None),
        ("soon", None),
        (None, None),
        (1.5, None),
    ],
)
def test_a_time_is_read_in_every_form_that_occurs(stamp, milliseconds):
    """
    With and without a zone, as a number; anything else is no time.
    """
    assert parse_iso(stamp) == milliseconds


def test_the_stamper_tells_the_present_time():
    """
    Its text is that of the clock, also when it is asked many times in a second.
    """
    stamper = Stamper()
    before = wall_ms()
    stamps = [stamper.now() for _ in range(1000)]

    assert before <= parse_iso(stamps[0]) <= parse_iso(stamps[-1]) <= wall_ms()
    assert stamps == sorted(stamps)
    assert file_stamp(iso(1767323045678)) == "2026-01-02T03-04-05-678Z"


def test_session_ids_are_uuids_that_sort_by_time():
    """
    Version 7, and all different.
    """
    ids = [new_session_id() for _ in range(100)]
    assert len(set(ids)) == 100
    assert {UUID(one).version for one in ids} == {7}
    assert ids[0][:8] <= ids[-1][:8]


def test_an_entry_id_is_eight_hex_digits_nobody_has():
    """
    When a hundred tries find none that is free, a whole UUID is taken.
    """

    class Everything:
        def __contains__(self, item):
            return True

    assert re.fullmatch("[0-9a-f]{8}", new_entry_id(()))
    assert UUID(new_entry_id(Everything())).version == 4


def test_a_derived_id_is_the_same_each_time_and_avoids_those_taken():
    """
    It depends on the session and the number only.
    """
    first = derived_entry_id("s", 1, ())
    assert derived_entry_id("s", 1, ()) == first
    assert derived_entry_id("s", 2, ()) != first
    assert derived_entry_id("s", 1, {first}) != first
    assert len({derived_entry_id("s", 1, {first}), first}) == 2
