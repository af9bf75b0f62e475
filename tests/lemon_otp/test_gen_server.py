"""Servers: starting, calls, casts, plain messages, timeouts, continuing, stopping, and the errors of each."""

import asyncio
import logging
from contextlib import suppress
from typing import Any

import pytest

from lemon_otp import (
    TIMEOUT,
    AlreadyStarted,
    BadReturn,
    Caller,
    CallFailed,
    CallTimeout,
    ChildSpec,
    Down,
    Exit,
    GenServer,
    Ignore,
    Init,
    NoRegistry,
    NoReply,
    NotAProcess,
    Pid,
    Reply,
    Runtime,
    StartFailed,
    Stop,
    UnhandledMessage,
    Via,
    call,
    cast,
    exit_process,
    exit_signal,
    is_orderly,
    mailbox_length,
    monitor,
    receive,
    reply,
    self_pid,
    send,
    sleep_s,
    spawn,
    spawn_link,
    stop,
    trap_exit,
    whereis,
)
from lemon_otp.machine import Process
from lemon_otp.testing import FakeClock, settle
from tests.lemon_otp.servers import Add, Counter, Read, Scripted


@pytest.fixture(autouse=True)
async def entered(clocked_runtime: Runtime) -> Runtime:
    return clocked_runtime


async def started(server: type[GenServer[Any, Any, Any, Any]], arg: Any = None, **options: Any) -> Pid:
    pid = await server.start(arg, **options)
    assert pid is not None
    return pid


async def reason_of(pid: Pid) -> Any:
    if not pid.alive:
        return pid.exit_reason
    ref = monitor(pid)
    return (await receive(lambda message: isinstance(message, Down) and message.ref is ref)).reason


class Journal(GenServer[Any, Any, Any, list[Any]]):
    """Notes every callback in its state, which is the list that it was started with."""

    async def init(self, arg: list[Any]) -> list[Any]:
        arg.append("init")
        return arg

    async def handle_call(self, message: Any, caller: Caller, state: list[Any]) -> Any:
        state.append(("call", message))
        return await message(caller, state) if callable(message) else Reply("ok", state)

    async def handle_cast(self, message: Any, state: list[Any]) -> Any:
        state.append(("cast", message))
        return await message(state) if callable(message) else NoReply(state)

    async def handle_info(self, message: Any, state: list[Any]) -> Any:
        state.append(("info", message))
        return NoReply(state)

    async def handle_continue(self, term: Any, state: list[Any]) -> Any:
        state.append(("continue", term))
        return await term(state) if callable(term) else NoReply(state)

    async def terminate(self, reason: Any, state: list[Any]) -> None:
        state.append(("terminate", reason))


class Trapping(Journal):
    trap_exit = True


# Starting.


async def test_a_server_is_ready_when_start_returns() -> None:
    """`init` has run; the pid answers."""
    pid = await started(Counter, 5)
    assert await call(pid, Read()) == 5
    cast(pid, Add(3))
    assert await call(pid, Read()) == 8


async def test_callbacks_may_be_plain_functions() -> None:
    """`def` in place of `async def` is accepted everywhere."""

    class Plain(GenServer[int, str, int, int]):
        def init(self, arg: int) -> Init[int]:
            return Init(arg, continue_=10)

        def handle_call(self, message: str, caller: Caller, state: int) -> Reply[int]:
            return Reply((message, state), state)

        def handle_cast(self, message: int, state: int) -> NoReply[int]:
            return NoReply(state + message)

        def handle_info(self, message: Any, state: int) -> NoReply[int]:
            return NoReply(state * message)

        def handle_continue(self, term: Any, state: int) -> NoReply[int]:
            return NoReply(state + term)

        def terminate(self, reason: Any, state: int) -> None:
            ended.append((reason, state))

    ended: list[Any] = []
    pid = await started(Plain, 1)
    cast(pid, 2)
    send(pid, 3)
    assert await call(pid, "x") == ("x", 39)
    await stop(pid)
    assert ended == [("normal", 39)]


