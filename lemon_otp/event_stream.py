"""Process. The one bounded, cancelable queue between a producer and its readers.

Tree:  beside the supervisors: one guard process a stream, gone once the terminal event was read, the owner is
       gone, or the stream was canceled; see `event_stream_guard`
Holds: the events: they never pass through a process, `push` and `events` work on the buffer directly

A stream carries ordinary events and then exactly one terminal event, which says how it ended. The first terminal
wins; it reaches a reader however full the buffer is; cancelling keeps what was buffered before it readable. The
packages above name their own terminal events in a `Terminals`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, Self, TypeAlias, cast

from lemon_otp.cell import Cell
from lemon_otp.errors import CallTimeout, StreamFailed
from lemon_otp.event_queue import DropStrategy, EventQueue, StreamStats
from lemon_otp.event_stream_guard import CANCEL_GRACE_MS, Guard, abort, grace_s
from lemon_otp.held import Held
from lemon_otp.pid import Pid
from lemon_otp.process import current_process, current_runtime, send
from lemon_otp.telling import cleaner_in, error_trace
from lemon_otp.terminals import Canceled, Completed, Failed, Outcome, StreamReady, StreamResult, Terminals

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from lemon_otp.event_fan import EventFan

    E = TypeVar("E", default=Any)
    R = TypeVar("R", default=Any)
else:
    from typing import TypeVar

    E = TypeVar("E")
    R = TypeVar("R")

PushResult: TypeAlias = Literal["ok", "overflow", "canceled"]
"""Accepted (perhaps at the cost of another event); refused because the buffer is full; refused because it ended."""

HELD_STREAMS: Final = "streams"
"""Where a runtime keeps, weakly, the streams that somebody holds."""
_UNSEEN: Final = object()
_END: Final = object()
_log: Final = logging.getLogger(__name__)


class EventStream(Generic[E, R]):
    """A bounded stream of events with one terminal event, made by `start`.

    A package above derives a class of its own to name its terminal events once, in `TERMINALS`.

    Everything but reading, `result` and `push_async` must be called on the thread of the event loop.
    """

    __slots__ = (
        "__weakref__",
        "_abort",
        "_at_once",
        "_fan",
        "_listener",
        "_outcome",
        "_queue",
        "_readers",
        "_runtime",
        "_subscribers",
        "_terminal",
        "_terminals",
        "_told",
        "_waiting",
        "pid",
    )

    TERMINALS: ClassVar[Terminals] = Terminals()
    """The terminal events of a stream whose `start` is not told of others."""

    pid: Guard
    """The stream's guard process."""

    def __init__(self, queue: EventQueue[E], terminals: Terminals) -> None:
        self._queue = queue
        self._terminals = terminals
        self._outcome: Outcome | None = None
        self._terminal: object = _UNSEEN
        self._abort: Any = None
        # Most streams have one reader that never waits, and nobody who asks for a result: no containers for those.
        self._readers: deque[Cell] | None = None
        self._waiting: tuple[Cell, ...] = ()
        self._subscribers: tuple[Pid, ...] = ()
        self._listener: Pid | None = None
        self._at_once: Callable[[E], bool] | None = None
        self._told = False
        self._runtime = current_runtime()
        self._fan: EventFan | None = None

    @classmethod
    def start(
        cls,
        *,
        owner: Pid | Literal["caller"] | None = "caller",
        runner: Pid | None = None,
        max_queue: int = 10_000,
        drop_strategy: DropStrategy = "error",
        timeout_ms: int | None = 300_000,
        cancel_grace_ms: int = CANCEL_GRACE_MS,
        terminals: Terminals | None = None,
        link: bool = False,
    ) -> Self:
        """An open, empty stream.

        Args:
            owner: The stream is canceled with `owner_down` when this process ends, however it ends. By default the
                calling process; None for a stream that nobody owns.
            runner: The producer. When it ends, however it ends, before a terminal event, the stream fails with
                `("runner_crashed", reason)`.
            max_queue: How many ordinary events may wait to be read.
            drop_strategy: What happens to an event for which there is no room.
            timeout_ms: The stream is canceled with `timeout` when it is still open after this time; None for never.
            cancel_grace_ms: How long an attached task may take to end after a cancel before it is killed. A value
                that is no positive whole number means 100.
            terminals: The terminal events of this stream; those of its class by default.
            link: Also link the guard process to the caller, so that a crash of either takes the other along.

        Raises:
            ValueError: `max_queue`, `drop_strategy` or `timeout_ms` is nonsense. Nothing was started.
        """
        if timeout_ms is not None and (isinstance(timeout_ms, bool) or timeout_ms < 0):
            raise ValueError(f"timeout_ms must be a positive number of milliseconds or None, not {timeout_ms!r}")
        me = current_process()
        stream = cls(EventQueue(max_queue, drop_strategy), terminals or cls.TERMINALS)
        stream.pid = Guard(me, stream, grace_s(cancel_grace_ms))
        if link:
            me.link(stream.pid)
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        stream.pid.watch_over(me if owner == "caller" else owner, runner, timeout_s)
        held = me.runtime.store.get(HELD_STREAMS)
        if held is None:
            held = me.runtime.store[HELD_STREAMS] = Held()
        held.note(stream)
        return stream

    @classmethod
    def start_link(cls, **options: Any) -> Self:
        """`start` with `link=True`."""
        return cls.start(link=True, **options)

    # The producer's side.

    def push(self, event: E) -> PushResult:
        """Hand an event to whoever waits for one or buffer it; says what became of it. Never waits.

        A terminal event ends the stream as `complete`, `error` and `cancel` do.
        """
        if self._outcome is not None:
            return "canceled"
        if self._terminals.kinds.get(event.__class__, _UNSEEN) is not None and self._push_terminal(event):
            return "ok"
        readers = self._readers
        while readers:
            reader = readers.popleft()
            if not reader.settled:
                reader.settle(event)
                return "ok"
        listener = self._listener
        if listener is None:
            return "ok" if self._queue.offer(event) else "overflow"
        if self._at_once is not None and self._taken_at_once(listener, event):
            return "ok"
        taken = self._queue.offer(event)
        if not self._told:
            self._tell_listener(listener)
        return "ok" if taken else "overflow"

    def push_async(self, event: E) -> None:
        """`push` for a producer that does not care: never fails, never waits, may be called from any thread.

        Where `push` would say `overflow` the event is dropped with a warning.
        """
        if get_ident() == self._runtime.thread_id:
            self._push_or_warn(event)
        else:
            self._runtime.post(self._push_or_warn, event)

    def complete(self, value: R) -> None:
        """End the stream well; `result` answers `value`. Does nothing when it ended before."""
        if self._outcome is None:
            self._finish(self._terminals.completed(value), Completed(value))

    def error(self, reason: Any, partial: Any = None) -> None:
        """End the stream badly; what is buffered stays readable. Does nothing when it ended before.

        Args:
            reason: Why; `result` raises it in a `StreamFailed`.
            partial: What there is of a result.
        """
        if self._outcome is None:
            self._finish(self._terminals.failed(reason, partial), Failed(reason, partial))

    def cancel(self, reason: Any = "canceled") -> None:
        """End the stream because nobody wants its end. Does nothing when it ended before.

        The attached task's signal is aborted, then the task is asked to stop, and killed when it does not within the
        grace time. What was buffered before stays readable, and the canceled event after it.
        """
        if self._outcome is not None:
            return
        signal, self._abort = self._abort, None
        if signal is not None:
            abort(signal, reason)
        if self._outcome is None:
            self._finish(self._terminals.canceled(reason), Canceled(reason), extra_slot=True)

    def attach_task(self, task: Pid, signal: Any = None) -> None:
        """Stop this process when the stream is canceled, fail when it ends before a terminal event.

        One task at a time: attaching another forgets the first. Does nothing for a stream that has ended.

        Args:
            task: The process that does the work. It is not linked.
            signal: Something with `abort(reason)` that `cancel` calls before it stops the task.
        """
        if self._outcome is None:
            self._abort = signal
            self.pid.attach(task)

    # The reader's side.

    def events(self) -> AsyncIterator[E]:
        """The events in order, the terminal one included; then the iteration ends.

        Several iterators compete: each event goes to one of them, and those that do not get the terminal event just
        end. Leaving an iterator loses no event.
        """
        return _Events(self)

    def deliver_to(self, pid: Pid, at_once: Callable[[E], bool] | None = None) -> None:
        """Send `pid` a `StreamReady` when events wait that it has not been told of; it reads them with `take_all`.

        For a process that has other messages to attend to, in place of `events`: one message for a burst of events.

        Args:
            pid: Who is told.
            at_once: What a server does with an event that asks for next to nothing. While the server is at rest and
                no event waits before it, this is called in place of waking it, and the event is done with when it says
                True. It must neither wait nor ask whose turn it is.
        """
        self._stir()
        self._listener, self._told = pid, False
        self._at_once = at_once
        if self._queue.events:
            self._tell_listener(pid)

    @property
    def listener_told(self) -> bool:
        """Is a `StreamReady` in the mailbox of whoever `deliver_to` named, for events not taken yet?"""
        return self._told

    def take_all(self) -> list[E]:
        """Every event that waits, in order, the terminal one included. Never waits itself."""
        self._told = False
        self._queue.note_size()
        events = list(self._queue.events)
        self._queue.events.clear()
        if events and events[-1] is self._terminal:
            self._forget_listener()
        return events

    async def result(self, timeout_s: float | None = None) -> R:
        """The value the stream was completed with. Reads no event; any number of callers get the same answer.

        Raises:
            StreamFailed: It ended otherwise: reason and partial of `error`, `("canceled", reason)`, or
                `stream_closed` when its process was killed.
            CallTimeout: It was still open after `timeout_s` seconds. The stream is as it was.
        """
        if self._outcome is None:
            await self._until_finished(timeout_s)
        outcome = self._outcome
        if isinstance(outcome, Completed):
            return cast("R", outcome.value)
        if isinstance(outcome, Failed):
            raise StreamFailed(outcome.reason, outcome.partial)
        assert outcome is not None
        raise StreamFailed(("canceled", outcome.reason))

    def subscribe_result(self, pid: Pid) -> None:
        """Send `pid` a `StreamResult` when the stream ends, at once when it has."""
        if self._outcome is not None:
            send(pid, StreamResult(self, self._outcome))
        else:
            self._subscribers += (pid,)

    def stats(self) -> StreamStats:
        """How full the stream is and what it dropped."""
        return self._queue.stats()

    @property
    def outcome(self) -> Outcome | None:
        """How the stream ended; None while it is open."""
        return self._outcome

    @property
    def done(self) -> bool:
        """Whether the stream has ended; events may still wait to be read."""
        return self._outcome is not None

    def __repr__(self) -> str:
        state = "open" if self._outcome is None else type(self._outcome).__name__.lower()
        return f"<EventStream {state}, {len(self._queue)} of {self._queue.max_size} buffered>"

    # Between the stream and a fan.

    def join_fan(self, fan: EventFan | None) -> None:
        """Tell this fan, from now on, when something else than room for an event may be needed."""
        self._fan = fan

    @property
    def append(self) -> Callable[[E], None]:
        """Puts an event into the buffer; right only for a stream that has `quiet_room`."""
        return self._queue.events.append

    def quiet_room(self) -> int:
        """For how many events there is room, while a push would do nothing but put them there; else 0."""
        queue = self._queue
        queue.note_size()
        if self._outcome is not None or self._readers or self._listener is not None:
            return 0
        return queue.max_size - len(queue.events)

    def _stir(self) -> None:
        if self._fan is not None:
            self._fan.stir(self)

    def guard_ended(self, guard: Guard) -> None:
        """The guard process is dead. An open stream without one is closed, and its task works for nobody."""
        if self._outcome is None:
            reason, task = "stream_closed", guard.task
            self._finish(self._terminals.canceled(reason), Failed(reason), extra_slot=True)
            if task is not None:
                task.exit_signal(guard, "shutdown")

    def _push_terminal(self, event: E) -> bool:
        kind = self._terminals.kind(event)
        if kind is None:
            return False
        self._finish(event, self._terminals.outcome_of(event, kind), extra_slot=kind == "canceled")
        return True

    def _push_or_warn(self, event: E) -> None:
        if self.push(event) == "overflow":
            dropped = self._queue.dropped
            if dropped.bit_count() == 1:  # the first, second, fourth, eighth: a flood of drops is no flood of logs
                _log.warning("event stream is full (%d): %d events dropped so far", self._queue.max_size, dropped)

    def _finish(self, terminal: E, outcome: Outcome, *, extra_slot: bool = False) -> None:
        self._stir()
        self._outcome = outcome
        self._terminal = terminal
        self._abort = None
        taken = False
        readers, self._readers = self._readers, None
        for reader in readers or ():
            if not reader.settled:
                reader.settle(_END if taken else terminal)
                taken = True
        listener = self._listener
        read = not taken and listener is not None and self._taken_at_once(listener, terminal)
        if not taken and not read:
            self._queue.end_with(terminal, extra_slot=extra_slot)
            if listener is not None and not self._told:
                self._tell_listener(listener)
        for waiting in self._waiting:
            waiting.settle(True)
        for pid in self._subscribers:
            send(pid, StreamResult(self, outcome))
        self._waiting, self._subscribers = (), ()
        self.pid.ended(canceled=isinstance(outcome, Canceled))
        if read:
            self._forget_listener()

    def _taken_at_once(self, listener: Pid, event: E) -> bool:
        """Has the listener, a server at rest, taken the event? A mistake of its code is for its own turn to make."""
        if self._at_once is None or self._queue.events or not listener.at_rest():
            return False
        try:
            taken = self._at_once(event)
        except Exception as error:
            where = error_trace(error, cleaner_in(self._runtime.store))
            _log.error("%r could not take an event at once, and is woken for it\n%s", listener, where)
            self._at_once = None
            return False
        if taken:
            listener.handled += 1  # type: ignore[attr-defined]  # a server is at rest; who looks sees it get on
        return taken

    def _forget_listener(self) -> None:
        """It has the terminal event."""
        self._listener = self._at_once = None
        self._note_terminal_read()

    def _tell_listener(self, listener: Pid) -> None:
        self._told = True
        send(listener, StreamReady(self))

    def _note_terminal_read(self) -> None:
        self._terminal = _END
        self.pid.leave()

    async def _wait_for_event(self) -> Any:
        self._stir()
        reader = Cell()
        if self._readers is None:
            self._readers = deque()
        self._readers.append(reader)
        try:
            await current_process().wait_cell(reader)
        except BaseException:
            if not reader.settled:
                reader.settled = True
                if self._readers is not None:
                    self._readers.remove(reader)
            elif reader.value is not _END:
                self._hand_on(reader.value)
            raise
        return reader.value

    def _hand_on(self, event: E) -> None:
        """Give an event that a reader got but will not read to another one, or back to the buffer."""
        readers = self._readers
        for other in readers or ():
            if not other.settled:
                readers.remove(other)  # type: ignore[union-attr]
                other.settle(event)
                return
        self._stir()
        self._queue.put_back(event)

    async def _until_finished(self, timeout_s: float | None) -> None:
        waiting = Cell()
        self._waiting += (waiting,)
        timers = self._runtime.timers
        timer = None if timeout_s is None else timers.add(timeout_s, waiting.settle, False)
        try:
            await current_process().wait_cell(waiting)
        finally:
            if timer is not None:
                timers.cancel(timer)
            if self._outcome is None:
                self._waiting = tuple(other for other in self._waiting if other is not waiting)
        if not waiting.value:
            raise CallTimeout(self, timeout_s)


class _Events(Generic[E]):
    """One reader's place in a stream."""

    __slots__ = ("_ended", "_stream")

    def __init__(self, stream: EventStream[E, Any]) -> None:
        self._stream = stream
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        stream = self._stream
        events = stream._queue.events
        event: Any
        if events and not self._ended:
            if stream._fan is not None:
                stream._queue.note_size()
            event = events.popleft()
        elif self._ended or stream._outcome is not None:
            raise StopAsyncIteration
        else:
            event = await stream._wait_for_event()
            if event is _END:
                self._ended = True
                raise StopAsyncIteration
        if event is stream._terminal:
            self._ended = True
            stream._note_terminal_read()
        return cast("E", event)
