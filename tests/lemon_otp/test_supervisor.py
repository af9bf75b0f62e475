"""A supervisor of fixed children: order, restarts, limits, requests, and what it says when it cannot."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lemon_otp import (
    AlreadyPresent,
    AlreadyStarted,
    Backoff,
    BadArgument,
    BadChildSpec,
    CallFailed,
    ChildCounts,
    ChildRunning,
    ChildSpec,
    Down,
    DynamicSupervisor,
    Exit,
    GenServer,
    Ignore,
    NotFound,
    Pid,
    Reply,
    Runtime,
    StartFailed,
    Supervisor,
    call,
    exit_signal,
    monitor,
    receive,
    self_pid,
    sleep_s,
    spawn,
    spawn_link,
    stop,
    telemetry,
    trap_exit,
    unlink,
    whereis,
)
from lemon_otp.testing import FakeClock, settle
from tests.lemon_otp.trees import Child, Journal, child, end, failing, pids

pytestmark = pytest.mark.usefixtures("runtime")


async def abc(journal: Journal, strategy: Any = "one_for_one", **options: Any) -> Pid:
    """A supervisor of the children a, b and c."""
    specs = [child(journal, name) for name in "abc"]
    return await Supervisor.start_link(specs, strategy=strategy, **options)


@pytest.mark.requirement("TREE-9")
async def test_children_start_in_order_and_stop_in_reverse() -> None:
    """Starting goes through the specs, stopping back; each child is told to shut down."""
    journal: Journal = []
    supervisor = await abc(journal)
    assert journal == [("start", "a"), ("start", "b"), ("start", "c")]
    await stop(supervisor)
    assert journal[3:] == [("stop", "c"), ("stop", "b"), ("stop", "a")]


@pytest.mark.parametrize(
    ("strategy", "restarted"), [("one_for_one", "b"), ("rest_for_one", "bc"), ("one_for_all", "abc")]
)
async def test_each_strategy_restarts_its_own_set(strategy: str, restarted: str) -> None:
    """When b crashes the strategy's set comes back under new pids, stopped in reverse, started in order."""
    journal: Journal = []
    supervisor = await abc(journal, strategy)
    before = await pids(supervisor)
    journal.clear()
    await end(before["b"])
    after = await pids(supervisor)
    assert {name for name in "abc" if after[name] is not before[name]} == set(restarted)
    assert [name for what, name in journal if what == "start"] == list(restarted)
    stopped = [name for what, name in journal if what == "stop" and name != "b"]
    assert stopped == [name for name in reversed(restarted) if name != "b"]


@pytest.mark.requirement("TREE-7")
async def test_a_supervisor_gives_up_after_too_many_restarts_and_stops_its_children_in_reverse() -> None:
    """Three restarts in five seconds are allowed by default; the fourth ends it with shutdown."""
    journal: Journal = []
    trap_exit(True)
    supervisor = await abc(journal)
    for _ in range(3):
        await end((await pids(supervisor))["a"])
    assert supervisor.alive
    last = (await pids(supervisor))["a"]
    journal.clear()
    await end(last)
    assert not supervisor.alive
    assert await receive() == Exit(supervisor, "shutdown")
    assert [name for what, name in journal if what == "stop"] == ["a", "c", "b"]


async def test_the_window_forgets_on_the_monotonic_clock(fake_clock: FakeClock, clocked_runtime: Runtime) -> None:
    """Restarts further apart than max_seconds never add up."""
    supervisor = await Supervisor.start_link([child([], "a")], max_restarts=1, max_seconds=5)
    for _ in range(5):
        await end((await pids(supervisor))["a"])
        assert supervisor.alive
        await fake_clock.advance(6)
    await end((await pids(supervisor))["a"])
    trap_exit(True)
    await end((await pids(supervisor))["a"])
    assert not supervisor.alive


