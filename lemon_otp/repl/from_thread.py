"""Edge. A tree asked from a thread that has an event loop of its own, such as a web server's.

As at the control socket, the tree's own loop answers; where that does not begin in time, because somebody holds it up,
a look is answered here, with who holds it and where, and what would change something waits until it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Generic, TypeVar

from lemon_otp.errors import OtpError
from lemon_otp.pid import Pid
from lemon_otp.process import current_runtime, exit_signal, spawn
from lemon_otp.repl import answering
from lemon_otp.repl.claim import Claim
from lemon_otp.repl.handover import HELD_S
from lemon_otp.repl.operations import Answer, Later, Operation, Refusal
from lemon_otp.repl.wire import BadRequest

T = TypeVar("T")


class LoopHeld(OtpError):
    """The tree's loop did not begin in time; what was to be done was not begun.

    Attributes:
        holder: Who holds it up, in a few words.
    """

    def __init__(self, holder: str) -> None:
        super().__init__(f"the event loop is held up by {holder}")
        self.holder = holder


class _Waiting(Generic[T]):
    """One question on its way from a thread's loop, in which it is made and awaited, to the tree's."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[T] = self._loop.create_future()
        self.claim = Claim()

    def answered(self, value: T) -> None:
        """That is the answer; said in the tree's loop."""
        self._settle(lambda: self.answer.set_result(value))

    def failed(self, error: Exception) -> None:
        """That is what was raised."""
        self._settle(lambda: self.answer.set_exception(error))

    def _settle(self, settle: Callable[[], None]) -> None:
        def in_thread() -> None:
            if not self.answer.done():
                settle()

        with suppress(RuntimeError):  # the thread has ended
            self._loop.call_soon_threadsafe(in_thread)


class FromThread:
    """The way into the runtime it is made in. The coroutines run in the thread's loop, what they ask for in the tree's.

    Args:
        held_s: How long the tree's loop may take to begin.
    """

    def __init__(self, *, held_s: float = HELD_S) -> None:
        self._runtime = current_runtime()
        self._context = copy_context()
        self._held_s = held_s
        self._is_held = False

    def run_here(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function on the calling thread with the runtime current."""
        return self._context.copy().run(function, *args)

    def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Have a function called in the tree's loop, with the runtime current, as soon as that goes on."""
        self._runtime.post(self.run_here, function, *args)

    async def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request for a look or an act, as the control socket gives it; never raises for it."""
        try:
            operation = self.run_here(lambda: answering.wanted(request, unsafe=False))
        except (BadRequest, Refusal) as refusal:
            return answering.failed(refusal)
        if operation.kind == "look":
            return await self.look(operation, request)
        try:
            return await self.do(lambda: answering.ask(request), operation.timeout_s)
        except LoopHeld:
            return self._answer_held(operation, request)
        except TimeoutError:
            return answering.too_slow(operation)

    async def look(self, operation: Operation, request: Mapping[str, Any]) -> dict[str, Any]:
        """What a look says, in the table of operations or not; `held` is in it while the tree's loop is."""
        waiting = _Waiting[Answer | Later]()
        self._post(waiting, lambda: answering.look(operation, request))
        answer = await self._begun(waiting)
        return self._answer_held(operation, request) if answer is None else answering.finished(answer)

    async def do(self, work: Callable[[], Awaitable[T]], timeout_s: float) -> T:
        """What `work` returns or raises, in a process of its own on the tree's loop, which is killed when time is up.

        Raises:
            LoopHeld: It was not begun and never will be.
            TimeoutError: It took too long.
        """
        begun, done = _Waiting[Pid](), _Waiting[T]()

        async def body() -> None:
            try:
                done.answered(await work())
            except Exception as error:
                done.failed(error)

        self._post(begun, lambda: spawn(body, label="from_thread"))
        pid = await self._begun(begun)
        if pid is None:
            raise LoopHeld(self._holder())
        try:
            async with asyncio.timeout(timeout_s):
                return await done.answer
        finally:
            if not done.answer.done() or done.answer.cancelled():
                self.call(exit_signal, pid, "kill")

    async def _begun(self, waiting: _Waiting[T]) -> T | None:
        """What the tree's loop says at once; None when it has not begun in time, and will not any more."""
        with suppress(TimeoutError):
            async with asyncio.timeout(0.0 if self._is_held else self._held_s):
                return await asyncio.shield(waiting.answer)
        if waiting.claim.take():
            self._is_held = True
            return None
        return await waiting.answer  # it began this very moment

    def _post(self, waiting: _Waiting[T], work: Callable[[], T]) -> None:
        def on_loop() -> None:
            self._is_held = False
            if waiting.claim.take():
                try:
                    waiting.answered(self.run_here(work))
                except Exception as error:
                    waiting.failed(error)

        self._runtime.post(on_loop)

    def _answer_held(self, operation: Operation, request: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = answering.answer_held(self.run_here, operation, request, self._runtime)
        return answer

    def _holder(self) -> str:
        from lemon_otp.repl import frames  # not needed by a loop that answers

        return str(frames.held(self._runtime)["holder"])
