"""Process. A supervisor of children that come and go while it runs; they are known by their pids.

Tree:  wherever an application puts it; its children below it, in no particular order
Asked: StartChild, TerminateChild, WhichChildren, CountChildren
Told:  TryAgain (by itself, for a restart that failed or waits)
Holds: Crowd: one Child a pid, and the window in which restarts are counted
Emits: telemetry ("lemon_otp", "supervisor", "child_ended" | "restart" | "start_error" | "give_up")

The strategy is one_for_one. While it has nothing else to do and nobody watches it, a child is started and stopped in
the turn of the one who asks, without a message, as far as that does not have to wait. Its own end stops all children at
the same time, each within its own shutdown time.
"""

from __future__ import annotations

from collections.abc import Awaitable
from random import Random
from types import CoroutineType
from typing import Any, Final, TypeAlias
from typing import cast as typed

from attrs import define, field, frozen

from lemon_otp import children as child_work
from lemon_otp.callbacks import NoReply, Reply, Stop
from lemon_otp.caller import Caller
from lemon_otp.child_spec import ChildSpec, Restart, Shutdown
from lemon_otp.children import Child, ChildCounts, ChildInfo, Refused, Started
from lemon_otp.clock import monotonic_s
from lemon_otp.errors import BadArgument, BadChildSpec, MaxChildren, NotFound, UnhandledMessage
from lemon_otp.exits import Exit
from lemon_otp.gen_server import GenServer, call, cast
from lemon_otp.machine import Process
from lemon_otp.pid import ALIVE, Address, Name, Pid
from lemon_otp.process import current_process, find, self_pid, send_after
from lemon_otp.relations import Keeper
from lemon_otp.restarts import Backoff, RestartWindow, starts_again
from lemon_otp.scheduler import IDLE, running_process
from lemon_otp.server_process import ServerProcess, log_unexpected
from lemon_otp.server_start import ServerStart
from lemon_otp.supervision import (
    CountChildren,
    StartChild,
    SupervisorRequest,
    TerminateChild,
    WhichChildren,
    check_limits,
    checked_id,
    raised,
    refusal,
    supervisor_spec,
)


@frozen
class TryAgain:
    """Start the child again that ran, or was last wanted, as this process."""

    pid: Pid


@frozen
class Options:
    """What a dynamic supervisor is started with."""

    max_children: int | None = None
    extra_arguments: tuple[Any, ...] = ()
    max_restarts: int = 3
    max_seconds: float = 5.0
    backoff: Backoff | None = None


@define(eq=False)
class Crowd:
    """The state of a dynamic supervisor. A child that is being restarted stays under its last pid."""

    options: Options
    window: RestartWindow
    served_here: bool
    supervisor: Process = field(factory=current_process, repr=False)
    random: Random = field(factory=Random, repr=False)
    children: dict[Pid, Child] = field(factory=dict, repr=child_work.how_many)
    keeper: Keeper = field(init=False, repr=False)

    def listed(self) -> list[Child]:
        """The children, oldest first, for `introspect`."""
        return list(self.children.values())

    def __attrs_post_init__(self) -> None:
        self.keeper = self._ended

    def is_full(self) -> bool:
        """Whether there are as many children as there may be."""
        bound = self.options.max_children
        return bound is not None and len(self.children) >= bound

    # On request: what is returned answers it, an exception among it, or is to be awaited for that. Most children begin
    # and end without waiting for anything, and what need not wait needs no coroutine.

    def add(self, spec: Any) -> Any:
        """Start a child."""
        options = self.options
        if not isinstance(spec, ChildSpec):
            return BadChildSpec(("invalid_child_spec", spec), "a child is described by a ChildSpec")
        if self.is_full():
            return MaxChildren()
        keeper = self.keeper if spec.restart == "temporary" else None
        begun = child_work.begin(self.supervisor, spec, options.extra_arguments, keeper)
        return self._added_later(spec, begun) if isinstance(begun, CoroutineType) else self._added(spec, begun)

    async def _added_later(self, spec: ChildSpec, begun: Awaitable[Started]) -> Any:
        return self._added(spec, await begun)

    def _added(self, spec: ChildSpec, started: Started) -> Any:
        if isinstance(started, Refused):
            child_work.note_refused(self.supervisor, spec, started)
            return started.as_error()
        pid = child_work.pid_of(started)
        if pid is not None:
            self.children[pid] = Child(spec, pid)
            if spec.restart == "temporary" and (type(spec.start) is not ServerStart or pid.exit_reason is not ALIVE):
                self._keep_book(spec, pid)
        return started

    def terminate(self, pid: Any) -> Any:
        """Stop a child."""
        child = self.children.pop(pid, None)
        if child is None:
            return NotFound(pid)
        if child.pid is None or child_work.ask_to_end(self.supervisor, child.pid, child.spec.shutdown):
            return None
        return child_work.see_end(self.supervisor, child.spec, child.pid)

    # Temporary children are forgotten at once.

    def _ended(self, process: Process, reason: Any) -> None:
        """Forget a temporary child the moment it ends, without a message; not one that has unlinked itself."""
        if process.is_linked(self.supervisor):
            self.forget(process, reason)

    def forget(self, process: Pid, reason: Any) -> None:
        """A child has ended, and is not started again."""
        child = self.children.pop(process, None)
        if child is not None:
            child_work.note_end(self.supervisor, child, process, reason)

    def _keep_book(self, spec: ChildSpec, process: Pid) -> None:
        """See to it that a temporary child is forgotten when it ends, which it may have already."""
        if type(spec.start) is ServerStart:
            if process.exit_reason is not ALIVE:
                self.forget(process, process.exit_reason)  # it ended before it was listed, and its keeper knew nothing
        elif isinstance(process, Process) and process.parent is self.supervisor and process.is_linked(self.supervisor):
            process.link(self.supervisor, self.keeper)


