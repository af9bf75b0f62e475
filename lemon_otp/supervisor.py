"""Process. A supervisor of children that are known beforehand: one_for_one, one_for_all, rest_for_one.

Tree:  wherever an application puts it; its children below it, in the order of starting
Asked: StartChild, TerminateChild, RestartChild, DeleteChild, WhichChildren, CountChildren
Told:  TryAgain and Due, by itself, for a restart that failed or waits
Holds: Family: the children in order, and the window in which restarts are counted
Emits: telemetry ("lemon_otp", "supervisor", "child_ended" | "restart" | "start_error" | "give_up")

Stopping goes in reverse order of starting, one child after the other. A child that ended by itself under
`rest_for_one` or `one_for_all` is started again together with the one that failed, as long as it is not temporary: a
transient one-shot task runs again when something it came after is started again.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from inspect import isawaitable
from typing import Any
from typing import cast as typed

from lemon_otp.callbacks import Ignore, NoReply, Reply, Stop
from lemon_otp.caller import Caller
from lemon_otp.child_spec import ChildSpec, Restart, Shutdown
from lemon_otp.children import ChildCounts, ChildInfo, count
from lemon_otp.errors import BadArgument, BadChildSpec, StartFailed, UnhandledMessage
from lemon_otp.exits import Exit
from lemon_otp.family import ChildrenFunction, Due, Family, Options, TryAgain
from lemon_otp.gen_server import GenServer, call
from lemon_otp.pid import Address, Name, Pid
from lemon_otp.process import current_process
from lemon_otp.restarts import AUTO_SHUTDOWNS, STRATEGIES, AutoShutdown, Backoff, RestartWindow, Strategy, check_specs
from lemon_otp.server_process import log_unexpected
from lemon_otp.supervision import (
    CountChildren,
    DeleteChild,
    RestartChild,
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


class Supervisor(GenServer[Options, SupervisorRequest, TryAgain, Family]):
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

        return supervisor_spec(cls, start, name, id, restart=restart, shutdown=shutdown, significant=significant)

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
        raised(await call(supervisor, TerminateChild(checked_id(id)), timeout_s=timeout_s))

    @staticmethod
    async def restart_child(supervisor: Address, id: Hashable, *, timeout_s: float | None = None) -> Pid:  # noqa: A002
        """Start a stopped child in its old place; see `start_child` for what is returned.

        Raises:
            NotFound: There is no such child.
            ChildRunning: It runs, or is being restarted.
            StartFailed: It did not start. It stays listed, stopped.
        """
        return typed("Pid", raised(await call(supervisor, RestartChild(checked_id(id)), timeout_s=timeout_s)))

    @staticmethod
    async def delete_child(supervisor: Address, id: Hashable, *, timeout_s: float | None = None) -> None:  # noqa: A002
        """Forget a stopped child. Raises NotFound, or ChildRunning."""
        raised(await call(supervisor, DeleteChild(checked_id(id)), timeout_s=timeout_s))

    @staticmethod
    async def which_children(supervisor: Address, *, timeout_s: float | None = None) -> list[ChildInfo]:
        """The children in the order of starting."""
        children: list[ChildInfo] = await call(supervisor, WhichChildren(), timeout_s=timeout_s)
        return children

    @staticmethod
    async def count_children(supervisor: Address, *, timeout_s: float | None = None) -> ChildCounts:
        """How many children there are."""
        counts: ChildCounts = await call(supervisor, CountChildren(), timeout_s=timeout_s)
        return counts

    # Server side: runs in the process, one message at a time.

    async def init(self, options: Options) -> Family | Ignore | Stop[Family]:
        try:
            specs: Any = options.children() if callable(options.children) else options.children
            if isawaitable(specs):
                specs = await specs
            if isinstance(specs, Ignore):
                return specs
            if not isinstance(specs, Sequence) or isinstance(specs, str):
                return Stop(("bad_return", specs))
            check_specs(specs, options.auto_shutdown)
        except BadChildSpec as error:
            return Stop(("start_spec", error.reason))
        state = Family(options, RestartWindow(options.max_restarts, options.max_seconds))
        failed = await state.start_all(specs)
        return state if failed is None else Stop(("shutdown", ("failed_to_start_child", *failed)))

    async def handle_call(self, message: Any, caller: Caller, state: Family) -> Reply[Family]:
        answer: Any
        match message:
            case StartChild(spec):
                answer = await state.add(spec)
            case TerminateChild(id):
                answer = await state.terminate(id)
            case RestartChild(id):
                answer = await state.restart_stopped(id)
            case DeleteChild(id):
                answer = state.delete(id)
            case WhichChildren():
                answer = [child.info() for child in state.listed()]
            case CountChildren():
                answer = count(state.listed())
            case SupervisorRequest():
                answer = refusal(self, message)
            case _:
                raise UnhandledMessage(type(self).__name__, "handle_call", message)
        return Reply(answer, state)

    async def handle_cast(self, message: Any, state: Family) -> NoReply[Family] | Stop[Family]:
        if not isinstance(message, TryAgain):
            raise UnhandledMessage(type(self).__name__, "handle_cast", message)
        return _going_on(await state.try_again(message.id), state)

    async def handle_info(self, message: Any, state: Family) -> NoReply[Family] | Stop[Family]:
        if isinstance(message, Exit):
            return _going_on(await state.child_ended(message.pid, message.reason), state)
        if isinstance(message, Due):
            return _going_on(await state.restart_due(message.id), state)
        log_unexpected(current_process(), message)
        return NoReply(state)

    async def terminate(self, reason: Any, state: Family) -> None:
        await state.stop_all()


def _going_on(goes_on: bool, state: Family) -> NoReply[Family] | Stop[Family]:
    return NoReply(state) if goes_on else Stop("shutdown", state)


def _check_options(options: Options) -> None:
    if options.strategy not in STRATEGIES:
        raise BadArgument(f"strategy is one of {', '.join(STRATEGIES)}, not {options.strategy!r}")
    if options.auto_shutdown not in AUTO_SHUTDOWNS:
        raise BadArgument(f"auto_shutdown is one of {', '.join(AUTO_SHUTDOWNS)}, not {options.auto_shutdown!r}")
    check_limits(options.max_restarts, options.max_seconds, options.backoff)