async def test_a_name_is_registered_before_init_and_taken_only_once() -> None:
    """AlreadyStarted says who has it; nothing was started."""
    seen: list[Any] = []

    async def look() -> int:
        seen.append(whereis("n") is self_pid())
        return 0

    pid = await started(Scripted, look, name="n")
    assert seen == [True]
    with pytest.raises(AlreadyStarted) as refused:
        await Scripted.start(look, name="n")
    assert refused.value.pid is pid
    assert len(seen) == 1
    with pytest.raises(NoRegistry):
        await Scripted.start(0, name=Via("no_registry", "k"))


async def test_init_may_decline() -> None:
    """`Ignore`: start returns None, the process ends with normal, its name is free."""

    class Declines(GenServer[None, Any, Any, Any]):
        async def init(self, arg: None) -> Ignore:
            inside.append(self_pid())
            return Ignore()

    inside: list[Pid] = []
    assert await Declines.start(None, name="n") is None
    assert inside[0].exit_reason == "normal"
    assert whereis("n") is None


async def test_init_that_stops_or_raises_fails_the_start() -> None:
    """StartFailed with the reason; the exception is also its cause; the name is free."""

    async def stops() -> Any:
        return Stop("no config")

    async def raises() -> Any:
        raise error

    async def exits() -> Any:
        exit_process("left")

    async def wrong() -> Any:
        return Reply(1, 2)

    error = ValueError("boom")
    for init, reason in ((stops, "no config"), (raises, error), (exits, "left")):
        with pytest.raises(StartFailed) as failed:
            await Scripted.start(init, name="n")
        assert failed.value.reason == reason
        assert whereis("n") is None
    assert failed.value.__cause__ is None
    with pytest.raises(StartFailed) as failed:
        await Scripted.start(wrong)
    assert isinstance(failed.value.reason, BadReturn)
    assert "Ignore" in str(failed.value.reason)
    assert failed.value.__cause__ is failed.value.reason


async def test_a_server_without_init_cannot_start() -> None:
    """The class is named in the error."""

    class Nothing(GenServer[None, Any, Any, None]):
        pass

    with pytest.raises(StartFailed) as failed:
        await Nothing.start(None)
    assert isinstance(failed.value.reason, UnhandledMessage)
    assert "Nothing does not define init" in str(failed.value.reason)


async def test_a_start_that_takes_too_long_is_given_up(fake_clock: FakeClock) -> None:
    """StartFailed("timeout"), and the half-started process is killed."""
    inside: list[Pid] = []

    async def slow() -> Any:
        inside.append(self_pid())
        await sleep_s(10)

    failures: list[Any] = []

    async def starter() -> None:
        try:
            await Scripted.start_link(slow, timeout_s=1)
        except StartFailed as failed:
            failures.append(failed.reason)

    spawn(starter)
    await settle()
    await fake_clock.advance(2)
    assert failures == ["timeout"]
    assert inside[0].exit_reason == "killed"


async def test_a_failed_linked_start_sends_its_exit_signal_too() -> None:
    """A starter that does not trap exits ends with it; one that does finds an Exit."""

    async def stops() -> Any:
        return Stop("no config")

    async def plain() -> None:
        await Scripted.start_link(stops)

    assert await reason_of(spawn(plain)) == "no config"
    trap_exit(True)
    with pytest.raises(StartFailed):
        await Scripted.start_link(stops)
    message = await receive(timeout_s=0)
    assert isinstance(message, Exit)
    assert message.reason == "no config"


async def test_a_server_killed_in_init_fails_the_start() -> None:
    """With the reason of its death."""

    async def waits() -> Any:
        await receive()

    outcome: list[Any] = []

    async def starter() -> None:
        try:
            await Scripted.start(waits, name="slow")
        except StartFailed as failed:
            outcome.append(failed.reason)

    spawn(starter)
    await settle()
    slow = whereis("slow")
    assert slow is not None
    exit_signal(slow, "kill")
    await settle()
    assert outcome == ["killed"]


