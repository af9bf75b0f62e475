"""Edge. A coroutine driven by hand, which asyncio takes for a task.

A `Stepper` gives its coroutine one step at a time. What the coroutine yields says what it waits for: nothing
(its turn is over), `MAIL` (any message), `CELL` (somebody who calls `resume`), or a future. For everything
else in the loop it is the current task: it can be cancelled, counts cancel requests as `asyncio.timeout`
and task groups expect, and wakes when its future is done.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from types import CoroutineType, FrameType, coroutine
from typing import Any, Final, TextIO

from lemon_otp.pid import Pid
from lemon_otp.scheduler import Scheduler

READY: Final = 0
"""In the run queue, or running."""
MAIL: Final = 1
"""Waits for a message."""
CELL: Final = 2
"""Waits until somebody resumes it."""
FUTURE: Final = 3
"""Waits for a future of the loop."""
ENDED: Final = 4
"""Will never run again."""


@coroutine
def wait_mail() -> Generator[int, None, None]:
    """Wait until a message has come; may also return when none has."""
    yield MAIL


@coroutine
def wait_cell() -> Generator[int, None, None]:
    """Wait until `resume` is called."""
    yield CELL


@coroutine
def give_way() -> Generator[None, None, None]:
    """End the turn and stand at the end of the run queue."""
    yield


async def finish(awaitable: Awaitable[Any]) -> Any:
    """A coroutine for an awaitable that is none."""
    return await awaitable


class Stepper(Pid):
    """See the module; `Process` says what a step that ends or fails means."""

    __slots__ = (
        "_cancel_requests",
        "_done_callbacks",
        "_fut_waiter",
        "_must_cancel",
        "_thrown",
        "context",
        "coro",
        "on_stack",
        "runtime",
        "status",
    )

    def __init__(self, runtime: Scheduler, context: Context, label: str | None) -> None:
        # Spelled out, as the base would do it: half a microsecond of a spawn.
        self.id = next(runtime.numbers)
        self.label = label
        self.runtime = runtime
        self.context = context
        self.coro: Coroutine[Any, Any, Any] | None = None
        self.status = READY
        self.on_stack = False
        self._must_cancel = False
        self._fut_waiter: asyncio.Future[Any] | None = None
        self._cancel_requests = 0
        self._thrown: BaseException | None = None
        self._done_callbacks: list[tuple[Callable[[Any], object], Context | None]] | None = None

    # What the scheduler and others call.

    def step(self) -> None:
        """Run until the coroutine waits or ends. The caller has made this the current task."""
        self.on_stack = True
        try:
            coro = self.coro
            if coro is None:
                self._must_cancel = False
                coro = self.coro = self.begin()
            if self._must_cancel:
                self._must_cancel = False
                error, self._thrown = self._thrown, None
                waits_for = coro.throw(asyncio.CancelledError() if error is None else error)
            else:
                waits_for = coro.send(None)
        except StopIteration as stop:
            self.on_stack = False
            self.coro = None
            self.returned(stop.value)
        except BaseException as failure:
            self.on_stack = False
            self.coro = None
            self.raised(failure)
            if isinstance(failure, KeyboardInterrupt | SystemExit):
                raise
        else:
            self.on_stack = False
            self.suspended(waits_for)

    def suspended(self, waits_for: Any) -> None:
        """Note what the coroutine waits for."""
        if waits_for is MAIL or waits_for is CELL:
            if self._must_cancel:
                self.runtime.enqueue(self)  # type: ignore[arg-type]
            else:
                self.status = waits_for
        elif waits_for is None:
            self.runtime.enqueue(self)  # type: ignore[arg-type]
        else:
            self._wait_for_future(waits_for)

    def resume(self) -> None:
        """Wake from `wait_cell`."""
        if self.status == CELL:
            self.status = READY
            self.runtime.enqueue(self)  # type: ignore[arg-type]

    def _wait_for_future(self, future: Any) -> None:
        if getattr(future, "_asyncio_future_blocking", None) is None:
            self._fail_next(RuntimeError(f"{self!r} awaited something that is no future: {future!r}"))
        elif asyncio.isfuture(future) and future.get_loop() is not self.runtime.loop:
            self._fail_next(RuntimeError(f"{self!r} awaited a future of another event loop: {future!r}"))
        elif not future._asyncio_future_blocking:
            self._fail_next(RuntimeError(f"{self!r} was given a future by a bare yield: {future!r}"))
        else:
            future._asyncio_future_blocking = False
            self.status = FUTURE
            self._fut_waiter = future
            future.add_done_callback(self._future_done, context=self.context)
            if self._must_cancel and future.cancel():
                self._must_cancel = False

    def _fail_next(self, error: Exception) -> None:
        """Raise `error` where the coroutine waits, on its next turn."""
        self._thrown = error
        self._must_cancel = True
        self.runtime.enqueue(self)  # type: ignore[arg-type]

    def _future_done(self, future: asyncio.Future[Any]) -> None:
        self._fut_waiter = None
        if self.status == FUTURE:
            self.status = READY
            self.runtime.run_alone(self)  # type: ignore[arg-type]

    def finished(self) -> None:
        """The coroutine has ended and no other will follow."""
        self.status = ENDED
        callbacks, self._done_callbacks = self._done_callbacks, None
        for callback, context in callbacks or ():
            self.runtime.loop.call_soon(callback, self, context=context)

    # For a subclass to say.

    def begin(self) -> Coroutine[Any, Any, Any]:
        """The coroutine to drive, on the first turn and whenever there is none.

        Raises StopIteration with the result when there is nothing to drive.
        """
        raise RuntimeError("nothing to run")

    def returned(self, value: Any) -> None:
        """The coroutine returned."""

    def raised(self, error: BaseException) -> None:
        """The coroutine raised."""

    # asyncio's task protocol.

    def cancel(self, msg: Any = None) -> bool:
        """Raise CancelledError where the coroutine waits, as `asyncio.Task.cancel` does."""
        if self.status == ENDED:
            return False
        self._cancel_requests += 1
        self.interrupt(msg)
        return True

    def interrupt(self, msg: Any = None) -> None:
        """Throw CancelledError in at the next chance, without counting a request."""
        waiter = self._fut_waiter
        if waiter is not None and waiter.cancel(msg=msg):
            return
        self._must_cancel = True
        self._thrown = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        if self.status == MAIL or self.status == CELL:
            self.status = READY
            self.runtime.enqueue(self)  # type: ignore[arg-type]

    def cancelling(self) -> int:
        """How many cancel requests have not been taken back."""
        return self._cancel_requests

    def uncancel(self) -> int:
        """Take one cancel request back; how many are left."""
        if self._cancel_requests > 0:
            self._cancel_requests -= 1
            if self._cancel_requests == 0 and sys.version_info >= (3, 13):
                self._must_cancel = False
        return self._cancel_requests

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
        if self.status == ENDED:
            self.runtime.loop.call_soon(fn, self, context=context)
        elif self._done_callbacks is None:
            self._done_callbacks = [(fn, context)]
        else:
            self._done_callbacks.append((fn, context))

    def remove_done_callback(self, fn: Callable[[Any], object]) -> int:
        """Forget every registration of `fn`; how many there were."""
        before = self._done_callbacks or []
        kept = [entry for entry in before if entry[0] != fn]
        self._done_callbacks = kept or None
        return len(before) - len(kept)

    def get_stack(self, *, limit: int | None = None) -> list[FrameType]:
        """The frames of the suspended coroutine, outermost first; without a running one the list is empty."""
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


def as_coroutine(result: Any) -> Coroutine[Any, Any, Any] | None:
    """`result` as something to drive, or None when it is a plain value."""
    if type(result) is CoroutineType:
        return result
    return finish(result) if inspect.isawaitable(result) else None
