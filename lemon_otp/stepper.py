"""Edge. A coroutine driven by hand, which asyncio takes for a task.

The scheduler gives a `Stepper` one step at a time. What its coroutine yields says what it waits for: nothing
(a pass of the loop), `AGAIN` (its next turn), `MAIL` (any message), `CELL` (somebody who calls `resume`), or a
future. For everything else in the loop it is the current task: it can be cancelled, counts cancel requests as
`asyncio.timeout` and task groups expect, and wakes when its future is done.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from types import CoroutineType, FrameType, GeneratorType, coroutine
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeGuard, cast

from lemon_otp.pid import ALIVE, Pid
from lemon_otp.scheduler import AGAIN, CELL, DONE, ENDED, FUTURE, MAIL, READY, Scheduler
from lemon_otp.telling import describe

if TYPE_CHECKING:
    from lemon_otp.machine import Process

NO_CONTEXT: Final = Context()


@coroutine
def wait_mail() -> Generator[int, None, None]:
    """Wait until a message has come; may also return when none has."""
    yield MAIL


@coroutine
def wait_cell() -> Generator[int, None, None]:
    """Wait until `resume` is called."""
    yield CELL


@coroutine
def give_way() -> Generator[int, None, None]:
    """End the turn and stand at the end of the run queue."""
    yield AGAIN


async def finish(awaitable: Awaitable[Any]) -> Any:
    """A coroutine for an awaitable that is none."""
    return await awaitable


def as_coroutine(result: Any) -> Coroutine[Any, Any, Any] | None:
    """`result` as something to drive, or None when it is a plain value."""
    if type(result) is CoroutineType:
        return result
    return finish(result) if is_awaitable(result) else None


def is_awaitable(value: Any) -> TypeGuard[Awaitable[Any]]:
    """Whether a value can be awaited; quicker than `inspect.isawaitable`, which goes through an abstract class."""
    if value is None:
        return False
    kind = type(value)
    if kind is GeneratorType:
        return bool(value.gi_code.co_flags & inspect.CO_ITERABLE_COROUTINE)
    return hasattr(kind, "__await__")


class Interrupts:
    """What a stepper keeps only once it has awaited a future, or somebody has interrupted it."""

    __slots__ = (
        "busy_message",
        "busy_since_s",
        "cancel_again_s",
        "cancel_requests",
        "done_callbacks",
        "doom",
        "facts",
        "future",
        "must_cancel",
        "own_signals",
        "reordered",
        "repeated",
        "thrown",
    )

    def __init__(self) -> None:
        self.must_cancel = False
        self.thrown: BaseException | None = None
        self.cancel_requests = 0
        self.future: asyncio.Future[Any] | None = None
        self.done_callbacks: list[tuple[Callable[[Any], object], Context | None]] | None = None
        self.cancel_again_s = 0.0
        self.doom: Any = ALIVE
        self.facts: dict[str, Any] | None = None
        self.repeated: dict[int, Any] | None = None
        self.own_signals: list[tuple[int, Any]] | None = None
        self.reordered = False
        self.busy_message = -1
        self.busy_since_s = 0.0


class Stepper(Pid):
    """See the module; `Process` says what a step that ends or fails means.

    Attributes:
        alert: Whether the next step, or the end of this one, has something to attend to: an exception to
            throw in, an exit signal that came during the turn, a death.
    """

    __slots__ = ("alert", "context", "coro", "runtime", "side", "status")

    runtime: Scheduler
    context: Context
    coro: Coroutine[Any, Any, Any] | None
    status: int
    alert: bool
    side: Interrupts | None

    # What the scheduler calls.

    def first_step(self) -> Any:
        """Make the coroutine and take its first step."""
        raise RuntimeError("nothing to run")

    def take_up(self, coro: Coroutine[Any, Any, Any]) -> Any:
        """Take the first step of a coroutine, and keep it if it waits."""
        try:
            waits_for = coro.send(None)
        except StopIteration as stop:
            self.returned(stop.value)
            return DONE
        self.coro = coro
        return waits_for

    def alerted_step(self) -> Any:
        """Take a step that may begin with an exception thrown in."""
        side, coro = self.side, self.coro
        if coro is None:
            return self.first_step()
        if side is None or not side.must_cancel:
            return coro.send(None)
        side.must_cancel = False
        thrown, side.thrown = side.thrown, None
        self.settle_alert()
        return coro.throw(asyncio.CancelledError() if thrown is None else thrown)

    def settle_alert(self) -> None:
        """Take the alert back when nothing is left to attend to."""
        side = self.side
        self.alert = self.exit_reason is not ALIVE or (
            side is not None and (side.must_cancel or side.doom is not ALIVE or side.own_signals is not None)
        )

    def suspended(self, waits_for: Any) -> None:
        """Note what the coroutine waits for, where that is more than a message."""
        if waits_for is MAIL:
            self.status = MAIL
        elif waits_for is CELL:
            self.status = CELL
            self.note_busy()
        elif waits_for is AGAIN:
            self.runtime.enqueue(self.as_process())
        elif waits_for is None:
            self.runtime.later.append(self.as_process())
        else:
            self._wait_for_future(waits_for)
        if self.alert:
            self.attend()

    def attend(self) -> None:
        """Deal with what came during the turn, now that the coroutine waits."""
        side = self.side
        if side is not None and side.must_cancel:
            self.wake_for_interrupt()

    def returned(self, value: Any) -> None:
        """The coroutine returned; the process says what follows."""
        raise TypeError(f"{type(self).__name__} is no process")

    def raised(self, error: BaseException) -> None:
        """The coroutine raised; the process says what follows."""
        raise TypeError(f"{type(self).__name__} is no process")

    def as_process(self) -> Process:
        """This object, as what it always is."""
        return cast("Process", self)

    def resume(self) -> None:
        """Wake from `wait_cell`."""
        if self.status == CELL:
            self.status = READY
            self.runtime.enqueue(self.as_process())

    def interrupts(self) -> Interrupts:
        """The side of this object that only few have."""
        side = self.side
        if side is None:
            side = self.side = Interrupts()
        return side

    def note_busy(self) -> None:
        """Note when the coroutine first waited for something else than its next message."""

    def _wait_for_future(self, future: Any) -> None:
        if getattr(future, "_asyncio_future_blocking", None) is None:
            self._fail(RuntimeError(f"{self!r} awaited something that is no future: {describe(future)}"))
        elif not future._asyncio_future_blocking:
            self._fail(RuntimeError(f"{self!r} was given a future by a bare yield: {describe(future)}"))
        elif future.get_loop() is not self.runtime.loop:
            self._fail(RuntimeError(f"{self!r} awaited a future of another event loop: {describe(future)}"))
        else:
            future._asyncio_future_blocking = False
            self.status = FUTURE
            self.note_busy()
            self.interrupts().future = future
            future.add_done_callback(self._future_done, context=self.runtime.context)

    def _fail(self, error: Exception) -> None:
        """Raise `error` where the coroutine waits, on its next turn."""
        side = self.interrupts()
        side.thrown = error
        side.must_cancel = self.alert = True
        self.runtime.enqueue(self.as_process())

    def _future_done(self, future: asyncio.Future[Any]) -> None:
        side = self.side
        if side is not None:
            side.future = None
        if self.status == FUTURE:
            self.status = READY
            self.runtime.run_alone(self.as_process())

    def interrupt(self, message: Any = None) -> None:
        """Throw CancelledError in at the next chance, without counting a request."""
        side = self.interrupts()
        side.must_cancel = self.alert = True
        side.thrown = None if message is None else asyncio.CancelledError(message)
        self.wake_for_interrupt()

    def wake_for_interrupt(self) -> None:
        """See to it that a waiting coroutine gets the exception that is to be thrown in."""
        side = self.interrupts()
        if self.status < READY or self.status == CELL:
            self.status = READY
            self.runtime.enqueue(self.as_process())
        elif side.future is not None and side.future.cancel(*(side.thrown.args if side.thrown is not None else ())):
            side.must_cancel = False
            side.thrown = None
            self.settle_alert()

    def finished(self) -> None:
        """The coroutine has ended and no other will follow."""
        self.status = ENDED
        self.coro = None
        self.context = NO_CONTEXT  # it refers to this object, and would keep it until the collector comes
        if self.side is not None:
            self.call_back(self.side)

    def call_back(self, side: Interrupts) -> None:
        """Tell whoever asked with `add_done_callback`."""
        callbacks, side.done_callbacks = side.done_callbacks, None
        for callback, context in callbacks or ():
            self.runtime.loop.call_soon(callback, self, context=context)

    # asyncio's task protocol, with the two private names that anyio reads.

    @property
    def _fut_waiter(self) -> asyncio.Future[Any] | None:
        return None if self.side is None else self.side.future

    @property
    def _must_cancel(self) -> bool:
        return self.side is not None and self.side.must_cancel

    def cancel(self, msg: Any = None) -> bool:
        """Raise CancelledError where the coroutine waits, as `asyncio.Task.cancel` does."""
        if self.status == ENDED:
            return False
        self.interrupts().cancel_requests += 1
        self.interrupt(msg)
        return True

    def cancelling(self) -> int:
        """How many cancel requests have not been taken back."""
        return 0 if self.side is None else self.side.cancel_requests

    def uncancel(self) -> int:
        """Take one cancel request back; how many are left."""
        side = self.side
        if side is None or side.cancel_requests == 0:
            return 0
        side.cancel_requests -= 1
        if side.cancel_requests == 0 and sys.version_info >= (3, 13):
            side.must_cancel = False
            self.settle_alert()
        return side.cancel_requests

    def done(self) -> bool:
        """Whether the coroutine has ended; a dead process may still have one that has not."""
        return self.status == ENDED

    def cancelled(self) -> bool:
        return self.status == ENDED and self.exit_reason == "cancelled"

    def get_coro(self) -> Coroutine[Any, Any, Any] | None:
        return self.coro

    def get_name(self) -> str:
        return repr(self)

    def set_name(self, value: object) -> None:
        self.label = str(value)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self.runtime.loop

    def get_context(self) -> Context:
        return self.context

    def add_done_callback(self, fn: Callable[[Any], object], *, context: Context | None = None) -> None:
        """Call `fn(self)` from the loop when the coroutine has ended."""
        side = self.interrupts()
        if self.status == ENDED:
            self.runtime.loop.call_soon(fn, self, context=context)
        elif side.done_callbacks is None:
            side.done_callbacks = [(fn, context)]
        else:
            side.done_callbacks.append((fn, context))

    def remove_done_callback(self, fn: Callable[[Any], object]) -> int:
        """Forget every registration of `fn`; how many there were."""
        side = self.interrupts()
        before = side.done_callbacks or []
        side.done_callbacks = [entry for entry in before if entry[0] != fn]
        return len(before) - len(side.done_callbacks)

    def get_stack(self, *, limit: int | None = None) -> list[FrameType]:
        """The frames of the suspended coroutine, outermost first; empty when there is none."""
        frames: list[FrameType] = []
        inner: Any = self.coro
        while inner is not None:
            frame = getattr(inner, "cr_frame", None) or getattr(inner, "gi_frame", None)
            if frame is None:
                break
            frames.append(frame)
            inner = getattr(inner, "cr_await", None) or getattr(inner, "gi_yieldfrom", None)
        return frames if limit is None else frames[-limit:]

    def print_stack(self, *, limit: int | None = None, file: TextIO | None = None) -> None:
        """Print where the coroutine waits."""
        out = sys.stderr if file is None else file
        frames = self.get_stack(limit=limit)
        print(f"Stack for {self!r}" if frames else f"No stack for {self!r}", file=out)
        for frame in frames:
            code = frame.f_code
            print(f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_qualname}', file=out)
