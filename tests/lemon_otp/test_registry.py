"""Names that die with their process."""

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lemon_otp import (
    ANY,
    AlreadyRegistered,
    AlreadyStarted,
    BadArgument,
    CallFailed,
    Down,
    NoRegistry,
    NotFound,
    Pid,
    Registered,
    Registry,
    Runtime,
    Supervisor,
    Unregistered,
    Via,
    at_exit,
    call,
    cast,
    exit_signal,
    info,
    monitor,
    receive,
    register,
    self_pid,
    send,
    spawn,
    stop,
    trap_exit,
    unlink,
    whereis,
)
from lemon_otp.testing import settle
from tests.lemon_otp.trees import Child, child, pids

pytestmark = pytest.mark.usefixtures("runtime")


async def registered(key: Any, value: Any = None, registry: str = "r") -> Pid:
    """A process that has registered itself and waits to be told more."""

    async def body() -> None:
        Registry.register(registry, key, value)
        while True:
            work = await receive()
            work()

    pid = spawn(body)
    await settle()
    return pid


async def test_a_process_is_found_under_its_key_until_it_ends() -> None:
    """By lookup, whereis and Via; the moment it is dead it is found no more."""
    await Registry.start_link("r")
    pid = await registered("k", "value")
    assert Registry.lookup("r", "k") == [(pid, "value")]
    assert Registry.whereis("r", "k") is pid
    assert whereis(Via("r", "k")) is pid
    exit_signal(pid, "kill")
    assert Registry.lookup("r", "k") == []
    assert Registry.whereis("r", "k") is None
    assert Registry.count("r") == 0


@pytest.mark.requirement("INV-3.4")
async def test_the_clean_up_is_visible_as_soon_as_the_down_is() -> None:
    """Whoever reads the Down of a process, or its links and other names, finds its keys free."""
    await Registry.start_link("r")
    pid = await registered("k")
    monitor(pid)
    exit_signal(pid, "boom")
    assert isinstance(await receive(), Down)
    Registry.register("r", "k", "mine")
    assert Registry.whereis("r", "k") is self_pid()


@pytest.mark.requirement("INV-3.3")
async def test_a_unique_key_has_one_holder() -> None:
    """A second registration is refused with who holds it, for the holder itself too."""
    await Registry.start_link("r")
    holder = await registered("k")
    with pytest.raises(AlreadyRegistered) as refused:
        Registry.register("r", "k")
    assert refused.value.pid is holder
    Registry.register("r", ("k", 1))
    with pytest.raises(AlreadyRegistered):
        Registry.register("r", ("k", 1))


async def test_a_duplicate_key_has_any_number_of_holders() -> None:
    """Each registration counts; dispatch reaches every one; one death takes only its own."""
    await Registry.start_link("r", keys="duplicate")
    first, second = await registered("k", 1), await registered("k", 2)
    Registry.register("r", "k", 3)
    Registry.register("r", "k", 4)
    assert [value for _, value in Registry.lookup("r", "k")] == [1, 2, 3, 4]
    assert Registry.keys("r", self_pid()) == ["k", "k"]
    assert Registry.values("r", "k", self_pid()) == [3, 4]
    reached: list[Any] = []
    Registry.dispatch("r", "k", reached.extend)
    assert len(reached) == 4
    exit_signal(first, "kill")
    assert [pid for pid, _ in Registry.lookup("r", "k")] == [second, self_pid(), self_pid()]
    with pytest.raises(BadArgument):
        Registry.update_value("r", "k", lambda value: value)


async def test_dispatch_calls_nobody_for_a_key_without_entries_and_once_a_partition() -> None:
    """The groups together are all entries."""
    await Registry.start_link("r", keys="duplicate", partitions=3)
    groups: list[list[Any]] = []
    Registry.dispatch("r", "k", groups.append)
    assert groups == []
    members = [await registered("k", number) for number in range(6)]
    Registry.dispatch("r", "k", groups.append)
    assert sorted(value for group in groups for _, value in group) == list(range(6))
    assert {pid for group in groups for pid, _ in group} == set(members)


async def test_unregistering_frees_the_callers_entries_only() -> None:
    """All under a key, or those whose value matches; asking again does no harm."""
    await Registry.start_link("r", keys="duplicate")
    other = await registered("k", ("v", 1))
    for value in (("v", 1), ("v", 2), "w"):
        Registry.register("r", "k", value)
    Registry.unregister_match("r", "k", ("v", ANY))
    assert Registry.values("r", "k", self_pid()) == ["w"]
    Registry.unregister("r", "k")
    Registry.unregister("r", "k")
    assert Registry.lookup("r", "k") == [(other, ("v", 1))]


