"""Edge. Standard input and output for a protocol: neither ever holds up the event loop, however slow the other side is.

Input is read and long output is written by a thread each, because a pipe, a file and a terminal differ in what an event
loop may do with them, and because making a shared descriptor non-blocking harms whoever shares it.
"""

import asyncio
import os
import queue
import select
import threading
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Final

from lemon_otp import Pid, frozen, send

CHUNK: Final = 1 << 16
CHUNKS_WAITING_MAX: Final = 256
"""So much input is read ahead of what was taken."""
AT_ONCE: Final = select.PIPE_BUF
"""What a pipe that can be written to takes without waiting."""
BATCH_BYTES: Final = 1 << 20


@frozen
class Received:
    """Bytes came in."""

    data: bytes


@frozen
class InputEnded:
    """Nothing more comes in."""


@frozen
class OutputClosed:
    """Nobody reads any more, or nothing can be written.

    Attributes:
        reason: What the system said.
    """

    reason: str


class _Teller:
    """Sends messages to a process from other threads."""

    def __init__(self, pid: Pid) -> None:
        self._pid = pid
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()

    def __call__(self, message: Any) -> None:
        with suppress(RuntimeError):  # the loop may be closed: nobody is there to be told
            self._loop.call_soon_threadsafe(send, self._pid, message, context=self._context)


class InputPipe:
    """Reads a descriptor on a thread; each piece comes to `listener` as `Received`, the end as `InputEnded`."""

    def __init__(self, descriptor: int, listener: Pid) -> None:
        self._descriptor = descriptor
        self._tell = _Teller(listener)
        self._room = threading.Semaphore(CHUNKS_WAITING_MAX)
        threading.Thread(target=self._read, name="rpc input", daemon=True).start()

    def taken(self) -> None:
        """The listener is done with one piece."""
        self._room.release()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._descriptor, CHUNK)
            except BlockingIOError:  # whoever handed it to us made it so
                _wait_for(self._descriptor, select.POLLIN)
                continue
            except OSError:
                data = b""
            if not data:
                self._tell(InputEnded())
                return
            self._room.acquire()
            self._tell(Received(data))


class OutputPipe:
    """Writes to a descriptor in order; when that fails, `listener` gets `OutputClosed` and the rest is dropped."""

    def __init__(self, descriptor: int, listener: Pid) -> None:
        self._descriptor = descriptor
        self._tell = _Teller(listener)
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._queued = 0
        self._written = 0
        self._broken = False
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._thread = threading.Thread(target=self._drain, name="rpc output", daemon=True)
        self._thread.start()

    @property
    def backlog(self) -> int:
        """Bytes that wait to be written."""
        return self._queued - self._written

    def write(self, line: bytes) -> None:
        """Write it now if that cannot wait, else behind what waits already. Never waits, never raises."""
        if self._broken:
            return
        if self.backlog == 0 and len(line) <= AT_ONCE and self._is_ready():
            line = self._put(line)
            if not line:
                return
        self._queued += len(line)
        self._queue.put(line)

    def close(self, *, timeout_s: float = 2.0) -> None:
        """Write what waits, for so long at most."""
        self._queue.put(None)
        self._thread.join(timeout_s)

    def _is_ready(self) -> bool:
        return any(events & select.POLLOUT for _, events in self._poll.poll(0))

    def _drain(self) -> None:
        while (first := self._queue.get()) is not None:
            pieces, ended = [first], False
            size = len(first)
            while size < BATCH_BYTES:
                try:
                    following = self._queue.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    ended = True
                    break
                pieces.append(following)
                size += len(following)
            rest = b"" if self._broken else b"".join(pieces)
            while rest := self._put(rest):
                _wait_for(self._descriptor, select.POLLOUT)
            self._written += size
            if ended:
                return

    def _put(self, data: bytes) -> bytes:
        """Write it; what is left when the descriptor takes no more for now, nothing when it is broken."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except BlockingIOError:
            return bytes(rest)
        except OSError as error:
            self._broken = True
            self._tell(OutputClosed(str(error)))
        return b""


def _wait_for(descriptor: int, event: int) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    poll.poll()


def take_standard_streams() -> tuple[int, int]:
    """Descriptors for the protocol's input and output; whatever else is printed goes to standard error from now on.

    The input of the program itself is empty from now on, so nothing it starts can read the protocol away.
    """
    incoming, outgoing = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return incoming, outgoing
