"""A supervisor of children that come and go."""

import asyncio
import contextlib
from contextvars import ContextVar
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lemon_otp import (
    Backoff,
    BadArgument,
    BadChildSpec,
    CallFailed,
    ChildCounts,
    ChildSpec,
    DynamicSupervisor,
    Exit,
    Init,
    MaxChildren,
    NotFound,
    Pid,
    Runtime,
    StartFailed,
    Stop,
    Supervisor,
    TaskSupervisor,
    exit_signal,
    introspect,
    receive,
    self_pid,
    send,
    sleep_s,
    spawn,
    spawn_link,
    stop,
    sys,
    telemetry,
    trap_exit,
    unlink,
)
from lemon_otp.callbacks import UNSET
from lemon_otp.children import CHILD_ENDED
from lemon_otp.supervision import StartChild, TerminateChild
from lemon_otp.testing import FakeClock, settle
from tests.lemon_otp.trees import Child, Journal, child, end, failing

pytestmark = pytest.mark.usefixtures("runtime")


async def pids(supervisor: Pid) -> list[Any]:
    """What runs, oldest first."""
    return [info.pid for info in await DynamicSupervisor.which_children(supervisor)]


async def test_children_are_started_listed_counted_and_stopped() -> None:
    """start_child returns a pid that is alive and listed; one spec may be started many times."""
    journal: Journal = []
    supervisor = await DynamicSupervisor.start_link()
    started = [await DynamicSupervisor.start_child(supervisor, child(journal, "a")) for _ in range(3)]
    assert await pids(supervisor) == started
    assert await DynamicSupervisor.count_children(supervisor) == ChildCounts(3, 3, 0, 3)
    await DynamicSupervisor.terminate_child(supervisor, started[1])
    assert await pids(supervisor) == [started[0], started[2]]
    with pytest.raises(NotFound):
        await DynamicSupervisor.terminate_child(supervisor, started[1])


@pytest.mark.parametrize(
    ("restart", "reason", "runs"),
    [
        ("permanent", "normal", True),
        ("permanent", "boom", True),
        ("transient", "shutdown", False),
        ("transient", "boom", True),
        ("temporary", "boom", False),
    ],
)
async def test_the_restart_type_decides_whether_a_child_comes_back(restart: Any, reason: str, runs: bool) -> None:
    """A child that comes back has a new pid; one that does not is forgotten."""
    supervisor = await DynamicSupervisor.start_link()
    first = await DynamicSupervisor.start_child(supervisor, child([], "a", restart=restart))
    await end(first, reason)
    now = await pids(supervisor)
    assert len(now) == (1 if runs else 0)
    assert first not in now


async def test_max_children_counts_those_that_run_and_frees_their_places() -> None:
    """A refused start calls no start function; an end makes room at once."""
    journal: Journal = []
    supervisor = await DynamicSupervisor.start_link(max_children=1)
    first = await DynamicSupervisor.start_child(supervisor, child(journal, "a", restart="temporary"))
    with pytest.raises(MaxChildren):
        await DynamicSupervisor.start_child(supervisor, child(journal, "b"))
    assert journal == [("start", "a")]
    exit_signal(first, "kill")
    assert isinstance(await DynamicSupervisor.start_child(supervisor, child(journal, "b")), Pid)


async def test_extra_arguments_reach_every_start_function() -> None:
    """They are handed to the start function, on a restart too."""
    seen: list[Any] = []
    inner = child([], "a")

    async def start(*extra: Any) -> Any:
        seen.append(extra)
        return await inner.start()

    supervisor = await DynamicSupervisor.start_link(extra_arguments=(1, "x"))
    await end(await DynamicSupervisor.start_child(supervisor, inner.replace(start=start)))
    assert seen == [(1, "x"), (1, "x")]


async def test_a_child_that_declines_is_not_kept_and_information_is_handed_on() -> None:
    """A start function that returns None leaves nothing; one that adds information has it returned."""
    supervisor = await DynamicSupervisor.start_link()

    async def declines() -> None:
        return None

    async def informs() -> tuple[Pid, str]:
        return await child([], "a").start(), "port 80"

    assert await DynamicSupervisor.start_child(supervisor, ChildSpec("x", declines)) is None
    started: Any = await DynamicSupervisor.start_child(supervisor, ChildSpec("y", informs))
    assert started[1] == "port 80"
    assert await pids(supervisor) == [started[0]]