async def test_a_child_spec_says_how_a_supervisor_starts_it() -> None:
    """The id is the last part of the module's path unless given."""
    spec = Counter.child_spec(4, restart="transient", shutdown="brutal_kill")
    assert isinstance(spec, ChildSpec)
    assert (spec.id, spec.restart, spec.shutdown) == ("servers", "transient", "brutal_kill")
    assert spec.module == "tests.lemon_otp.servers"
    pid = await spec.start()
    assert await call(pid, Read()) == 4
    assert Counter.child_spec(4, id="c", name="n", significant=True).significant


# Calls.


async def test_a_reply_may_come_later_and_from_another_process() -> None:
    """`NoReply` from handle_call, then `reply` from anywhere; the first answer counts."""

    async def later(caller: Caller, state: Any) -> Any:
        async def answer() -> None:
            reply(caller, "first")
            reply(caller, "second")

        spawn(answer)
        return NoReply(state)

    assert await call(await started(Scripted), later) == "first"


async def test_a_call_of_the_dead_the_unknown_and_oneself_fails_at_once() -> None:
    """CallFailed, with the reason."""
    pid = await started(Counter, 0)
    await stop(pid)
    with pytest.raises(CallFailed) as failed:
        await call(pid, Read())
    assert failed.value.reason == "noproc"
    with pytest.raises(CallFailed) as failed:
        await call("nobody", Read())
    assert failed.value.reason == "noproc"

    async def call_self(caller: Caller, state: Any) -> Any:
        try:
            await call(self_pid(), "x")
        except CallFailed as inner:
            return Reply(inner.reason, state)
        return Reply("?", state)

    assert await call(await started(Scripted), call_self) == "calling_self"


async def test_a_call_times_out_and_the_late_answer_is_dropped(fake_clock: FakeClock) -> None:
    """CallTimeout after its seconds; the server goes on; nothing arrives later."""

    async def slow(caller: Caller, state: Any) -> Any:
        await sleep_s(3)
        return Reply("late", state + 1)

    async def state_of(caller: Caller, state: Any) -> Any:
        return Reply(state, state)

    pid = await started(Scripted, 0)
    outcome: list[Any] = []

    async def ask() -> None:
        try:
            await call(pid, slow, timeout_s=1)
        except CallTimeout as late:
            outcome.append(late.reason)
        await sleep_s(5)
        outcome.append(mailbox_length(self_pid()))

    spawn(ask)
    await settle()
    await fake_clock.advance(10)
    assert outcome == ["timeout", 0]
    assert await call(pid, state_of) == 1


async def test_the_caller_learns_why_the_server_died() -> None:
    """CallFailed with the exit reason, for every kind of end."""
    error = ValueError("boom")

    async def crash(caller: Caller, state: Any) -> Any:
        raise error

    async def stop_now(caller: Caller, state: Any) -> Any:
        return Stop("enough", state)

    async def leave(caller: Caller, state: Any) -> Any:
        exit_process("left")

    async def kill_self(caller: Caller, state: Any) -> Any:
        exit_signal(self_pid(), "kill")

    for behaviour, reason in ((crash, error), (stop_now, "enough"), (leave, "left"), (kill_self, "killed")):
        with pytest.raises(CallFailed) as failed:
            await call(await started(Scripted), behaviour)
        assert failed.value.reason == reason


async def test_stop_with_a_reply_answers_after_terminate() -> None:
    """The caller gets its answer, and the clean-up is done by then."""
    journal: list[Any] = []
    pid = await started(Journal, journal)

    async def finish(caller: Caller, state: Any) -> Any:
        return Stop("normal", state, reply="bye")

    assert await call(pid, finish) == "bye"
    assert journal[-1] == ("terminate", "normal")
    assert await reason_of(pid) == "normal"


@pytest.mark.requirement("BR-124")
async def test_a_pending_call_fails_when_the_server_is_stopped() -> None:
    """A stop while a handler runs: the reply is an error and not a hang, and a new start is clean."""
    entered_handler = asyncio.Event()

    async def slow(caller: Caller, state: Any) -> Any:
        entered_handler.set()
        await asyncio.Event().wait()

    pid = await started(Scripted, 0, name="n")
    outcome: list[Any] = []

    async def ask() -> None:
        try:
            await call(pid, slow, timeout_s=None)
        except CallFailed as failed:
            outcome.append(failed.reason)

    spawn(ask)
    await entered_handler.wait()
    exit_signal(pid, "shutdown")
    await settle()
    assert outcome == ["shutdown"]
    again = await started(Scripted, 0, name="n")
    assert again is not pid


