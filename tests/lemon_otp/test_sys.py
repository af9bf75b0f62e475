"""Looking into a server and holding it."""

import asyncio
from typing import Any

import pytest

from lemon_otp import (
    BadArgument,
    CallFailed,
    CallTimeout,
    NoReply,
    Pid,
    Runtime,
    call,
    cast,
    exit_process,
    exit_signal,
    receive,
    self_pid,
    send,
    spawn,
    stop,
    sys,
    whereis,
)
from lemon_otp.caller import SYSTEM, Caller
from lemon_otp.machine import Process
from lemon_otp.process import current_process
from lemon_otp.server_process import send_request
from lemon_otp.testing import FakeClock, settle
from tests.lemon_otp.servers import Add, Counter, Read, Scripted


@pytest.fixture(autouse=True)
async def entered(clocked_runtime: Runtime) -> Runtime:
    return clocked_runtime


async def started(server: Any, arg: Any, **options: Any) -> Pid:
    pid = await server.start(arg, **options)
    assert isinstance(pid, Pid)
    return pid


async def test_the_state_is_read_and_replaced() -> None:
    """The change is made in the server, between two messages; its error is raised here and changes nothing."""
    pid = await started(Counter, 5)
    cast(pid, Add(1))
    assert await sys.get_state(pid) == 6
    assert await sys.replace_state(pid, lambda state: state * 10) == 60
    with pytest.raises(ZeroDivisionError):
        await sys.replace_state(pid, lambda state: state / 0)
    assert await call(pid, Read()) == 60


async def test_a_suspended_server_serves_nothing_until_it_is_resumed(fake_clock: FakeClock) -> None:
    """System requests are served; the rest waits in its order."""
    pid = await started(Counter, 0)
    await sys.suspend(pid)
    cast(pid, Add(1))
    cast(pid, Add(2))
    await settle()
    assert await sys.get_state(pid) == 0
    status = await sys.get_status(pid)
    assert (status.status, status.mailbox, status.state) == ("suspended", 2, 0)
    outcome: list[Any] = []

    async def ask() -> None:
        try:
            outcome.append(await call(pid, Read(), timeout_s=1))
        except CallTimeout:
            outcome.append("timeout")

    spawn(ask)
    await settle()
    await fake_clock.advance(2)
    assert outcome == ["timeout"]
    await sys.resume(pid)
    assert await call(pid, Read()) == 3
    status = await sys.get_status(pid)
    assert (status.status, status.module) == ("running", "tests.lemon_otp.servers")


async def test_a_suspended_server_still_ends_with_its_parent_and_stops() -> None:
    """The exit of the parent and a stop are not held back."""

    class Child(Counter):
        trap_exit = True

    async def parent() -> None:
        await Child.start_link(0, name="child")
        await receive()

    holder = spawn(parent)
    await settle()
    child = whereis("child")
    assert child is not None
    await sys.suspend(child)
    cast(child, Add(1))
    exit_signal(holder, "shutdown")
    await settle()
    assert child.exit_reason == "shutdown"
    pid = await started(Counter, 0)
    await sys.suspend(pid)
    await stop(pid)
    assert pid.exit_reason == "normal"


async def test_a_trace_sees_what_goes_in_and_out() -> None:
    """Messages and answers, with the state at that moment, until it is switched off."""
    seen: list[Any] = []
    pid = await started(Counter, 1)
    await sys.trace(pid, lambda *event: seen.append(event))
    await call(pid, Read())
    cast(pid, Add(4))
    send(pid, "plain")
    await settle()
    assert [event[0] for event in seen] == ["in", "out", "in", "in"]
    assert seen[0][1][0] == "$gen_call"
    assert seen[1][1:] == (1, 1)
    assert seen[3][1:] == ("plain", 5)
    await sys.trace(pid, None)
    await call(pid, Read())
    assert len(seen) == 4


