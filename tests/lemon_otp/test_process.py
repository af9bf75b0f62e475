"""Processes: messages, links, monitors, exit signals, names, timers, and how they end."""

# ruff: noqa: TID251 - task groups are what is tested here

import asyncio
import copy
import inspect
import logging
import pickle
import threading
from contextvars import Context
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lemon_otp import (
    BadArgument,
    Down,
    Exit,
    MonitorRef,
    NameTaken,
    NoProcess,
    NoRegistry,
    NotAProcess,
    Pid,
    ProcessExit,
    ReceiveTimeout,
    Registry,
    Runtime,
    Supervisor,
    Table,
    Task,
    TaskSupervisor,
    Via,
    alive,
    annotate,
    at_exit,
    cancel_timer,
    demonitor,
    exit_process,
    exit_signal,
    link,
    mailbox_length,
    monitor,
    receive,
    register,
    run,
    self_pid,
    send,
    send_after,
    send_interval,
    sleep_s,
    spawn,
    spawn_link,
    spawn_monitor,
    stop,
    telemetry,
    trap_exit,
    unlink,
    unregister,
    whereis,
    zombies,
)
from lemon_otp.machine import Process
from lemon_otp.scheduler import FUEL
from lemon_otp.testing import FakeClock, settle
from tests.lemon_otp.servers import Counter, Scripted


@pytest.fixture(autouse=True)
async def entered(clocked_runtime: Runtime) -> Runtime:
    return clocked_runtime


async def idle() -> None:
    await receive(lambda message: False)


async def echo(back: Pid) -> None:
    while True:
        send(back, await receive())


async def reason_of(pid: Pid) -> Any:
    """The reason with which `pid` ends or has ended."""
    if not pid.alive:
        return pid.exit_reason
    ref = monitor(pid)
    return (await receive(lambda message: isinstance(message, Down) and message.ref is ref)).reason


# Spawning.


async def test_a_spawned_process_runs_later_and_ends_with_normal() -> None:
    """It exists at once, has its first turn later, and ends with "normal" when its function returns."""
    ran: list[int] = []

    async def work(number: int) -> str:
        ran.append(number)
        return "ignored"

    pid = spawn(work, 5)
    assert pid.alive
    assert alive(pid)
    assert ran == []
    assert await reason_of(pid) == "normal"
    assert ran == [5]
    assert not alive(pid)


async def test_a_plain_function_is_run_as_a_process_too() -> None:
    """And so is whatever returns an awaitable."""
    me = self_pid()
    spawn(send, me, "from a function")
    spawn(lambda: asyncio.sleep(0))
    assert await receive() == "from a function"


async def test_what_is_raised_is_the_reason() -> None:
    """An uncaught exception is the exit reason, and its frames are let go."""
    error = ValueError("boom")

    async def fail() -> None:
        kept = object()
        raise error
        del kept

    assert await reason_of(spawn(fail)) is error
    assert error.__traceback__ is not None
    assert "kept" not in error.__traceback__.tb_frame.f_locals


async def test_exit_process_ends_with_its_reason_and_runs_finally() -> None:
    """`except Exception` does not stop it; `finally` blocks run."""
    cleaned: list[str] = []

    async def leave() -> None:
        try:
            exit_process(("done", 1))
        except Exception:
            cleaned.append("caught")
        finally:
            cleaned.append("finally")

    assert await reason_of(spawn(leave)) == ("done", 1)
    assert cleaned == ["finally"]


async def test_an_exit_inside_a_task_group_keeps_its_reason() -> None:
    """The group wraps what its tasks raise; the process still ends with what was said."""

    async def leave() -> None:
        async with asyncio.TaskGroup():
            exit_process("gone")

    assert await reason_of(spawn(leave)) == "gone"


async def test_options_of_spawn() -> None:
    """A name, a link, a monitor, trapped exits and a label hold from before the first turn."""
    pid = spawn(idle, name="worker", link=True, monitor=True, trap_exit=True, label="l")
    assert isinstance(pid, Process)
    assert whereis("worker") is pid
    assert pid.trap
    assert pid.is_linked(self_pid())  # type: ignore[arg-type]
    assert repr(pid) == f"<pid {pid.id} worker>"
    unlink(pid)
    exit_signal(pid, "kill")
    assert (await receive()).reason == "killed"


async def test_a_name_that_is_taken_starts_nothing(entered: Runtime) -> None:
    """NameTaken, and no process is left."""
    spawn(idle, name="worker")
    before = entered.processes
    with pytest.raises(NameTaken):
        spawn(idle, name="worker")
    await settle()
    assert entered.processes == before