@pytest.mark.requirement("BR-125")
async def test_a_pending_call_fails_when_the_server_dies_of_another() -> None:
    """call wait(); call die(); the first caller is told."""
    callers: list[Caller] = []

    async def wait(caller: Caller, state: Any) -> Any:
        callers.append(caller)
        return NoReply(state)

    async def die(caller: Caller, state: Any) -> Any:
        raise RuntimeError("die")

    pid = await started(Scripted)
    outcome: list[Any] = []

    async def ask() -> None:
        try:
            await call(pid, wait, timeout_s=None)
        except CallFailed as failed:
            outcome.append(str(failed.reason))

    spawn(ask)
    await settle()
    with pytest.raises(CallFailed):
        await call(pid, die)
    await settle()
    assert outcome == ["die"]
    reply(callers[0], "too late")


async def test_calls_inside_calls_are_answered_whatever_their_depth() -> None:
    """A chain of servers that ask one another, much deeper than what is served inline."""

    async def ask_next(caller: Caller, state: Any) -> Any:
        return Reply(1 if state is None else 1 + await call(state, ask_next), state)

    first: Pid | None = None
    for _ in range(100):
        first = await started(Scripted, first)
    assert first is not None
    assert await call(first, ask_next) == 100


async def test_two_servers_that_call_each_other_time_out(fake_clock: FakeClock) -> None:
    """A deadlock ends as on the BEAM: the inner call gets no answer in time."""
    pids: list[Pid] = []

    async def ask_back(caller: Caller, state: Any) -> Any:
        try:
            await call(pids[0], ask_back, timeout_s=1)
        except CallTimeout:
            return Reply("inner timed out", state)
        return Reply("?", state)

    async def ask_other(caller: Caller, state: Any) -> Any:
        return Reply(await call(pids[1], ask_back, timeout_s=5), state)

    pids += [await started(Scripted), await started(Scripted)]
    answers: list[Any] = []

    async def ask() -> None:
        answers.append(await call(pids[0], ask_other, timeout_s=20))

    spawn(ask)
    await settle()
    await fake_clock.advance(2)
    assert answers == ["inner timed out"]


async def test_a_call_overtakes_no_message_of_the_same_sender() -> None:
    """Casts and plain messages that were sent before are served before."""
    journal: list[Any] = []
    pid = await started(Journal, journal)
    cast(pid, 1)
    send(pid, 2)
    await call(pid, 3)
    assert journal == ["init", ("cast", 1), ("info", 2), ("call", 3)]


async def test_a_handler_may_receive_while_calls_wait() -> None:
    """What it takes from its mailbox is its own; requests stay until it is back."""

    async def collect(caller: Caller, state: Any) -> Any:
        return Reply(await receive(lambda message: message == "mine"), state)

    async def count(caller: Caller, state: Any) -> Any:
        return Reply("count", state)

    pid = await started(Scripted)
    answers: list[Any] = []

    async def ask(request: Any) -> None:
        answers.append(await call(pid, request))

    spawn(ask, collect)
    await settle()
    spawn(ask, count)
    await settle()
    assert answers == []
    send(pid, "mine")
    await settle()
    assert answers == ["mine", "count"]


async def test_a_cancelled_call_drops_its_answer() -> None:
    """The server goes on; the caller's mailbox stays clean."""
    gate = asyncio.Event()

    async def slow(caller: Caller, state: Any) -> Any:
        await gate.wait()
        return Reply("late", state)

    pid = await started(Scripted)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await call(pid, slow)
    gate.set()
    await settle()
    assert mailbox_length(self_pid()) == 0
    assert pid.alive


