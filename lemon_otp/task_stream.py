"""Edge. Many tasks, a few at a time, and their results as an asynchronous iterator."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

from attrs import define

from lemon_otp.clock import monotonic_s
from lemon_otp.errors import BadArgument, CallTimeout, ReceiveTimeout
from lemon_otp.exits import Down, Exit
from lemon_otp.machine import Process
from lemon_otp.pid import MonitorRef
from lemon_otp.process import current_process, demonitor, exit_signal, receive, unlink
from lemon_otp.stepper import give_way
from lemon_otp.task_values import TaskDone, TaskExit, TaskReply, TaskResult

if TYPE_CHECKING:
    from lemon_otp.task import Task

OnTimeout: TypeAlias = Literal["exit", "kill_task"]
"""A late task ends the whole stream, or only itself."""

_PENDING: Final = object()


@define(eq=False)
class _Running:
    """A task that was started and has not yet ended."""

    task: Task[Any]
    position: int
    deadline_s: float | None
    result: TaskResult[Any] | None = None
    late: bool = False


def stream_tasks(
    items: Iterable[Any],
    start: Callable[[Any], Awaitable[Task[Any]]],
    max_concurrency: int | None,
    ordered: bool,
    timeout_s: float | None,
    on_timeout: OnTimeout,
    *,
    linked: bool,
    one_by_one: bool = False,
) -> TaskStream:
    """Run a task for each item, at most `max_concurrency` at a time, as their results are asked for.

    Yields:
        TaskDone or TaskExit, one an item.

    Raises, from the iterator:
        CallTimeout: A task was late and `on_timeout` is "exit". The other tasks have been killed.

    Only the calling process may iterate. Leaving early needs `aclose` (`contextlib.aclosing`), which kills what runs;
    so does the end of the caller.

    With `one_by_one` each task has its first turn before the next is begun.
    """
    if max_concurrency is not None and (type(max_concurrency) is not int or max_concurrency < 1):
        raise BadArgument(f"max_concurrency is a positive number, not {max_concurrency!r}")
    if on_timeout not in ("exit", "kill_task"):
        raise BadArgument(f'on_timeout={on_timeout!r}; expected "exit" or "kill_task"')
    at_a_time = max_concurrency or os.cpu_count() or 1
    return TaskStream(iter(items), start, at_a_time, ordered, timeout_s, on_timeout, linked, one_by_one)


class TaskStream(AsyncIterator[TaskResult[Any]]):
    """See `stream_tasks`."""

    def __init__(
        self,
        items: Iterator[Any],
        start: Callable[[Any], Awaitable[Task[Any]]],
        at_a_time: int,
        ordered: bool,
        timeout_s: float | None,
        on_timeout: OnTimeout,
        linked: bool,
        one_by_one: bool,
    ) -> None:
        self._items = items
        self._start = start
        self._at_a_time = at_a_time
        self._ordered = ordered
        self._timeout_s = timeout_s
        self._on_timeout = on_timeout
        self._linked = linked
        self._one_by_one = one_by_one
        self._owner: Process = current_process()
        self._owner.at_exit(self._owner_ended)
        self._running: dict[MonitorRef, _Running] = {}
        self._started = 0
        self._delivered = 0
        self._results: deque[Any] = deque()
        """Not yet asked for; in order of the items, `_PENDING` where one has not ended, if `ordered`."""
        self._exhausted = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TaskResult[Any]:
        try:
            while True:
                if self._results and self._results[0] is not _PENDING:
                    self._delivered += 1
                    result: TaskResult[Any] = self._results.popleft()
                    return result
                await self._fill()
                if not self._running:
                    break
                await self._await_one()
        except BaseException:
            await self.aclose()
            raise
        await self.aclose()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Kill what runs and start no more. Their messages are gone from the mailbox."""
        self._exhausted = True
        if not self._owner.alive:
            return  # `_owner_ended` and the links have seen to it
        running, self._running = self._running, {}
        for entry in running.values():
            pid = entry.task.pid
            assert pid is not None
            demonitor(entry.task.ref)
            unlink(pid)
            exit_signal(pid, "kill")
        if running:
            self._discard({entry.task.ref for entry in running.values()}, {e.task.pid for e in running.values()})
        self._owner.not_at_exit(self._owner_ended)

    async def _fill(self) -> None:
        while not self._exhausted and len(self._running) < self._at_a_time:
            try:
                item = next(self._items)
            except StopIteration:
                self._exhausted = True
                return
            task = await self._start(item)
            deadline_s = None if self._timeout_s is None else monotonic_s() + self._timeout_s
            self._running[task.ref] = _Running(task, self._started, deadline_s)
            self._started += 1
            if self._ordered:
                self._results.append(_PENDING)
            if self._one_by_one and self._owner.is_main_line():
                await give_way()

    async def _await_one(self) -> None:
        """Take in one message of the tasks, or deal with those that are late."""
        running = self._running

        def concerns_us(message: Any) -> bool:
            kind = type(message)
            return (kind is TaskReply or kind is Down) and message.ref in running

        try:
            message = await receive(concerns_us, timeout_s=self._wait_s())
        except ReceiveTimeout:
            self._kill_late()
            return
        entry = running[message.ref]
        if type(message) is TaskReply:
            entry.result = TaskDone(message.value)
            return
        del running[message.ref]
        self._forget_link(entry)
        result = TaskExit("timeout") if entry.late and entry.result is None else entry.result
        self._note(entry, TaskExit(message.reason) if result is None else result)

    def _note(self, entry: _Running, result: TaskResult[Any]) -> None:
        if self._ordered:
            self._results[entry.position - self._delivered] = result
        else:
            self._results.append(result)

    def _wait_s(self) -> float | None:
        # All tasks have the same time, so the oldest that is not late is the first to be.
        for entry in self._running.values():
            if entry.deadline_s is not None and not entry.late:
                return max(0.0, entry.deadline_s - monotonic_s())
        return None

    def _kill_late(self) -> None:
        now_s = monotonic_s()
        for entry in self._running.values():
            if entry.deadline_s is not None and entry.deadline_s <= now_s and not entry.late:
                if self._on_timeout == "exit" and entry.result is None:
                    raise CallTimeout(entry.task, self._timeout_s)
                entry.late = True
                pid = entry.task.pid
                assert pid is not None
                unlink(pid)
                exit_signal(pid, "kill")

    def _forget_link(self, entry: _Running) -> None:
        pid = entry.task.pid
        if self._linked and pid is not None:
            unlink(pid)
            self._discard(set(), {pid})

    def _discard(self, refs: set[Any], pids: set[Any]) -> None:
        self._owner.discard(
            lambda message: (
                (isinstance(message, TaskReply | Down) and message.ref in refs)
                or (isinstance(message, Exit) and message.pid in pids)
            )
        )

    def _owner_ended(self, owner: Process, reason: Any) -> None:
        if not self._linked or reason != "normal":
            return  # tasks without a link go on; the others are told by it, with the true reason
        for entry in self._running.values():
            pid = entry.task.pid
            assert isinstance(pid, Process)
            pid.exit_signal(owner, "kill")