@pytest.mark.requirement("BR-143")
async def test_a_slow_shutdown_does_not_keep_a_crash_loop_alive(
    fake_clock: FakeClock, clocked_runtime: Runtime
) -> None:
    """
    One child needs six seconds to stop, the other crashes as soon as it is back: with three restarts in five seconds
    the supervisor still gives up after the third.
    """

    async def slow() -> None:
        trap_exit(True)
        while True:
            await receive()
            await sleep_s(6)
            return

    async def start_slow() -> Pid:
        return spawn_link(slow)

    trap_exit(True)
    supervisor = await Supervisor.start_link(
        [ChildSpec("slow", start_slow, shutdown=30), child([], "quick")], strategy="one_for_all"
    )
    for _ in range(4):
        if supervisor.alive:
            await end((await pids(supervisor))["quick"])
            await fake_clock.advance(6.1)  # six to stop the slow one, and the quick one is back
    assert not supervisor.alive


@pytest.mark.requirement("BR-140")
@pytest.mark.parametrize("restart", ["temporary", "transient"])
async def test_orderly_ends_never_count_as_restarts(restart: Any) -> None:
    """Ten sessions that end with shutdown at once take nobody along."""
    journal: Journal = []
    specs = [child(journal, f"s{n}", restart=restart) for n in range(10)] + [child(journal, "neighbour")]
    supervisor = await Supervisor.start_link(specs)
    before = await pids(supervisor)
    for n in range(10):
        await end(before[f"s{n}"], "shutdown")
    assert (await pids(supervisor))["neighbour"] is before["neighbour"]


async def test_a_failed_start_stops_what_was_started_and_says_who_failed() -> None:
    """The error names the child and its reason; those before it are stopped, those after it never start."""
    journal: Journal = []
    trap_exit(True)
    specs = [child(journal, "a"), failing([1], child(journal, "b"), "no config"), child(journal, "c")]
    with pytest.raises(StartFailed) as failed:
        await Supervisor.start_link(specs)
    assert failed.value.reason == ("shutdown", ("failed_to_start_child", "b", "no config"))
    assert journal == [("start", "a"), ("stop", "a")]


async def test_a_start_function_that_raises_is_told_apart_from_one_that_refuses() -> None:
    """As on the BEAM, what a start function raised stands inside an EXIT pair."""
    error = ValueError("broken")

    async def start() -> Pid:
        raise error

    trap_exit(True)
    with pytest.raises(StartFailed) as failed:
        await Supervisor.start_link([ChildSpec("x", start)])
    assert failed.value.reason == ("shutdown", ("failed_to_start_child", "x", ("EXIT", error)))


async def test_a_failing_restart_is_tried_again_and_counted() -> None:
    """A child whose second start fails comes up with its third; both attempts count."""
    journal: Journal = []
    supervisor = await Supervisor.start_link([failing([2], child(journal, "a"))], max_restarts=2)
    await end((await pids(supervisor))["a"])
    assert journal == [("start", "a"), ("stop", "a"), ("start", "a")]
    trap_exit(True)
    await end((await pids(supervisor))["a"])
    assert not supervisor.alive


async def test_a_child_whose_restart_is_awaited_is_listed_as_restarting(
    fake_clock: FakeClock, clocked_runtime: Runtime
) -> None:
    """With a backoff the restart waits; until then the child is restarting, and cannot be restarted by hand."""
    backoff = Backoff(initial_s=2.0, jitter=0.0)
    supervisor = await Supervisor.start_link([child([], "a")], backoff=backoff)
    await end((await pids(supervisor))["a"])
    assert await pids(supervisor) == {"a": "restarting"}
    with pytest.raises(ChildRunning) as refused:
        await Supervisor.restart_child(supervisor, "a")
    assert refused.value.state == "restarting"
    await fake_clock.advance(1.9)
    assert await pids(supervisor) == {"a": "restarting"}
    await fake_clock.advance(0.2)
    assert isinstance((await pids(supervisor))["a"], Pid)


async def test_a_child_is_killed_when_it_ignores_shutdown_for_too_long(
    fake_clock: FakeClock, clocked_runtime: Runtime
) -> None:
    """Five seconds are given by default; then the child is killed."""

    async def stubborn() -> None:
        trap_exit(True)
        while True:
            await receive()

    async def start() -> Pid:
        return spawn_link(stubborn)

    supervisor = await Supervisor.start_link([ChildSpec("a", start)])
    pid = (await pids(supervisor))["a"]
    monitor(pid)
    stopping = spawn(Supervisor.terminate_child, supervisor, "a")
    await fake_clock.advance(4.9)
    assert pid.alive
    await fake_clock.advance(0.2)
    down = await receive()
    assert down.reason == "killed"
    assert not stopping.alive


