"""Views of what processes hold in common."""

import gc

import pytest

from lemon_otp import EventStream, Registry, Table, introspect, self_pid
from lemon_otp.testing import settle

pytestmark = pytest.mark.usefixtures("runtime")


async def test_streams_are_listed_as_long_as_somebody_may_read_them() -> None:
    """Open ones, and ended ones that somebody holds, with how full they are and were and what they dropped."""
    first, second = EventStream.start(max_queue=2), EventStream.start()
    for number in range(3):
        first.push(number)
    second.complete(1)
    infos = introspect.streams()
    assert [(info.pid, info.open, info.outcome) for info in infos] == [
        (first.pid, True, None),
        (second.pid, False, "Completed"),
    ]
    assert (infos[0].stats.queue_size, infos[0].stats.high_water, infos[0].stats.dropped) == (2, 2, 1)
    async for _ in second.events():
        pass
    del second
    await settle()
    gc.collect()
    assert [info.pid for info in introspect.streams()] == [first.pid]


async def test_registries_are_listed_with_their_sizes() -> None:
    """By name: the kind of keys, registrations, processes."""
    await Registry.start_link("names")
    await Registry.start_link("groups", keys="duplicate")
    for key in ("a", "b"):
        Registry.register("names", key)
    found = [(info.name, info.keys, info.entries, info.processes) for info in introspect.registries()]
    assert found == [("groups", "duplicate", 0, 0), ("names", "unique", 2, 1)]


async def test_tables_are_listed_by_name() -> None:
    """With owner and size; a dropped one is gone."""
    Table.new("b").insert(("k", 1))
    dropped = Table.new("a")
    assert [(info.name, info.size, info.owner) for info in introspect.tables()] == [
        ("a", 0, self_pid()),
        ("b", 1, self_pid()),
    ]
    dropped.drop()
    assert [info.name for info in introspect.tables()] == ["b"]
