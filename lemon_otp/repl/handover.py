"""Edge. Where the two halves of a control socket meet: the thread that talks to askers, and the event loop.

The thread half never touches what belongs to the loop, nor the other way round: what one wants of the other goes
through here and is called in the other's place, in the order in which it was handed over. Besides that they share what
stands in this class, and of each request the marks that `Pending` says both read.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context
from typing import Any, Final, Protocol

from lemon_otp.repl.connections import Pending, Taken
from lemon_otp.repl.operations import Answer, Later, Operation
from lemon_otp.scheduler import Scheduler

HELD_S: Final = 0.3
"""How long the loop may take to begin with what a thread asks of it before the thread goes on without it."""


class OnLoop(Protocol):
    """What the thread asks of the loop; called on the event loop."""

    def begin(self, pending: Pending) -> None:
        """Answer it, unless the thread has begun to."""

    def end(self, pending: Pending) -> None:
        """Nobody wants its answer any more."""

    def take_over(self, operation: Operation, taken: Taken) -> None:
        """Give the operation the connection."""


class OnThread(Protocol):
    """What the loop tells the thread; called on the thread."""

    def answered(self, pending: Pending, answer: Answer | Later) -> None:
        """That is the answer, but for what is worked out off the loop."""

    def said(self, pending: Pending, event: Any) -> None:
        """A feed has said something."""


class Handover:
    """Both ways between the two halves.

    Attributes:
        runtime: Whose loop it is.
        stopped: Set once, by the loop: the thread ends, and nothing new is begun.
        held: Set by the thread when it had to answer in the loop's place, cleared by the loop when it goes on.
        loop, thread: The two halves; set before the thread starts.
    """

    loop: OnLoop
    thread: OnThread

    def __init__(self, runtime: Scheduler, context: Context) -> None:
        self.runtime = runtime
        self.stopped = False
        self.held = False
        self._context = context
        self._for_thread: deque[Callable[[], None]] = deque()
        self._wake_out, self._wake_in = socket.socketpair()
        for end in (self._wake_out, self._wake_in):
            end.setblocking(False)

    def run_here(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function on this thread, whichever it is, with the runtime current."""
        return self._context.copy().run(function, *args)

    # From the thread to the loop.

    def begin(self, pending: Pending) -> None:
        """Have the loop answer."""
        self.runtime.post(self.loop.begin, pending)

    def end(self, pending: Pending) -> None:
        """Have the loop end what it has begun for this."""
        pending.cancelled = True
        self.runtime.post(self.loop.end, pending)

    def take_over(self, operation: Operation, taken: Taken) -> None:
        """Have the loop go on with a whole connection."""
        self.runtime.post(self.loop.take_over, operation, taken)

    # From the loop to the thread.

    def answer(self, pending: Pending, answer: Answer | Later) -> None:
        """Have the thread say this and be done with the request."""
        self._to_thread(lambda: self.thread.answered(pending, answer))

    def say(self, pending: Pending, event: Mapping[str, Any] | Any) -> None:
        """Have the thread say this of a feed that goes on."""
        self._to_thread(lambda: self.thread.said(pending, event))

    def stop(self) -> None:
        """Have the thread end."""
        self.stopped = True
        self._wake()

    def _to_thread(self, work: Callable[[], None]) -> None:
        self._for_thread.append(work)
        self._wake()

    def _wake(self) -> None:
        with suppress(OSError):  # full, so it wakes anyway; or closed
            self._wake_in.send(b"\0")

    # How the thread comes by it.

    @property
    def bell(self) -> socket.socket:
        """Can be read from when something was handed to the thread."""
        return self._wake_out

    def heard_bell(self) -> None:
        """Let it ring anew."""
        with suppress(BlockingIOError):
            self._wake_out.recv(4096)

    def next_for_thread(self) -> Callable[[], None] | None:
        """What the thread has to do next; None when there is nothing."""
        try:
            return self._for_thread.popleft()
        except IndexError:
            return None

    def close(self) -> None:
        """The thread hears nothing any more."""
        for end in (self._wake_out, self._wake_in):
            end.close()
