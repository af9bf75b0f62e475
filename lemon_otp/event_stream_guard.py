"""Process. Watches over one event stream: its owner, its runner, its task and its deadline.

Tree:  started by `EventStream.start`, under no supervisor: it lives and dies with its stream
Asked: Attach (watch this task), ENDED (the stream has its terminal event), READ (a reader took it)
Told:  Down of the owner, the runner and the attached task
Owns:  nothing that is lost with it: an open stream whose guard is killed ends as `stream_closed`
"""

from __future__ import annotations

import logging
from typing import Any, Final, Protocol

from attrs import define, frozen

from lemon_otp.clock import monotonic_s
from lemon_otp.errors import NotAProcess, ReceiveTimeout
from lemon_otp.exits import Down, is_orderly
from lemon_otp.pid import MonitorRef, Pid
from lemon_otp.process import demonitor, exit_signal, monitor, receive, self_pid
from lemon_otp.telling import describe, error_trace

CANCEL_GRACE_MS: Final = 100
_log: Final = logging.getLogger(__name__)


class Guarded(Protocol):
    """What the guard needs of its stream."""

    @property
    def done(self) -> bool: ...
    @property
    def canceled(self) -> bool: ...
    @property
    def terminal_read(self) -> bool: ...
    def error(self, reason: Any, partial: Any = None) -> None: ...
    def cancel(self, reason: Any = ...) -> None: ...


@frozen
class Watched:
    """Whom and what the guard watches from the start."""

    owner: Pid | None
    runner: Pid | None
    timeout_s: float | None
    grace_s: float


@frozen
class Attach:
    """Watch this task and forget the one before."""

    task: Pid


@frozen
class Ended:
    """The stream has its terminal event."""


@frozen
class Read:
    """The terminal event was read."""


ENDED: Final = Ended()
READ: Final = Read()


def caller() -> Pid | None:
    """The calling process; None when no process is calling."""
    try:
        return self_pid()
    except NotAProcess:
        return None


def grace_s(grace_ms: Any) -> float:
    """Seconds between asking a task to stop and killing it; nonsense means the default."""
    usable = isinstance(grace_ms, int) and not isinstance(grace_ms, bool) and grace_ms > 0
    return (grace_ms if usable else CANCEL_GRACE_MS) / 1000


def abort(signal: Any, reason: Any) -> None:
    """Abort the task's signal; a signal that fails must not keep the stream from ending."""
    try:
        signal.abort(reason)
    except Exception as error:
        _log.error("abort signal of a canceled event stream failed\n%s", error_trace(error))


@define
class _Guard:
    stream: Guarded
    watched: Watched
    owner: MonitorRef | None
    runner: MonitorRef | None
    deadline_s: float | None
    task: Pid | None = None
    task_ref: MonitorRef | None = None
    kill_at_s: float | None = None
    ended: bool = False
    owner_gone: bool = False

    def finished(self) -> bool:
        """Whether nothing is left to watch: the task of a canceled stream has ended, or nobody will read more."""
        if not self.ended or self.kill_at_s is not None:
            return False
        return self.stream.canceled or self.stream.terminal_read or self.owner_gone

    def wait_s(self) -> float | None:
        """How long the next message may take."""
        due_s = self.kill_at_s if self.ended else self.deadline_s
        return None if due_s is None else max(0.0, due_s - monotonic_s())

    def overdue(self) -> None:
        if not self.stream.done:
            self.stream.cancel("timeout")
        elif self.kill_at_s is not None and self.task is not None:
            self.kill_at_s = None
            exit_signal(self.task, "kill")

    def handle(self, message: Any) -> None:
        match message:
            case Down():
                self.down(message)
            case Attach():
                self.attach(message.task)
            case Ended():
                self.ended = True
                self.stop_task_of_canceled()
            case _:
                pass  # READ: `finished` looks for itself; anything else is no business of a guard

    def down(self, message: Down) -> None:
        if message.ref == self.task_ref:
            self.task = self.task_ref = self.kill_at_s = None
            if not self.stream.done:
                if not is_orderly(message.reason):
                    _log.warning("task of an event stream ended before the stream did: %s", describe(message.reason))
                self.stream.error(("task_crashed", message.reason))
        elif message.ref == self.runner:
            self.stream.error(("runner_crashed", message.reason))
        elif message.ref == self.owner:
            self.owner_gone = True
            self.stream.cancel("owner_down")

    def attach(self, task: Pid) -> None:
        if self.task_ref is not None:
            demonitor(self.task_ref, flush=True)
        self.task, self.task_ref = task, monitor(task)

    def stop_task_of_canceled(self) -> None:
        if self.stream.canceled and self.task is not None:
            exit_signal(self.task, "shutdown")
            self.kill_at_s = monotonic_s() + self.watched.grace_s


async def run(stream: Guarded, watched: Watched) -> None:
    """Watch until the stream needs no watching any more."""
    guard = _Guard(
        stream,
        watched,
        owner=None if watched.owner is None else monitor(watched.owner),
        runner=None if watched.runner is None else monitor(watched.runner),
        deadline_s=None if watched.timeout_s is None else monotonic_s() + watched.timeout_s,
    )
    while not guard.finished():
        try:
            message = await receive(timeout_s=guard.wait_s())
        except ReceiveTimeout:
            guard.overdue()
        else:
            guard.handle(message)
