"""Edge. One piece of work as a process, and the handle with which its owner gets the value.

A task sends its owner a `TaskReply` and ends; the owner monitors it, so that it hears of an end without a reply.
Whoever does not await a task, a server for one, finds the reply and then the Down in its mailbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from inspect import isawaitable
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, cast

from lemon_otp.caller import TIMED_OUT
from lemon_otp.cell import Waiter
from lemon_otp.clock import Timer, monotonic_s
from lemon_otp.errors import BadArgument, CallFailed, CallTimeout, ProcessExit, ReceiveTimeout
from lemon_otp.exits import Down
from lemon_otp.machine import Process
from lemon_otp.outside import outside_entry
from lemon_otp.pid import ALIVE, MonitorRef, Pid
from lemon_otp.process import (
    Place,
    current_process,
    demonitor,
    exit_signal,
    living_process,
    monitor,
    receive,
    spawn,
    spawn_link,
    unlink,
)
from lemon_otp.scheduler import CURRENT
from lemon_otp.stepper import give_way
from lemon_otp.task_stream import OnTimeout, TaskStream, stream_tasks
from lemon_otp.task_values import TaskDone, TaskExit, TaskReply, TaskResult

T = TypeVar("T")


TaskShutdown: TypeAlias = float | Literal["brutal_kill"]

_DEFAULT_TIMEOUT_S: Final = 5.0


class Task(MonitorRef, Generic[T]):
    """A task and who waits for it. It is the owner's monitor of the process, so `Down.ref` is the task.

    Attributes:
        owner: The only process that may await it.
        settled: Whether the value or the end has been handed to an `await_` that was going on.
    """

    __slots__ = ("awaited", "failure", "settled", "value", "waiter")

    def __init__(self, owner: Process) -> None:
        self.owner = owner
        self.target: TaskProcess | None = None
        self.shown: Any = None
        self.active = True
        self.awaited = False
        self.settled = False
        self.value: Any = None
        self.failure: Any = ALIVE
        self.waiter: Waiter | None = None

    @property
    def pid(self) -> Pid | None:
        """The process that does the work; None for a completed task."""
        return self.target

    @property
    def ref(self) -> MonitorRef:
        """What `TaskReply` and `Down` refer to: the task itself."""
        return self

    def __repr__(self) -> str:
        return f"<Task {self.target!r}>"

    # Starting, without a supervisor.

    @staticmethod
    def async_(fn: Callable[..., Any], *args: Any, on: Place = "loop", label: str | None = None) -> Task[Any]:
        """Run `fn(*args)` in a process linked to the caller, which owns the task.

        Use a `TaskSupervisor` for work that others should see and stop.
        """
        me = living_process()
        task: Task[Any] = Task(me)
        process = TaskProcess(me.runtime, copy_context(), placed(on, fn, args), me)
        process.label = label or name_of(fn)
        process.task = task
        me.link(process)
        task.watch(process)
        me.runtime.enqueue(process)
        return task

    @staticmethod
    def start(fn: Callable[..., Any], *args: Any, label: str | None = None) -> Pid:
        """Run `fn(*args)` in a process that nobody waits for and nobody is linked to."""
        return spawn(fn, *args, label=label or name_of(fn))

    @staticmethod
    def start_link(fn: Callable[..., Any], *args: Any, label: str | None = None) -> Pid:
        """`start`, linked to the caller."""
        return spawn_link(fn, *args, label=label or name_of(fn))

    @staticmethod
    def async_stream(
        items: Iterable[Any],
        fn: Callable[..., Any],
        *args: Any,
        max_concurrency: int | None = None,
        ordered: bool = True,
        timeout_s: float | None = _DEFAULT_TIMEOUT_S,
        on_timeout: OnTimeout = "exit",
    ) -> TaskStream:
        """Run `fn(item, *args)` for each item as tasks linked to the caller; see `TaskSupervisor.async_stream`."""

        async def start(item: Any) -> Task[Any]:
            return Task.async_(fn, item, *args)

        return stream_tasks(items, start, max_concurrency, ordered, timeout_s, on_timeout, linked=True)

    @staticmethod
    def completed(value: T) -> Task[T]:
        """A task that is done, without a process."""
        me = current_process()
        task: Task[T] = Task(me)
        task.active = False
        me.deliver(TaskReply(task, value))
        return task

    # Waiting.

    async def await_(self, timeout_s: float | None = _DEFAULT_TIMEOUT_S) -> T:
        """The value of the task.

        Raises:
            CallFailed: The task ended without a value, with this reason.
            CallTimeout: It took longer than `timeout_s`. It goes on, and its value is dropped.
            BadArgument: The caller does not own the task.
        """
        self._check_owner("await")
        if not self.active:
            return self._value(await self._take_or_leave(timeout_s))
        for message in self.owner.mailbox or ():
            if type(message) is TaskReply and message.ref is self:
                return self._value(await self._take_or_leave(timeout_s))
        await self._until_settled(timeout_s)
        if self.failure is ALIVE:
            return cast("T", self.value)
        if self.failure is TIMED_OUT:
            raise CallTimeout(self, timeout_s)
        return self._value(TaskExit(self.failure))

    async def yield_(self, timeout_s: float | None = _DEFAULT_TIMEOUT_S) -> TaskResult[T] | None:
        """How the task ended; None when it goes on after `timeout_s`, and may be asked again."""
        return await self._take(timeout_s, "yield")

    async def shutdown(self, timeout_s: TaskShutdown | None = _DEFAULT_TIMEOUT_S) -> TaskResult[T] | None:
        """Stop the task and wait until it has ended.

        Args:
            timeout_s: Seconds to end by itself before it is killed; None waits; "brutal_kill" kills at once.

        Returns:
            Its value, if it came first; `TaskExit` when it ended for another reason than being stopped, or had to be
            killed after `timeout_s`; else None.

        Raises:
            BadArgument: The caller does not own the task, or it never had a process.
        """
        self._check_owner("shut down")
        if self.pid is None:
            raise BadArgument("a completed task has no process to shut down")
        brutal = timeout_s == "brutal_kill"
        ended = monitor(self.pid)
        unlink(self.pid)
        exit_signal(self.pid, "kill" if brutal else "shutdown")

        def is_down(message: Any) -> bool:
            return type(message) is Down and message.ref is ended

        expected = "killed" if brutal else "shutdown"
        try:
            down: Down = await receive(is_down, timeout_s=None if brutal else timeout_s)  # type: ignore[arg-type]
        except ReceiveTimeout:
            exit_signal(self.pid, "kill")
            down = await receive(is_down)
        earlier = self._leave()
        if isinstance(earlier, TaskDone):
            return earlier
        reason = earlier.reason if down.reason == "noproc" and earlier is not None else down.reason
        return None if isinstance(reason, str) and reason == expected else TaskExit(reason)

    async def ignore(self) -> TaskResult[T] | None:
        """Wait no more and unlink: how the task ended, or None when it goes on, on its own.

        Raises:
            BadArgument: The caller does not own the task, or it never had a process.
        """
        self._check_owner("ignore")
        earlier = self._leave()
        if self.pid is None:
            raise BadArgument("a completed task has no process to leave alone; its value is dropped")
        if earlier is None:
            unlink(self.pid)
        return earlier

    @staticmethod
    async def await_many(tasks: Sequence[Task[Any]], timeout_s: float | None = _DEFAULT_TIMEOUT_S) -> list[Any]:
        """The values of all tasks, in their order; raises as `await_` does for the first that fails or is late."""
        deadline_s = None if timeout_s is None else monotonic_s() + timeout_s
        for task in tasks:
            task._check_owner("await")
        values: dict[MonitorRef, Any] = {}
        pending = {task.ref: task for task in tasks}
        try:
            while pending:
                ref, result = await _take_any(pending, deadline_s)
                if ref is None:
                    raise CallTimeout(list(tasks), timeout_s)
                values[ref] = pending.pop(ref)._value(result)
        except BaseException:
            for ref in pending:
                demonitor(ref, flush=True)  # a value that had come stays in the mailbox, as it does on the BEAM
            raise
        return [values[task.ref] for task in tasks]

    @staticmethod
    async def yield_many(
        tasks: Sequence[Task[Any]], timeout_s: float | None = _DEFAULT_TIMEOUT_S
    ) -> list[tuple[Task[Any], TaskResult[Any] | None]]:
        """Each task with how it ended, or with None when it goes on after `timeout_s`."""
        deadline_s = None if timeout_s is None else monotonic_s() + timeout_s
        for task in tasks:
            task._check_owner("yield")
        results: dict[MonitorRef, TaskResult[Any]] = {}
        pending = {task.ref: task for task in tasks}
        while pending:
            ref, result = await _take_any(pending, deadline_s)
            if ref is None or result is None:
                break
            del pending[ref]
            results[ref] = result
        return [(task, results.pop(task.ref, None)) for task in tasks]

    # Below: between the task, its process and its owner.

    def watch(self, process: TaskProcess) -> None:
        """Become the owner's monitor of the process that does the work."""
        self.target = self.shown = process
        owner = self.owner
        if process.exit_reason is not ALIVE:
            self.target_down("noproc")
            return
        owner.begin_monitor(self, process)

    def deliver_value(self, value: Any) -> None:
        """The work is done: hand the value to the owner, which may be waiting for nothing else."""
        if self.awaited:
            self.owner.demonitor(self)
            self.value = value
            self._settle()
        else:
            self.owner.deliver(TaskReply(self, value))

    def target_down(self, reason: Any) -> None:
        """The process ended; without a value, if nobody took the monitor away."""
        self.active = False
        if not self.awaited:
            self.owner.monitor_fired(self, reason)
            return
        self.owner.end_monitor(self)
        self.failure = reason
        self._settle()

    def _settle(self) -> None:
        self.settled = True
        if self.waiter is not None:
            self.waiter.resume()

    async def _until_settled(self, timeout_s: float | None) -> None:
        owner = self.owner
        self.awaited = True
        timer: Timer | None = None
        try:
            if owner.is_main_line():
                # Most tasks are done after one turn of the others: no need for a timer then.
                await give_way()
            if not self.settled:
                if timeout_s is not None:
                    timer = owner.runtime.timers.add(timeout_s, self._give_up)
                await owner.wait_cell(self)
        except BaseException:
            if self.settled and owner.exit_reason is ALIVE:
                self._put_back()
            raise
        finally:
            self.awaited = False
            if timer is not None:
                owner.runtime.timers.cancel(timer)

    def _give_up(self) -> None:
        if not self.settled:
            self.owner.demonitor(self)
            self.failure = TIMED_OUT
            self._settle()

    def _put_back(self) -> None:
        """Whoever awaited was interrupted: leave the messages as if nobody had."""
        if self.failure is ALIVE:
            self.owner.deliver(TaskReply(self, self.value))
        elif self.failure is not TIMED_OUT:
            self.owner.deliver(Down(self, self.shown, self.failure))

    async def _take_or_leave(self, timeout_s: float | None) -> TaskResult[T]:
        result = await self._take(timeout_s, "await")
        if result is None:
            self._forget()
            raise CallTimeout(self, timeout_s)
        return result

    def _check_owner(self, what: str) -> None:
        if current_process() is not self.owner:
            raise BadArgument(f"only its owner {self.owner!r} may {what} this task")

    async def _take(self, timeout_s: float | None, what: str) -> TaskResult[T] | None:
        self._check_owner(what)

        def ends(message: Any) -> bool:
            kind = type(message)
            return (kind is TaskReply or kind is Down) and message.ref is self

        try:
            message = await receive(ends, timeout_s=timeout_s)
        except ReceiveTimeout:
            return None
        if type(message) is TaskReply:
            demonitor(self, flush=True)
            return TaskDone(message.value)
        return TaskExit(message.reason)

    def _leave(self) -> TaskResult[T] | None:
        """Stop monitoring; what had come already."""
        demonitor(self)
        found: TaskResult[T] | None = None
        for message in list(current_process().mailbox or ()):
            if type(message) is TaskReply and message.ref is self:
                found = TaskDone(message.value)
            elif type(message) is Down and message.ref is self and found is None:
                found = TaskExit(message.reason)
        if found is not None:
            self._discard()
        return found

    def _forget(self) -> None:
        demonitor(self)
        self._discard()

    def _discard(self) -> None:
        current_process().discard(lambda message: isinstance(message, TaskReply | Down) and message.ref is self)

    def _value(self, result: TaskResult[T] | None) -> T:
        if isinstance(result, TaskDone):
            return result.value
        assert result is not None
        reason = result.reason
        raise CallFailed(reason, self) from (reason if isinstance(reason, BaseException) else None)