async def test_a_caller_that_dies_waiting_is_forgotten() -> None:
    """Nothing is left at the server that it asked."""

    async def never(caller: Caller, state: Any) -> Any:
        return NoReply(state)

    async def ask() -> None:
        await call(pid, never, timeout_s=None)

    pid = await started(Scripted)
    assert isinstance(pid, Process)
    asking = spawn(ask)
    await settle()
    assert len(pid.monitors) == 1
    exit_signal(asking, "kill")
    await settle()
    assert pid.monitors == ()


def test_calls_need_a_process() -> None:
    """Outside of any runtime the error says so."""
    import contextvars

    with pytest.raises(NotAProcess):
        contextvars.Context().run(asyncio.run, outside())


async def outside() -> None:
    await call("x", "y")


# Casts and plain messages.


async def test_a_cast_never_raises() -> None:
    """To the dead, to a name that nobody has, to a registry that does not run."""
    pid = await started(Counter, 0)
    await stop(pid)
    for address in (pid, "nobody", Via("no_registry", 1)):
        cast(address, Add(1))


async def test_unexpected_messages_are_logged_and_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """The default handle_info goes on; the default handle_call and handle_cast are errors."""
    pid = await started(Counter, 0)
    send(pid, "what is this")
    assert await call(pid, Read()) == 0
    assert "what is this" in caplog.text

    class Bare(GenServer[None, Any, Any, None]):
        async def init(self, arg: None) -> None:
            return None

    for attempt, name in ((lambda server: call(server, 1), "handle_call"), (tell, "handle_cast")):
        server = await started(Bare)
        monitor(server)
        with suppress(CallFailed):
            await attempt(server)
        down = await receive()
        assert isinstance(down.reason, UnhandledMessage)
        assert down.reason.callback == name


async def tell(server: Pid) -> None:
    cast(server, 1)


# Wrong returns.


@pytest.mark.parametrize("kind", ["call", "cast", "continue"])
async def test_a_wrong_return_value_is_the_servers_end(kind: str) -> None:
    """BadReturn, with what was expected; terminate runs."""

    async def wrong(*ignored: Any) -> Any:
        return "nonsense"

    async def go_on(state: Any) -> Any:
        return NoReply(state, continue_=wrong)

    journal: list[Any] = []
    pid = await started(Journal, journal)
    monitor(pid)
    if kind == "call":
        with pytest.raises(CallFailed) as failed:
            await call(pid, wrong)
        assert isinstance(failed.value.reason, BadReturn)
    else:
        cast(pid, wrong if kind == "cast" else go_on)
    down = await receive()
    assert isinstance(down.reason, BadReturn)
    assert down.reason.value == "nonsense"
    assert "NoReply" in down.reason.expected
    assert journal[-1] == ("terminate", down.reason)


async def test_a_reply_from_a_cast_is_a_wrong_return() -> None:
    """There is nobody to reply to."""

    async def answer(state: Any) -> Any:
        return Reply(1, state)

    pid = await started(Scripted)
    cast(pid, answer)
    assert isinstance(await reason_of(pid), BadReturn)


# Timeouts, continue.


async def test_a_quiet_server_is_told_when_its_time_is_up(fake_clock: FakeClock) -> None:
    """`timeout_s` in any result: TIMEOUT for handle_info, unless a message comes first; once."""
    journal: list[Any] = []

    async def hold(state: Any) -> Any:
        return NoReply(state, timeout_s=5)

    pid = await started(Journal, journal)
    cast(pid, hold)
    await fake_clock.advance(4)
    cast(pid, "in between")
    await fake_clock.advance(20)
    assert ("info", TIMEOUT) not in journal
    cast(pid, hold)
    await fake_clock.advance(6)
    await fake_clock.advance(20)
    assert journal.count(("info", TIMEOUT)) == 1


async def test_a_timeout_of_zero_comes_after_what_is_in_the_mailbox() -> None:
    """As `after 0` on the BEAM."""
    journal: list[Any] = []

    async def at_once(state: Any) -> Any:
        send(self_pid(), "first")
        return NoReply(state, timeout_s=0)

    async def at_once_alone(state: Any) -> Any:
        return NoReply(state, timeout_s=0)

    pid = await started(Journal, journal)
    cast(pid, at_once)
    await settle()
    assert journal[-1] == ("info", "first")
    cast(pid, at_once_alone)
    await settle()
    await asyncio.sleep(0)
    assert journal[-1] == ("info", TIMEOUT)