async def test_a_place_that_does_not_exist_is_refused() -> None:
    """The mistake is raised where it was made, with what was expected."""
    with pytest.raises(BadArgument, match="expected"):
        spawn(idle, on="moon")  # type: ignore[arg-type]


async def test_a_pid_is_an_opaque_handle() -> None:
    """Hashable, compared by identity, copied as itself, never pickled; its repr survives its death."""
    pid, other = spawn(idle), spawn(idle)
    assert pid != other
    assert len({pid, other, pid}) == 2
    assert copy.copy(pid) is pid
    assert copy.deepcopy([pid])[0] is pid
    with pytest.raises(TypeError):
        pickle.dumps(pid)
    ref = monitor(pid)
    assert copy.deepcopy(ref) is ref
    assert copy.copy(ref) is ref
    assert repr(pid) in repr(ref)


def test_outside_a_runtime_everything_says_so() -> None:
    """NotAProcess, with what to do."""
    for attempt in (self_pid, lambda: spawn(idle), lambda: whereis("x"), lambda: send("x", 1), zombies):
        with pytest.raises(NotAProcess, match="Runtime"):
            Context().run(attempt)
    with pytest.raises(NotAProcess):
        Context().run(asyncio.run, outside())


async def outside() -> None:
    await receive()


def test_two_runtimes_do_not_see_each_other() -> None:
    """Names and processes belong to one runtime, even when two are entered one inside the other."""

    async def main() -> tuple[Any, Any, int]:
        async with Runtime() as outer:
            spawn(idle, name="n")
            async with Runtime() as inner:
                hidden = whereis("n")
                spawn(idle, name="n")
                count = len(inner.processes)
            return hidden, whereis("n") in outer.processes, count

    assert asyncio.run(main()) == (None, True, 2)


# Messages.


async def test_messages_of_one_sender_stay_in_order() -> None:
    """Also through a process in between."""
    middle = spawn(echo, self_pid())
    for number in range(100):
        send(middle, number)
    assert [await receive() for _ in range(100)] == list(range(100))


async def test_a_selective_receive_leaves_the_others_in_their_order() -> None:
    """The oldest that matches is taken; the rest wait."""
    for number in range(6):
        send(self_pid(), number)
    assert await receive(lambda message: message == 3) == 3
    assert await receive(lambda message: message % 2 == 0) == 0
    assert [await receive() for _ in range(4)] == [1, 2, 4, 5]


async def test_a_selective_receive_waits_for_its_message() -> None:
    """What came in between stays; every message is looked at once."""
    looked: list[int] = []

    async def choosy(back: Pid) -> None:
        def wanted(message: int) -> bool:
            looked.append(message)
            return message == 9

        send(back, [await receive(wanted), await receive(), await receive()])

    pid = spawn(choosy, self_pid())
    for number in (1, 2, 9):
        send(pid, number)
        await settle()
    assert await receive() == [9, 1, 2]
    assert looked == [1, 2, 9]


async def test_a_match_that_raises_leaves_the_mailbox_as_it_was() -> None:
    """The error is the receiver's; no message is lost."""
    send(self_pid(), "a")
    with pytest.raises(ZeroDivisionError):
        await receive(lambda message: 1 / 0 > 0)
    assert await receive() == "a"


async def test_a_receive_times_out_on_the_runtimes_clock(fake_clock: FakeClock) -> None:
    """ReceiveTimeout after the time, not before, and nothing is lost."""
    seen: list[str] = []

    async def wait() -> None:
        try:
            await receive(lambda message: message == "never", timeout_s=5)
        except ReceiveTimeout:
            seen.append("timed out")
        seen.append(await receive())

    pid = spawn(wait)
    await settle()
    send(pid, "later")
    await fake_clock.advance(4.9)
    assert seen == []
    await fake_clock.advance(0.2)
    assert seen == ["timed out", "later"]


async def test_a_timeout_of_zero_only_looks() -> None:
    """The message that is there, or ReceiveTimeout at once."""
    with pytest.raises(ReceiveTimeout):
        await receive(timeout_s=0)
    send(self_pid(), "x")
    assert await receive(timeout_s=0) == "x"

    async def look(back: Pid) -> None:
        try:
            await receive(timeout_s=0)
        except ReceiveTimeout:
            send(back, "nothing")

    spawn(look, self_pid())
    assert await receive() == "nothing"


async def test_sending_to_the_dead_is_silent_and_to_an_unknown_name_is_not() -> None:
    """A dead pid swallows; a name that nobody has raises NoProcess; nonsense raises BadArgument."""
    pid = spawn(asyncio.sleep, 0)
    await reason_of(pid)
    send(pid, "x")
    with pytest.raises(NoProcess):
        send("nobody", "x")
    with pytest.raises(NoRegistry):
        send(Via("no_registry", 1), "x")
    with pytest.raises(BadArgument):
        send(5, "x")  # type: ignore[arg-type]