async def test_a_start_that_fails_tells_the_caller_and_takes_no_room() -> None:
    """The reason, and the exception behind it, arrive where the child was asked for; no restart is counted."""
    supervisor = await DynamicSupervisor.start_link(max_children=1, max_restarts=0)
    error = ValueError("broken")

    async def broken() -> Pid:
        raise error

    with pytest.raises(StartFailed) as failed:
        await DynamicSupervisor.start_child(supervisor, ChildSpec("x", broken))
    assert failed.value.reason is error
    assert failed.value.__cause__ is error
    with pytest.raises(BadChildSpec):
        await DynamicSupervisor.start_child(supervisor, "no spec")  # type: ignore[arg-type]
    assert isinstance(await DynamicSupervisor.start_child(supervisor, child([], "a")), Pid)


async def test_a_restart_that_fails_is_tried_again_until_the_limit() -> None:
    """Each attempt counts; one too many ends the supervisor with shutdown."""
    trap_exit(True)
    supervisor = await DynamicSupervisor.start_link(max_restarts=2)
    pid = await DynamicSupervisor.start_child(supervisor, failing([2], child([], "a")))
    await end(pid)
    assert len(await pids(supervisor)) == 1
    await end((await pids(supervisor))[0])
    assert await receive() == Exit(supervisor, "shutdown")


async def test_a_restart_may_wait(fake_clock: FakeClock, clocked_runtime: Runtime) -> None:
    """With a backoff the child is listed as restarting and keeps its place; terminate_child ends the wait."""
    supervisor = await DynamicSupervisor.start_link(max_children=1, backoff=Backoff(initial_s=1.0, jitter=0.0))
    first = await DynamicSupervisor.start_child(supervisor, child([], "a"))
    await end(first)
    assert await pids(supervisor) == ["restarting"]
    with pytest.raises(MaxChildren):
        await DynamicSupervisor.start_child(supervisor, child([], "b"))
    await fake_clock.advance(1.1)
    second = (await pids(supervisor))[0]
    assert isinstance(second, Pid)
    await end(second)
    await DynamicSupervisor.terminate_child(supervisor, second)
    await fake_clock.advance(10)
    assert await pids(supervisor) == []


async def test_all_children_are_stopped_at_the_same_time(fake_clock: FakeClock, clocked_runtime: Runtime) -> None:
    """Ten children that need a second each are gone after one second; one that needs longer is killed in its time."""
    ended: list[int] = []

    async def slow(number: int, seconds: float) -> None:
        trap_exit(True)
        await receive()
        await sleep_s(seconds)
        ended.append(number)

    def spec(number: int, seconds: float) -> ChildSpec:
        async def start() -> Pid:
            return spawn_link(slow, number, seconds)

        return ChildSpec(number, start, shutdown=2.0)

    supervisor = await DynamicSupervisor.start_link()
    for number in range(10):
        await DynamicSupervisor.start_child(supervisor, spec(number, 1.0))
    await DynamicSupervisor.start_child(supervisor, spec(10, 60.0))
    stopping = spawn(stop, supervisor)
    await fake_clock.advance(1.1)
    assert sorted(ended) == list(range(10))
    assert stopping.alive
    await fake_clock.advance(1.0)
    assert not stopping.alive
    assert not supervisor.alive


async def test_a_temporary_child_that_unlinked_itself_is_still_listed_after_its_end() -> None:
    """As on the BEAM, the link is how a supervisor hears of an end."""

    class Loner(Child):
        def init(self, arg: Any) -> Any:
            unlink(supervisor)
            return super().init(arg)

    supervisor = await DynamicSupervisor.start_link()
    spec = Loner.child_spec(([], "a"), id="a", restart="temporary")
    pid = await DynamicSupervisor.start_child(supervisor, spec)
    exit_signal(pid, "kill")
    await settle()
    assert await pids(supervisor) == [pid]


@pytest.mark.parametrize("restart", ["temporary", "permanent"])
async def test_a_child_that_ends_right_after_its_start_is_seen_to_end(restart: Any) -> None:
    """In the very turn of its start: a temporary one is not kept, its place is free and its end is told of."""

    class Brief(Child):
        def init(self, arg: Any) -> Any:
            return Init(super().init(arg), continue_="end" if not arg[0][1:] else UNSET)

        def handle_continue(self, term: Any, state: Any) -> Any:
            return Stop("done", state)

    heard: list[Any] = []
    telemetry.attach("ends", CHILD_ENDED, lambda _event, _figures, told, _config: heard.append(told))
    journal: Journal = []
    supervisor = await DynamicSupervisor.start_link(max_children=1)
    pid = await DynamicSupervisor.start_child(supervisor, Brief.child_spec((journal, "a"), id="a", restart=restart))
    await settle()
    assert not pid.alive
    assert heard == [{"supervisor": supervisor, "id": "a", "pid": pid, "reason": "done"}]
    if restart == "temporary":
        assert await pids(supervisor) == []
        assert (await DynamicSupervisor.start_child(supervisor, child(journal, "b"))).alive
    else:
        (again,) = await pids(supervisor)
        assert again.alive