async def test_a_child_started_by_hand_is_the_last_and_stops_first() -> None:
    """start_child appends."""
    journal: Journal = []
    supervisor = await abc(journal)
    pid = await Supervisor.start_child(supervisor, child(journal, "d"))
    assert (await pids(supervisor))["d"] is pid
    journal.clear()
    await stop(supervisor)
    assert journal[0] == ("stop", "d")


async def test_the_answers_about_children_that_exist_already() -> None:
    """A running id is already started, a stopped one already present; delete and restart refuse a running child."""
    journal: Journal = []
    supervisor = await abc(journal)
    with pytest.raises(AlreadyStarted) as started:
        await Supervisor.start_child(supervisor, child(journal, "a"))
    assert started.value.pid is (await pids(supervisor))["a"]
    with pytest.raises(ChildRunning):
        await Supervisor.delete_child(supervisor, "a")
    with pytest.raises(ChildRunning):
        await Supervisor.restart_child(supervisor, "a")
    await Supervisor.terminate_child(supervisor, "a")
    with pytest.raises(AlreadyPresent):
        await Supervisor.start_child(supervisor, child(journal, "a"))
    assert isinstance(await Supervisor.restart_child(supervisor, "a"), Pid)
    await Supervisor.terminate_child(supervisor, "a")
    await Supervisor.delete_child(supervisor, "a")
    for request in (Supervisor.terminate_child, Supervisor.restart_child, Supervisor.delete_child):
        with pytest.raises(NotFound):
            await request(supervisor, "a")


async def test_counts_tell_supervisors_from_workers_and_the_running_from_the_known() -> None:
    """specs and active, supervisors and workers."""
    journal: Journal = []
    inner = Supervisor.child_spec([child(journal, "x")], id="inner")
    supervisor = await Supervisor.start_link([child(journal, "a"), inner, child(journal, "b")])
    await Supervisor.terminate_child(supervisor, "b")
    counts = await Supervisor.count_children(supervisor)
    assert counts == ChildCounts(specs=3, active=2, supervisors=1, workers=2)


@pytest.mark.requirement("BR-146")
async def test_a_permanent_child_stopped_through_its_supervisor_stays_stopped() -> None:
    """
    A child that was terminated by hand is not started again; one that crashed is, and the supervisor lists the new
    pid, through which it can be stopped.
    """
    supervisor = await abc([])
    first = (await pids(supervisor))["a"]
    await end(first)
    second = (await pids(supervisor))["a"]
    assert second is not first
    assert second.alive
    await Supervisor.terminate_child(supervisor, "a")
    await settle()
    assert not second.alive
    assert (await pids(supervisor))["a"] is None


@pytest.mark.requirement("BR-134")
async def test_a_child_cannot_be_started_while_its_supervisor_stops() -> None:
    """
    A worker asks its supervisor for one more child while both are being stopped: the request fails with the
    supervisor and no process is left behind, however often it is tried.
    """
    refused: list[Any] = []

    class Asker(GenServer[None, Any, Any, None]):
        trap_exit = True

        def init(self, arg: None) -> None:
            return None

        def terminate(self, reason: Any, state: None) -> None:
            boss = supervisor

            async def ask() -> None:
                try:
                    await Supervisor.start_child(boss, child([], "late"))
                except CallFailed as error:
                    refused.append(error.reason)

            spawn(ask)

    trap_exit(True)
    runtime = self_pid().runtime  # type: ignore[attr-defined]
    for _ in range(200):
        supervisor = await Supervisor.start_link([Asker.child_spec(None, id="asker")])
        await stop(supervisor, "shutdown")
        await settle()
    assert len(refused) == 200
    assert [process for process in runtime.processes.values() if process is not self_pid()] == []