async def test_mailbox_length_counts_what_waits() -> None:
    """And is zero for the dead."""
    pid = spawn(idle)
    await settle()
    for number in range(3):
        send(pid, number)
    await settle()
    assert mailbox_length(pid) == 3
    exit_signal(pid, "kill")
    assert mailbox_length(pid) == 0


async def test_a_thread_may_send(entered: Runtime) -> None:
    """send, cast and exit signals from another thread arrive; what changes a process is refused there."""
    me = self_pid()
    pid = spawn(idle)
    refused: list[str] = []

    def work() -> None:
        for number in range(50):
            send(me, number)
        exit_signal(pid, "shutdown")
        for attempt in (lambda: spawn(idle), lambda: link(me), lambda: register("x", me)):
            try:
                attempt()
            except NotAProcess as error:
                refused.append(str(error))

    await asyncio.to_thread(work)
    assert [await receive(timeout_s=5) for _ in range(50)] == list(range(50))
    assert await reason_of(pid) == "shutdown"
    assert len(refused) == 3


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=60))
def test_no_message_is_lost_or_doubled_between_live_processes(sends: list[tuple[int, int]]) -> None:
    """Whoever sends to whom, each receiver gets every message once, and each sender's in their order."""

    async def main() -> None:
        me = self_pid()
        got: dict[int, list[tuple[int, int]]] = {number: [] for number in range(4)}

        async def node(number: int) -> None:
            while True:
                match await receive():
                    case ("pass", to, serial):
                        send(nodes[to], ("take", number, serial))
                    case ("take", sender, serial):
                        got[number].append((sender, serial))
                    case ("end",):
                        send(me, "ended")

        nodes = [spawn(node, number) for number in range(4)]
        for serial, (sender, to) in enumerate(sends):
            send(nodes[sender], ("pass", to, serial))
        await settle()
        for number in range(4):
            wanted = sorted(serial for serial, (_, to) in enumerate(sends) if to == number)
            assert sorted(serial for _, serial in got[number]) == wanted
            for sender in range(4):
                serials = [serial for who, serial in got[number] if who == sender]
                assert serials == sorted(serials)

    run(main)


# Links, monitors, exit signals.


async def test_a_crash_takes_the_linked_with_it() -> None:
    """Through any number of links, with the same reason; a normal end does not."""
    error = ValueError("boom")

    async def fail() -> None:
        raise error

    async def middle() -> None:
        spawn_link(idle, name="leaf")
        spawn_link(asyncio.sleep, 0)
        await receive()
        spawn_link(fail)
        await idle()

    pid = spawn(middle)
    await settle()
    leaf = whereis("leaf")
    assert leaf is not None
    assert pid.alive
    send(pid, "go")
    assert await reason_of(pid) is error
    assert leaf.exit_reason is error


async def test_a_chain_of_ten_thousand_links_falls_without_recursion() -> None:
    """Deaths are announced one after the other, not one inside the other."""
    pids: list[Pid] = [spawn(idle)]
    await settle()
    for _ in range(10_000):
        pid = spawn(idle)
        assert isinstance(pid, Process)
        pid.link(pids[-1])  # type: ignore[arg-type]
        pids.append(pid)
    await settle()
    exit_signal(pids[0], "boom")
    await settle()
    assert [pid for pid in pids if pid.alive] == []


async def test_who_was_told_of_a_death_has_its_turn_before_the_next_along_a_chain_of_links() -> None:
    """As on the BEAM: the message arrives at once, the signal along the chain takes a turn for each process in it."""
    assert await _heard_beside_a_chain_of(1) == []
    assert await _heard_beside_a_chain_of(2) == [Down]


async def _heard_beside_a_chain_of(between: int) -> list[type]:
    """What a process takes that monitors one that dies, and is linked to it through so many others."""
    heard: list[type] = []

    async def listen(target: Pid) -> None:
        monitor(target)
        while True:
            heard.append(type(await receive()))

    first = spawn(idle)
    chain = [first, *(spawn(idle) for _ in range(between)), spawn(listen, first)]
    await settle()
    for one, other in pairwise(chain):
        assert isinstance(one, Process)
        one.link(other)  # type: ignore[arg-type]
    exit_signal(first, "shutdown")
    await settle()
    assert not any(pid.alive for pid in chain)
    return heard


async def test_an_exit_comes_before_the_down_of_the_same_death() -> None:
    """Links are told before monitors, as on the BEAM."""
    trap_exit(True)
    pid, ref = spawn_monitor(idle)
    link(pid)
    exit_signal(pid, "boom")
    assert await receive() == Exit(pid, "boom")
    assert await receive() == Down(ref, pid, "boom")


