"""Edge. Applications: trees with a name, started after what they depend on and stopped before it.

Each runs under a process of its own, `application[name]`, which starts the top supervisor and is its parent. When the
top supervisor ends by itself the application has stopped: it is no longer listed, and its `stop` hook has run.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from inspect import isawaitable
from typing import Any, Final, TypeAlias

from attrs import Factory, define, field, frozen

from lemon_otp.callbacks import NoReply, Reply, Stop
from lemon_otp.caller import Caller
from lemon_otp.children import pid_of
from lemon_otp.children import stop as stop_process
from lemon_otp.errors import (
    AlreadyStarted,
    ApplicationFailed,
    BadArgument,
    CallFailed,
    NotFound,
    NotStarted,
    ProcessExit,
    StartFailed,
)
from lemon_otp.exits import Exit, is_orderly
from lemon_otp.gen_server import GenServer, Request, call, stop
from lemon_otp.pid import Pid
from lemon_otp.process import current_process, current_runtime, down_of, monitor, receive, self_pid, whereis
from lemon_otp.scheduler import Scheduler
from lemon_otp.telling import describe, error_trace

Hook: TypeAlias = Callable[[], Awaitable[None] | None]

STORED: Final = "applications"
"""Where a runtime keeps what it knows of them."""

_log: Final = logging.getLogger("lemon_otp")


@frozen
class Application:
    """What can be started as a whole.

    Attributes:
        name: Its name, unique in a runtime.
        start: Starts the top supervisor, linked, and returns its pid; None for an application without processes.
        deps: The applications, or names of applications the runtime knows, that must run before it.
        env: Values that `get_env` answers until `put_env` changes them.
        prep_stop: Called before the tree is stopped.
        stop: Called when the tree is gone, whoever stopped it.
    """

    name: str
    start: Callable[[], Awaitable[Any]] | None = None
    deps: Sequence[Application | str] = ()
    env: Mapping[str, Any] = Factory(dict)
    prep_stop: Hook | None = None
    stop: Hook | None = None


@define(eq=False)
class _Applications:
    """What a runtime knows of applications; `running` in the order of starting, `ended` by themselves.

    One that is being stopped is among those that run until it is gone.
    """

    known: dict[str, Application] = field(factory=dict)
    running: dict[str, Pid] = field(factory=dict)
    stopping: set[str] = field(factory=set)
    ended: set[str] = field(factory=set)
    env: dict[str, dict[str, Any]] = field(factory=dict)

    def is_gone(self, name: str) -> None:
        """Note that an application does not run any more."""
        self.running.pop(name, None)
        self.stopping.discard(name)


def load(application: Application) -> None:
    """Make an application and those it depends on known by name, so that others may depend on the name.

    Loading again what is loaded does nothing, unless it is another application of the same name.

    Raises:
        BadArgument: Another application of this name is known.
    """
    table = _table()
    known = table.known.get(application.name)
    if known is not None and known is not application and known != application:
        raise BadArgument(f"there is another application named {application.name!r}")
    if known is None:
        table.known[application.name] = application
        table.env[application.name] = dict(application.env)
    for dependency in application.deps:
        if isinstance(dependency, Application) and dependency.name not in table.known:
            load(dependency)


async def start_application(application: Application | str) -> None:
    """Start one application; those it depends on must run.

    One that ended by itself will do for an application without processes. Whoever asks while a start goes on waits for
    its outcome, and while the application is being stopped, until it is; cancelling does not stop the start.

    Raises:
        AlreadyStarted: It runs.
        NotStarted: One that it depends on does not run.
        ApplicationFailed: Its start failed. What it had started is gone.
    """
    loaded = _loaded(application)
    table = _table()
    await _until_stopped(loaded.name)
    if loaded.name in table.running:
        raise AlreadyStarted(loaded.name)
    underway = whereis(_process_name(loaded.name))
    if underway is not None:
        return await _join(loaded.name, underway)
    missing = [name for name in _dependency_names(loaded) if name not in table.running]
    for name in missing:
        if name not in table.ended:
            raise NotStarted(name)
    if missing and loaded.start is not None:
        raise NotStarted(missing[0], ended=True)
    try:
        # A process, so that the tree has a parent that outlives whoever asked for the start.
        await ApplicationMaster.start(loaded, name=_process_name(loaded.name))
    except StartFailed as failed:
        raise ApplicationFailed(loaded.name, failed.reason) from failed.__cause__


async def ensure_all_started(*applications: Application | str) -> list[str]:
    """Start these applications and all they depend on, dependencies first; those that run are left alone.

    Returns:
        The names of what was started, in order.

    Raises:
        ApplicationFailed: A start failed. Those that this call had started before it have been stopped, in reverse.
        BadArgument: A dependency is unknown, or depends on itself.
    """
    started: list[str] = []
    try:
        for application in applications:
            for name in _in_order(_loaded(application)):
                if not _is_up(name):
                    await start_application(name)
                    started.append(name)
    except BaseException:
        for name in reversed(started):
            with suppress(NotStarted):
                await stop_application(name)
        raise
    return started


async def stop_application(name: str) -> None:
    """Stop an application: its `prep_stop`, its tree in reverse, its `stop`. Those that depend on it run on.

    Raises:
        NotStarted: It was not started, or was stopped, by somebody else in the meantime too; or it is a hook of its own
            that asks. One that ended by itself may be stopped, once.
    """
    await _until_stopped(name)
    table = _table()
    running, ended = table.running, table.ended
    if name in table.stopping:
        raise NotStarted(name)
    if name not in running:
        if name not in ended:
            raise NotStarted(name)
        ended.remove(name)
        return
    master = running[name]
    if master.alive:
        table.stopping.add(name)
        try:
            await stop(master, "shutdown")
        except CallFailed as failed:
            if failed.reason != "noproc":
                _log.warning("application %s ended with %s when it was stopped", name, describe(failed.reason))
    table.is_gone(name)
    ended.discard(name)


async def stop_all() -> None:
    """Stop every application that runs, the last started first."""
    for name in reversed(list(_table().running)):
        with suppress(NotStarted):  # somebody else stopped it meanwhile
            await stop_application(name)


def running_applications() -> list[str]:
    """The names of the applications that run, in the order of starting."""
    return list(_table().running)


# Settings.


def get_env(name: str, key: str, default: Any = None) -> Any:
    """A value of an application, running or not; `default` when there is none."""
    return _table().env.get(name, {}).get(key, default)


def fetch_env(name: str, key: str) -> Any:
    """A value of an application. Raises NotFound."""
    env = _table().env.get(name, {})
    if key not in env:
        raise NotFound(key)
    return env[key]


def put_env(name: str, key: str, value: Any) -> None:
    """Set a value of an application, which need not be known yet."""
    _table().env.setdefault(name, {})[key] = value


# The process of one application.


@frozen
class AreYouUp(Request[None]):
    """Answered when the application has started."""


class ApplicationMaster(GenServer[Application, AreYouUp, Any, "_Running"]):
    """Parent of an application's top supervisor; runs the hooks around its end."""

    trap_exit = True

    async def init(self, application: Application) -> _Running | Stop[_Running]:
        me = current_process()
        me.label = _process_name(application.name)
        top = None
        if application.start is not None:
            try:
                started = await application.start()
            except StartFailed as failed:
                return Stop(failed.reason)
            top = pid_of(started)
            if not isinstance(top, Pid):
                return Stop(("bad_return", started))
        # Noted here, since whoever asked for the start may be gone by now.
        table = _table()
        table.running[application.name] = me
        table.ended.discard(application.name)
        return _Running(application, top)

    async def handle_call(self, message: AreYouUp, caller: Caller, state: _Running) -> Reply[_Running]:
        return Reply(None, state)

    async def handle_info(self, message: Any, state: _Running) -> NoReply[_Running] | Stop[_Running]:
        if isinstance(message, Exit) and message.pid is state.top:
            state.top = None
            _table().ended.add(state.application.name)
            return Stop(message.reason if is_orderly(message.reason) else ("shutdown", message.reason), state)
        return NoReply(state)

    async def terminate(self, reason: Any, state: _Running) -> None:
        application = state.application
        await _run_hook(application.prep_stop)
        if state.top is not None:
            await stop_process(state.top, "infinity")
        await _run_hook(application.stop)
        _table().is_gone(application.name)