class TaskProcess(Process):
    """The process of a task that has an owner: what it returns is delivered."""

    __slots__ = ("task",)

    task: Task[Any]

    def first_step(self) -> Any:
        if self.task.target is not None:
            return super().first_step()
        return self.take_up(self._begin_later())

    async def _begin_later(self) -> Any:
        """The owner has not yet been told that its task exists; it may die, or turn away, before it is."""
        CURRENT.set(self)
        task = self.task
        owner_ref = self.monitor(task.owner, task.owner)
        message = await receive(lambda message: message is task or (type(message) is Down and message.ref is owner_ref))
        if message is not task:
            raise ProcessExit(message.reason)
        demonitor(owner_ref, flush=True)
        if task.target is None:
            raise ProcessExit("normal")
        function, args = self.entry
        result = function(*args)
        return await result if isawaitable(result) else result

    def returned(self, value: Any) -> None:
        task = self.task
        if task.active and self.exit_reason is ALIVE and self.doom is ALIVE:
            task.deliver_value(value)
        super().returned(value)


async def _take_any(
    pending: dict[MonitorRef, Task[Any]], deadline_s: float | None
) -> tuple[MonitorRef | None, TaskResult[Any] | None]:
    """The next end among these tasks; `(None, None)` when the deadline came first."""

    def ends(message: Any) -> bool:
        return isinstance(message, TaskReply | Down) and message.ref in pending

    timeout_s = None if deadline_s is None else max(0.0, deadline_s - monotonic_s())
    try:
        message = await receive(ends, timeout_s=timeout_s)
    except ReceiveTimeout:
        return None, None
    if isinstance(message, TaskReply):
        demonitor(message.ref, flush=True)
        return message.ref, TaskDone(message.value)
    return message.ref, TaskExit(message.reason)


def placed(on: Place, fn: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What a process of the loop has to call so that `fn(*args)` is run in that place."""
    return (fn, args) if on == "loop" else outside_entry(on, fn, args)


def name_of(fn: Callable[..., Any]) -> str:
    """What a task is called when nobody named it."""
    return getattr(fn, "__name__", type(fn).__name__)