async def test_a_process_that_traps_exits_finds_them_in_its_mailbox() -> None:
    """Exit with pid and reason, for every reason but a kill."""
    trap_exit(True)
    pid = spawn_link(exit_process, "left")
    assert await receive() == Exit(pid, "left")
    pid = spawn_link(asyncio.sleep, 0)
    assert await receive() == Exit(pid, "normal")
    pid = spawn_link(exit_process, "kill")
    assert await receive() == Exit(pid, "kill")
    exit_signal(self_pid(), "from me")
    assert await receive() == Exit(self_pid(), "from me")
    assert trap_exit(False)


async def test_kill_cannot_be_trapped_and_normal_does_nothing() -> None:
    """ "kill" ends with "killed"; "normal" is ignored unless it comes from the process itself."""
    trapping = spawn(idle, trap_exit=True)
    plain = spawn(idle)
    await settle()
    exit_signal(plain, "normal")
    assert plain.alive
    exit_signal(trapping, "kill")
    assert trapping.exit_reason == "killed"

    async def leave() -> None:
        exit_signal(self_pid(), "normal")

    assert await reason_of(spawn(leave)) == "normal"


async def test_an_exit_signal_to_oneself_acts_at_once() -> None:
    """Nothing after it is done, even where the exception is swallowed."""
    done: list[str] = []

    async def leave(reason: str) -> None:
        try:
            exit_signal(self_pid(), reason)
        except ProcessExit:
            done.append("swallowed")
        await asyncio.sleep(0)
        done.append("went on")

    assert await reason_of(spawn(leave, "bye")) == "bye"
    assert await reason_of(spawn(leave, "kill")) == "killed"
    await settle()
    assert done == ["swallowed", "swallowed"]


async def test_a_monitor_reports_once() -> None:
    """One Down for each monitor, with the pid or the name that was watched; noproc for the dead."""
    pid = spawn(idle, name="n")
    refs = [monitor(pid), monitor("n"), monitor(pid)]
    exit_signal(pid, "gone")
    downs = [await receive() for _ in refs]
    assert {down.ref for down in downs} == set(refs)
    assert [down.process for down in downs] == [pid, "n", pid]
    assert {down.reason for down in downs} == {"gone"}
    assert await receive_down(monitor(pid)) == "noproc"
    assert await receive_down(monitor("n")) == "noproc"
    with pytest.raises(ReceiveTimeout):
        await receive(timeout_s=0)


async def receive_down(ref: MonitorRef) -> Any:
    return (await receive(lambda message: isinstance(message, Down) and message.ref is ref)).reason


async def test_demonitor_prevents_and_flushes() -> None:
    """After it no Down comes; with `flush` one that has come is dropped, and only that one."""
    pid = spawn(idle)
    early, late, other = monitor(pid), monitor(pid), monitor(pid)
    assert demonitor(early)
    assert not demonitor(early)
    exit_signal(pid, "gone")
    assert not demonitor(late, flush=True)
    assert (await receive()).ref is other
    with pytest.raises(ReceiveTimeout):
        await receive(timeout_s=0)


async def test_linking_to_the_dead() -> None:
    """NoProcess; a process that traps exits gets an Exit with noproc instead."""
    pid = spawn(asyncio.sleep, 0)
    await reason_of(pid)
    with pytest.raises(NoProcess):
        link(pid)
    trap_exit(True)
    link(pid)
    assert await receive() == Exit(pid, "noproc")
    link(self_pid())
    with pytest.raises(BadArgument):
        link("name")  # type: ignore[arg-type]


async def test_unlink_leaves_the_other_alone() -> None:
    """After it neither hears of the other's end."""
    pid = spawn_link(idle)
    unlink(pid)
    exit_signal(pid, "boom")
    await settle()
    assert self_pid().alive


async def test_a_watcher_that_is_dead_costs_nothing() -> None:
    """The monitors of a process that ended are taken away from those it watched."""

    async def watch() -> None:
        monitor(pid)

    pid = spawn(idle)
    assert isinstance(pid, Process)
    await reason_of(spawn(watch))
    await settle()
    assert pid.monitors == ()


