"""Process. A server: a state, and callbacks that serve one message after the other.

The class is what a server is written with, the functions are how others talk to it. How the messages reach
the callbacks stands in `server_process`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextvars import copy_context
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, overload

from lemon_otp.callbacks import TIMEOUT, Ignore, Init, NoReply, Reply, Stop
from lemon_otp.caller import ANSWERED, CALL, CAST, LATE, SYSTEM, Caller
from lemon_otp.child_spec import ChildSpec, Restart, Shutdown
from lemon_otp.errors import (
    BadArgument,
    CallFailed,
    CallTimeout,
    NoRegistry,
    NotAProcess,
    UnhandledMessage,
)
from lemon_otp.machine import Process
from lemon_otp.pid import ALIVE, Address, Name, Pid, Via
from lemon_otp.process import current_process, find, resolve
from lemon_otp.scheduler import running_process
from lemon_otp.server_process import log_unexpected, send_request
from lemon_otp.server_start import ServerStart
from lemon_otp.system import Terminate

__all__ = [
    "TIMEOUT", "CallResult", "Caller", "GenServer", "Ignore", "Init", "NoReply", "Reply", "Request", "Result", "Stop",
    "call", "cast", "reply", "stop",
]  # fmt: skip

Arg = TypeVar("Arg")
CallT = TypeVar("CallT")
CastT = TypeVar("CastT")
State = TypeVar("State")
R = TypeVar("R")


class Request(Generic[R]):
    """Base of the messages of `call`; `R` is what the answer is."""

    __slots__ = ()


InitResult: TypeAlias = State | Init[State] | Ignore | Stop[State]
CallResult: TypeAlias = Reply[State] | NoReply[State] | Stop[State]
Result: TypeAlias = NoReply[State] | Stop[State]


class GenServer(Generic[Arg, CallT, CastT, State]):
    """A process that holds a state and serves one message after the other.

    Subclass it, say what it is started with, asked, told and holds, and write the callbacks that it needs;
    each may be `async def` or plain `def`. The class line is the protocol.
    """

    trap_exit: ClassVar[bool] = False
    """Whether exit signals become Exit messages from the beginning, and `terminate` runs on shutdown."""

    # Server side: runs in the process.

    def init(self, arg: Arg) -> Awaitable[InitResult[State]] | InitResult[State]:
        """The first state. Whoever started the server waits until this returns."""
        raise UnhandledMessage(type(self).__name__, "init", arg)

    def handle_call(
        self, message: CallT, caller: Caller, state: State
    ) -> Awaitable[CallResult[State]] | CallResult[State]:
        """Answer a request."""
        raise UnhandledMessage(type(self).__name__, "handle_call", message)

    def handle_cast(self, message: CastT, state: State) -> Awaitable[Result[State]] | Result[State]:
        """Take in a message that needs no answer."""
        raise UnhandledMessage(type(self).__name__, "handle_cast", message)

    def handle_info(self, message: Any, state: State) -> Awaitable[Result[State]] | Result[State]:
        """Take in anything else: plain messages, Down, Exit, `TIMEOUT`. Unless overridden it is logged."""
        log_unexpected(running_process(None), message)
        return NoReply(state)

    def handle_continue(self, term: Any, state: State) -> Awaitable[Result[State]] | Result[State]:
        """Go on with work that a callback put off by `continue_=term`, before any other message."""
        raise UnhandledMessage(type(self).__name__, "handle_continue", term)

    def terminate(self, reason: Any, state: State) -> Awaitable[None] | None:
        """Clean up: called when a callback stopped or raised, and, if exits are trapped, on shutdown."""
        return None

    # Client side: runs in the caller.

    @classmethod
    async def start(
        cls, arg: Arg, *, name: Name | None = None, timeout_s: float | None = None, trap_exit: bool = False
    ) -> Pid | None:
        """Start the server, not linked, and wait until its `init` has returned.

        Args:
            arg: What `init` is given.
            name: Registered before `init` runs.
            timeout_s: Seconds allowed for `init`; None allows any time.
            trap_exit: Trap exits from the beginning.

        Returns:
            The pid; None when `init` returned `Ignore`.

        Raises:
            AlreadyStarted: The name belongs to a running process. Nothing was started.
            StartFailed: `init` stopped or raised, or took too long; the process is gone.

        Cancelling leaves running a server that is still in `init`.
        """
        begun = ServerStart(cls, arg, name, timeout_s, trap_exit).begin(current_process(), copy_context(), linked=False)
        return begun if begun is None or isinstance(begun, Pid) else await begun

    @classmethod
    async def start_link(
        cls, arg: Arg, *, name: Name | None = None, timeout_s: float | None = None, trap_exit: bool = False
    ) -> Pid | None:
        """`start`, with a link to the caller from before `init` on.

        When `init` fails, the caller is also sent the exit signal, and ends with it unless it traps exits.
        """
        begun = ServerStart(cls, arg, name, timeout_s, trap_exit).begin(current_process(), copy_context())
        return begun if begun is None or isinstance(begun, Pid) else await begun

    @classmethod
    def child_spec(
        cls,
        arg: Any = None,
        *,
        id: Any = None,  # noqa: A002 - what a child specification calls it
        name: Name | None = None,
        restart: Restart = "permanent",
        shutdown: Shutdown = 5.0,
        significant: bool = False,
    ) -> ChildSpec:
        """How a supervisor starts this server; the id is the last part of its module's path unless given."""

        async def start() -> Pid | None:
            return await cls.start_link(arg, name=name)

        starts_as_usual = cls.start_link.__func__ is GenServer.start_link.__func__  # type: ignore[attr-defined]
        return ChildSpec(
            id=cls.__module__.rpartition(".")[2] if id is None else id,
            start=ServerStart(cls, arg, name) if starts_as_usual else start,
            restart=restart,
            shutdown=shutdown,
            significant=significant,
            module=cls.__module__,
        )


