"""Process. Watches over one event stream: its owner, its runner, its task and its deadline.

Tree:  started by `EventStream.start`, under no supervisor: it lives and dies with its stream
Told:  Down of the owner, the runner and the attached task; OVERDUE and KILL by its timers; CANCELED by its stream
Owns:  nothing that is lost with it: an open stream whose guard is killed ends as `stream_closed`

Most streams come to a good end, and then a guard has had nothing to do but stand there. So it has no coroutine: its
stream calls it directly, and it gets a turn only when a message says that something went wrong.
"""

from __future__ import annotations

import logging
from contextvars import copy_context
from typing import Any, Final, Protocol, cast

from lemon_otp.clock import Timer
from lemon_otp.exits import Down, is_orderly
from lemon_otp.machine import Process
from lemon_otp.pid import ALIVE, MonitorRef, Pid
from lemon_otp.scheduler import CURRENT, DONE, ENDED, MAIL
from lemon_otp.stepper import NO_CONTEXT
from lemon_otp.telling import describe, error_trace

CANCEL_GRACE_MS: Final = 100
OVERDUE: Final = "overdue"
"""Message: the stream is still open at its deadline."""
CANCELED: Final = "canceled"
"""Message: the stream was canceled, and its task should stop."""
KILL: Final = "kill"
"""Message: the task has had its time to stop."""
_log: Final = logging.getLogger(__name__)


class Guarded(Protocol):
    """What the guard needs of its stream."""

    @property
    def done(self) -> bool: ...
    def error(self, reason: Any, partial: Any = None) -> None: ...
    def cancel(self, reason: Any = ...) -> None: ...
    def guard_ended(self, guard: Guard) -> None: ...


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


class Guard(Process):
    """The process of a guard. It ends when nobody will read its stream any more and no task is left to stop.

    Attributes:
        task: The process that does the work for the stream, while it is open or has to be stopped.
    """

    __slots__ = ("_grace_s", "_owner", "_runner", "_stream", "_task", "_timer", "task")

    def __init__(self, parent: Process, stream: Guarded, grace_s: float) -> None:
        runtime = parent.runtime
        Process.__init__(self, runtime, NO_CONTEXT, Guard, parent)
        self.label = "event_stream"
        self.status = MAIL
        self.task: Process | None = None
        self._stream: Guarded | None = stream
        self._grace_s = grace_s
        self._owner: MonitorRef | None = None
        self._runner: MonitorRef | None = None
        self._task: MonitorRef | None = None
        self._timer: Timer | None = None
        runtime.processes[self.id] = self

    # Its monitors: it has three at most and holds them itself, so it needs no further place for them.

    @property
    def monitoring(self) -> tuple[MonitorRef, ...]:
        return tuple(ref for ref in (self._owner, self._runner, self._task) if ref is not None and ref.active)

    def begin_monitor(self, ref: MonitorRef, target: Process) -> None:
        target.watch(ref)

    def end_monitor(self, ref: MonitorRef) -> None:
        """There is nothing to forget."""

    def make_mailbox(self, message: Any) -> None:
        """Something is wrong: there will be a turn, and it needs a context."""
        self.context = copy_context()
        Process.make_mailbox(self, message)

    # What the stream calls.

    def watch_over(self, owner: Pid | None, runner: Pid | None, timeout_s: float | None) -> None:
        """Watch whom the stream belongs to, who feeds it, and the time."""
        if owner is not None:
            self._owner = self.monitor(cast("Process", owner), owner)
        if runner is not None:
            self._runner = self.monitor(cast("Process", runner), runner)
        if timeout_s is not None:
            self._timer = self.runtime.timers.add(timeout_s, self.deliver, OVERDUE)

    def attach(self, task: Pid) -> None:
        """Watch this task and forget the one before."""
        self._detach()
        self.task = cast("Process", task)
        self._task = self.monitor(self.task, task)

    def ended(self, *, canceled: bool) -> None:
        """The stream has its terminal event. What is left is to stop the task, or to wait until the event is read."""
        self._disarm()
        if self._runner is not None:
            self.demonitor(self._runner)
            self._runner = None
        if not canceled:
            self._detach()
        elif self.task is not None:
            self.deliver(CANCELED)
        else:
            self.leave()

    def leave(self) -> None:
        """Nobody will read on: end, unless a task has to be stopped first."""
        if self.task is not None or self.exit_reason is not ALIVE:
            return
        if self.status == MAIL and not (self.ties or self.linked or self.side):
            # Nobody to tell and no turn to come: the end of nearly all guards, at a fraction of the price of `die`.
            self.exit_reason = "normal"
            self.status = ENDED
            del self.runtime.processes[self.id]
            self.parent = self.mailbox = None
            self._let_go()
        else:
            self.die("normal")

    # Its turns.

    def first_step(self) -> Any:
        """Deal with what has come. Turns have no coroutine, so each begins here."""
        CURRENT.set(self)
        while self.mailbox:
            self.handled += 1
            self._handle(self.mailbox.popleft())
        if self.alert:
            self.take_signals()
        if self.exit_reason is ALIVE:
            self.status = MAIL
        else:
            self.finished()
        return DONE

    def _handle(self, message: Any) -> None:
        stream = self._stream
        assert stream is not None
        if type(message) is Down:
            self._down(message, stream)
        elif message is OVERDUE:
            stream.cancel("timeout")
        elif message is CANCELED and self.task is not None:
            self._timer = self.runtime.timers.add(self._grace_s, self.deliver, KILL)
            self.task.exit_signal(self, "shutdown")
        elif message is KILL and self.task is not None:
            self.task.exit_signal(self, "kill")

    def _down(self, message: Down, stream: Guarded) -> None:
        ref = message.ref
        if ref is self._task:
            self.task = self._task = None
            if stream.done:
                self._disarm()
                self.leave()
                return
            if not is_orderly(message.reason):
                _log.warning("task of an event stream ended before the stream did: %s", describe(message.reason))
            stream.error(("task_crashed", message.reason))
        elif ref is self._runner:
            stream.error(("runner_crashed", message.reason))
        elif ref is self._owner:
            stream.cancel("owner_down")
            self.leave()

    # Its end.

    def mark_dead(self, reason: Any) -> None:
        Process.mark_dead(self, reason)
        stream = self._let_go()
        if stream is not None:
            stream.guard_ended(self)

    def _let_go(self) -> Guarded | None:
        """Watch nothing any more; what was watched. All of it refers to the guard as well, and is freed with it."""
        stream, self._stream = self._stream, None
        self._disarm()
        for ref in (self._owner, self._runner, self._task):
            if ref is not None and ref.active:
                self.demonitor(ref)
        self._owner = self._runner = self._task = None
        return stream

    def _detach(self) -> None:
        if self._task is not None:
            self.demonitor(self._task)
            self.task = self._task = None

    def _disarm(self) -> None:
        if self._timer is not None:
            self.runtime.timers.cancel(self._timer)
            self._timer = None
