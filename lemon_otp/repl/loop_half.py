"""Edge. What a control socket does on the event loop: looks, and processes for what takes time.

All of it is called by the loop through the `Handover`, and answers go back through it. Nothing here knows a socket.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from lemon_otp.pid import Pid
from lemon_otp.process import at_exit, exit_signal, spawn
from lemon_otp.repl import answering
from lemon_otp.repl.connections import Pending, Taken
from lemon_otp.repl.handover import Handover
from lemon_otp.repl.operations import Operation
from lemon_otp.repl.wire import encode, failure
from lemon_otp.telling import describe

FEED_EVENTS_MAX: Final = 10_000
"""Events of one feed that the thread may not have taken yet."""


class LoopHalf:
    """Answers on the event loop."""

    def __init__(self, handover: Handover) -> None:
        self._handover = handover
        self._feeds: dict[Pending, Pid] = {}

    def begin(self, pending: Pending) -> None:
        """Answer it now, or in a process of its own; an act is done although the thread has said that it is queued."""
        operation, request = pending.operation, pending.request
        self._handover.held = False
        if self._handover.stopped or pending.cancelled or (not pending.claim.take() and operation.kind != "act"):
            return
        if operation.kind == "look":
            self._handover.answer(pending, self._handover.run_here(answering.look, operation, request))
        elif operation.kind == "act":
            self._spawned(self._act, pending)
        else:
            self._feeds[pending] = self._spawned(self._feed, pending)

    def end(self, pending: Pending) -> None:
        """End its feed. An act goes on: it was asked for."""
        feed = self._feeds.pop(pending, None)
        if feed is not None:
            self._handover.run_here(exit_signal, feed, "kill")

    def stop(self) -> None:
        """End all feeds; nobody hears them any more."""
        for pending in list(self._feeds):
            pending.cancelled = True
            self._handover.runtime.post(self.end, pending)

    def take_over(self, operation: Operation, taken: Taken) -> None:
        """Give the operation the connection, in a process of its own."""
        label = f"repl[{operation.name}]"
        self._handover.run_here(lambda: spawn(_taken_over, operation, taken, label=label))

    def _spawned(self, body: Callable[..., Any], pending: Pending) -> Pid:
        label = f"repl[{pending.operation.name}]"
        pid: Pid = self._handover.run_here(lambda: spawn(body, pending, label=label))
        at_exit(pid, lambda _pid, reason: self._ended(pending, reason))
        return pid

    async def _act(self, pending: Pending) -> None:
        self._handover.answer(pending, await answering.act(pending.operation, pending.request))

    async def _feed(self, pending: Pending) -> None:
        def emit(event: Any) -> None:
            if pending.emitted - pending.taken >= FEED_EVENTS_MAX:
                pending.lost += 1
                return
            pending.emitted += 1
            self._handover.say(pending, event)

        self._handover.answer(pending, await answering.feed(pending.operation, pending.request, emit))

    def _ended(self, pending: Pending, reason: Any) -> None:
        """Whoever answers has ended: when that was before the answer, the asker is told so."""
        self._feeds.pop(pending, None)
        if reason != "normal" and not pending.cancelled:
            text = f"{pending.operation.name} was ended before its answer: {describe(reason, 200)}"
            self._handover.answer(pending, failure(text, "ended", end=True))


async def _taken_over(operation: Operation, taken: Taken) -> None:
    try:
        await operation.run(taken)  # type: ignore[misc]
    except Exception as error:
        with suppress(OSError):
            taken.socket.send(encode(answering.failed(error)))
    finally:
        taken.socket.close()