async def test_a_trace_that_raises_is_dropped_and_the_server_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever looks on does no harm: it is called once, logged, and the message is served."""
    seen: list[Any] = []

    def failing(*event: Any) -> None:
        seen.append(event)
        raise RuntimeError("the watcher's own fault")

    pid = await started(Counter, 1)
    await sys.trace(pid, failing)
    cast(pid, Add(1))
    assert await call(pid, Read()) == 2
    assert len(seen) == 1
    assert "a trace raised" in caplog.text


async def test_statistics_count_while_they_are_on(fake_clock: FakeClock) -> None:
    """Messages in, answers out, and since when; None while nothing is counted."""
    pid = await started(Counter, 0)
    assert await sys.statistics(pid) is None
    await sys.statistics(pid, "start")
    await call(pid, Read())
    cast(pid, Add(1))
    await fake_clock.advance(3)
    counted = await sys.statistics(pid)
    assert counted is not None
    assert (counted.messages_in, counted.messages_out) == (2, 1)
    assert counted.now_s - counted.started_s == 3
    await sys.statistics(pid, "stop")
    assert await sys.statistics(pid) is None


async def test_requests_to_nobody_fail_as_calls_do(fake_clock: FakeClock) -> None:
    """noproc, calling_self, and a timeout for a process that is no server."""
    with pytest.raises(CallFailed) as failed:
        await sys.get_state("nobody")
    assert failed.value.reason == "noproc"

    async def ask_self(state: Any) -> Any:
        try:
            await sys.get_state(self_pid())
        except CallFailed as inner:
            outcome.append(inner.reason)
        return NoReply(state)

    outcome: list[Any] = []
    cast(await started(Scripted, 0), ask_self)
    await settle()
    assert outcome == ["calling_self"]

    async def deaf() -> None:
        await receive(lambda message: False)

    async def ask() -> None:
        try:
            await sys.get_state(pid, timeout_s=1)
        except CallTimeout:
            outcome.append("timeout")

    pid = spawn(deaf)
    spawn(ask)
    await settle()
    await fake_clock.advance(2)
    assert outcome[-1] == "timeout"


async def test_a_request_that_does_not_exist_is_answered_with_an_error() -> None:
    """And the server goes on."""
    pid = await started(Counter, 0)
    assert isinstance(pid, Process)
    me = current_process()
    caller = Caller(me)
    send_request(me.runtime, pid, (SYSTEM, caller, "nonsense"))
    answer = await caller.wait(me, pid, 1)
    assert isinstance(answer.error, BadArgument)
    assert pid.alive


async def test_a_suspended_server_with_a_full_mailbox_does_not_spin() -> None:
    """It takes no turns while nothing it may serve has come."""
    pid = await started(Counter, 0)
    await sys.suspend(pid)
    for _ in range(100):
        cast(pid, Add(1))
    await settle()
    runtime = current_process().runtime
    before = runtime.turns
    for _ in range(20):
        await asyncio.sleep(0)
    assert runtime.turns == before
    await sys.resume(pid)
    assert await call(pid, Read()) == 100


async def test_statistics_are_started_stopped_or_read() -> None:
    """Anything else is refused and leaves the numbers alone."""
    server = await started(Counter, 0)
    await sys.statistics(server, "start")
    await call(server, Read())
    with pytest.raises(BadArgument):
        await sys.statistics(server, "reset")  # type: ignore[arg-type]
    counted = await sys.statistics(server)

    assert counted is not None
    assert counted.messages_in == 1


async def test_a_function_that_exits_does_not_end_the_server_it_looks_into() -> None:
    """For whoever asked the exit is a CallFailed with the reason; a watcher that exits is not called again."""
    server = await started(Counter, 1)
    with pytest.raises(CallFailed) as failed:
        await sys.replace_state(server, lambda state: exit_process("boom"))
    await sys.trace(server, lambda *seen: exit_process("boom"))

    assert failed.value.reason == "boom"
    assert await call(server, Read()) == 1
    assert await call(server, Read()) == 1
