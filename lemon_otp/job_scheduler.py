"""Process. Background jobs that nobody should wait for in line: some at a time, some waiting, no more.

Tree:  wherever an application puts it; jobs are tasks of the event loop, not processes
Asked: Submit, CountJobs
Holds: an aiojobs scheduler; jobs that wait or run when it is killed are cancelled
Emits: telemetry ("lemon_otp", "job", "stop") with duration_s, and "failed" among the metadata

For exports, index and metrics pushes, summaries: work that may be late and must not be unbounded. Work that others
should see, link to or stop by itself is a task of a `TaskSupervisor`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import copy_context
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from typing import cast as typed

from attrs import define, frozen

from lemon_otp import telemetry
from lemon_otp.callbacks import NoReply, Reply
from lemon_otp.caller import Caller
from lemon_otp.child_spec import ChildSpec, Restart
from lemon_otp.clock import monotonic_s
from lemon_otp.errors import BadArgument, CallFailed, ProcessExit, ReceiveTimeout, TooManyJobs
from lemon_otp.gen_server import GenServer, Request, call
from lemon_otp.machine import Process
from lemon_otp.pid import Address, Name, Pid
from lemon_otp.process import (
    current_process,
    current_runtime,
    down_of,
    exit_signal,
    receive,
    self_pid,
    spawn_monitor,
)
from lemon_otp.supervision import default_id
from lemon_otp.task import name_of
from lemon_otp.telling import cleaner_in, error_trace

if TYPE_CHECKING:
    from aiojobs import Scheduler

_log: Final = logging.getLogger("lemon_otp")

CANCEL_S_MAX: Final = 1.5
"""How long a job that is cancelled may take to end."""
SLACK_S: Final = 0.5
"""How much longer than for that a supervisor waits."""


@frozen
class Submit(Request[Any]):
    """Run this function when there is room."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    label: str
    answer_result: bool


@frozen
class CountJobs(Request["JobCounts"]):
    """Say how much there is to do."""


@frozen
class JobCounts:
    """How much there is to do.

    Attributes:
        active: Jobs that run.
        pending: Jobs that wait for one of them to end.
        limit: How many may run.
        pending_limit: How many may wait.
    """

    active: int
    pending: int
    limit: int
    pending_limit: int


@frozen
class JobLimits:
    """What a job scheduler is started with; see `JobScheduler.start_link`."""

    limit: int = 4
    pending_limit: int = 100
    close_timeout_s: float = 5.0


@define(eq=False)
class Jobs:
    """The state: the limits, what is scheduled, and how many jobs have not ended."""

    limits: JobLimits
    scheduler: Scheduler
    unfinished: int = 0

    def counts(self) -> JobCounts:
        """The numbers that others may see."""
        limit = self.limits.limit
        active = min(self.unfinished, limit)
        return JobCounts(active, self.unfinished - active, limit, self.limits.pending_limit)


Asked: TypeAlias = Submit | CountJobs