async def test_whoever_watches_a_supervisor_sees_what_it_is_asked() -> None:
    """A start and a stop are requests like others, though an idle supervisor that nobody watches needs no message."""
    seen: list[Any] = []
    supervisor = await DynamicSupervisor.start_link()
    await sys.trace(supervisor, lambda direction, message, _state: seen.append((direction, message)))
    pid = await DynamicSupervisor.start_child(supervisor, child([], "a"))
    await DynamicSupervisor.terminate_child(supervisor, pid)
    assert [type(message[2]) for direction, message in seen if direction == "in"] == [StartChild, TerminateChild]
    assert [message for direction, message in seen if direction == "out"] == [pid, None]


async def test_a_supervisor_with_requests_of_its_own_takes_every_one_itself() -> None:
    """A class that overrides handle_call is asked, by a message, as any server."""

    class Asked(DynamicSupervisor):
        def handle_call(self, message: Any, caller: Any, state: Any) -> Any:
            asked.append((type(message), self_pid()))
            return super().handle_call(message, caller, state)

    asked: list[Any] = []
    supervisor = await Asked.start_link()
    pid = await DynamicSupervisor.start_child(supervisor, child([], "a"))
    await DynamicSupervisor.terminate_child(supervisor, pid)
    assert asked == [(StartChild, supervisor), (TerminateChild, supervisor)]


async def test_a_child_belongs_to_its_supervisor_whoever_asked_for_it() -> None:
    """Its parent, its link and the context variables that it begins with are the supervisor's, not the caller's."""

    class Curious(Child):
        def init(self, arg: Any) -> Any:
            arg[0].append((self_pid(), colour.get()))
            return arg

    colour: ContextVar[str] = ContextVar("colour", default="none")
    colour.set("supervisor's")
    supervisor = await DynamicSupervisor.start_link()
    colour.set("caller's")
    journal: Journal = []
    pid = await DynamicSupervisor.start_child(supervisor, Curious.child_spec((journal, "a"), id="a"))
    assert journal == [(pid, "supervisor's")]
    assert introspect.info(pid).parent is supervisor
    assert introspect.info(pid).links == (supervisor,)


async def test_a_child_may_send_to_its_supervisor_while_that_starts_it() -> None:
    """What it sends is served afterwards, and nothing is lost or served twice."""

    class Early(Child):
        def init(self, arg: Any) -> Any:
            send(supervisor, "early")
            return super().init(arg)

    supervisor = await DynamicSupervisor.start_link()
    seen: list[Any] = []
    for number in range(3):
        pid = await DynamicSupervisor.start_child(supervisor, Early.child_spec(([], "a"), id=number))
        assert introspect.messages(supervisor) == ["'early'"]
        seen.append(pid)
        await settle()
        assert introspect.messages(supervisor) == []
    assert await pids(supervisor) == seen


@pytest.mark.parametrize("waits", [False, True])
async def test_a_supervisor_may_be_killed_by_the_child_that_it_starts(waits: bool) -> None:
    """The child goes with it, and whoever asked is told of a start or of the supervisor's end, and does not hang."""

    class Killer(Child):
        async def wait(self, arg: Any) -> Any:
            await sleep_s(0)
            return arg

        def init(self, arg: Any) -> Any:
            exit_signal(supervisor, "kill")
            return self.wait(arg) if waits else arg

    trap_exit(True)
    supervisor = await DynamicSupervisor.start_link()
    started: Pid | None = None
    with contextlib.suppress(CallFailed):
        started = await DynamicSupervisor.start_child(supervisor, Killer.child_spec(([], "a"), id="a"))
    await settle()
    assert not supervisor.alive
    assert started is None or not started.alive
    with pytest.raises(CallFailed):
        await DynamicSupervisor.count_children(supervisor)


async def test_a_start_function_of_a_servers_own_is_called_by_its_child_spec() -> None:
    """A class may say for itself how it is started; its spec does not go past that."""

    class Own(Child):
        @classmethod
        async def start_link(cls, arg: Any, **options: Any) -> Any:
            journal.append(("asked", options))
            return await super().start_link(arg, **options)

    journal: Journal = []
    supervisor = await DynamicSupervisor.start_link()
    pid = await DynamicSupervisor.start_child(supervisor, Own.child_spec((journal, "a"), id="a", restart="temporary"))
    assert journal == [("asked", {"name": None}), ("start", "a")]
    exit_signal(pid, "kill")
    assert await pids(supervisor) == []