@pytest.mark.requirement("BR-139")
async def test_a_named_child_with_a_slow_end_never_meets_its_predecessor(
    fake_clock: FakeClock, clocked_runtime: Runtime
) -> None:
    """Eight restarts of a named child whose end takes 200 ms: each successor gets the name, the tree is complete."""

    class Slow(GenServer[None, Any, Any, None]):
        trap_exit = True

        async def init(self, arg: None) -> None:
            return None

        async def terminate(self, reason: Any, state: None) -> None:
            await sleep_s(0.2)

    supervisor = await Supervisor.start_link([Slow.child_spec(None, id="slow", name="slow"), child([], "other")])

    async def restart() -> None:
        await Supervisor.terminate_child(supervisor, "slow")
        await Supervisor.restart_child(supervisor, "slow")

    for _ in range(8):
        before = whereis("slow")
        restarting = spawn(restart)
        await fake_clock.advance(0.21)
        assert not restarting.alive
        assert whereis("slow") is not before
    assert all(isinstance(pid, Pid) for pid in (await pids(supervisor)).values())


@pytest.mark.requirement("BR-144")
@pytest.mark.parametrize(("restart", "runs"), [("permanent", 2), ("transient", 2), ("temporary", 1)])
async def test_a_finished_one_shot_child_runs_again_with_the_one_it_came_after(restart: Any, runs: int) -> None:
    """
    Under rest_for_one a one-shot step stands after a worker. When the worker is restarted the step is run again,
    unless it is temporary. A permanent step says that there is nothing to keep running by returning None.
    """
    journal: Journal = []

    async def step() -> None:
        journal.append(("ran", "step"))

    async def start() -> Pid | None:
        if restart == "permanent":
            return await step()
        return spawn_link(step)

    specs = [child(journal, "worker"), ChildSpec("step", start, restart=restart)]
    supervisor = await Supervisor.start_link(specs, strategy="rest_for_one")
    await settle()
    await end((await pids(supervisor))["worker"])
    assert journal.count(("ran", "step")) == runs


async def test_auto_shutdown_follows_the_significant_children() -> None:
    """any_significant ends with the first, all_significant with the last significant child that ends."""
    trap_exit(True)
    specs = [child([], name, restart="transient", significant=True) for name in "ab"]
    any_one = await Supervisor.start_link(specs, auto_shutdown="any_significant")
    await end((await pids(any_one))["a"], "normal")
    assert not any_one.alive
    all_of_them = await Supervisor.start_link(specs, auto_shutdown="all_significant")
    both = await pids(all_of_them)
    await end(both["a"], "normal")
    assert all_of_them.alive
    await end(both["b"], "normal")
    assert not all_of_them.alive


async def test_contradicting_specs_are_refused_where_the_supervisor_is_started() -> None:
    """Duplicate ids and impossible combinations raise BadChildSpec with the BEAM's reason; nothing runs."""
    journal: Journal = []
    trap_exit(True)
    with pytest.raises(BadChildSpec) as refused:
        await Supervisor.start_link([child(journal, "a"), child(journal, "a")])
    assert refused.value.reason == ("start_spec", ("duplicate_child_name", "a"))
    supervisor = await abc(journal)
    with pytest.raises(BadChildSpec):
        await Supervisor.start_child(supervisor, child(journal, "d", restart="transient", significant=True))
    assert ("start", "d") not in journal


@pytest.mark.parametrize(
    "options", [{"strategy": "all_for_one"}, {"max_restarts": -1}, {"max_seconds": 0}, {"auto_shutdown": "some"}]
)
async def test_nonsense_options_are_refused_before_anything_starts(options: dict[str, Any]) -> None:
    """BadArgument, raised in the caller."""
    journal: Journal = []
    with pytest.raises(BadArgument):
        await Supervisor.start_link([child(journal, "a")], **options)
    assert journal == []


async def test_children_may_be_decided_in_the_supervisor() -> None:
    """A function, plain or async, is called in the new process; `Ignore()` means there is nothing to run."""
    seen: list[Any] = []

    async def specs() -> list[ChildSpec]:
        seen.append(self_pid())
        return [child([], "a")]

    supervisor = await Supervisor.start_link(specs)
    assert seen == [supervisor]
    assert await Supervisor.start_link(Ignore) is None


