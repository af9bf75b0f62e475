"""Edge. A server that is a program: started through the keeper, spoken to in lines of JSON, ended with all it started.

The `mcp` library can start programs too, in a process group of their own; what leaves that group outlives it. The
keeper loses nothing, so this is a transport of ours for the library's session.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from coding_agent.mcp.entries import ServerEntry
from coding_agent.tools.child import Child, ChildNotStarted, first_of
from coding_agent.tools.environment import child_environment
from coding_agent.tools.keeper import Keeper, Program

LINE_BYTES_MAX: Final = 32 * 1024 * 1024
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
"""So much may wait to be looked at; a server that prints faster than that for long is ended."""
ERRORS_KEPT: Final = 4_000
PIECE: Final = 4096
"""A pipe takes so much at once or not at all, so that giving up between pieces tears none apart."""
LEAVE_S: Final = 2.0
"""After its input was closed, for the server to end by itself; one that never answered is given no time."""
CLOSED_S: Final = 0.25
"""After its output was closed, for the program to end, so that its exit code can be told."""
GRACE_S: Final = 0.5
KILL_S: Final = 2.5

INHERITED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "USER", "LANG", "TZ", "TMPDIR")


class ServerProgram:
    """One server's program over its whole life: however often it is started, at most one of it runs.

    Attributes:
        child: What was started last.
        answered: It has answered, so it knows how to leave when its input is closed.
        handshake: Greet it the way every server knew before 2026; one that refuses is greeted the new way.
    """

    def __init__(self, entry: ServerEntry, cwd: str) -> None:
        self.entry = entry
        self.child: Child | None = None
        self.answered = False
        self.handshake = True
        self._cwd = cwd
        self._errors: deque[bytes] = deque()
        self._errors_size = 0

    @property
    def pid(self) -> int | None:
        """Of the process that runs now."""
        running = self.child is not None and not self.child.gone.done()
        return self.child.pid if running and self.child else None

    @property
    def last_words(self) -> str:
        """The end of what it said on standard error, without its secrets."""
        text = b"".join(self._errors)[-ERRORS_KEPT:].decode(errors="replace")
        return self.entry.masked(" ".join(text.split()))[-500:]

    async def start(self, keeper: Keeper, on_output: Callable[[bytes], None]) -> Child:
        """Start it, once nothing of an earlier start is left.

        Raises:
            ChildNotStarted: There is no such program or folder, or the earlier one cannot be ended.
        """
        await self.end(0)
        if self.child is not None and not self.child.gone.done():
            raise ChildNotStarted(0, "the one before it cannot be ended")
        self.answered = False
        self._errors.clear()
        self._errors_size = 0
        try:
            cwd = os.open(os.path.join(self._cwd, self.entry.cwd or "."), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ChildNotStarted(error.errno or 0, f"its folder: {error.strerror}") from error
        try:
            program = Program(
                argv=(self.entry.command, *self.entry.args),
                env=environment(os.environ, self.entry.env),
                cwd=cwd,
                stdin="pipe",
                split_errors=True,
            )
            self.child = await keeper.start(program, on_output, on_errors=self._note)
        finally:
            os.close(cwd)
        return self.child

    async def end(self, leave_s: float = LEAVE_S) -> None:
        """Close its input, wait for it to leave, then end all of it; returns when nothing is left."""
        child = self.child
        if child is None or child.gone.done():
            return
        child.close_input()
        if leave_s:
            await first_of(leave_s, child.exited)
        if not child.gone.done():
            child.kill(GRACE_S)
            await child.ended_for_certain(GRACE_S + KILL_S)
        child.close()

    def close(self) -> None:
        """Give it up at once: its minder ends it."""
        if self.child is not None:
            self.child.kill(0)
            self.child.close()

    def _note(self, data: bytes) -> None:
        self._errors.append(data[-ERRORS_KEPT:])
        self._errors_size += len(self._errors[-1])
        while self._errors_size - len(self._errors[0]) >= ERRORS_KEPT:
            self._errors_size -= len(self._errors.popleft())


def environment(own: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """What a server gets: enough to start, no secret of ours, and what its entry says."""
    basic = {name: value for name, value in own.items() if name in INHERITED or name.startswith("LC_")}
    return {**child_environment(basic), **extra}


@asynccontextmanager
async def program_streams(
    program: ServerProgram, keeper: Keeper, on_lost: Callable[[str], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """The two ends of a connection with a program, as the library's session wants them; the program ends with them.

    Args:
        program: What to start.
        keeper: Starts it.
        on_lost: Told, once, when the program ends or talks nonsense while the connection is in use.
    """
    import anyio

    sending, receiving = anyio.create_memory_object_stream[Any](1_000_000)
    reader = _Reader(sending, receiving, on_lost)
    try:
        child = await program.start(keeper, reader.feed)
        child.exited.add_done_callback(lambda _done: reader.ended(child))
        child.drained.add_done_callback(lambda _done: reader.ended_soon(child))
        yield receiving, _Writer(child)
    finally:
        reader.closing = True
        await program.end(LEAVE_S if program.answered else 0)
        sending.close()
        receiving.close()


class _Reader:
    """Cuts output into lines and hands on what they say."""

    def __init__(self, sending: Any, receiving: Any, on_lost: Callable[[str], None]) -> None:
        self.closing = False
        self._sending = sending
        self._receiving = receiving
        self._on_lost = on_lost
        self._line = bytearray()
        self._sizes: deque[int] = deque()
        self._waiting = 0

    def feed(self, data: bytes) -> None:
        if self.closing:
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line += line
            self._take(bytes(self._line))
            self._line.clear()
        self._line += rest
        if len(self._line) > LINE_BYTES_MAX:
            self._lose(f"it printed a line of more than {LINE_BYTES_MAX} bytes")
        elif self._waiting > WAITING_BYTES_MAX:
            self._lose("it prints faster than can be read")

    def ended(self, child: Child) -> None:
        """The program ended, or closed its output."""
        if child.exited.done() and not child.exited.cancelled():
            child.read_what_is_there()
            self._lose(f"it ended with code {child.exited.result()}")
        else:
            self._lose("it closed its output")

    def ended_soon(self, child: Child) -> None:
        """It closed its output, which a program that ends does just before."""
        if not self.closing:
            asyncio.get_running_loop().call_later(CLOSED_S, self.ended, child)

    def _take(self, line: bytes) -> None:
        import mcp_types
        from mcp.shared.message import SessionMessage

        if not line.strip():
            return
        try:
            message = SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            return  # a line that is no message: servers print banners
        waiting = self._sending.statistics().current_buffer_used
        while len(self._sizes) > waiting:
            self._waiting -= self._sizes.popleft()
        self._sizes.append(len(line))
        self._waiting += len(line)
        self._send(message)

    def _send(self, message: Any) -> None:
        import anyio

        try:
            self._sending.send_nowait(message)
        except anyio.WouldBlock:
            self._lose("it prints faster than can be read")
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            self.closing = True

    def _lose(self, why: str) -> None:
        if not self.closing:
            self.closing = True
            self._sending.close()
            self._on_lost(why)


class _Writer:
    """Takes messages for the program. Giving up while one is on its way leaves the rest to be sent with the next."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._rest = bytearray()
        self._lock = asyncio.Lock()

    async def send(self, message: Any, /) -> None:
        import anyio

        line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._rest += line.encode(errors="replace") + b"\n"
        try:
            async with self._lock:
                while self._rest:
                    piece = bytes(self._rest[:PIECE])
                    await self._child.write(piece)
                    del self._rest[: len(piece)]
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        with suppress(OSError):
            self._child.close_input()

    async def __aenter__(self) -> "_Writer":
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()