@pytest.mark.parametrize("options", [{"max_children": -1}, {"max_restarts": -1}, {"max_seconds": 0}])
async def test_nonsense_options_are_refused_before_anything_starts(options: dict[str, Any]) -> None:
    """BadArgument, raised in the caller."""
    with pytest.raises(BadArgument):
        await DynamicSupervisor.start_link(**options)


async def test_requests_to_a_dead_supervisor_fail_with_noproc() -> None:
    """In the caller, at once."""
    supervisor = await DynamicSupervisor.start_link()
    await stop(supervisor)
    with pytest.raises(CallFailed) as failed:
        await DynamicSupervisor.start_child(supervisor, child([], "a"))
    assert failed.value.reason == "noproc"


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["start", "kill", "end", "crash", "terminate"]),
        st.integers(0, 9),
        st.sampled_from(["permanent", "transient", "temporary"]),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(operations=OPERATIONS, bound=st.none() | st.integers(0, 4))
def test_a_dynamic_supervisor_knows_exactly_the_children_that_live(operations: Any, bound: int | None) -> None:
    """After any sequence of starts and ends: the list is what lives, the bound holds, the stop leaves nobody."""

    async def scenario() -> None:
        async with Runtime() as runtime:
            supervisor = await DynamicSupervisor.start_link(max_children=bound, max_restarts=100)
            for what, number, restart in operations:
                running = await pids(supervisor)
                if what == "start":
                    try:
                        await DynamicSupervisor.start_child(supervisor, child([], "c", restart=restart))
                    except MaxChildren:
                        assert len(running) == bound
                elif running:
                    await disturb(supervisor, running[number % len(running)], what)
                now = await pids(supervisor)
                assert all(pid.alive for pid in now)
                assert {*now, supervisor, runtime.root} == set(runtime.processes)
                assert bound is None or len(now) <= bound
            await stop(supervisor)
            assert runtime.processes == [runtime.root]

    asyncio.run(scenario())


async def disturb(supervisor: Pid, pid: Pid, what: str) -> None:
    """Do one thing to one child."""
    if what == "terminate":
        await DynamicSupervisor.terminate_child(supervisor, pid)
    elif what == "kill":
        exit_signal(pid, "kill")
        await settle()
    else:
        await end(pid, "normal" if what == "end" else "boom")


async def test_a_request_for_another_kind_of_supervisor_is_refused_and_harms_nobody() -> None:
    """What both kinds can do works whoever is asked; the rest is an error in the caller."""
    static = await Supervisor.start_link([child([], "a")])
    dynamic = await DynamicSupervisor.start_link()
    pid = await DynamicSupervisor.start_child(static, child([], "b"))
    assert [info.pid for info in await DynamicSupervisor.which_children(static)][1] is pid
    with pytest.raises(NotFound):
        await DynamicSupervisor.terminate_child(static, pid)
    await Supervisor.start_child(dynamic, child([], "c"))
    assert (await Supervisor.count_children(dynamic)).active == 1
    for request in (
        Supervisor.restart_child(dynamic, "c"),
        Supervisor.delete_child(dynamic, "c"),
        TaskSupervisor.async_nolink(dynamic, abs, -1),
        TaskSupervisor.start_child(static, abs, -1),
    ):
        with pytest.raises(BadArgument):
            await request
    assert static.alive
    assert dynamic.alive


async def test_the_state_of_a_supervisor_is_shown_by_how_many_children_it_has() -> None:
    """A crash report of one with a hundred thousand must not write them all down."""
    dynamic = await DynamicSupervisor.start_link()
    for _ in range(100):
        await DynamicSupervisor.start_child(dynamic, child([], "a"))
    static = await Supervisor.start_link([child([], f"c{number}") for number in range(100)])
    for supervisor in (dynamic, static):
        shown = repr(await sys.get_state(supervisor))
        assert "<100 children>" in shown
        assert len(shown) < 500


async def test_a_child_without_any_time_to_stop_is_refused() -> None:
    """A dynamic supervisor takes no shutdown of 0, as on the BEAM, where a static one does."""
    journal: Journal = []
    spec = child(journal, "a").replace(shutdown=0)
    supervisor = await DynamicSupervisor.start_link()
    with pytest.raises(BadChildSpec) as refused:
        await DynamicSupervisor.start_child(supervisor, spec)

    assert refused.value.reason == ("invalid_shutdown", 0)
    assert await pids(supervisor) == journal == []
    await Supervisor.start_link([spec])
    assert ("start", "a") in journal
