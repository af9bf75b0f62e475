"""Edge. How a server comes to life: its name, its link, its first turn, and what its starter is told.

A server whose `init` waits for nothing has begun when `ServerStart.begin` returns, without a coroutine: this is what a
supervisor does most. Only where there is something to wait for does one stand for the rest of the start.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, TypeAlias

from lemon_otp.errors import (
    AlreadyRegistered,
    AlreadyStarted,
    CallFailed,
    CallTimeout,
    NameTaken,
    NoRegistry,
    ProcessExit,
    StartFailed,
)
from lemon_otp.machine import Process
from lemon_otp.pid import ALIVE, Name, Pid, Via
from lemon_otp.process import current_process, find
from lemon_otp.relations import Keeper
from lemon_otp.server_process import ServerProcess, begin
from lemon_otp.stepper import give_way

if TYPE_CHECKING:
    from lemon_otp.caller import Caller
    from lemon_otp.gen_server import GenServer

Begun: TypeAlias = Pid | Coroutine[Any, Any, Pid | None] | None
"""What a start has come to: the pid, None for a server that declined, or what to await for one of these."""


class ServerStart:
    """How a server is started; the start function of its child spec, of which a supervisor that knows it calls `begin`.

    Attributes:
        server: The class of the server; each process has an instance of its own.
        arg: What `init` is given.
        name: Registered before `init` runs.
        timeout_s: Seconds allowed for `init`.
        trap_exit: Whether exit signals become messages from the beginning.
    """

    __slots__ = ("arg", "name", "server", "timeout_s", "trap_exit")

    def __init__(
        self,
        server: type[GenServer[Any, Any, Any, Any]],
        arg: Any,
        name: Name | None,
        timeout_s: float | None = None,
        trap_exit: bool = False,
    ) -> None:
        self.server = server
        self.arg = arg
        self.name = name
        self.timeout_s = timeout_s
        self.trap_exit = trap_exit or server.trap_exit

    async def __call__(self) -> Pid | None:
        begun = self.begin(current_process(), copy_context())
        return begun if begun is None or isinstance(begun, Pid) else await begun

    def begin(self, me: Process, context: Context, keeper: Keeper | None = None, linked: bool = True) -> Begun:
        """Start the server from `me` in a context of its own; see `GenServer.start`.

        A keeper is told of its end for the one who starts it.
        """
        if linked and me.exit_reason is not ALIVE:
            raise ProcessExit(me.exit_reason)  # see `living_process`
        server = self.server
        process = ServerProcess(me.runtime, context, me, server(), self.arg)
        if self.name is not None:
            _take_name(process, self.name)
        if self.trap_exit:
            process.set_trap(True)
        if linked:
            process.link(me, keeper)
        else:
            process.linked_parent = process  # as on the BEAM, where such a server is its own parent
        me.runtime.processes[process.id] = process
        return _give_first_turn(me, process, self.timeout_s)


def _take_name(process: ServerProcess, name: Name) -> None:
    """Register a process that nobody knows yet, and that is forgotten when this fails."""
    try:
        if isinstance(name, Via):
            service = process.runtime.name_services.get(name.registry)
            if service is None:
                raise NoRegistry(name.registry)
            service.register_name(name.key, name.value, process)
        else:
            process.register(name)
    except (AlreadyRegistered, NameTaken) as error:
        raise AlreadyStarted(find(process.runtime, name)) from error


def _give_first_turn(me: Process, process: ServerProcess, timeout_s: float | None) -> Begun:
    """Give it at once, if that may be; the pid, or what to await."""
    runtime = me.runtime
    if runtime.has_room():
        runtime.fuel -= 1
        runtime.run_inside(process, begin)
        if process.starter is None and not me.alert:
            return process
    elif runtime.fuel <= 0 and me.is_main_line():
        return _begin_later(me, process, timeout_s)
    else:
        runtime.enqueue(process)
    return _outcome(me, process, process.ask(me), timeout_s)


async def _begin_later(me: Process, process: ServerProcess, timeout_s: float | None) -> Pid | None:
    """Let the others have their turn first: the starter has used up its own."""
    await give_way()
    begun = _give_first_turn(me, process, timeout_s)
    return begun if begun is None or isinstance(begun, Pid) else await begun


async def _outcome(me: Process, process: ServerProcess, starter: Caller, timeout_s: float | None) -> Pid | None:
    """Wait until `init` has returned; what came of it."""
    try:
        answer = await starter.wait(me, process, timeout_s)
    except CallTimeout:
        me.unlink(process)
        process.exit_signal(me, "kill")
        raise StartFailed("timeout") from None
    except CallFailed as failed:
        raise StartFailed(failed.reason) from None
    finally:
        if process.exit_reason is not ALIVE:
            process.starter = None
    if isinstance(answer, StartFailed):
        cause = answer.reason
        raise answer from (cause if isinstance(cause, BaseException) else None)
    return answer  # type: ignore[no-any-return]
