"""Tables that belong to a process and may outlive it."""

from collections.abc import Callable
from typing import Any

import pytest

from lemon_otp import (
    BadArgument,
    Down,
    GenServer,
    NoReply,
    Pid,
    Runtime,
    Supervisor,
    Table,
    TableTransfer,
    exit_signal,
    monitor,
    receive,
    self_pid,
    send,
    spawn,
    stop,
)
from lemon_otp.testing import settle

pytestmark = pytest.mark.usefixtures("runtime")


async def worker() -> Pid:
    """A process that calls what it is sent, and keeps what is no function in its mailbox."""

    async def body() -> None:
        while True:
            (await receive(callable))()

    pid = spawn(body)
    await settle()
    return pid


async def do(pid: Pid, work: Callable[[], Any]) -> Any:
    """What `work` returned or raised in another process."""
    results: list[Any] = []

    def attempt() -> None:
        try:
            results.append(work())
        except BadArgument as error:
            results.append(error)

    send(pid, attempt)
    await settle()
    return results[0]


def names_of(table: Table) -> Any:
    info = table.info()
    return None if info is None else info.owner


async def test_a_set_keeps_one_row_a_key() -> None:
    """Rows are tuples that begin with their key; several may be inserted at once."""
    table = Table.new("t")
    table.insert(("a", 1))
    table.insert([("a", 2), ("b", 3)])
    assert table.lookup("a") == [("a", 2)]
    assert sorted(table.rows()) == [("a", 2), ("b", 3)]
    assert table.member("b")
    assert not table.member("c")
    assert len(table) == 2
    assert table.take("b") == [("b", 3)]
    table.delete("none")
    table.clear()
    assert table.rows() == []


async def test_bags_keep_many_rows_a_key() -> None:
    """A bag no row twice, a duplicate_bag any."""
    bag, duplicates = Table.new("bag", "bag"), Table.new("dup", "duplicate_bag")
    for table in (bag, duplicates):
        for number in (1, 2, 1):
            table.insert(("k", number))
    assert bag.lookup("k") == [("k", 1), ("k", 2)]
    assert duplicates.lookup("k") == [("k", 1), ("k", 2), ("k", 1)]
    duplicates.delete_row(("k", 1))
    assert duplicates.lookup("k") == [("k", 2)]


async def test_insert_new_is_all_or_nothing() -> None:
    """One known key refuses the whole list."""
    table = Table.new("t")
    assert table.insert_new(("k", 1))
    assert not table.insert_new([("x", 1), ("k", 2)])
    assert table.rows() == [("k", 1)]


async def test_an_ordered_set_is_walked_by_key() -> None:
    """first and next, to the default at the end."""
    table = Table.new("t", "ordered_set")
    table.insert([(3, "c"), (1, "a"), (2, "b")])
    assert [row[0] for row in table.rows()] == [1, 2, 3]
    assert [table.first(), table.next(1), table.next(1.5), table.next(3, "end")] == [1, 2, 2, "end"]


async def test_counters_are_counted_up_in_place() -> None:
    """The second element by default, any other on request, from a default row if need be."""
    table = Table.new("t")
    table.insert(("n", 5, 0))
    assert table.update_counter("n", 3) == 8
    assert table.update_counter("n", 2, position=2) == 2
    assert table.update_counter("m", default=("m", 10)) == 11
    for wrong in (lambda: table.update_counter("none"), lambda: table.update_counter("n", position=9)):
        with pytest.raises(BadArgument):
            wrong()


@pytest.mark.parametrize(
    ("access", "reads", "writes"), [("public", True, True), ("protected", True, False), ("private", False, False)]
)
async def test_access_says_who_may_do_what(access: Any, reads: bool, writes: bool) -> None:
    """The owner may do everything, others what the access says; refusals change nothing."""
    table = Table.new("t", access=access)
    table.insert(("k", 1))
    other = await worker()
    assert (await do(other, lambda: table.lookup("k")) == [("k", 1)]) is reads
    assert (not isinstance(await do(other, lambda: table.insert(("k", 2))), BadArgument)) is writes
    assert table.lookup("k") == [("k", 2 if writes else 1)]
    assert (not isinstance(await do(other, table.drop), BadArgument)) is writes


@pytest.mark.requirement("TREE-4")
async def test_a_table_dies_with_its_owner_before_anybody_is_told() -> None:
    """Whoever reads the Down finds the name free."""
    owner = await worker()
    table = await do(owner, lambda: Table.new("t", access="public"))
    monitor(owner)
    exit_signal(owner, "kill")
    assert isinstance(await receive(), Down)
    assert Table.whereis("t") is None
    assert table.info() is None
    with pytest.raises(BadArgument):
        table.lookup("k")
    assert Table.new("t").info() is not None


async def test_an_heir_gets_the_table_and_is_told() -> None:
    """With the former owner and the data; then the table dies with the heir."""
    owner, heir = await worker(), await worker()
    table = await do(owner, lambda: Table.new("t", access="public", heir=self_pid(), heir_data="will"))
    await do(owner, lambda: table.set_heir(heir, "last will"))
    table.insert(("k", 1))
    exit_signal(owner, "kill")
    await settle()
    assert names_of(table) is heir
    assert heir.mailbox[0] == TableTransfer(table, owner, "last will")  # type: ignore[attr-defined]
    assert table.lookup("k") == [("k", 1)]
    exit_signal(heir, "kill")
    assert Table.whereis("t") is None


