"""Edge. Waiting for something that may never come, without missing an abort."""

import asyncio
import inspect
from asyncio import CancelledError
from collections.abc import Coroutine, Generator
from functools import partial
from types import CoroutineType, TracebackType, coroutine
from typing import Any, Literal, Self, TypeAlias

from lemon_agent.abort_signal import AbortSignal
from lemon_agent.errors import AgentError
from lemon_otp import current_runtime

Cause: TypeAlias = Literal["aborted", "redirected", "timeout"]


class Interrupted(AgentError):
    """A wait was cut short.

    Attributes:
        cause: What cut it short.
    """

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause)
        self.cause: Cause = cause


class Interruptible:
    """A block that ends with `Interrupted` as soon as the signal is said or its time is up.

    What is awaited inside is cancelled, after an abort once `grace_s` has passed, in which it may end by itself. A
    block that finishes in the same moment has finished. Every model call is one, so this is `asyncio.timeout` written
    out: the same cancel, counted and taken back in the same way, without a scope of its own for each.
    """

    __slots__ = (
        "_cancelling",
        "_cause",
        "_clock",
        "_due",
        "_grace_s",
        "_left",
        "_redirect",
        "_signal",
        "_task",
        "_timeout_s",
        "_timers",
    )

    def __init__(
        self,
        signal: AbortSignal | None,
        timeout_s: float | None = None,
        *,
        redirect: bool = False,
        grace_s: float = 0.0,
    ) -> None:
        self._signal = signal
        self._timeout_s = timeout_s
        self._redirect = redirect
        self._grace_s = grace_s
        self._cause: Cause | None = None
        self._due: asyncio.Handle | None = None
        self._timers: list[Any] | None = None
        self._left = False

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None, "only a task can be interrupted"
        self._task = task
        self._cancelling = task.cancelling()
        if self._timeout_s is not None or self._grace_s > 0:
            self._clock = current_runtime().timers
        if self._signal is not None:
            self._signal.add(self, redirect=self._redirect)
        if self._timeout_s is not None:
            self._after(self._timeout_s, "timeout")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left = True
        if self._signal is not None:
            self._signal.forget(self)
        if self._timers is not None:
            for timer in self._timers:
                self._clock.cancel(timer)
        if self._cause is None:
            return
        if self._due is not None:
            self._due.cancel()  # the block was done first
        elif self._task.uncancel() <= self._cancelling and kind is not None and issubclass(kind, CancelledError):
            raise Interrupted(self._cause) from error

    def __call__(self, _reason: Any) -> None:
        """The signal says something."""
        if self._signal is None or not self._signal.aborted:
            self._stop("redirected")
        elif self._grace_s > 0:
            self._after(self._grace_s, "aborted")
        else:
            self._stop("aborted")

    def _after(self, delay_s: float, cause: Cause) -> None:
        timer = self._clock.add(delay_s, self._stop, cause)
        if self._timers is None:
            self._timers = [timer]
        else:
            self._timers.append(timer)

    def _stop(self, cause: Cause) -> None:
        if self._cause is None and not self._left:  # a signal said on a thread may come when the block is done
            self._cause = cause
            self._due = asyncio.get_running_loop().call_soon(self._cancel)

    def _cancel(self) -> None:
        self._due = None
        self._task.cancel()


async def settled(value: Any, signal: AbortSignal | None, timeout_s: float | None, *, grace_s: float = 0.0) -> Any:
    """`value`, or what it gives when awaited.

    Raises:
        Interrupted: The signal was said, and `grace_s` ago, or the time was up first; what was awaited is cancelled.
    """
    if type(value) is not CoroutineType:
        if not inspect.isawaitable(value):
            return value
        with Interruptible(signal, timeout_s, grace_s=grace_s):
            return await value
    if signal is not None and signal.aborted:
        value.close()
        raise Interrupted("aborted")
    try:
        waits_for = value.send(None)
    except StopIteration as stop:
        return stop.value  # it had nothing to wait for: most hooks and every answer of an agent at hand
    with Interruptible(signal, timeout_s, grace_s=grace_s):
        return await _rest_of(value, waits_for)


@coroutine
def _rest_of(started: Coroutine[Any, Any, Any], waits_for: Any) -> Generator[Any, Any, Any]:
    """A coroutine that has taken its first step and waits for something, to be awaited to its end."""
    while True:
        try:
            got = yield waits_for
        except GeneratorExit:
            started.close()
            raise
        except BaseException as error:
            step = partial(started.throw, error)
        else:
            step = partial(started.send, got)
        try:
            waits_for = step()
        except StopIteration as stop:
            return stop.value


def seconds(milliseconds: int | None) -> float | None:
    """Milliseconds as seconds; None, for no limit, stays."""
    return None if milliseconds is None else milliseconds / 1000