async def test_init_may_set_a_timeout_and_continue(fake_clock: FakeClock) -> None:
    """handle_continue comes before any message, also those sent during init."""
    journal: list[Any] = []

    class Continues(Journal):
        async def init(self, arg: list[Any]) -> Any:
            send(self_pid(), "sent in init")
            return Init(arg, timeout_s=3, continue_="go")

    pid = await started(Continues, journal)
    await settle()
    assert journal == [("continue", "go"), ("info", "sent in init")]

    async def more(state: Any) -> Any:
        return NoReply(state, continue_="more")

    cast(pid, more)
    cast(pid, "after")
    await settle()
    assert journal[2:] == [("cast", more), ("continue", "more"), ("cast", "after")]


async def test_a_call_may_reply_and_continue() -> None:
    """The caller has its answer before the continuation is done."""
    gate = asyncio.Event()

    async def reply_first(caller: Caller, state: Any) -> Any:
        return Reply("answer", state, continue_=wait)

    async def wait(state: Any) -> Any:
        await gate.wait()
        return NoReply(state)

    journal: list[Any] = []
    pid = await started(Journal, journal)
    assert await call(pid, reply_first) == "answer"
    cast(pid, "waits")
    await settle()
    assert journal[-1] == ("continue", wait)
    gate.set()
    await settle()
    assert journal[-1] == ("cast", "waits")


# Ending.


@pytest.mark.requirement("BR-131")
async def test_stop_returns_when_terminate_is_done() -> None:
    """Also when the clean-up takes its time."""
    journal: list[Any] = []

    class Slow(Journal):
        async def terminate(self, reason: Any, state: list[Any]) -> None:
            await asyncio.sleep(0.05)
            state.append("cleaned")

    pid = await started(Slow, journal)
    await stop(pid, "shutdown")
    assert journal[-1] == "cleaned"
    assert pid.exit_reason == "shutdown"


async def test_stop_tells_when_the_server_ended_otherwise(fake_clock: FakeClock) -> None:
    """CallFailed with the other reason, noproc for the dead, CallTimeout when it takes too long."""
    error = ValueError("in terminate")

    class Fails(Journal):
        async def terminate(self, reason: Any, state: list[Any]) -> None:
            raise error

    class Hangs(Journal):
        async def terminate(self, reason: Any, state: list[Any]) -> None:
            await asyncio.Event().wait()

    pid = await started(Fails, [])
    with pytest.raises(CallFailed) as failed:
        await stop(pid)
    assert failed.value.reason is error
    with pytest.raises(CallFailed) as failed:
        await stop(pid)
    assert failed.value.reason == "noproc"
    pid = await started(Hangs, [])
    outcome: list[Any] = []

    async def ask() -> None:
        try:
            await stop(pid, timeout_s=1)
        except CallTimeout:
            outcome.append("timeout")

    spawn(ask)
    await settle()
    await fake_clock.advance(2)
    assert outcome == ["timeout"]


async def test_stop_waits_behind_what_was_sent_before() -> None:
    """Messages of the same sender are served first."""
    journal: list[Any] = []
    pid = await started(Journal, journal)
    cast(pid, 1)
    cast(pid, 2)
    await stop(pid)
    assert journal == ["init", ("cast", 1), ("cast", 2), ("terminate", "normal")]


async def test_terminate_runs_on_errors_and_not_on_signals() -> None:
    """A server that does not trap exits is gone without it; one that traps cleans up when its parent says so."""
    journal: list[Any] = []
    pid = await started(Journal, journal)
    exit_signal(pid, "shutdown")
    assert not pid.alive
    assert ("terminate", "shutdown") not in journal

    async def parent() -> None:
        await Trapping.start_link(journal, name="child")
        await receive()

    holder = spawn(parent)
    await settle()
    child = whereis("child")
    assert child is not None
    exit_signal(child, "not from the parent")
    await settle()
    assert child.alive
    assert isinstance(journal[-1][1], Exit)
    exit_signal(holder, "shutdown")
    await settle()
    assert journal[-1] == ("terminate", "shutdown")
    assert child.exit_reason == "shutdown"