async def test_a_supervisor_ignores_strangers_and_unknown_messages() -> None:
    """An exit signal of somebody else, or a message it does not know, changes nothing."""
    supervisor = await abc([])
    before = await pids(supervisor)

    async def stranger() -> None:
        exit_signal(supervisor, "boom")

    spawn(stranger)
    await settle()
    assert await pids(supervisor) == before


async def test_a_child_that_unlinked_itself_is_not_seen_ending_but_still_stopped() -> None:
    """The link is how a supervisor hears of an end; its own stop uses a monitor and needs no link."""

    class Loner(Child):
        def handle_call(self, message: Any, caller: Any, state: Any) -> Any:
            unlink(supervisor)
            return super().handle_call(message, caller, state)

    journal: Journal = []
    supervisor = await Supervisor.start_link([Loner.child_spec((journal, "a"), id="a")])
    loner = (await pids(supervisor))["a"]
    await call(loner, "leave")
    await stop(supervisor)
    assert not loner.alive
    assert journal[-1] == ("stop", "a")


@pytest.mark.requirement("BR-132")
async def test_each_end_and_each_restart_is_told() -> None:
    """Telemetry says which child of which supervisor ended, why, and that it is started again."""
    events: list[Any] = []
    names = [("lemon_otp", "supervisor", name) for name in ("child_ended", "restart", "give_up")]
    telemetry.attach_many("test", names, lambda name, measured, about, _: events.append((name[-1], about["id"])))
    trap_exit(True)
    supervisor = await Supervisor.start_link([child([], "a")], max_restarts=1)
    await end((await pids(supervisor))["a"])
    await end((await pids(supervisor))["a"])
    assert events == [("child_ended", "a"), ("restart", "a"), ("child_ended", "a"), ("give_up", "a")]
    assert not supervisor.alive


async def test_a_killed_supervisor_takes_its_children_along() -> None:
    """Nobody can clean up after a kill: the links do."""
    trap_exit(True)
    supervisor = await abc([])
    children = list((await pids(supervisor)).values())
    exit_signal(supervisor, "kill")
    await settle()
    assert not any(pid.alive for pid in children)


@pytest.mark.requirement("BR-147")
async def test_a_parent_that_hibernates_keeps_its_children_and_one_that_restarts_reports_the_loss() -> None:
    """
    Hibernating changes nothing: the child is there afterwards. A supervisor that crashes takes its children along;
    its successor starts them anew, and every end is told.
    """

    class Parent(GenServer[None, Any, Any, Pid]):
        async def init(self, arg: None) -> Pid:
            return await Supervisor.start_link([child([], "a")])

        def handle_call(self, message: Any, caller: Any, state: Pid) -> Reply[Pid]:
            return Reply(state, state, hibernate=True)

    parent = await Parent.start(None)
    assert parent is not None
    inner = await call(parent, "sleep")
    assert inner.alive
    assert (await pids(inner))["a"].alive

    told: list[Any] = []
    telemetry.attach("t", ("lemon_otp", "supervisor", "child_ended"), lambda name, m, about, config: told.append(about))
    outer = await Supervisor.start_link([Supervisor.child_spec([child([], "a")], id="inner")])
    before = (await pids((await pids(outer))["inner"]))["a"]
    exit_signal((await pids(outer))["inner"], "kill")
    await settle()
    after = (await pids((await pids(outer))["inner"]))["a"]
    assert not before.alive
    assert after.alive
    assert [about["id"] for about in told] == ["inner"]


# Whatever happens to a tree.

