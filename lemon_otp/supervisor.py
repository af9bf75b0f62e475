"""Process. A supervisor of children that are known beforehand: one_for_one, one_for_all, rest_for_one.

Tree:  wherever an application puts it; its children below it, in the order of starting
Asked: StartChild, TerminateChild, RestartChild, DeleteChild, WhichChildren, CountChildren
Told:  TryAgain (by itself, for a restart that failed or waits)
Holds: Family: the children in order, and the window in which restarts are counted
Emits: telemetry ("lemon_otp", "supervisor", "child_ended" | "restart" | "start_error" | "give_up")

Stopping goes in reverse order of starting, one child after the other. A child that ended by itself under
`rest_for_one` or `one_for_all` is started again together with the one that failed, as long as it is not temporary: a
transient one-shot task runs again when something it came after is started again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from inspect import isawaitable
from random import Random
from typing import Any, Final, TypeAlias, cast as typed

from attrs import define, field, frozen

from lemon_otp import children as family
from lemon_otp.callbacks import Ignore, NoReply, Reply, Stop
from lemon_otp.caller import Caller
from lemon_otp.child_spec import ChildSpec, Restart, Shutdown
from lemon_otp.children import Child, ChildCounts, ChildInfo, Refused
from lemon_otp.clock import monotonic_s
from lemon_otp.errors import (
    AlreadyPresent,
    AlreadyStarted,
    BadArgument,
    BadChildSpec,
    ChildRunning,
    NotFound,
    StartFailed,
    UnhandledMessage,
)
from lemon_otp.exits import Exit
from lemon_otp.gen_server import GenServer, Request, call, cast

from lemon_otp.pid import Address, Name, Pid
from lemon_otp.process import current_process, self_pid, send_after
from lemon_otp.restarts import (
    AUTO_SHUTDOWNS,
    STRATEGIES,
    AutoShutdown,
    Backoff,
    RestartWindow,
    Strategy,
    check_spec,
    check_specs,
    disturbed_by,
    starts_again,
    stops_supervisor,
)
from lemon_otp.server_process import log_unexpected

ChildrenFunction: TypeAlias = Callable[[], Any]
"""Called in the supervisor's process: its specs, or `Ignore()` when there is nothing to supervise."""


@frozen
class StartChild(Request[Any]):
    """Add this child and start it."""

    spec: ChildSpec


@frozen
class TerminateChild(Request[Any]):
    """Stop this child and do not start it again."""

    id: Hashable


@frozen
class RestartChild(Request[Any]):
    """Start this stopped child."""

    id: Hashable


@frozen
class DeleteChild(Request[Any]):
    """Forget this stopped child."""

    id: Hashable


@frozen
class WhichChildren(Request[list[ChildInfo]]):
    """List the children."""


@frozen
class CountChildren(Request[ChildCounts]):
    """Count the children."""


@frozen
class TryAgain:
    """Start this child, whose restart failed or was put off."""

    id: Hashable


@frozen
class Options:
    """What a supervisor is started with."""

    children: Sequence[ChildSpec] | ChildrenFunction
    strategy: Strategy = "one_for_one"
    max_restarts: int = 3
    max_seconds: float = 5.0
    auto_shutdown: AutoShutdown = "never"
    backoff: Backoff | None = None


@define(eq=False)
class Family:
    """The state of a supervisor."""

    options: Options
    window: RestartWindow
    random: Random = field(factory=Random)
    children: dict[Hashable, Child] = field(factory=dict)
    ids: dict[Pid, Hashable] = field(factory=dict)

    def started(self, child: Child, pid: Pid | None) -> None:
        """Note that `child` runs as `pid`; None when it declined to run."""
        child.pid, child.restarting = pid, False
        if pid is not None:
            self.ids[pid] = child.spec.id

    def stopped(self, child: Child) -> None:
        """Note that `child` does not run; a temporary one is forgotten."""
        if child.pid is not None:
            self.ids.pop(child.pid, None)
        child.pid, child.restarting = None, False
        if child.spec.restart == "temporary":
            self.children.pop(child.spec.id, None)

    def significant_left(self) -> bool:
        """Whether a significant child runs or is being restarted."""
        return any(child.spec.significant and (child.pid or child.restarting) for child in self.children.values())

    def listed(self) -> list[Child]:
        """The children in the order of starting, for `introspect`."""
        return list(self.children.values())


Asked: TypeAlias = StartChild | TerminateChild | RestartChild | DeleteChild | WhichChildren | CountChildren