@overload
async def call(address: Address, message: Request[R], *, timeout_s: float | None = 5.0) -> R: ...
@overload
async def call(address: Address, message: Any, *, timeout_s: float | None = 5.0) -> Any: ...
async def call(address: Address, message: Any, *, timeout_s: float | None = 5.0) -> Any:
    """Ask a server and return its answer.

    Args:
        address: Pid or name of the server.
        message: What `handle_call` is given.
        timeout_s: Seconds to wait; None waits for ever.

    Raises:
        CallFailed: There is no such process ("noproc"), it is the caller ("calling_self"), or it ended before
            it answered (its exit reason).
        CallTimeout: No answer in time. The request may still be served.

    Cancelling drops the answer.
    """
    me = running_process(None)
    if me is None:
        raise NotAProcess("only a process can call; enter `async with Runtime()` or use `run(main)`")
    if isinstance(address, Process):
        target: Process | None = address
    else:
        target = me.runtime.names.get(address) if type(address) is str else find(me.runtime, address)
    if target is None or target.exit_reason is not ALIVE:
        raise CallFailed("noproc", address)
    if target is me:
        raise CallFailed("calling_self", address)
    if me.alert:
        await me.heed()
    caller = Caller(me)
    send_request(me.runtime, target, (CALL, caller, message))
    if caller.settled == ANSWERED and not me.alert:
        return caller.value
    return await caller.wait(me, target, timeout_s)


def asked(me: Process, address: Address) -> Process:
    """The process at an address, which `me` is about to ask. Raises CallFailed, as `call` does."""
    target = resolve(address)
    if target is None:
        raise CallFailed("noproc", address)
    if target is me:
        raise CallFailed("calling_self", address)
    return target


def cast(address: Address, message: Any) -> None:
    """Tell a server something; does nothing when there is no such process."""
    if isinstance(address, Process):
        address.deliver((CAST, message))
        return
    try:
        process = resolve(address)
    except (NoRegistry, BadArgument):
        if isinstance(address, Via):
            return
        raise
    if process is not None:
        process.deliver((CAST, message))


def reply(caller: Caller, value: Any) -> None:
    """Answer a request, from any process; does nothing when the caller no longer waits."""
    caller.answer(value)


async def stop(address: Address, reason: Any = "normal", *, timeout_s: float | None = None) -> None:
    """Ask a server to end, and return when it has ended with `reason`, its `terminate` done.

    Raises:
        CallFailed: There is no such process ("noproc"), or it ended with another reason. When it ended before it took
            the request, the reason is a `CallFailed` with the reason of that end, as on the BEAM.
        CallTimeout: It has not ended in time; the request stands.
    """
    me = current_process()
    target = asked(me, address)
    if me.alert:
        await me.heed()
    taken, ended = Caller(me), Caller(me)
    send_request(me.runtime, target, (SYSTEM, taken, Terminate(reason)))
    await ended.settle(me, target, timeout_s)
    if ended.settled == LATE:
        raise CallTimeout(address, timeout_s)
    if not taken.settled:
        raise CallFailed(CallFailed(ended.value, address), address)
    if ended.value != reason or type(ended.value) is not type(reason):
        raise CallFailed(ended.value, address)