add: Final = Crowd.add
terminate: Final = Crowd.terminate

Answer: TypeAlias = Awaitable[Reply[Crowd]] | Reply[Crowd]


class DynamicSupervisor(GenServer[Options, SupervisorRequest, TryAgain, Crowd]):
    """Starts children on request and starts them again when they fail."""

    trap_exit = True

    # Client side: runs in the caller.

    @classmethod
    async def start_link(  # type: ignore[override]
        cls,
        *,
        name: Name | None = None,
        max_children: int | None = None,
        extra_arguments: tuple[Any, ...] = (),
        max_restarts: int = 3,
        max_seconds: float = 5.0,
        backoff: Backoff | None = None,
    ) -> Pid:
        """Start a supervisor without children, linked to the caller.

        Args:
            name: Its registered name.
            max_children: Bound on the children, those that are being restarted included; None for no bound.
            extra_arguments: What each start function is called with.
            max_restarts: Restarts allowed within `max_seconds`; one more ends the supervisor with "shutdown".
            max_seconds: Length of that window.
            backoff: Wait before each restart; None starts again at once, as OTP does.

        Raises:
            AlreadyStarted: The name belongs to a running process.
            BadArgument: A limit is nonsense. Nothing was started.
        """
        if max_children is not None and (type(max_children) is not int or max_children < 0):
            raise BadArgument(f"max_children is a number from 0 on or None, not {max_children!r}")
        check_limits(max_restarts, max_seconds, backoff)
        options = Options(max_children, tuple(extra_arguments), max_restarts, max_seconds, backoff)
        return typed("Pid", await super().start_link(options, name=name))

    @classmethod
    def child_spec(  # type: ignore[override]
        cls,
        *,
        id: Any = None,  # noqa: A002 - the name that child specifications have for it
        name: Name | None = None,
        restart: Restart = "permanent",
        shutdown: Shutdown = "infinity",
        significant: bool = False,
        **options: Any,
    ) -> ChildSpec:
        """How another supervisor starts this one; options as for `start_link`. Its id is by default its name."""

        async def start() -> Pid:
            return await cls.start_link(name=name, **options)

        return supervisor_spec(cls, start, name, id, restart=restart, shutdown=shutdown, significant=significant)

    @staticmethod
    async def start_child(supervisor: Address, spec: ChildSpec, *, timeout_s: float | None = None) -> Pid:
        """Start a child and wait until its `init` has returned.

        Args:
            supervisor: Pid or name of a running DynamicSupervisor.
            spec: What to start. Ids may repeat.
            timeout_s: How long to wait for the supervisor's answer; None waits for it.

        Returns:
            The child's pid: alive, linked to the supervisor and listed by `which_children`. A start function that
            declines makes it None, and nothing is kept; one that adds information makes it `(pid, info)`.

        Raises:
            BadChildSpec: It has no time to stop, which the BEAM refuses here too.
            MaxChildren: The bound is reached. Nothing was started.
            StartFailed: The child did not start; see `__cause__`. No restart was counted.
            CallFailed: The supervisor is gone.

        Cancelling leaves running a child that had already started.
        """
        if isinstance(spec, ChildSpec) and not spec.shutdown:
            raise BadChildSpec(("invalid_shutdown", 0), "here a child is given some time, or 'brutal_kill'")
        server = at_leisure(supervisor) if isinstance(spec, ChildSpec) and type(spec.start) is ServerStart else None
        if server is None:
            started: Any = call(supervisor, StartChild(spec), timeout_s=timeout_s)
        else:
            started = server.serve_here(add, spec, timeout_s)
        pid: Pid = raised(await started if isinstance(started, CoroutineType) else started)
        return pid

    @staticmethod
    async def terminate_child(supervisor: Address, pid: Pid, *, timeout_s: float | None = None) -> None:
        """Stop a child, and return when it has ended. Raises NotFound when it is no child of this supervisor."""
        server, child = at_leisure(supervisor), checked_id(pid)
        if server is None:
            ended: Any = call(supervisor, TerminateChild(child), timeout_s=timeout_s)
        else:
            ended = server.serve_here(terminate, child, timeout_s)
        raised(await ended if isinstance(ended, CoroutineType) else ended)

    @staticmethod
    async def which_children(supervisor: Address, *, timeout_s: float | None = None) -> list[ChildInfo]:
        """The children, oldest first."""
        children: list[ChildInfo] = await call(supervisor, WhichChildren(), timeout_s=timeout_s)
        return children

    @staticmethod
    async def count_children(supervisor: Address, *, timeout_s: float | None = None) -> ChildCounts:
        """How many children there are."""
        counts: ChildCounts = await call(supervisor, CountChildren(), timeout_s=timeout_s)
        return counts

    # Server side: runs in the process, one message at a time.

    async def init(self, options: Options) -> Crowd:
        return Crowd(options, RestartWindow(options.max_restarts, options.max_seconds), self._is_plain())

    def _is_plain(self) -> bool:
        """Whether requests are answered as this library does it, so that a caller may do the same on the spot."""
        return type(self).handle_call is DynamicSupervisor.handle_call

    def handle_call(self, message: Any, caller: Caller, state: Crowd) -> Answer:
        kind = type(message)
        answer: Any
        if kind is StartChild:
            answer = state.add(message.spec)
        elif kind is TerminateChild:
            answer = state.terminate(message.child)
        elif kind is WhichChildren:
            answer = [child.info() for child in state.children.values()]
        elif kind is CountChildren:
            answer = child_work.count(state.children.values())
        elif isinstance(message, SupervisorRequest):
            answer = refusal(self, message)
        else:
            raise UnhandledMessage(type(self).__name__, "handle_call", message)
        return replied(answer, state)

    async def handle_cast(self, message: Any, state: Crowd) -> NoReply[Crowd] | Stop[Crowd]:
        if not isinstance(message, TryAgain):
            log_unexpected(current_process(), message)
            return NoReply(state)
        child = state.children.get(message.pid)
        if child is None or not child.restarting:
            return NoReply(state)
        return await self._restart(message.pid, child, state)

    async def handle_info(self, message: Any, state: Crowd) -> NoReply[Crowd] | Stop[Crowd]:
        if isinstance(message, Exit):
            return await self._child_ended(message.pid, message.reason, state)
        if isinstance(message, _Due):
            child = state.children.get(message.pid)
            if child is not None and child.restarting:
                await self._restart_now(message.pid, child, state)
            return NoReply(state)
        log_unexpected(current_process(), message)
        return NoReply(state)

    async def terminate(self, reason: Any, state: Crowd) -> None:
        await child_work.stop_together(state.listed())

    # Below: what a supervisor does with its children.

    async def _child_ended(self, pid: Pid, reason: Any, state: Crowd) -> NoReply[Crowd] | Stop[Crowd]:
        child = state.children.get(pid)
        if child is None:
            return NoReply(state)
        if not starts_again(child.spec.restart, reason):
            state.forget(pid, reason)
            return NoReply(state)
        child_work.note_end(state.supervisor, child, pid, reason)
        return await self._restart(pid, child, state)

    async def _restart(self, pid: Pid, child: Child, state: Crowd) -> NoReply[Crowd] | Stop[Crowd]:
        options, window = state.options, state.window
        if not window.record(monotonic_s()):
            child_work.note_give_up(child.spec, options.max_restarts, options.max_seconds)
            del state.children[pid]
            return Stop("shutdown", state)
        child.restarts += 1
        child.pid, child.restarting = None, True
        child_work.note_restart(child.spec, window.count)
        if options.backoff is not None:
            send_after(self_pid(), _Due(pid), options.backoff.delay_s(window.count, state.random))
        else:
            await self._restart_now(pid, child, state)
        return NoReply(state)

    async def _restart_now(self, pid: Pid, child: Child, state: Crowd) -> None:
        started = await child_work.start(child.spec, state.options.extra_arguments)
        if isinstance(started, Refused):
            # Back to the mailbox before trying again: requests and exits get their turn between two attempts.
            child_work.note_refused(state.supervisor, child.spec, started)
            cast(self_pid(), TryAgain(pid))
            return
        del state.children[pid]
        new_pid = child_work.pid_of(started)
        if new_pid is not None:
            child.pid, child.restarting = new_pid, False
            state.children[new_pid] = child


def at_leisure(address: Address) -> ServerProcess | None:
    """The supervisor, if the caller may do itself at once what that would do when asked: no message is needed then."""
    me = running_process(None)
    if me is None or me.alert:
        return None
    runtime = me.runtime
    process = runtime.names.get(address) if type(address) is str else find(runtime, address)
    if process is None or process.status != IDLE or process.runtime is not runtime or runtime.fuel <= 0:
        return None
    server: ServerProcess = process  # type: ignore[assignment]  # no other process is ever idle
    return server if type(server.state) is Crowd and server.state.served_here and server.extras is None else None


def replied(answer: Any, state: Crowd) -> Answer:
    """What `handle_call` returns for what a `Crowd` answers."""
    return _replied_later(answer, state) if isinstance(answer, CoroutineType) else Reply(answer, state)


async def _replied_later(answer: Awaitable[Any], state: Crowd) -> Reply[Crowd]:
    return Reply(await answer, state)


@frozen
class _Due:
    """The wait before a restart is over."""

    pid: Pid