async def test_a_dead_heir_inherits_nothing() -> None:
    """Nor does an owner who names itself, nor anybody from a table that was dropped."""
    owner, heir = await worker(), await worker()
    await do(owner, lambda: Table.new("t", heir=heir))
    exit_signal(heir, "kill")
    exit_signal(owner, "kill")
    assert Table.whereis("t") is None
    owner, heir = await worker(), await worker()
    table = await do(owner, lambda: Table.new("u", heir=heir))
    await do(owner, table.drop)
    exit_signal(owner, "kill")
    await settle()
    assert not heir.mailbox  # type: ignore[attr-defined]


async def test_a_table_may_be_given_away() -> None:
    """By its owner, to a live process that is not the owner; the heir stays."""
    owner, friend, heir = await worker(), await worker(), await worker()
    table = await do(owner, lambda: Table.new("t", heir=heir, heir_data="will"))
    for pid, to in ((friend, friend), (owner, owner)):
        assert isinstance(await do(pid, lambda to=to: table.give_away(to)), BadArgument)
    await do(owner, lambda: table.give_away(friend, "gift"))
    assert names_of(table) is friend
    assert friend.mailbox[0] == TableTransfer(table, owner, "gift")  # type: ignore[attr-defined]
    assert isinstance(await do(owner, lambda: table.insert(("k", 1))), BadArgument)
    exit_signal(owner, "kill")
    assert names_of(table) is friend
    exit_signal(friend, "kill")
    assert names_of(table) is heir


async def test_a_keeper_hands_the_table_back_to_a_restarted_owner() -> None:
    """The pattern for state that is to survive a crash: the keeper is the heir and gives it back."""

    async def keep() -> None:
        while True:
            transfer = await receive()
            keeper_got.append(transfer.former_owner)
            await settle()
            successor = (await Supervisor.which_children(supervisor))[0].pid
            transfer.table.give_away(successor, "back")

    class Owner(GenServer[None, Any, Any, list[Any]]):
        def init(self, arg: None) -> list[Any]:
            if Table.whereis("t") is None:
                Table.new("t", access="public", heir=keeper)
            return []

        def handle_info(self, message: Any, state: list[Any]) -> Any:
            received.append(message.data)
            return NoReply(state)

    keeper_got: list[Any] = []
    received: list[Any] = []
    keeper = spawn(keep)
    supervisor = await Supervisor.start_link([Owner.child_spec(None)])
    owner = (await Supervisor.which_children(supervisor))[0].pid
    assert isinstance(owner, Pid)
    Table.named("t").insert(("k", 1))
    exit_signal(owner, "kill")
    await settle()
    assert keeper_got == [owner]
    assert received == ["back"]
    assert Table.named("t").lookup("k") == [("k", 1)]


async def test_the_owner_still_has_its_table_in_terminate() -> None:
    """It vanishes with the process, not before."""
    seen: list[Any] = []

    class Owner(GenServer[None, Any, Any, Table]):
        trap_exit = True

        def init(self, arg: None) -> Table:
            table = Table.new("t", access="private")
            table.insert(("k", 1))
            return table

        def terminate(self, reason: Any, state: Table) -> None:
            seen.extend(state.lookup("k"))

    owner = await Owner.start(None)
    assert owner is not None
    await stop(owner)
    assert seen == [("k", 1)]
    assert Table.whereis("t") is None


async def test_nonsense_is_refused() -> None:
    """A taken name, an unknown type or access, a row that is no tuple, a key that cannot be one, an unknown table."""
    table = Table.new("t")
    attempts: list[Callable[[], Any]] = [
        lambda: Table.new("t"),
        lambda: Table.new("u", "heap"),  # type: ignore[arg-type]
        lambda: Table.new("u", access="open"),  # type: ignore[arg-type]
        lambda: table.insert(["k", 1]),  # type: ignore[arg-type, list-item]
        lambda: table.insert(()),
        lambda: table.insert(([], 1)),
        lambda: Table.named("nope"),
    ]
    for attempt in attempts:
        with pytest.raises(BadArgument):
            attempt()
    assert Table.whereis("u") is None


async def test_two_runtimes_do_not_see_each_others_tables() -> None:
    """Nothing is shared."""
    Table.new("t")
    async with Runtime():
        assert Table.whereis("t") is None


async def test_a_counter_goes_up_by_whole_numbers_only() -> None:
    """Anything else is refused with BadArgument, and the row stays as it was."""
    table = Table.new("counters")
    table.insert(("a", 1))
    for by in ("x", 1.5, None, True):
        with pytest.raises(BadArgument):
            table.update_counter("a", by)  # type: ignore[arg-type]

    assert table.lookup("a") == [("a", 1)]


async def test_a_table_with_an_heir_that_is_no_process_is_not_made() -> None:
    """Its name stays free."""
    with pytest.raises(BadArgument):
        Table.new("heirless", heir="somebody")  # type: ignore[arg-type]

    assert Table.whereis("heirless") is None
