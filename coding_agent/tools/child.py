"""Edge. One started program, seen from the host: what it prints, when it ended, when all of it is gone.

`keeper` makes these; the orders and answers on its socket are listed in `keeper_main`.
"""

import array
import asyncio
import os
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

MARK: Final = "LEMON_CHILD"
"""Environment variable that every child carries: how a stray is found when helper and minder were both killed."""
READ_BYTES: Final = 65536

OnOutput: TypeAlias = Callable[[bytes], None]
T = TypeVar("T")


class ChildNotStarted(OSError):
    """The program could not be started; `errno` and `strerror` say why. Nothing runs."""


class Child:
    """One started program with everything it starts in turn.

    Attributes:
        pid: Also the id of its session and process group.
        exited: The exit code once the program itself ended; negative is the signal that ended it.
        gone: Done once nothing of it runs, or once the helper that knew was lost and what could be found was killed.
        left: After `exited`: something it started is still running.
        released: What it left behind was told to go on without us.
        stuck: How many processes could not be killed in time; 0 almost always.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, mark: str) -> None:
        self.pid = 0
        self.left = False
        self.stuck = 0
        self.lost = False
        self.released = False
        self.failure: ChildNotStarted | None = None
        self.mark = mark
        self.started: asyncio.Future[int] = loop.create_future()
        self.exited: asyncio.Future[int] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()
        self.unkillable: asyncio.Future[None] = loop.create_future()
        self.drained: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._sock = sock
        self._heard = b""
        self._readers: dict[int, OnOutput] = {}
        self._input = -1
        self._blocked: asyncio.Future[None] | None = None
        self._minder = 0
        self._on_gone: Callable[[Child], None] | None = None

    def __repr__(self) -> str:
        return f"<child {self.pid}>"

    # What may be asked of it.

    def kill(self, grace_s: float = 0.5) -> None:
        """Order the end of everything: TERM now, KILL after the grace. Returns at once; see `gone`."""
        self._order(f"K {int(grace_s * 1000)}")

    def signal(self, number: int) -> None:
        """Send a signal to the program's process group, if the program still runs."""
        self._order(f"G {int(number)}")

    async def ended(self, timeout_s: float | None = None) -> bool:
        """Return True once nothing of it runs, False when the time is up or some of it cannot be killed."""
        await first_of(timeout_s, self.gone, self.unkillable)
        return self.gone.done()

    async def ended_for_certain(self, timeout_s: float) -> bool:
        """As `ended`, and when the minder does not do it in time, because somebody stopped it, do it without."""
        if not await self.ended(timeout_s) and not self.stuck:
            if self._minder:
                with suppress(OSError):
                    os.kill(self._minder, signal.SIGKILL)
            await self.ended(1.0)
        return self.gone.done()

    async def write(self, data: bytes) -> None:
        """Feed standard input; returns when all was taken. A program that reads no more raises `BrokenPipeError`."""
        view = memoryview(data)
        while view:
            if self._input < 0:
                raise BrokenPipeError("standard input is closed")
            try:
                view = view[os.write(self._input, view) :]
            except BlockingIOError:
                await self._writable()

    def close_input(self) -> None:
        """End standard input. A terminal, which is input and output at once, is closed with its output."""
        if self._blocked is not None:  # whoever waits to write learns that there is nobody to read
            self._loop.remove_writer(self._input)
            settle(self._blocked, None)
            self._blocked = None
        if self._input >= 0 and self._input not in self._readers:
            os.close(self._input)
        self._input = -1

    def release(self, log: int | None = None, room: int = 0) -> None:
        """Stop listening, but let what is left go on: its output is read away, the first `room` bytes into `log`."""
        self.released = True
        self.close_input()
        for fd in list(self._readers):
            self._order(f"D {room}", (fd,) if log is None else (fd, log))
            self._unread(fd)

    def read_what_is_there(self, limit: int = 4 * 1024 * 1024) -> None:
        """Take what was printed but not read yet, without waiting, up to about `limit` bytes."""
        for fd in list(self._readers):
            for _read in range(limit // READ_BYTES):
                if fd not in self._readers or not self._read(fd):
                    break

    def close(self) -> None:
        """Give up every descriptor. What still runs is killed by its minder."""
        self.close_input()
        for fd in list(self._readers):
            self._unread(fd)
        self._end()

    # The two ends it listens on.

    def listen(self, outputs: Mapping[int, OnOutput]) -> None:
        self._loop.add_reader(self._sock, self._hear)
        for fd, on_output in outputs.items():
            os.set_blocking(fd, False)
            self._readers[fd] = on_output
            self._loop.add_reader(fd, self._read, fd)

    def feed(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._input = fd

    def on_gone(self, heard: "Callable[[Child], None]") -> None:
        self._on_gone = heard

    def _read(self, fd: int) -> bool:
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:  # a terminal whose other end is closed
            data = b""
        if data:
            self._readers[fd](data)
            return True
        if fd == self._input:
            self.close_input()
        self._unread(fd)
        if not self._readers and not self.drained.done():
            self.drained.set_result(None)
        return False

    def _unread(self, fd: int) -> None:
        del self._readers[fd]
        if not self._loop.is_closed():
            self._loop.remove_reader(fd)
        os.close(fd)

    def _hear(self) -> None:
        try:
            data = self._sock.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._take(*line.decode().split())

    def _take(self, word: str, first: str = "0", second: str = "0") -> None:
        if word == "S":
            self.pid, self._minder = int(first), int(second)
            settle(self.started, self.pid)
        elif word == "X":
            self.left = second == "1"
            settle(self.exited, int(first))
        elif word == "U":
            self.stuck = int(first)
            settle(self.unkillable, None)
        elif word == "Z":
            self.left = False
            self._end()
        elif word == "E":
            number = int(first)
            self.failure = ChildNotStarted(number, os.strerror(number))
            settle(self.started, 0)
            self._end()

    def _lose(self) -> None:
        """The minder ended without a word: somebody killed it. The keeper ends its children; we look for the rest."""
        self.lost = True
        kill_marked(self.mark)
        settle(self.started, 0)
        settle(self.exited, -9)
        self._end()

    def _end(self) -> None:
        if self._sock.fileno() >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._sock)
            self._sock.close()
        if not self._loop.is_closed():
            self.close_input()
        for future in (self.exited, self.gone):
            if not future.done() and not self._loop.is_closed():
                future.set_result(-9 if future is self.exited else None)  # type: ignore[arg-type]
        if self._on_gone is not None:
            self._on_gone(self)
            self._on_gone = None

    def _order(self, line: str, fds: tuple[int, ...] = ()) -> None:
        rights = array.array("i", fds)
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if rights else []
        with suppress(OSError):  # already gone, which is what an order to end wants
            self._sock.sendmsg([line.encode() + b"\n"], ancillary)

    async def _writable(self) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()
        fd = self._input
        self._loop.add_writer(fd, settle, ready, None)
        self._blocked = ready
        try:
            await ready
        finally:
            self._blocked = None
            if fd == self._input:
                self._loop.remove_writer(fd)


def kill_marked(mark: str) -> int:
    """Kill every process of ours that carries `mark`; the last resort. Returns how many were found."""
    wanted = f"{MARK}={mark}".encode()
    found = 0
    try:
        entries = [entry for entry in os.listdir("/proc") if entry.isdigit()]
    except OSError:
        return 0
    for entry in entries:
        try:
            environment = Path("/proc", entry, "environ").read_bytes()
            if wanted in environment.split(b"\0"):
                os.kill(int(entry), 9)
                found += 1
        except OSError:
            continue
    return found


def settle(future: "asyncio.Future[T]", value: T) -> None:
    """Give a future its result unless it has one."""
    if not future.done():
        future.set_result(value)


async def first_of(timeout_s: float | None, *futures: "asyncio.Future[Any]") -> None:
    """Return when one of them is done, or the time is up."""
    if not any(future.done() for future in futures):
        await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
