"""The same child many times, reached by key."""

from typing import Any

import pytest

from lemon_otp import (
    AlreadyStarted,
    BadArgument,
    CallFailed,
    ChildSpec,
    GenServer,
    NoRegistry,
    PartitionSupervisor,
    Reply,
    Via,
    call,
    exit_signal,
    stop,
    whereis,
)
from lemon_otp.testing import settle
from tests.lemon_otp.trees import child

pytestmark = pytest.mark.usefixtures("runtime")


class Numbered(GenServer[int, Any, Any, int]):
    """Answers with the number it was started with."""

    def init(self, arg: int) -> int:
        return arg

    def handle_call(self, message: Any, caller: Any, state: int) -> Reply[int]:
        return Reply(state, state)


def numbered(number: int) -> ChildSpec:
    return Numbered.child_spec(number)


async def test_a_key_always_reaches_the_same_partition() -> None:
    """An integer goes to its own modulo the count, anything else by its hash; every partition is reachable."""
    await PartitionSupervisor.start_link(numbered, name="parts", partitions=3)
    assert [await call(Via("parts", key), "who") for key in (0, 1, 2, 3, 4, -4)] == [0, 1, 2, 0, 1, 1]
    assert await call(Via("parts", "some key"), "who") == await call(Via("parts", "some key"), "who")
    assert PartitionSupervisor.partitions("parts") == 3


async def test_children_have_their_numbers_as_ids_and_are_restarted_in_place() -> None:
    """which_children lists 0, 1, 2...; a restarted partition is found under its number again."""
    supervisor = await PartitionSupervisor.start_link(numbered, name="parts", partitions=2)
    infos = await PartitionSupervisor.which_children(supervisor)
    assert [info.id for info in infos] == [0, 1]
    before = PartitionSupervisor.whereis("parts", 1)
    assert before is not None
    exit_signal(before, "kill")
    assert PartitionSupervisor.whereis("parts", 1) is None
    await settle()
    after = PartitionSupervisor.whereis("parts", 1)
    assert after is not None
    assert after is not before


async def test_one_spec_may_serve_for_all_partitions() -> None:
    """A plain spec is started once a partition, under the partition's number."""
    supervisor = await PartitionSupervisor.start_link(child([], "a"), name="parts", partitions=4)
    assert (await PartitionSupervisor.count_children(supervisor)).active == 4


async def test_nothing_is_left_when_it_stops() -> None:
    """Its name, its partitions and the way to them are gone."""
    await PartitionSupervisor.start_link(numbered, name="parts", partitions=2)
    await stop("parts")
    assert whereis("parts") is None
    with pytest.raises(NoRegistry):
        PartitionSupervisor.whereis("parts", 0)
    with pytest.raises((NoRegistry, CallFailed)):
        await call(Via("parts", 0), "who")


async def test_partitions_cannot_be_registered_by_hand_and_their_number_must_make_sense() -> None:
    """Every key belongs to a running partition already; a count of 0 is refused."""
    await PartitionSupervisor.start_link(numbered, name="parts", partitions=1)
    with pytest.raises(AlreadyStarted):
        await Numbered.start(7, name=Via("parts", "other"))
    with pytest.raises(BadArgument):
        await PartitionSupervisor.start_link(numbered, name="more", partitions=0)
