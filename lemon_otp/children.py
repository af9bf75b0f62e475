"""Edge. How a supervisor starts one child, and how it stops one or many; runs in the supervisor's process."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from types import CoroutineType
from typing import Any, Final, Literal, TypeAlias

from attrs import define, field, frozen

from lemon_otp import telemetry
from lemon_otp.child_spec import ChildKind, ChildSpec, Shutdown
from lemon_otp.clock import monotonic_s
from lemon_otp.errors import BadChildSpec, ProcessExit, ReceiveTimeout, StartFailed
from lemon_otp.exits import Down, Exit, is_orderly
from lemon_otp.machine import Process
from lemon_otp.mailbox import discard
from lemon_otp.pid import ALIVE, MonitorRef, Pid
from lemon_otp.process import current_process, down_of, exit_signal, monitor, receive, self_pid
from lemon_otp.relations import Keeper
from lemon_otp.server_start import ServerStart
from lemon_otp.telling import describe

_log: Final = logging.getLogger("lemon_otp")


@frozen
class ChildInfo:
    """One child, as `which_children` lists it.

    Attributes:
        id: Of its spec; under a DynamicSupervisor it need not be unique.
        pid: None for a child that is stopped; "restarting" for one whose restart is awaited.
        kind: Worker or supervisor.
        module: Dotted path of its module, when known.
    """

    id: Any
    pid: Pid | Literal["restarting"] | None
    kind: ChildKind
    module: str | None


@frozen
class ChildCounts:
    """How many children there are.

    Attributes:
        specs: Children known, running or not.
        active: Children that run.
        supervisors: Supervisors among the known ones.
        workers: The others.
    """

    specs: int
    active: int
    supervisors: int
    workers: int


@define(eq=False)
class Child:
    """What a supervisor keeps of one child."""

    spec: ChildSpec
    pid: Pid | None = None
    restarting: bool = False
    restarts: int = 0

    def info(self) -> ChildInfo:
        """The child as others may see it."""
        return ChildInfo(self.spec.id, "restarting" if self.restarting else self.pid, self.spec.kind, self.spec.module)


@frozen
class Refused:
    """A start that failed.

    Attributes:
        reason: As the BEAM would give it.
        error: The exception behind it, if there is one.
        exited: Whether the start function raised or exited, rather than saying why it could not start.
    """

    reason: Any
    error: BaseException | None = field(default=None, eq=False)
    exited: bool = False

    def as_error(self) -> StartFailed:
        """The exception for whoever asked for the start."""
        failed = StartFailed(self.reason)
        failed.__cause__ = self.error.__cause__ or self.error if isinstance(self.error, StartFailed) else self.error
        return failed


Started: TypeAlias = Pid | tuple[Pid, Any] | Refused | None
"""What came of a start: the pid, with information or without, None for a child that declined, or why there is none."""


def how_many(children: Collection[Any]) -> str:
    """Stands for the children where a state is shown: a crash report must not write down a hundred thousand."""
    return f"<{len(children)} children>"


def count(children: Iterable[Child]) -> ChildCounts:
    """The numbers that `count_children` answers."""
    listed = list(children)
    supervisors = sum(1 for child in listed if child.spec.kind == "supervisor")
    active = sum(1 for child in listed if child.pid is not None)
    return ChildCounts(len(listed), active, supervisors, len(listed) - supervisors)


def begin(
    me: Process, spec: ChildSpec, extra_arguments: tuple[Any, ...], keeper: Keeper | None = None
) -> Started | CoroutineType[Any, Any, Started]:
    """Start a child of `me`: what came of it, or, where that has to be waited for, what to await.

    Only what a `ServerStart` starts gets the keeper.
    """
    function = spec.start
    try:
        if type(function) is ServerStart and not extra_arguments:
            begun: Any = function.begin(me, me.context.copy(), keeper)
            if isinstance(begun, Process):
                return begun
        else:
            begun = function(*extra_arguments)
    except (ProcessExit, Exception) as error:
        return _refused(error)
    return _outcome(begun)  # type: ignore[return-value]  # what `async def` makes is more than a Coroutine


async def start(spec: ChildSpec, extra_arguments: tuple[Any, ...] = ()) -> Started:
    """Start a child: what its start function returned, or why there is none."""
    begun = begin(current_process(), spec, extra_arguments)
    return await begun if isinstance(begun, CoroutineType) else begun


async def _outcome(begun: Any) -> Started:
    try:
        started = await begun
    except (ProcessExit, Exception) as error:
        return _refused(error)
    if started is None or isinstance(started, Pid):
        return started
    if isinstance(started, tuple) and len(started) == 2 and isinstance(started[0], Pid):
        return started
    return Refused(started)


def _refused(error: ProcessExit | Exception) -> Refused:
    if isinstance(error, StartFailed | BadChildSpec):
        return Refused(error.reason, error)
    if isinstance(error, ProcessExit):
        return Refused(error.reason, error, exited=True)
    return Refused(error, error, exited=True)


def pid_of(started: Pid | tuple[Pid, Any] | None) -> Pid | None:
    """The pid in what a start function returned."""
    return started[0] if isinstance(started, tuple) else started


def ask_to_end(me: Process, pid: Pid, shutdown: Shutdown) -> bool:
    """Send a child the signal to end; whether it has ended by now, and no message will tell of it.

    Most children have nothing to finish and have.
    """
    child = pid
    assert isinstance(child, Process)
    if child.exit_reason is not ALIVE:
        return False
    linked = me.unlink(child)
    child.exit_signal(me, "kill" if isinstance(shutdown, str) and shutdown == "brutal_kill" else "shutdown")
    if child.exit_reason is not ALIVE:
        return True
    if linked:
        me.link(child)
    return False


async def wait_for_end(me: Process, pid: Pid, shutdown: Shutdown) -> Any:
    """Wait until a child has ended that was asked to; its reason. Its Exit message is used up."""
    child = pid
    assert isinstance(child, Process)
    if child.exit_reason is ALIVE:
        await _until_ended(child, shutdown)
        me.unlink(child)
    if me.mailbox:
        discard(me.mailbox, lambda message: type(message) is Exit and message.pid is child)
    return child.exit_reason


async def see_end(me: Process, spec: ChildSpec, pid: Pid) -> None:
    """`wait_for_end`, and tell if it ended otherwise than it was asked to."""
    note_stop(spec, await wait_for_end(me, pid, spec.shutdown))


async def stop(pid: Pid, shutdown: Shutdown) -> Any:
    """Stop a process that is linked to this one, and wait until it has ended; its reason."""
    me = current_process()
    return pid.exit_reason if ask_to_end(me, pid, shutdown) else await wait_for_end(me, pid, shutdown)


async def _until_ended(child: Process, shutdown: Shutdown) -> None:
    is_down = down_of(monitor(child))
    try:
        await receive(is_down, timeout_s=None if isinstance(shutdown, str) else shutdown)
    except ReceiveTimeout:
        exit_signal(child, "kill")
        await receive(is_down)


async def stop_together(children: Iterable[Child]) -> None:
    """Tell all these children to stop at the same time and wait for all, each within its own time."""
    me, now_s = current_process(), monotonic_s()
    waiting: dict[MonitorRef, Pid] = {}
    deadlines: list[tuple[float, MonitorRef]] = []
    for child in children:
        pid, shutdown = child.pid, child.spec.shutdown
        if not isinstance(pid, Process):
            continue
        if not ask_to_end(me, pid, shutdown) and pid.exit_reason is ALIVE:
            me.unlink(pid)
            ref = monitor(pid)
            waiting[ref] = pid
            if not isinstance(shutdown, str):
                deadlines.append((now_s + shutdown, ref))
    deadlines.sort(key=lambda deadline: deadline[0], reverse=True)

    def is_awaited(message: Any) -> bool:
        return type(message) is Down and message.ref in waiting

    while waiting:
        while deadlines and deadlines[-1][1] not in waiting:
            deadlines.pop()
        timeout_s = max(0.0, deadlines[-1][0] - monotonic_s()) if deadlines else None
        try:
            down: Down = await receive(is_awaited, timeout_s=timeout_s)
        except ReceiveTimeout:
            exit_signal(waiting[deadlines.pop()[1]], "kill")
        else:
            del waiting[down.ref]


# What operators see.


CHILD_ENDED: Final = ("lemon_otp", "supervisor", "child_ended")


def note_end(supervisor: Process, child: Child, pid: Pid, reason: Any) -> None:
    """Tell that a child ended by itself. Its own crash report says the rest."""
    if CHILD_ENDED in supervisor.runtime.handlers:
        metadata = {"supervisor": supervisor, "id": child.spec.id, "pid": pid, "reason": reason}
        telemetry.execute_in(supervisor.runtime, CHILD_ENDED, {"count": 1}, metadata)


def note_restart(spec: ChildSpec, restarts: int) -> None:
    """Tell that a child is about to be started again."""
    telemetry.execute(
        ("lemon_otp", "supervisor", "restart"),
        {"restarts": restarts},
        {"supervisor": self_pid(), "id": spec.id},
    )


def note_refused(supervisor: Process, spec: ChildSpec, refused: Refused) -> None:
    """Tell that a child did not start."""
    if not is_orderly(refused.reason):
        _log.warning("child %s of %r did not start: %s", describe(spec.id), supervisor, describe(refused.reason))
    telemetry.execute_in(
        supervisor.runtime,
        ("lemon_otp", "supervisor", "start_error"),
        {"count": 1},
        {"supervisor": supervisor, "id": spec.id, "reason": refused.reason},
    )


def note_give_up(spec: ChildSpec, max_restarts: int, max_seconds: float) -> None:
    """Tell that the supervisor ends because a child was started again too often."""
    me = self_pid()
    _log.error(
        "%r gives up: child %s needed more than %d restarts in %g s", me, describe(spec.id), max_restarts, max_seconds
    )
    telemetry.execute(("lemon_otp", "supervisor", "give_up"), {"count": 1}, {"supervisor": me, "id": spec.id})


def note_stop(spec: ChildSpec, reason: Any) -> None:
    """Tell when a child that was asked to stop ended otherwise."""
    if reason != "killed" and not is_orderly(reason):
        me = self_pid()
        _log.warning("child %s of %r ended with %s when asked to stop", describe(spec.id), me, describe(reason))