async def test_values_are_matched_selected_and_changed() -> None:
    """match and count_match look at values, select at everything, update_value changes the caller's."""
    await Registry.start_link("r")
    Registry.register("r", "a", {"role": "main", "n": 1})
    Registry.register("r", "b", {"role": "sub", "n": 2})
    assert Registry.match("r", "a", {"role": "main"}) == [(self_pid(), {"role": "main", "n": 1})]
    assert Registry.count_match("r", "b", {"role": "main"}) == 0
    assert [key for key, _, _ in Registry.select("r", value={"role": ANY})] == ["a", "b"]
    assert [key for key, _, _ in Registry.select("r", key="b", pid=self_pid())] == ["b"]
    assert Registry.update_value("r", "a", lambda value: value["n"]) == (1, {"role": "main", "n": 1})
    with pytest.raises(NotFound):
        Registry.update_value("r", "none", lambda value: value)


async def test_a_registry_keeps_metadata() -> None:
    """Of its own, by key."""
    await Registry.start_link("r")
    Registry.put_meta("r", "k", 1)
    assert Registry.meta("r", "k") == 1
    Registry.delete_meta("r", "k")
    Registry.delete_meta("r", "k")
    with pytest.raises(NotFound):
        Registry.meta("r", "k")


async def test_a_server_is_started_and_called_through_a_via_name() -> None:
    """The name is taken before init runs, conflicts are told, and it is free again when init fails."""
    await Registry.start_link("r")
    via = Via("r", ("user", 7), "meta")
    pid = await Child.start(([], "a"), name=via)
    assert pid is not None
    assert await call(via, "ping") == "ping"
    assert Registry.lookup("r", ("user", 7)) == [(pid, "meta")]
    with pytest.raises(AlreadyStarted) as taken:
        await Child.start(([], "b"), name=via)
    assert taken.value.pid is pid
    await stop(via)
    cast(via, "nobody hears this")
    with pytest.raises(CallFailed) as failed:
        await call(via, "ping")
    assert failed.value.reason == "noproc"


async def test_a_restarted_child_has_its_via_name_again() -> None:
    """Its predecessor's entry is gone before the restart."""
    specs = [Registry.child_spec("r"), child([], "a", name=Via("r", "a"))]
    supervisor = await Supervisor.start_link(specs)
    before = Registry.whereis("r", "a")
    assert before is not None
    exit_signal(before, "kill")
    await settle()
    after = Registry.whereis("r", "a")
    assert after is (await pids(supervisor))["a"]
    assert after is not before


class Plain(Child):
    """Goes down with what it is linked to."""

    trap_exit = False


@pytest.mark.requirement("BR-138")
async def test_a_killed_registry_comes_back_and_the_tree_with_it() -> None:
    """
    The registry is killed again and again. Its old parts never stand in the way of the new ones: each time the tree is
    complete, the registry is empty and usable, and what was registered in the old one is gone.
    """
    named = Plain.child_spec(([], "named"), id="named", name=Via("r", "named"))
    supervisor = await Supervisor.start_link(
        [Registry.child_spec("r", partitions=3), child([], "a"), named],
        strategy="one_for_one",
        max_restarts=100,
    )
    for _ in range(10):
        member = await registered("k")
        victim = whereis("r")
        assert victim is not None
        exit_signal(victim, "kill")
        await settle()
        assert not member.alive
        assert whereis("r") not in (None, victim)
        assert Registry.select("r") == [("named", (await pids(supervisor))["named"], None)]
    assert all(isinstance(pid, Pid) for pid in (await pids(supervisor)).values())


async def test_registered_processes_share_the_fate_of_their_registry() -> None:
    """They are linked: a stopped registry stops them with shutdown; one that unregistered everything is free."""
    trap_exit(True)
    registry = await Registry.start_link("r")
    member, left = await registered("k"), await registered("gone")
    send(left, lambda: Registry.unregister("r", "gone"))
    await settle()
    ref = monitor(member)
    await stop(registry)
    assert (await receive(lambda message: isinstance(message, Down))) == Down(ref, member, "shutdown")
    assert left.alive
    with pytest.raises(NoRegistry):
        Registry.lookup("r", "k")


async def test_a_name_goes_with_its_process_though_that_has_unlinked_itself() -> None:
    """The link to the partition carries the fate of the registry, not the clean-up."""
    registry = await Registry.start_link("r")
    (partition,) = [row.pid for row in await Supervisor.which_children(registry)]
    assert isinstance(partition, Pid)
    member = await registered("k")
    send(member, lambda: unlink(partition))
    await settle()
    assert partition not in info(member).links
    exit_signal(member, "kill")
    assert Registry.select("r") == []
    assert partition.alive


async def test_a_dead_partition_takes_the_registry_to_a_fresh_start() -> None:
    """All partitions are restarted, with no entries."""
    registry = await Registry.start_link("r", partitions=2)
    member = await registered("k")
    partitions = [info.pid for info in await Supervisor.which_children(registry)]
    exit_signal(partitions[0], "kill")  # type: ignore[arg-type]
    await settle()
    fresh = [info.pid for info in await Supervisor.which_children(registry)]
    assert all(isinstance(pid, Pid) and pid.alive for pid in fresh)
    assert set(fresh).isdisjoint(partitions)
    assert not member.alive
    assert Registry.select("r") == []