class JobScheduler(GenServer[JobLimits, Asked, Any, Jobs]):
    """Runs bounded background jobs, and ends when they have ended."""

    trap_exit = True

    # Client side: runs in the caller.

    @classmethod
    async def start_link(  # type: ignore[override]
        cls, *, name: Name | None = None, limit: int = 4, pending_limit: int = 100, close_timeout_s: float = 5.0
    ) -> Pid:
        """Start a scheduler without jobs, linked to the caller.

        Args:
            name: Its registered name.
            limit: How many jobs run at the same time.
            pending_limit: How many more may wait.
            close_timeout_s: How long a scheduler that is stopped waits for its jobs before it cancels them.

        Raises:
            AlreadyStarted: The name belongs to a running process.
            BadArgument: A limit is nonsense. Nothing was started.
        """
        for field, value, least in (("limit", limit, 1), ("pending_limit", pending_limit, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise BadArgument(f"{field} is a number from {least} on, not {value!r}")
        if not isinstance(close_timeout_s, int | float) or not close_timeout_s >= 0:
            raise BadArgument(f"close_timeout_s is a number of seconds, not {close_timeout_s!r}")
        return typed("Pid", await super().start_link(JobLimits(limit, pending_limit, close_timeout_s), name=name))

    @classmethod
    def child_spec(  # type: ignore[override]
        cls,
        *,
        id: Any = None,  # noqa: A002 - the name that child specifications have for it
        name: Name | None = None,
        restart: Restart = "permanent",
        close_timeout_s: float = 5.0,
        **limits: int,
    ) -> ChildSpec:
        """How a supervisor starts this scheduler; it waits a little longer for the end than the jobs are given."""

        async def start() -> Pid:
            return await cls.start_link(name=name, close_timeout_s=close_timeout_s, **limits)

        return ChildSpec(
            id=default_id(cls, name) if id is None else id,
            start=start,
            restart=restart,
            shutdown=close_timeout_s + CANCEL_S_MAX + SLACK_S,
            module=cls.__module__,
        )

    @staticmethod
    async def submit(scheduler: Address, fn: Callable[..., Any], *args: Any, label: str | None = None) -> None:
        """Have `fn(*args)` run when there is room; its failure is logged.

        Raises:
            TooManyJobs: As many jobs wait as may wait. It will not run.
            CallFailed: The scheduler is gone.
        """
        await _ask(scheduler, Submit(fn, args, label or name_of(fn), answer_result=False), 5.0)

    @staticmethod
    async def run(
        scheduler: Address,
        fn: Callable[..., Any],
        *args: Any,
        label: str | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """Have `fn(*args)` run when there is room, and return what it returns or raise what it raises.

        Raises:
            TooManyJobs: As many jobs wait as may wait. It will not run.
            CallFailed: The scheduler ended before the job did, or the job exited or cancelled itself.
            CallTimeout: It took longer than `timeout_s`. The job goes on.
        """
        return await _ask(scheduler, Submit(fn, args, label or name_of(fn), answer_result=True), timeout_s)

    @staticmethod
    async def count(scheduler: Address) -> JobCounts:
        """How much there is to do."""
        return await call(scheduler, CountJobs())

    # Server side: runs in the process, one message at a time.

    async def init(self, limits: JobLimits) -> Jobs:
        from aiojobs import Scheduler  # only hosts that have jobs pay for the import

        # A little more room than jobs may use: one that has ended stands there until the loop's next pass.
        room = limits.limit + limits.pending_limit
        scheduler = Scheduler(limit=limits.limit, pending_limit=room, close_timeout=1.0)
        current_process().at_exit(lambda process, _reason: _cancel_what_is_left(process, scheduler))
        return Jobs(limits, scheduler)

    async def handle_call(self, message: Asked, caller: Caller, state: Jobs) -> Reply[Jobs] | NoReply[Jobs]:
        if isinstance(message, CountJobs):
            return Reply(state.counts(), state)
        limits = state.limits
        if state.unfinished >= limits.limit + limits.pending_limit:
            return Reply(_Refused(TooManyJobs(limits.pending_limit)), state)
        state.unfinished += 1
        job = _carry_out(message, caller if message.answer_result else None, state)
        await state.scheduler.spawn(job, name=message.label)
        return NoReply(state) if message.answer_result else Reply(None, state)

    async def terminate(self, reason: Any, state: Jobs) -> None:
        # In a process of its own, for aiojobs waits for ever for a job that swallows its cancel.
        given_s = state.limits.close_timeout_s
        closing, ref = spawn_monitor(state.scheduler.wait_and_close, given_s, label="close_jobs")
        try:
            await receive(down_of(ref), timeout_s=given_s + CANCEL_S_MAX)
        except ReceiveTimeout:
            _log.warning("%r ends, but jobs go on that do not end when they are cancelled", self_pid())
            exit_signal(closing, "kill")


@frozen
class _Refused:
    """An answer that is to be raised in the caller."""

    error: BaseException


async def _ask(scheduler: Address, request: Submit, timeout_s: float | None) -> Any:
    answer = await call(scheduler, request, timeout_s=timeout_s)
    if isinstance(answer, _Refused):
        raise answer.error
    return answer


async def _carry_out(request: Submit, caller: Caller | None, jobs: Jobs) -> None:
    """The body of a job. Never raises, so that nobody has to collect what it raised."""
    began_s = monotonic_s()
    error: Exception | None = None
    result: Any = None
    try:
        result = request.fn(*request.args)
        if isawaitable(result):
            result = await result
    except Exception as raised:
        error = raised
    except ProcessExit as raised:
        error = CallFailed(raised.reason, request.label)
    except asyncio.CancelledError:
        if jobs.scheduler.closed:
            raise  # whoever waits for it learns it from the end of the scheduler
        error = CallFailed("cancelled", request.label)
    finally:
        jobs.unfinished -= 1
    measured, about = {"duration_s": monotonic_s() - began_s}, {"label": request.label, "failed": error is not None}
    telemetry.execute(("lemon_otp", "job", "stop"), measured, about)
    if caller is not None:
        caller.answer(result if error is None else _Refused(error))
    elif error is not None:
        _log.error("job %s failed\n%s", request.label, error_trace(error, cleaner_in(current_runtime().store)))


def _cancel_what_is_left(process: Process, scheduler: Scheduler) -> None:
    """The process is dead. If it was killed, its jobs still run: another one sees to their end."""
    if not scheduler.closed and not process.runtime.closed:
        process.runtime.enqueue(Process(process.runtime, copy_context(), (scheduler.close, ()), None))
