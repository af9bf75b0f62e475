"""Edge. Waiting for something that may never come, without missing an abort."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Generator
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
    block that finishes in the same moment has finished.
    """

    __slots__ = ("_cause", "_clock", "_grace_s", "_redirect", "_scope", "_signal", "_timeout_s", "_timers", "_undo")

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
        self._undo: list[Callable[[], None]] = []
        self._timers: list[Any] = []

    async def __aenter__(self) -> Self:
        self._scope = asyncio.timeout(None)
        await self._scope.__aenter__()
        if self._timeout_s is not None or self._grace_s > 0:
            self._clock = current_runtime().timers
        if self._signal is not None:
            self._undo.append(self._signal.on_abort(self._aborted))
            if self._redirect:
                self._undo.append(self._signal.on_redirect(lambda _: self._stop("redirected")))
        if self._timeout_s is not None:
            self._timers.append(self._clock.add(self._timeout_s, self._stop, "timeout"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for undo in self._undo:
            undo()
        for timer in self._timers:
            self._clock.cancel(timer)
        try:
            await self._scope.__aexit__(kind, error, trace)
        except TimeoutError:
            assert self._cause is not None
            raise Interrupted(self._cause) from error

    def _aborted(self, _reason: Any) -> None:
        if self._grace_s > 0:
            self._timers.append(self._clock.add(self._grace_s, self._stop, "aborted"))
        else:
            self._stop("aborted")

    def _stop(self, cause: Cause) -> None:
        if self._cause is None:
            self._cause = cause
            self._scope.reschedule(asyncio.get_running_loop().time())


async def settled(value: Any, signal: AbortSignal | None, timeout_s: float | None, *, grace_s: float = 0.0) -> Any:
    """`value`, or what it gives when awaited.

    Raises:
        Interrupted: The signal was said, and `grace_s` ago, or the time was up first; what was awaited is cancelled.
    """
    if not inspect.isawaitable(value):
        return value
    if type(value) is not CoroutineType:
        async with Interruptible(signal, timeout_s, grace_s=grace_s):
            return await value
    if signal is not None and signal.aborted:
        value.close()
        raise Interrupted("aborted")
    try:
        waits_for = value.send(None)
    except StopIteration as stop:
        return stop.value  # it had nothing to wait for: most hooks and every answer of an agent at hand
    async with Interruptible(signal, timeout_s, grace_s=grace_s):
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
