"""Process. A supervisor of one-shot tasks: seen while they run, stopped with it, gone when they are done.

Tree:  wherever an application puts it; its tasks below it
Asked: what a DynamicSupervisor is asked, and StartTask
Holds: Crowd, as a DynamicSupervisor does
Emits: as a DynamicSupervisor does
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import Any, Final

from attrs import define, frozen

from lemon_otp.callbacks import Reply
from lemon_otp.caller import Caller
from lemon_otp.child_spec import ChildSpec, Restart, Shutdown
from lemon_otp.children import Child
from lemon_otp.dynamic_supervisor import Answer, Crowd, DynamicSupervisor, at_leisure, replied
from lemon_otp.errors import BadArgument, MaxChildren
from lemon_otp.gen_server import call
from lemon_otp.machine import Process
from lemon_otp.pid import ALIVE, Address, Pid
from lemon_otp.process import Place, current_process, link, living_process, spawn_link
from lemon_otp.server_process import ServerProcess
from lemon_otp.supervision import SupervisorRequest, raised
from lemon_otp.task import Task, TaskProcess, name_of, placed
from lemon_otp.task_stream import OnTimeout, TaskStream, stream_tasks

DEFAULT_SHUTDOWN_S: Final = 5.0


@define(eq=False)
class StartTask(SupervisorRequest):
    """Run this function as a child, as a task with an owner."""

    task: Task[Any]
    entry: tuple[Callable[..., Any], tuple[Any, ...]]
    context: Context
    label: str
    shutdown: Shutdown


@frozen
class StartWorker(SupervisorRequest):
    """Run this function as a child that nobody awaits."""

    spec: ChildSpec


class TaskChild(Child):
    """A task among the children that is never started again; its spec is written down when somebody looks."""

    __slots__ = ("_shutdown",)

    def __init__(self, pid: Process, shutdown: Shutdown) -> None:
        self.pid = pid
        self.restarting = False
        self.restarts = 0
        self._shutdown = shutdown

    @property
    def spec(self) -> ChildSpec:  # type: ignore[override]
        """As if it had been started from this spec."""
        label = module = None
        if isinstance(self.pid, Process):
            label, module = self.pid.label, getattr(self.pid.function, "__module__", None)
        return ChildSpec(label, _cannot_start, "temporary", self._shutdown, module=module)


class TaskSupervisor(DynamicSupervisor):
    """Runs tasks as its children."""

    @staticmethod
    async def async_(
        supervisor: Address,
        fn: Callable[..., Any],
        *args: Any,
        shutdown: Shutdown = DEFAULT_SHUTDOWN_S,
        on: Place = "loop",
        label: str | None = None,
    ) -> Task[Any]:
        """Run `fn(*args)` as a task of the supervisor that is linked to the caller, which owns it.

        Args:
            supervisor: Pid or name of a running TaskSupervisor.
            fn: An `async def`, or a plain function.
            args: What it is called with.
            shutdown: How the supervisor stops the task.
            on: Where a plain function runs: on the loop, a thread of its own, or an operating system process.
            label: What the task is called in logs and trees; the function's name by default.

        Raises:
            MaxChildren: The supervisor may not have more tasks. Nothing was started.
            CallFailed: The supervisor is gone.
        """
        return await _start(supervisor, fn, args, shutdown, on, label, linked=True)

    @staticmethod
    async def async_nolink(
        supervisor: Address,
        fn: Callable[..., Any],
        *args: Any,
        shutdown: Shutdown = DEFAULT_SHUTDOWN_S,
        on: Place = "loop",
        label: str | None = None,
    ) -> Task[Any]:
        """`async_` without the link: neither end takes the other along."""
        return await _start(supervisor, fn, args, shutdown, on, label, linked=False)

    @staticmethod
    async def start_child(  # type: ignore[override]
        supervisor: Address,
        fn: Callable[..., Any],
        *args: Any,
        restart: Restart = "temporary",
        shutdown: Shutdown = DEFAULT_SHUTDOWN_S,
        on: Place = "loop",
        label: str | None = None,
    ) -> Pid:
        """Run `fn(*args)` as a task that nobody awaits; it may be started again when it fails. See `async_`."""
        called = label or name_of(fn)
        if restart == "temporary" and on == "loop" and type(shutdown) is float and shutdown >= 0:
            server = _at_leisure(supervisor)
            if server is not None:
                return raised(server.serve_here(_add_worker, (fn, args, called, shutdown), None))  # type: ignore[no-any-return]
        body, body_args = placed(on, fn, args)

        async def start(*_extra: Any) -> Pid:
            return spawn_link(body, *body_args, label=called)

        spec = ChildSpec(called, start, restart, shutdown, module=getattr(fn, "__module__", None))
        return raised(await call(supervisor, StartWorker(spec), timeout_s=None))  # type: ignore[no-any-return]

    @staticmethod
    async def children(supervisor: Address) -> list[Pid]:
        """The processes of all tasks, oldest first."""
        infos = await DynamicSupervisor.which_children(supervisor)
        return [info.pid for info in infos if isinstance(info.pid, Pid)]

    @staticmethod
    def async_stream(
        supervisor: Address,
        items: Iterable[Any],
        fn: Callable[..., Any],
        *args: Any,
        max_concurrency: int | None = None,
        ordered: bool = True,
        timeout_s: float | None = 5.0,
        on_timeout: OnTimeout = "exit",
        shutdown: Shutdown = DEFAULT_SHUTDOWN_S,
        link: bool = True,
    ) -> TaskStream:
        """Run `fn(item, *args)` for each item as tasks of the supervisor; see `task_stream.stream_tasks`.

        Args:
            supervisor: Pid or name of a running TaskSupervisor.
            items: Taken one by one, as tasks may be started.
            fn: An `async def`, or a plain function.
            args: Given to `fn` after the item.
            max_concurrency: How many run at the same time; the number of processors by default.
            ordered: Results in the order of the items, or as they come.
            timeout_s: Seconds for each task; None for no limit.
            on_timeout: A late task ends the stream with `CallTimeout`, or is killed and reported as a `TaskExit`.
            shutdown: How the supervisor stops a task.
            link: Whether a task that crashes takes the caller along, unless it traps exits.
        """

        async def start(item: Any) -> Task[Any]:
            return await _start(supervisor, fn, (item, *args), shutdown, "loop", None, linked=link)

        # On the BEAM asking the supervisor takes so long that a task which fails at once ends a caller linked to
        # it before the next one is begun.
        return stream_tasks(items, start, max_concurrency, ordered, timeout_s, on_timeout, linked=link, one_by_one=link)

    # Server side: runs in the process, one message at a time.

    def _is_plain(self) -> bool:
        return type(self).handle_call is TaskSupervisor.handle_call

    def handle_call(self, message: Any, caller: Caller, state: Crowd) -> Answer:
        if type(message) is StartTask:
            return Reply(_add_task(state, message), state)
        if type(message) is StartWorker:
            return replied(state.add(message.spec), state)
        return super().handle_call(message, caller, state)


async def _start(
    supervisor: Address,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    shutdown: Shutdown,
    on: Place,
    label: str | None,
    *,
    linked: bool,
) -> Task[Any]:
    me = living_process() if linked else current_process()
    task: Task[Any] = Task(me)
    request = StartTask(task, placed(on, fn, args), copy_context(), label or name_of(fn), shutdown)
    server = _at_leisure(supervisor)
    if server is not None:
        added = server.serve_here(_add_task, request, None)  # a task is to cost little more than a bare one
    else:
        try:
            added = await call(supervisor, request, timeout_s=None)
        except BaseException:
            _abandon(task)
            raise
    started: TaskProcess = raised(added)
    if linked:
        link(started)
    task.watch(started)
    if started.coro is not None:
        started.deliver(task)  # it began before its owner knew of it, and waits for this
    return task


def _at_leisure(supervisor: Address) -> ServerProcess | None:
    """The supervisor, if the caller may do itself at once what that would do when asked to start a task."""
    server = at_leisure(supervisor)
    return server if server is not None and isinstance(server.server, TaskSupervisor) else None


def _add_task(state: Crowd, request: StartTask) -> TaskProcess | MaxChildren | None:
    """Start the process of a task; it has its first turn later."""
    if state.is_full():
        return MaxChildren()
    task = request.task
    if task.failure is not ALIVE:
        return None  # its owner gave up while the request waited
    supervisor = state.supervisor
    process = TaskProcess(supervisor.runtime, request.context, request.entry, supervisor)
    process.label = request.label
    process.task = task
    task.shown = process
    _enlist(state, process, request.shutdown)
    return process


def _add_worker(state: Crowd, work: tuple[Callable[..., Any], tuple[Any, ...], str, Shutdown]) -> Process | MaxChildren:
    """Start the process of a task that nobody awaits: its function, arguments, label and shutdown."""
    if state.is_full():
        return MaxChildren()
    fn, args, label, shutdown = work
    supervisor = state.supervisor
    process = Process(supervisor.runtime, supervisor.context.copy(), (fn, args), supervisor)
    process.label = label
    _enlist(state, process, shutdown)
    return process


def _enlist(state: Crowd, process: Process, shutdown: Shutdown) -> None:
    process.link(state.supervisor, state.keeper)
    state.children[process] = TaskChild(process, shutdown)
    process.runtime.enqueue(process)


def _abandon(task: Task[Any]) -> None:
    """The owner will never learn which process its task is: that one ends without beginning."""
    task.failure = "abandoned"
    process = task.shown
    if isinstance(process, Process):
        process.deliver(task)


async def _cannot_start(*_arguments: Any) -> Pid:
    raise BadArgument("a task with an owner is started once")