async def test_a_signal_to_oneself_becomes_a_message_when_the_process_waits() -> None:
    """
    As on the BEAM: whether exits are trapped counts when the signal is taken from the queue, which is when the process
    next waits, receives or calls; until then the monitor of a dead process can be taken back.
    """
    seen: list[Any] = []

    async def trap_until_it_waits(*, still: bool) -> None:
        trap_exit(True)
        exit_signal(self_pid(), "boom")
        send(self_pid(), "after")
        seen.append("goes on")
        trap_exit(still)
        seen.append(await receive())
        seen.append(await receive())

    assert await reason_of(spawn(lambda: trap_until_it_waits(still=False))) == "boom"
    assert seen == ["goes on"]
    pid = spawn(lambda: trap_until_it_waits(still=True))
    assert await reason_of(pid) == "normal"
    assert seen[1:] == ["goes on", Exit(pid, "boom"), "after"]

    async def take_back(*, wait: bool) -> None:
        ref = monitor("nobody")
        if wait:
            with pytest.raises(ReceiveTimeout):
                await receive(lambda message: False, timeout_s=0)
        seen.append(demonitor(ref))
        seen.append(mailbox_length(self_pid()))

    seen.clear()
    await reason_of(spawn(lambda: take_back(wait=False)))
    await reason_of(spawn(lambda: take_back(wait=True)))
    assert seen == [True, 0, False, 1]


async def test_normal_to_oneself_while_trapping_is_a_message_or_nothing() -> None:
    """It ends nobody once it has been let through."""

    async def work() -> str:
        trap_exit(True)
        exit_signal(self_pid(), "normal")
        trap_exit(False)
        with pytest.raises(ReceiveTimeout):
            await receive(timeout_s=0)
        exit_process("went on")

    assert await reason_of(spawn(work)) == "went on"


async def test_a_call_takes_the_signals_first() -> None:
    """A process that is to end does not ask any more."""
    asked: list[Any] = []

    async def note(caller: Any, state: Any) -> Any:
        asked.append("asked")

    server = await Scripted.start(0)
    assert server is not None

    async def work() -> None:
        from lemon_otp import call

        partner = spawn_link(idle)
        exit_signal(partner, "boom")
        await call(server, note)

    assert await reason_of(spawn(work)) == "boom"
    assert asked == []


async def test_hooks_run_before_links_and_monitors_are_told() -> None:
    """The name is free by then; a hook that raises stops nobody."""
    seen: list[Any] = []

    def hook(pid: Pid, reason: Any) -> None:
        seen.append((reason, whereis("n"), mailbox_length(self_pid())))
        raise ValueError("hook")

    pid = spawn(idle, name="n")
    at_exit(pid, hook)
    monitor(pid)
    exit_signal(pid, "gone")
    assert seen == [("gone", None, 0)]
    assert (await receive()).reason == "gone"


# A kill is final.


async def test_a_killed_process_is_dead_at_once_whatever_its_coroutine_does(caplog: pytest.LogCaptureFixture) -> None:
    """
    Its links, monitors and name know immediately; the coroutine that swallows cancellation is cancelled again and
    again, listed and reported until it ends.
    """
    caplog.set_level(logging.WARNING, "lemon_otp")
    events: list[Any] = []
    telemetry.attach("t", ("lemon_otp", "process", "zombie"), lambda *event: events.append(event))
    cancels = 0
    release = False

    async def stubborn() -> None:
        nonlocal cancels
        while not release:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancels += 1

    pid = spawn(stubborn, name="stubborn")
    linked = spawn(idle)
    await settle()
    assert isinstance(pid, Process)
    pid.link(linked)  # type: ignore[arg-type]
    monitor(pid)
    exit_signal(pid, "kill")
    assert not pid.alive
    assert whereis("stubborn") is None
    assert linked.exit_reason == "killed"
    assert (await receive(timeout_s=0)).reason == "killed"
    assert pid in zombies()
    spawn(idle, name="stubborn")
    while cancels < 3:
        await asyncio.sleep(0.01)
    assert zombies() == [pid]
    assert events
    assert "goes on" in caplog.text
    assert "test_process.py" in caplog.text
    release = True
    while zombies():
        await asyncio.sleep(0.01)
    assert pid.done()


async def test_a_shutdown_ends_a_process_that_does_not_trap_in_the_same_way() -> None:
    """Dead at once, and its `finally` blocks run, with what they await."""
    cleaned: list[str] = []

    async def work() -> None:
        try:
            await receive()
        finally:
            await asyncio.sleep(0)
            cleaned.append("clean")

    pid = spawn(work)
    await settle()
    exit_signal(pid, "shutdown")
    assert not pid.alive
    assert cleaned == []
    await settle()
    assert cleaned == ["clean"]


async def test_a_process_that_was_killed_before_its_first_turn_never_runs() -> None:
    """And nothing of it is left."""
    ran: list[str] = []

    async def work() -> None:
        ran.append("ran")

    pid = spawn(work)
    exit_signal(pid, "kill")
    await settle()
    assert ran == []
    assert zombies() == []


async def test_a_zombie_takes_no_more_messages() -> None:
    """What is left of a killed process gets nothing from `receive`, only the next cancel."""
    got: list[Any] = []

    async def stubborn() -> None:
        try:
            await receive()
        except asyncio.CancelledError:
            got.append(await receive())

    pid = spawn(stubborn)
    await settle()
    exit_signal(pid, "kill")
    send(pid, "x")
    while zombies():
        await asyncio.sleep(0.01)
    assert got == []