@define(eq=False)
class _Running:
    """An application and its top supervisor, while that lives."""

    application: Application
    top: Pid | None


async def _run_hook(hook: Hook | None) -> None:
    if hook is None:
        return
    try:
        result = hook()
        if isawaitable(result):
            await result
    except (Exception, ProcessExit) as error:
        _log.error("a hook around the end of an application failed\n%s", error_trace(error))


def _table() -> _Applications:
    table: _Applications = current_runtime().store.setdefault(STORED, _Applications())
    return table


def known_in(runtime: Scheduler) -> list[tuple[Application, Pid | None, bool]]:
    """Every application that a runtime knows, its top supervisor while that lives, and whether it runs."""
    table: _Applications | None = runtime.store.get(STORED)
    if table is None:
        return []
    names = [*table.running, *(name for name in table.known if name not in table.running)]
    return [(table.known[name], _top_of(table.running.get(name)), name in table.running) for name in names]


def _top_of(master: Pid | None) -> Pid | None:
    held = getattr(master, "state", None)
    return held.top if isinstance(held, _Running) else None


def _loaded(application: Application | str) -> Application:
    if isinstance(application, Application):
        load(application)
        return _table().known[application.name]
    known = _table().known.get(application)
    if known is None:
        raise BadArgument(f"there is no application named {application!r}")
    return known


def _process_name(name: str) -> str:
    return f"application[{name}]"


def _is_up(name: str) -> bool:
    table = _table()
    return name in table.running and name not in table.stopping


async def _join(name: str, underway: Pid) -> None:
    """Wait for the outcome of a start that somebody else asked for."""
    try:
        await call(underway, AreYouUp(), timeout_s=None)
    except CallFailed as failed:
        raise ApplicationFailed(name, failed.reason) from failed.__cause__


async def _until_stopped(name: str) -> None:
    """While an application is being stopped, wait until it is gone; its own hooks would wait for ever."""
    master = _table().running.get(name)
    if master is not None and master.alive and name in _table().stopping and master is not self_pid():
        await receive(down_of(monitor(master)))


def _dependency_names(application: Application) -> list[str]:
    return [dep if isinstance(dep, str) else dep.name for dep in application.deps]


def _in_order(application: Application, above: tuple[str, ...] = ()) -> Iterator[str]:
    """What an application needs to start, each after its own dependencies, and itself; nothing when it runs."""
    if _is_up(application.name):
        return
    if application.name in above:
        raise BadArgument(f"applications depend on each other: {' > '.join((*above, application.name))}")
    for name in _dependency_names(application):
        yield from _in_order(_loaded(name), (*above, application.name))
    yield application.name