DISTURBANCES = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["normal", "shutdown", "boom", "kill", "terminate", "restart"])),
    max_size=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    strategy=st.sampled_from(["one_for_one", "one_for_all", "rest_for_one"]),
    restarts=st.lists(st.sampled_from(["permanent", "transient", "temporary"]), min_size=4, max_size=4),
    limit=st.integers(0, 4),
    disturbances=DISTURBANCES,
)
def test_no_disturbance_breaks_the_promises_of_a_tree(
    strategy: Any, restarts: list[Any], limit: int, disturbances: list[tuple[str, str]]
) -> None:
    """
    After any sequence of ends and requests: never two of a child at once, children start in order within a restart,
    the supervisor has given up exactly when it needed more restarts than allowed, and its stop leaves nobody behind.
    """

    async def scenario() -> None:
        async with Runtime() as runtime:
            journal: Journal = []
            trap_exit(True)
            specs = [child(journal, name, restart=restart) for name, restart in zip("abcd", restarts, strict=True)]
            counted = []
            telemetry.attach("t", ("lemon_otp", "supervisor", "restart"), lambda *event: counted.append(event[1]))
            supervisor = await Supervisor.start_link(specs, strategy=strategy, max_restarts=limit, max_seconds=600)
            for name, what in disturbances:
                if not supervisor.alive:
                    break
                await disturb(supervisor, name, what)
                running = Counter(process.state[1] for process in runtime.processes if is_child(process))
                assert all(count == 1 for count in running.values())
            assert len(counted) <= limit
            if supervisor.alive:
                await stop(supervisor)
            await settle()
            assert runtime.processes == [runtime.root]
            assert {name for what, name in journal if what == "start"} == set("abcd")

    asyncio.run(scenario())


async def disturb(supervisor: Pid, name: str, what: str) -> None:
    """Do one thing to one child."""
    pid = (await pids(supervisor)).get(name)
    try:
        if what == "terminate":
            await Supervisor.terminate_child(supervisor, name)
        elif what == "restart":
            await Supervisor.restart_child(supervisor, name)
        elif isinstance(pid, Pid):
            if what == "kill":
                exit_signal(pid, "kill")
                await settle()
            else:
                await end(pid, what)
    except (NotFound, ChildRunning):
        pass


def is_child(process: Any) -> bool:
    return isinstance(getattr(process, "server", None), Child)


async def test_a_down_is_all_that_an_observer_of_a_dead_supervisor_gets() -> None:
    """Requests to a supervisor that is gone fail with noproc, in the caller."""
    supervisor = await abc([])
    ref = monitor(supervisor)
    await stop(supervisor)
    assert await receive() == Down(ref, supervisor, "normal")
    with pytest.raises(CallFailed) as failed:
        await Supervisor.which_children(supervisor)
    assert failed.value.reason == "noproc"


async def test_nonsense_in_a_function_of_children_is_told_where_the_supervisor_is_started() -> None:
    """A spec that cannot be made ends the start with BadChildSpec and the reason that the BEAM gives."""
    journal: Journal = []
    trap_exit(True)
    with pytest.raises(BadChildSpec) as refused:
        await Supervisor.start_link(lambda: [child(journal, "a"), child(journal, "b").replace(restart="sometimes")])

    assert refused.value.reason == ("start_spec", ("invalid_restart_type", "sometimes"))
    assert journal == []


async def test_an_id_that_cannot_be_hashed_is_refused_before_a_supervisor_stumbles_over_it() -> None:
    """In the caller, for every request, by either kind of supervisor; both go on with their children."""
    journal: Journal = []
    supervisor = await abc(journal)
    dynamic = await DynamicSupervisor.start_link()
    kept = await DynamicSupervisor.start_child(dynamic, child(journal, "kept"))
    for request in (Supervisor.terminate_child, Supervisor.restart_child, Supervisor.delete_child):
        with pytest.raises(BadArgument):
            await request(supervisor, ["a"])  # type: ignore[arg-type]
    with pytest.raises(BadArgument):
        await DynamicSupervisor.terminate_child(dynamic, {})  # type: ignore[arg-type]
    with pytest.raises(BadChildSpec) as refused:
        child(journal, "a").replace(id=["a"])

    assert refused.value.reason == ("invalid_id", ["a"])
    assert [info.id for info in await Supervisor.which_children(supervisor)] == ["a", "b", "c"]
    assert kept.alive


@pytest.mark.parametrize(
    "kind", [lambda: Supervisor.start_link([], backoff=5), lambda: DynamicSupervisor.start_link(backoff=5)]
)
async def test_a_backoff_that_is_none_is_refused_at_the_start(kind: Any) -> None:
    """Not at the first restart, where it would end the supervisor."""
    with pytest.raises(BadArgument):
        await kind()