async def test_a_killed_server_does_not_terminate() -> None:
    """Nobody asks it."""
    journal: list[Any] = []
    pid = await started(Trapping, journal)
    exit_signal(pid, "kill")
    await settle()
    assert journal == ["init"]


async def test_an_error_in_terminate_replaces_the_reason() -> None:
    """The process ends with what terminate raised."""
    error = ValueError("worse")

    class Worse(Journal):
        async def terminate(self, reason: Any, state: list[Any]) -> None:
            raise error

    async def crash(state: Any) -> Any:
        raise RuntimeError("bad")

    pid = await started(Worse, [])
    cast(pid, crash)
    assert await reason_of(pid) is error


@pytest.mark.requirement("BR-132")
async def test_a_server_that_crashes_on_a_cast_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for an answer, so the log says who, why, and on which message."""
    caplog.set_level(logging.ERROR, "lemon_otp")
    pid = await started(Counter, 41)
    cast(pid, "no number")
    await reason_of(pid)
    record = next(record for record in caplog.records if hasattr(record, "crash"))
    report = record.crash  # type: ignore[attr-defined]
    assert report.pid == repr(pid)
    assert "Counter.init" in report.initial_call
    assert "AttributeError" in report.reason
    assert "no number" in report.last_message
    assert report.state == "41"
    assert report.ancestors == (repr(self_pid()),)


async def test_orderly_ends_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    """normal, shutdown and (shutdown, x) are no crashes; nor is a kill from outside."""
    for reason in ("normal", "shutdown", ("shutdown", "x")):
        assert is_orderly(reason)
        await stop(await started(Counter, 0), reason)
    exit_signal(await started(Counter, 0), "kill")
    await settle()
    assert caplog.records == []


async def test_a_reset_of_the_state_keeps_nothing_of_the_dead() -> None:
    """A pid that is held does not hold the state of its server."""
    import gc
    import weakref

    class State:
        pass

    async def make() -> State:
        state = State()
        seen.append(weakref.ref(state))
        return state

    seen: list[weakref.ref[State]] = []
    pid = await started(Scripted, make)
    await stop(pid)
    gc.collect()
    assert seen[0]() is None


@pytest.mark.parametrize("linked", [False, True])
async def test_a_server_without_a_linked_parent_ignores_nobodys_exit(linked: bool) -> None:
    """The exit of a starter that is not linked is nothing to the server."""

    async def starter() -> None:
        start = Trapping.start_link if linked else Trapping.start
        await start([], name="n")

    await reason_of(spawn(starter))
    await settle()
    assert (whereis("n") is None) == linked


async def test_servers_under_load_keep_order_and_count() -> None:
    """Many senders, one server: nothing lost, nothing doubled."""
    pid = await started(Counter, 0)

    async def sender() -> None:
        for _ in range(100):
            cast(pid, Add(1))
            await asyncio.sleep(0)

    for _ in range(10):
        spawn_link(sender)
    async with asyncio.timeout(10):
        while await call(pid, Read()) < 1000:
            await asyncio.sleep(0)
    assert await call(pid, Read()) == 1000


async def test_calls_in_a_chain_leave_each_server_room_on_the_stack() -> None:
    """A handler that goes a hundred deep has room for it however many servers stand before it in the chain."""

    class Deep(GenServer[Pid | None, str, Any, Pid | None]):
        async def init(self, arg: Pid | None) -> Pid | None:
            return arg

        async def handle_call(self, message: str, caller: Caller, state: Pid | None) -> Any:
            async def go(levels: int) -> str:
                if levels:
                    return await go(levels - 1)
                return message if state is None else await call(state, message)

            return Reply(await go(150), state)

    first: Pid | None = None
    for _ in range(15):
        first = await Deep.start_link(first)
    assert first is not None
    assert await call(first, "deep") == "deep"