class Supervisor(GenServer[Options, Asked, TryAgain, Family]):
    """Starts its children in order, starts them again as the strategy says, and stops them in reverse."""

    trap_exit = True

    # Client side: runs in the caller.

    @classmethod
    async def start_link(  # type: ignore[override]
        cls,
        children: Sequence[ChildSpec] | ChildrenFunction,
        *,
        strategy: Strategy = "one_for_one",
        max_restarts: int = 3,
        max_seconds: float = 5.0,
        auto_shutdown: AutoShutdown = "never",
        backoff: Backoff | None = None,
        name: Name | None = None,
    ) -> Pid:
        """Start a supervisor linked to the caller, and wait until all its children have started.

        Args:
            children: Specs in the order of starting; or a function, plain or async, that returns them and is called
                in the new process. It may return `Ignore()`: then None is returned and nothing runs.
            strategy: Which children are started again when one fails: only it; all; it and those after it.
            max_restarts: Restarts allowed within `max_seconds`; one more ends the supervisor with "shutdown".
            max_seconds: Length of that window. Time spent on stopping siblings does not count.
            auto_shutdown: Whether the end of a significant child, or of the last one, ends the supervisor.
            backoff: Wait before each restart; None starts again at once, as OTP does.
            name: Registered before the first child is started.

        Raises:
            AlreadyStarted: The name belongs to a running process.
            BadChildSpec: Two specs contradict each other, or one contradicts the supervisor. Nothing was started.
            StartFailed: A child did not start; its reason is `("shutdown", ("failed_to_start_child", id, reason))`.
                Those before it have been stopped.
            BadArgument: The strategy, a limit or `auto_shutdown` is nonsense. Nothing was started.
        """
        options = Options(children, strategy, max_restarts, max_seconds, auto_shutdown, backoff)
        _check_options(options)
        try:
            # None stands for `Ignore()`, which only those see who wrote a function that returns it.
            return typed("Pid", await super().start_link(options, name=name))
        except StartFailed as failed:
            reason = failed.reason
            if isinstance(reason, tuple) and len(reason) == 2 and reason[0] == "start_spec":
                raise BadChildSpec(reason) from None
            raise

    @classmethod
    def child_spec(  # type: ignore[override]
        cls,
        children: Sequence[ChildSpec] | ChildrenFunction,
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
            return await cls.start_link(children, name=name, **options)

        return ChildSpec(
            id=default_id(cls, name) if id is None else id,
            start=start,
            restart=restart,
            shutdown=shutdown,
            kind="supervisor",
            significant=significant,
            module=cls.__module__,
        )

    @staticmethod
    async def start_child(supervisor: Address, spec: ChildSpec, *, timeout_s: float | None = None) -> Pid:
        """Add a child after the others and start it.

        Returns:
            The child's pid: alive, linked to the supervisor and listed by `which_children`. A start function that
            declines makes it None, and the child stays listed unless it is temporary; one that adds information makes
            it `(pid, info)`.

        Raises:
            AlreadyStarted: A child of this id runs.
            AlreadyPresent: A child of this id is stopped.
            BadChildSpec: The spec contradicts the supervisor.
            StartFailed: The child did not start. It is not kept and no restart is counted.
            CallFailed: The supervisor is gone.
        """
        return typed("Pid", raised(await call(supervisor, StartChild(spec), timeout_s=timeout_s)))

    @staticmethod
    async def terminate_child(supervisor: Address, id: Hashable, *, timeout_s: float | None = None) -> None:  # noqa: A002
        """Stop a child; it is not started again by itself, unless its siblings' restart takes it along.

        A temporary child is forgotten. Raises NotFound.
        """
        raised(await call(supervisor, TerminateChild(id), timeout_s=timeout_s))

    @staticmethod
    async def restart_child(supervisor: Address, id: Hashable, *, timeout_s: float | None = None) -> Pid:  # noqa: A002
        """Start a stopped child in its old place; see `start_child` for what is returned.

        Raises:
            NotFound: There is no such child.
            ChildRunning: It runs, or is being restarted.
            StartFailed: It did not start. It stays listed, stopped.
        """
        return typed("Pid", raised(await call(supervisor, RestartChild(id), timeout_s=timeout_s)))

    @staticmethod
    async def delete_child(supervisor: Address, id: Hashable, *, timeout_s: float | None = None) -> None:  # noqa: A002
        """Forget a stopped child. Raises NotFound, or ChildRunning."""
        raised(await call(supervisor, DeleteChild(id), timeout_s=timeout_s))

    @staticmethod
    async def which_children(supervisor: Address, *, timeout_s: float | None = None) -> list[ChildInfo]:
        """The children in the order of starting."""
        return await call(supervisor, WhichChildren(), timeout_s=timeout_s)

    @staticmethod
    async def count_children(supervisor: Address, *, timeout_s: float | None = None) -> ChildCounts:
        """How many children there are."""
        return await call(supervisor, CountChildren(), timeout_s=timeout_s)

    # Server side: runs in the process, one message at a time.

    async def init(self, options: Options) -> Family | Ignore | Stop[Family]:
        specs: Any = options.children() if callable(options.children) else options.children
        if isawaitable(specs):
            specs = await specs
        if isinstance(specs, Ignore):
            return specs
        if not isinstance(specs, Sequence) or isinstance(specs, str):
            return Stop(("bad_return", specs))
        try:
            check_specs(specs, options.auto_shutdown)
        except BadChildSpec as error:
            return Stop(("start_spec", error.reason))
        state = Family(options, RestartWindow(options.max_restarts, options.max_seconds))
        state.children = {spec.id: Child(spec) for spec in specs}
        for child in state.listed():
            refused = await self._start(child, state)
            if refused is not None:
                await self._stop_all(state)
                return Stop(("shutdown", ("failed_to_start_child", child.spec.id, refused.reason)))
        return state

    async def handle_call(self, message: Asked, caller: Caller, state: Family) -> Reply[Family]:
        match message:
            case StartChild(spec):
                answer = await self._add(spec, state)
            case TerminateChild(id):
                answer = await self._terminate_child(id, state)
            case RestartChild(id):
                answer = await self._restart_child(id, state)
            case DeleteChild(id):
                answer = _delete(id, state)
            case WhichChildren():
                answer = [child.info() for child in state.children.values()]
            case CountChildren():
                answer = family.count(state.children.values())
            case _:
                raise UnhandledMessage(type(self).__name__, "handle_call", message)
        return Reply(answer, state)

    async def handle_cast(self, message: TryAgain, state: Family) -> NoReply[Family] | Stop[Family]:
        if not isinstance(message, TryAgain):
            raise UnhandledMessage(type(self).__name__, "handle_cast", message)
        child = state.children.get(message.id)
        if child is None or not child.restarting:
            return NoReply(state)
        return await self._restart(child, state)

    async def handle_info(self, message: Any, state: Family) -> NoReply[Family] | Stop[Family]:
        if isinstance(message, Exit):
            return await self._child_ended(message.pid, message.reason, state)
        if isinstance(message, _Due):
            child = state.children.get(message.id)
            return await self._restart_now(child, state) if child is not None and child.restarting else NoReply(state)
        log_unexpected(current_process(), message)
        return NoReply(state)

    async def terminate(self, reason: Any, state: Family) -> None:
        await self._stop_all(state)

    # Below: what a supervisor does with its children.

    async def _child_ended(self, pid: Pid, reason: Any, state: Family) -> NoReply[Family] | Stop[Family]:
        child = state.children.get(state.ids.pop(pid, _NOBODY))
        if child is None:
            return NoReply(state)
        spec = child.spec
        family.note_end(current_process(), child, pid, reason)
        if starts_again(spec.restart, reason):
            child.pid = None
            return await self._restart(child, state)
        state.stopped(child)
        mode = state.options.auto_shutdown
        if mode != "never" and stops_supervisor(
            mode, significant=spec.significant, significant_left=state.significant_left()
        ):
            return Stop("shutdown", state)
        return NoReply(state)

    async def _restart(self, child: Child, state: Family) -> NoReply[Family] | Stop[Family]:
        options, window = state.options, state.window
        if not window.record(monotonic_s()):
            family.note_give_up(child.spec, options.max_restarts, options.max_seconds)
            state.stopped(child)
            return Stop("shutdown", state)
        child.restarts += 1
        family.note_restart(child.spec, window.count)
        if options.backoff is not None:
            child.restarting = True
            send_after(self_pid(), _Due(child.spec.id), options.backoff.delay_s(window.count, state.random))
            return NoReply(state)
        return await self._restart_now(child, state)

    async def _restart_now(self, child: Child, state: Family) -> NoReply[Family]:
        failed: Hashable = _NOBODY
        if state.options.strategy == "one_for_one":
            if await self._start(child, state) is not None:
                failed = child.spec.id
        else:
            disturbed = disturbed_by(state.options.strategy, list(state.children), child.spec.id)
            await self._stop_for_restart(disturbed, state)
            failed = await self._start_in_order(disturbed, state)
        if failed is not _NOBODY:
            # Back to the mailbox before trying again: requests and exits get their turn between two attempts.
            state.children[failed].restarting = True
            cast(self_pid(), TryAgain(failed))
        return NoReply(state)

    async def _stop_for_restart(self, ids: Sequence[Hashable], state: Family) -> None:
        began_s = monotonic_s()
        for id in reversed(ids):  # noqa: A001
            await self._stop(state.children[id], state)
        state.window.discount(monotonic_s() - began_s)

    async def _start_in_order(self, ids: Sequence[Hashable], state: Family) -> Hashable:
        """Start what is left of these children; the first that fails, or `_NOBODY`."""
        for id in ids:  # noqa: A001
            child = state.children.get(id)
            if child is not None and await self._start(child, state) is not None:
                return id
        return _NOBODY

    async def _add(self, spec: ChildSpec, state: Family) -> Any:
        try:
            check_spec(spec, state.options.auto_shutdown)
        except BadChildSpec as error:
            return error
        known = state.children.get(spec.id)
        if known is not None:
            return AlreadyPresent() if known.pid is None else AlreadyStarted(known.pid)
        started = await family.start(spec)
        if isinstance(started, Refused):
            family.note_refused(spec, started)
            return _as_exit(started).as_error()
        pid = family.pid_of(started)
        if pid is not None or spec.restart != "temporary":
            child = state.children[spec.id] = Child(spec)
            state.started(child, pid)
        return started

    async def _terminate_child(self, id: Hashable, state: Family) -> NotFound | None:  # noqa: A002
        child = state.children.get(id)
        if child is None:
            return NotFound(id)
        await self._stop(child, state)
        return None

    async def _restart_child(self, id: Hashable, state: Family) -> Any:  # noqa: A002
        child = state.children.get(id)
        if child is None:
            return NotFound(id)
        if child.restarting or child.pid is not None:
            return ChildRunning("restarting" if child.restarting else "running")
        started = await family.start(child.spec)
        if isinstance(started, Refused):
            family.note_refused(child.spec, started)
            return _as_exit(started).as_error()
        state.started(child, family.pid_of(started))
        return started

    async def _start(self, child: Child, state: Family) -> Refused | None:
        """Start a known child; why it did not start."""
        started = await family.start(child.spec)
        if isinstance(started, Refused):
            refused = _as_exit(started)
            family.note_refused(child.spec, refused)
            return refused
        pid = family.pid_of(started)
        state.started(child, pid)
        if pid is None and child.spec.restart == "temporary":
            state.stopped(child)
        return None

    async def _stop(self, child: Child, state: Family) -> None:
        if child.pid is not None:
            family.note_stop(child.spec, await family.stop(child.pid, child.spec.shutdown))
        state.stopped(child)

    async def _stop_all(self, state: Family) -> None:
        for child in reversed(state.listed()):
            await self._stop(child, state)


@frozen
class _Due:
    """The wait before a restart is over."""

    id: Hashable


_NOBODY: Final = object()


def _delete(id: Hashable, state: Family) -> Any:  # noqa: A002
    child = state.children.get(id)
    if child is None:
        return NotFound(id)
    if child.restarting or child.pid is not None:
        return ChildRunning("restarting" if child.restarting else "running")
    del state.children[id]
    return None


def _as_exit(refused: Refused) -> Refused:
    """What a start function raised, as a static supervisor reports it."""
    return Refused(("EXIT", refused.reason), refused.error) if refused.exited else refused


def raised(answer: Any) -> Any:
    """The answer of a supervisor; an exception among them is raised here, in the caller."""
    if isinstance(answer, Exception):
        raise answer
    return answer


def default_id(cls: type, name: Name | None) -> Any:
    """The id of a supervisor among the children of another: its name, else the last part of its module's path."""
    return name if isinstance(name, str) else cls.__module__.rsplit(".", 1)[-1]


def _check_options(options: Options) -> None:
    if options.strategy not in STRATEGIES:
        raise BadArgument(f"strategy is one of {', '.join(STRATEGIES)}, not {options.strategy!r}")
    if options.auto_shutdown not in AUTO_SHUTDOWNS:
        raise BadArgument(f"auto_shutdown is one of {', '.join(AUTO_SHUTDOWNS)}, not {options.auto_shutdown!r}")
    check_limits(options.max_restarts, options.max_seconds)


def check_limits(max_restarts: int, max_seconds: float) -> None:
    """Raise BadArgument when the restart limits are nonsense."""
    if isinstance(max_restarts, bool) or not isinstance(max_restarts, int) or max_restarts < 0:
        raise BadArgument(f"max_restarts is a number from 0 on, not {max_restarts!r}")
    if isinstance(max_seconds, bool) or not isinstance(max_seconds, int | float) or not max_seconds > 0:
        raise BadArgument(f"max_seconds is a positive number of seconds, not {max_seconds!r}")