async def test_listeners_hear_of_every_registration_and_its_end() -> None:
    """Registered, and Unregistered whether the process left or died; a listener that is not there misses them."""
    register("listener", self_pid())
    await Registry.start_link("r", listeners=["listener", "nobody"])
    pid = await registered("k", 1)
    assert await receive() == Registered("r", "k", pid, 1)
    exit_signal(pid, "kill")
    assert await receive() == Unregistered("r", "k", pid)
    Registry.register("r", "mine")
    Registry.unregister("r", "mine")
    assert await receive() == Registered("r", "mine", self_pid(), None)
    assert await receive() == Unregistered("r", "mine", self_pid())


async def test_a_reader_finds_as_a_lookup_does_across_a_restart() -> None:
    """It sees every change at once, nothing while the registry is down, and the successor's entries."""
    await Registry.start_link("r")
    find = Registry.reader("r")
    pid = await registered("k", 5)
    assert find("k") == (pid, 5)
    trap_exit(True)
    await stop("r")
    assert find("k") is None
    await Registry.start_link("r")
    pid = await registered("k", 6)
    assert find("k") == (pid, 6)
    await Registry.start_link("many", keys="duplicate")
    with pytest.raises(BadArgument):
        Registry.reader("many")


async def test_unknown_registries_and_nonsense_are_refused() -> None:
    """NoRegistry for a name that is no registry, whatever is asked; BadArgument for impossible options."""
    for ask in (Registry.lookup, Registry.register, Registry.whereis, Registry.unregister):
        with pytest.raises(NoRegistry):
            ask("nope", "k")
    with pytest.raises(BadArgument):
        await Registry.start_link("r", keys="some")  # type: ignore[arg-type]
    with pytest.raises(BadArgument):
        await Registry.start_link("r", partitions=0)
    await Registry.start_link("r")
    with pytest.raises(AlreadyStarted):
        await Registry.start_link("r")


async def test_two_runtimes_do_not_see_each_others_registries() -> None:
    """Nothing is shared."""
    await Registry.start_link("r")
    Registry.register("r", "k")
    async with Runtime():
        with pytest.raises(NoRegistry):
            Registry.lookup("r", "k")
    assert Registry.count("r") == 1


@pytest.mark.requirement("BR-151")
async def test_a_registry_may_be_used_in_the_middle_of_its_own_clean_up() -> None:
    """
    Whatever runs when a registered process dies, a listener's work or an exit hook, lists, registers and unregisters
    like anybody: no lock is held, nothing waits, and nobody dead is seen.
    """
    await Registry.start_link("r")
    seen: list[Any] = []

    def look(dead: Pid, _reason: Any) -> None:
        seen.append((dead.alive, [pid for _, pid, _ in Registry.select("r")]))
        Registry.register("r", "k")

    first, second = await registered("k"), await registered("other")
    at_exit(first, look)
    exit_signal(first, "kill")
    assert seen == [(False, [second])]
    assert Registry.whereis("r", "k") is self_pid()
    Registry.unregister("r", "k")
    assert await registered("k") is Registry.whereis("r", "k")


STEPS = st.lists(
    st.tuples(st.sampled_from(["spawn", "register", "unregister", "kill"]), st.integers(0, 5), st.sampled_from("abc")),
    max_size=30,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, keys=st.sampled_from(["unique", "duplicate"]), partitions=st.integers(1, 3))
def test_a_registry_never_lists_the_dead(steps: Any, keys: Any, partitions: int) -> None:
    """After every step, and before any process has run again, all that is listed lives."""

    async def scenario() -> None:
        async with Runtime():
            await Registry.start_link("r", keys=keys, partitions=partitions)
            members: list[Pid] = []

            async def member() -> None:
                while True:
                    (await receive())()

            def try_to_register(key: str) -> None:
                with contextlib.suppress(AlreadyRegistered):
                    Registry.register("r", key)

            for what, number, key in steps:
                if what == "spawn":
                    members.append(spawn(member))
                elif members:
                    pid = members[number % len(members)]
                    if what == "kill":
                        exit_signal(pid, "kill")
                    elif what == "register":
                        send(pid, lambda key=key: try_to_register(key))
                    else:
                        send(pid, lambda key=key: Registry.unregister("r", key))
                listed = Registry.select("r")
                assert all(pid.alive for _, pid, _ in listed)
                await settle()
                assert Registry.count("r") == len(Registry.select("r"))
                if keys == "unique":
                    assert len({key for key, _, _ in Registry.select("r")}) == Registry.count("r")

    asyncio.run(scenario())