async def test_errors_of_the_left_coroutine_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody else could see them."""

    async def work() -> None:
        try:
            await receive()
        finally:
            raise ValueError("while cleaning")

    pid = spawn(work)
    await settle()
    exit_signal(pid, "shutdown")
    await settle()
    assert pid.exit_reason == "shutdown"
    assert "while cleaning" in caplog.text


async def test_a_signal_that_comes_during_its_own_turn_ends_a_process_when_it_waits() -> None:
    """What it does until then is done; it takes no other message."""
    done: list[str] = []

    async def work() -> None:
        partner = spawn_link(idle)
        await asyncio.sleep(0)
        send(self_pid(), "x")
        exit_signal(partner, "boom")
        done.append("still here")
        await receive()
        done.append("took a message")

    assert await reason_of(spawn(work)) == "boom"
    assert done == ["still here"]


@pytest.mark.requirement("BR-136")
async def test_an_exit_signal_to_the_outside_caller_breaks_nothing() -> None:
    """A handler that sends its caller an exit signal ends the caller, and nobody else."""

    async def end_caller(caller: Any, state: Any) -> Any:
        from lemon_otp import Reply

        exit_signal(caller.pid, "boom")
        return Reply("answer", state)

    server = await Scripted.start(0)
    assert server is not None

    async def ask() -> None:
        from lemon_otp import call

        await call(server, end_caller)

    assert await reason_of(spawn(ask)) == "boom"
    assert server.alive
    await stop(server)
    assert await reason_of(spawn(asyncio.sleep, 0)) == "normal"


# Names.


async def test_names_are_registered_and_freed() -> None:
    """A name belongs to one live process; it is free as soon as that ends."""
    pid = spawn(idle)
    register("n", pid)
    assert whereis("n") is pid
    with pytest.raises(NameTaken):
        register("n", spawn(idle))
    with pytest.raises(NameTaken):
        register("m", pid)
    unregister("n")
    assert whereis("n") is None
    with pytest.raises(NoProcess):
        unregister("n")
    register("m", pid)
    exit_signal(pid, "kill")
    assert whereis("m") is None
    with pytest.raises(NoProcess):
        register("m", pid)


# Timers.


async def test_send_after_sends_when_its_time_has_come(fake_clock: FakeClock) -> None:
    """To whoever has the name then; a cancelled one does not send."""
    send_after(self_pid(), "one", 1)
    ref = send_after(self_pid(), "never", 2)
    late = send_after("later", "two", 3)
    assert cancel_timer(ref)
    assert not cancel_timer(ref)
    with pytest.raises(ReceiveTimeout):
        await receive(timeout_s=0)
    await fake_clock.advance(1)
    assert await receive(timeout_s=0) == "one"
    register("later", self_pid())
    await fake_clock.advance(2)
    assert await receive(timeout_s=0) == "two"
    assert not cancel_timer(late)


async def test_send_interval_sends_again_and_again(fake_clock: FakeClock) -> None:
    """Until it is cancelled, or its pid ends; nonsense is refused."""
    ref = send_interval(self_pid(), "tick", 1)
    await fake_clock.advance(3)
    assert [await receive(timeout_s=0) for _ in range(3)] == ["tick"] * 3
    assert cancel_timer(ref)
    await fake_clock.advance(3)
    with pytest.raises(ReceiveTimeout):
        await receive(timeout_s=0)
    with pytest.raises(BadArgument):
        send_interval(self_pid(), "tick", 0)
    pid = spawn(idle)
    ref = send_interval(pid, "tick", 1)
    exit_signal(pid, "kill")
    await fake_clock.advance(2)
    assert not cancel_timer(ref)


@pytest.mark.requirement("BR-135")
async def test_a_stop_overtakes_a_flood_of_timer_messages(fake_clock: FakeClock) -> None:
    """
    A timer ticks every millisecond and each tick takes the server five: the mailbox only grows. A request to stop,
    and the exit of its parent, are still served at once.
    """

    class Slow(Counter):
        async def handle_info(self, message: Any, state: int) -> Any:
            from lemon_otp import NoReply

            await sleep_s(0.005)
            return NoReply(state + 1)

    server = await Slow.start(0)
    assert server is not None
    send_interval(server, "tick", 0.001)
    await fake_clock.advance(1)
    assert mailbox_length(server) > 500
    stopped = spawn(stop, server)
    await settle()
    before_s = fake_clock.now_s
    while stopped.alive:
        await fake_clock.advance(0.005)
    assert not server.alive
    assert fake_clock.now_s - before_s < 0.02


async def test_an_exit_that_overtakes_the_ticks_is_found_by_who_waits_for_it(fake_clock: FakeClock) -> None:
    """Who waits for a certain message has looked at the ticks already when the exit is put before them."""
    got: list[Any] = []

    async def waits() -> None:
        send_interval(self_pid(), "tick", 0.01)
        linked = spawn_link(sleep_s, 0.1)
        got.append(await receive(lambda message: type(message) is Exit))
        got.append(linked)

    spawn(waits, trap_exit=True)
    await fake_clock.advance(0.5)
    assert [type(seen) for seen in got][:1] == [Exit]
    assert got[0].pid is got[1]


async def test_what_a_helper_drops_hides_no_message_from_who_waits() -> None:
    """A task of the process flushes a Down that the main line has looked at; the next message is still seen."""
    got: list[Any] = []

    async def waits() -> None:
        ref = monitor(spawn(sleep_s, 0))
        go, me = asyncio.Event(), self_pid()

        async def helper() -> None:
            await go.wait()
            demonitor(ref, flush=True)
            send(me, "wanted")

        def match(message: Any) -> bool:
            go.set()
            return message == "wanted"

        task = asyncio.create_task(helper())
        got.append(await receive(match, timeout_s=5))
        await task

    _, ref = spawn_monitor(waits)
    await receive(lambda message: type(message) is Down and message.ref is ref)
    assert got == ["wanted"]


async def test_a_timer_for_what_is_no_address_is_refused() -> None:
    """At once, and the other timers go on."""
    for address in ([], 5, None):
        with pytest.raises(BadArgument, match="no address"):
            send_after(address, "x", 0)  # type: ignore[arg-type]
        with pytest.raises(BadArgument, match="no address"):
            send_interval(address, "x", 1)  # type: ignore[arg-type]
    with pytest.raises(BadArgument):
        send_after(self_pid(), "x", float("nan"))
    with pytest.raises(BadArgument):
        send_interval(self_pid(), "x", float("nan"))


async def test_sleeping_waits_on_the_clock(fake_clock: FakeClock) -> None:
    """In a process and in the attached one; a kill wakes nobody twice."""
    woke: list[str] = []

    async def sleeper() -> None:
        await sleep_s(2)
        woke.append("awake")

    spawn(sleeper)
    killed = spawn(sleeper)
    await settle()
    exit_signal(killed, "kill")
    await fake_clock.advance(1.9)
    assert woke == []
    await fake_clock.advance(0.2)
    assert woke == ["awake"]


# Fairness.


async def test_a_busy_pair_starves_nobody() -> None:
    """
    Two processes that send to each other for ever, and one that always finds a message, leave timers, callbacks and
    other processes their turn in every pass of the loop.
    """
    served = 0

    async def bounce() -> None:
        nonlocal served
        while True:
            sender, message = await receive()
            served += 1
            send(sender, (self_pid(), message))

    async def feed() -> None:
        nonlocal served
        send(self_pid(), 1)
        while True:
            send(self_pid(), await receive())
            served += 1

    one, two = spawn(bounce), spawn(bounce)
    send(one, (two, "ball"))
    spawn(feed)
    in_a_pass: list[int] = []
    for _ in range(30):
        before = served
        await asyncio.sleep(0)
        in_a_pass.append(served - before)
    fired = asyncio.Event()
    asyncio.get_running_loop().call_later(0, fired.set)
    await fired.wait()
    pid = spawn(echo, self_pid())
    send(pid, "hello")
    assert await receive() == "hello"
    assert 0 < max(in_a_pass) <= 2 * FUEL


async def test_a_process_that_only_calls_gives_way_too() -> None:
    """Calls are answered inline, but not for ever in one pass of the loop."""
    from lemon_otp import call
    from tests.lemon_otp.servers import Read

    server = await Counter.start(0)
    assert server is not None

    async def ask() -> None:
        while True:
            await call(server, Read())

    spawn(ask)
    async with asyncio.timeout(5):
        for _ in range(20):
            await asyncio.sleep(0)


# For people.


async def test_annotations_are_small_facts() -> None:
    """Added, replaced, taken away by None; gone with the process."""
    facts: list[dict[str, Any]] = []

    async def work() -> None:
        me = self_pid()
        assert isinstance(me, Process)
        annotate(phase="tool", tool="bash")
        facts.append(dict(me.facts))
        annotate(tool=None, turn=3)
        facts.append(dict(me.facts))

    await reason_of(spawn(work))
    assert facts == [{"phase": "tool", "tool": "bash"}, {"phase": "tool", "turn": 3}]


async def test_ancestors_lead_to_the_one_who_began() -> None:
    """As far as they live."""
    found: list[list[str]] = []

    async def child() -> None:
        me = self_pid()
        assert isinstance(me, Process)
        found.append([repr(pid) for pid in me.ancestors()])

    async def parent() -> None:
        spawn(child)
        await idle()

    pid = spawn(parent, label="parent")
    await settle()
    assert found == [[repr(pid), repr(self_pid())]]


def test_a_thread_that_sends_while_the_loop_is_busy_loses_nothing() -> None:
    """Many threads, many messages, one receiver."""

    async def main() -> int:
        me = self_pid()
        threads = [threading.Thread(target=lambda: [send(me, 1) for _ in range(500)], daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        total = 0
        for _ in range(2000):
            total += await receive(timeout_s=10)
        return total

    assert run(main) == 2000


async def test_a_timer_for_a_pid_ends_with_it() -> None:
    """As on the BEAM: whoever cancels a timer whose pid has died is told that it was over. A name may return."""
    pid = spawn(receive)
    for_pid, for_name = send_after(pid, "late", 60.0), send_after("nobody", "late", 60.0)
    exit_signal(pid, "kill")

    assert not cancel_timer(for_pid)
    assert not cancel_timer(send_after(pid, "late", 60.0))
    assert cancel_timer(for_name)


async def listen() -> None:
    """A body that waits for ever."""
    await receive(lambda message: False)


@pytest.mark.parametrize(
    "tie",
    [
        pytest.param(lambda: Registry.register("registry", "key"), id="register a key"),
        pytest.param(lambda: Table.new("table"), id="own a table"),
        pytest.param(lambda: spawn(listen, link=True), id="spawn with a link"),
        pytest.param(lambda: spawn_link(listen), id="spawn_link"),
        pytest.param(lambda: Task.async_(listen), id="own a task"),
        pytest.param(lambda: Counter.start_link(0), id="start_link"),
        pytest.param(lambda: Supervisor.start_link([Counter.child_spec(0)]), id="start a supervisor"),
        pytest.param(lambda: TaskSupervisor.async_("tasks", listen), id="linked task of a supervisor"),
    ],
)
async def test_what_is_left_of_a_dead_process_can_tie_nothing_to_it(tie: Any) -> None:
    """
    A `finally` block of a killed process that registers, owns or links to something ends there, with the exit
    reason: a key, a table or a child of the dead would never go away.
    """
    await Registry.start_link("registry")
    await TaskSupervisor.start_link(name="tasks")
    ended: list[Any] = []

    async def work() -> None:
        try:
            await receive()
        finally:
            try:
                made = tie()
                ended.append(await made if inspect.isawaitable(made) else made)
            except ProcessExit as leaving:
                ended.append(leaving.reason)
                raise

    pid = spawn(work)
    await settle()
    before = len(self_pid().runtime.processes)  # type: ignore[attr-defined]
    exit_signal(pid, "kill")
    while zombies():
        await asyncio.sleep(0.01)

    assert ended == ["killed"]
    assert pid.exit_reason == "killed"
    assert Registry.count("registry") == 0
    assert Table.whereis("table") is None
    assert len(self_pid().runtime.processes) == before - 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["kill", "boom", "by itself"])
async def test_an_exit_hook_that_exits_keeps_nobody_from_being_told(how: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged; the other hooks run, monitors and links hear of the end, and whoever ended it goes on."""
    trap_exit(True)
    ran: list[Any] = []

    async def work() -> None:
        at_exit(self_pid(), lambda _pid, _reason: exit_process("hook"))
        at_exit(self_pid(), lambda _pid, reason: ran.append(reason))
        await receive()

    pid, watching = spawn_monitor(work)
    link(pid)
    await settle()
    if how == "by itself":
        send(pid, "go on")
    else:
        exit_signal(pid, how)
    reason = {"kill": "killed", "boom": "boom", "by itself": "normal"}[how]
    heard = [await receive(timeout_s=1.0) for _ in range(2)]

    assert ran == [reason]
    assert sorted(type(message).__name__ for message in heard) == ["Down", "Exit"]
    assert {message.reason for message in heard} == {reason}
    assert next(message.ref for message in heard if isinstance(message, Down)) is watching
    assert "cleaned up after its death" in caplog.text


@pytest.mark.parametrize("name", [5, (), True, b"name", ["name"]])
async def test_what_is_no_text_is_no_name(name: Any) -> None:
    """It could be registered, but never be addressed; nothing is started under it."""
    before = len(self_pid().runtime.processes)  # type: ignore[attr-defined]
    with pytest.raises(BadArgument):
        register(name, self_pid())
    with pytest.raises(BadArgument):
        spawn(idle, name=name)

    assert len(self_pid().runtime.processes) == before  # type: ignore[attr-defined]
