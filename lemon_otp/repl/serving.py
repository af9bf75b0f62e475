"""Edge. The control socket of a tree: a thread that talks to askers and has the event loop answer them.

The thread hands each request to the loop. When the loop has not begun with it after `HELD_S`, somebody holds the loop
up: the thread then answers itself, with the stack that holds it and what can be read from outside.

Nothing here waits for an asker: answers stand in a buffer for each connection, and events of a feed for which there is
no room are dropped and counted.
"""

from __future__ import annotations

import errno
import logging
import os
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any, Final

from lemon_otp.bounded import bounded
from lemon_otp.pid import Pid
from lemon_otp.process import at_exit, current_runtime, exit_signal, self_pid, spawn
from lemon_otp.repl import answering
from lemon_otp.repl.connections import Connection, Pending, Taken
from lemon_otp.repl.operations import Operation
from lemon_otp.repl.turns import LATER, Turns
from lemon_otp.repl.wire import REQUEST_BYTES_MAX, VERSION, BadRequest, encode, failure, parse, skew

_log: Final = logging.getLogger("lemon_otp")

HELD_S: Final = 0.3
LEAVE_S: Final = 1.0
"""How long `close` waits for the thread, and the thread for an asker to read its last word and hang up."""
ASK_BY_S: Final = 30.0
"""How long a connection may say nothing at first: others may want its place."""
ACCEPT_PAUSE_S: Final = 0.2
"""How long nobody is let in when no descriptor is left for one."""
CONNECTIONS_MAX: Final = 64
PENDING_MAX: Final = 64
FEED_BYTES_MAX: Final = 4 * 1024 * 1024
"""What may wait for a slow asker before events of its feeds are dropped."""
FEED_EVENTS_MAX: Final = 10_000
"""Events of one feed that the thread may not have taken yet."""
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""What may wait for it before it is left."""


class ControlSocket:
    """Serves a bound Unix socket for the calling process's runtime until `close`, or until that process ends.

    Args:
        bound: The socket; listened on from here and closed in the end.
        path: Its file, removed in the end.
        unsafe: Whether operations that can do anything are allowed.
        about: More for the greeting, such as the program's version.
        held_s: How long the loop may take before the thread answers in its place.
    """

    def __init__(
        self,
        bound: socket.socket,
        path: Path,
        *,
        unsafe: bool = False,
        about: Mapping[str, Any] | None = None,
        held_s: float = HELD_S,
    ) -> None:
        self.path = path
        self._unsafe = unsafe
        self._about = dict(about or {})
        self._held_s = held_s
        self._runtime = current_runtime()
        self._context = copy_context()
        self._bound = bound
        self._file = _identity(path)
        self._selector = selectors.DefaultSelector()
        self._connections: set[Connection] = set()
        self._posted: deque[Callable[[], None]] = deque()
        self._wake_out, self._wake_in = socket.socketpair()
        self._stopped = False
        self._accept_at_s: float | None = None
        self._turns = Turns(lambda look: self._runtime.post(self._on_loop, look), held_s)
        self._thread = threading.Thread(target=self._serve, daemon=True, name="lemon_otp control socket")

    def start(self) -> None:
        """Begin to listen."""
        self._bound.listen(CONNECTIONS_MAX)
        for end in (self._bound, self._wake_out, self._wake_in):
            end.setblocking(False)
        self._selector.register(self._bound, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake_out, selectors.EVENT_READ, self._woken)
        at_exit(self_pid(), lambda _pid, _reason: self.close())
        self._thread.start()

    def close(self) -> None:
        """Stop listening, leave every asker, end the feeds and remove the socket's file. Twice does no harm."""
        if self._stopped:
            return
        self._stopped = True
        with suppress(OSError):  # somebody has taken the folder away
            if _identity(self.path) == self._file:
                self.path.unlink()
        for connection in list(self._connections):
            self._end_feeds(connection)
        self._wake()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(LEAVE_S)

    # The thread.

    def _serve(self) -> None:
        try:
            while not self._stopped:
                for key, events in self._selector.select(self._until_deadline()):
                    self._guarded(key.data, key.fileobj, events)
                while self._posted:
                    self._guarded(self._posted.popleft())
                self._guarded(self._answer_late)
        finally:
            for connection in list(self._connections):
                self._write(connection)
                self._close(connection)
            self._selector.close()
            for end in (self._bound, self._wake_out, self._wake_in):
                end.close()

    def _guarded(self, function: Callable[..., None], *args: Any) -> None:
        """A mistake of ours costs one answer, not the thread that answers."""
        try:
            if not self._stopped:
                function(*args)
        except Exception:
            _log.exception("the control socket failed at one request and goes on")

    def _until_deadline(self) -> float | None:
        deadlines = [pending.deadline_s for pending in self._waiting()]
        deadlines += [
            by_s for each in self._connections for by_s in (each.leave_by_s, each.ask_by_s) if by_s is not None
        ]
        deadlines += [] if self._accept_at_s is None else [self._accept_at_s]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _waiting(self) -> list[Pending]:
        return [
            pending
            for connection in self._connections
            for pending in connection.requests.values()
            if not pending.is_claimed and pending.deadline_s < LATER
        ]

    def _answer_late(self) -> None:
        now_s = time.monotonic()
        if self._accept_at_s is not None and self._accept_at_s <= now_s:
            self._accept_at_s = None
            self._selector.register(self._bound, selectors.EVENT_READ, self._accept)
        for connection in list(self._connections):
            if (connection.until_s() or now_s) < now_s:
                self._close(connection)
        for pending in self._waiting():
            if pending.deadline_s <= now_s and pending.claim():
                self._turns.held = True
                operation, request = pending.operation, pending.request
                self._answer(pending, answering.answer_held(self._run_here, operation, request, self._runtime))

    def _run_here(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._context.copy().run(function, *args)

    def _woken(self, end: socket.socket, _events: int) -> None:
        with suppress(BlockingIOError):
            end.recv(4096)

    def _wake(self) -> None:
        with suppress(OSError):  # full, so it wakes anyway; or closed
            self._wake_in.send(b"\0")

    def _in_thread(self, function: Callable[[], None]) -> None:
        self._posted.append(function)
        self._wake()

    def _accept(self, bound: socket.socket, _events: int) -> None:
        try:
            accepted, _ = bound.accept()
        except OSError as error:  # it went away again, or no descriptor is left: then the asker waits
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._selector.unregister(bound)
                self._accept_at_s = time.monotonic() + ACCEPT_PAUSE_S
            return
        accepted.setblocking(False)
        connection = Connection(accepted, ask_by_s=time.monotonic() + ASK_BY_S)
        self._connections.add(connection)
        self._watch(connection)
        if peer_uid(accepted) not in (None, os.getuid()):
            self._leave(connection, failure("this host belongs to another user", "wrong_owner"))
        elif len(self._connections) > CONNECTIONS_MAX:
            self._leave(connection, failure(f"{CONNECTIONS_MAX} others are connected already", "too_many"))

    def _ready(self, connection: Connection, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._write(connection)
        if events & selectors.EVENT_READ and not connection.closed:
            self._read(connection)

    def _read(self, connection: Connection) -> None:
        try:
            data = connection.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            self._close(connection)
            return
        if connection.closing:
            if not data:
                self._ended(connection)
            return
        connection.received += data
        while not connection.closing and not connection.closed:
            end = connection.received.find(b"\n")
            if end < 0:
                break
            line = bytes(connection.received[:end])
            del connection.received[: end + 1]
            self._request(connection, line)
        if connection.closed:
            return
        if len(connection.received) > REQUEST_BYTES_MAX:
            text = f"a request is at most {REQUEST_BYTES_MAX} bytes"
            self._leave(connection, failure(text, "bad_request"))
        elif not data:
            if connection.received and not connection.closing:  # a last line that nobody ended
                connection.received.clear()
                self._leave(connection, failure("the request is not a line of JSON", "bad_request"))
            self._ended(connection)

    def _ended(self, connection: Connection) -> None:
        """The asker says no more. One with a single question may still listen; any other has gone."""
        if connection.greeted or connection.leave_by_s is not None:
            self._close(connection)
            return
        connection.eof = True
        self._watch(connection)
        self._leave_if_idle(connection)

    def _request(self, connection: Connection, line: bytes) -> None:
        if not line.strip():
            return
        connection.ask_by_s = None
        request_id: Any = None
        try:
            request = parse(line)
            request_id = request.get("id")
            if not connection.asked and request.get("op") == "hello":
                self._greet(connection, request)
                return
            connection.asked = True
            if request.get("op") == "cancel" and connection.greeted:
                self._cancel(connection, request_id)
                return
            operation = self._run_here(lambda: answering.wanted(request, unsafe=self._unsafe))
            self._begin(connection, request, operation)
        except Exception as error:  # also a mistake of ours: whatever else was asked is still answered
            answer = {**answering.failed(error), **({} if request_id is None else {"id": request_id})}
            if connection.greeted:
                self._say(connection, answer)
            else:
                self._leave(connection, answer)

    def _greet(self, connection: Connection, request: Mapping[str, Any]) -> None:
        connection.asked = True
        if (problem := skew(request.get("version"))) is not None:
            self._leave(connection, failure(problem, "version_skew", version=VERSION))
            return
        connection.greeted = True
        hello = {"ok": True, "version": VERSION, "os_pid": os.getpid(), "unsafe": self._unsafe, **self._about}
        self._say(connection, hello if request.get("id") is None else {"id": request["id"], **hello})

    def _begin(self, connection: Connection, request: dict[str, Any], operation: Operation) -> None:
        if operation.kind == "takeover":
            self._hand_over(connection, request, operation)
            return
        if operation.kind == "feed" and not connection.greeted:
            raise BadRequest(f"{operation.name} says things for a while; begin the connection with a hello")
        request_id = request.get("id")
        if not isinstance(request_id, str | int | None) or request_id in connection.requests:
            raise BadRequest("the id of a request is text or a number that no request on its way has")
        if len(connection.requests) >= PENDING_MAX:
            raise BadRequest(f"{PENDING_MAX} requests are on their way already")
        pending = Pending(connection, request, operation, time.monotonic() + self._held_s)
        connection.requests[request_id] = pending
        if not connection.greeted:
            connection.closing = True  # one question, one answer
        if operation.kind == "look":
            self._turns.add(pending)
        else:
            self._runtime.post(self._on_loop, pending)

    def _cancel(self, connection: Connection, request_id: Any) -> None:
        pending = connection.requests.pop(request_id, None)
        if pending is None:
            return
        self._end(pending)
        self._say(connection, {"id": request_id, "ok": True, "end": True})

    def _hand_over(self, connection: Connection, request: dict[str, Any], operation: Operation) -> None:
        if connection.waiting or connection.requests:
            raise BadRequest(f"{operation.name} takes the connection; ask for it when no other answer is on its way")
        self._selector.unregister(connection.socket)
        self._connections.discard(connection)
        connection.closed = True
        taken = Taken(connection.socket, request, bytes(connection.received))
        self._runtime.post(self._take_over, operation, taken)

    # Writing, still in the thread.

    def _answer(self, pending: Pending, answer: Mapping[str, Any], *, more: bool = False) -> None:
        connection, request_id = pending.connection, pending.request.get("id")
        try:
            if connection.closed or pending.cancelled or connection.requests.get(request_id) is not pending:
                return  # it was told already that this is done when the loop goes on
            if not more:
                connection.requests.pop(request_id, None)
            self._say(connection, answer if request_id is None else {**answer, "id": request_id})
            if not more:
                self._leave_if_idle(connection)
        finally:
            self._turns.over(pending)

    def _event(self, pending: Pending, event: Any) -> None:
        pending.taken += 1
        if len(pending.connection.waiting) > FEED_BYTES_MAX:
            pending.dropped += 1
            return
        missing = pending.lost + pending.dropped
        dropped, pending.told = missing - pending.told, missing
        self._answer(pending, {"ok": True, "event": event, **({"dropped": dropped} if dropped else {})}, more=True)

    def _say(self, connection: Connection, answer: Mapping[str, Any]) -> None:
        try:
            line = encode(answer)
        except Exception as error:
            line = encode(failure(f"the answer cannot be written as JSON: {type(error).__name__}"))
        connection.waiting += line
        self._write(connection)
        if len(connection.waiting) > ANSWER_BYTES_MAX + len(line):
            self._close(connection)

    def _write(self, connection: Connection) -> None:
        try:
            while connection.waiting:
                sent = connection.socket.send(memoryview(connection.waiting)[: 1 << 20])
                del connection.waiting[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._close(connection)
            return
        self._watch(connection)
        self._leave_if_idle(connection)

    def _leave(self, connection: Connection, answer: Mapping[str, Any]) -> None:
        connection.closing = True
        self._say(connection, answer)

    def _leave_if_idle(self, connection: Connection) -> None:
        done = connection.closing or connection.eof
        if not done or connection.requests or connection.waiting or connection.closed:
            return
        if connection.eof:
            self._close(connection)
        elif connection.leave_by_s is None:
            # Closed with words of the asker's unread, it would not get to read ours.
            connection.leave_by_s = time.monotonic() + LEAVE_S
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_WR)

    def _watch(self, connection: Connection) -> None:
        """Tell the selector what is of interest now."""
        if connection.closed:
            return
        events = 0 if connection.eof else selectors.EVENT_READ
        events |= selectors.EVENT_WRITE if connection.waiting else 0
        known = self._selector.get_map().get(connection.socket)
        if known is None and events:
            self._selector.register(connection.socket, events, lambda _s, e: self._ready(connection, e))
        elif known is not None and not events:
            self._selector.unregister(connection.socket)
        elif known is not None and known.events != events:
            self._selector.modify(connection.socket, events, known.data)

    def _close(self, connection: Connection) -> None:
        if connection.closed:
            return
        connection.closed = True
        with suppress(KeyError):
            self._selector.unregister(connection.socket)
        connection.socket.close()
        self._connections.discard(connection)
        self._end_feeds(connection)

    def _end_feeds(self, connection: Connection) -> None:
        for pending in list(connection.requests.values()):
            self._end(pending)

    def _end(self, pending: Pending) -> None:
        pending.cancelled = True
        if not self._stopped:
            self._turns.over(pending)
        self._runtime.post(self._end_feed, pending)

    # The loop.

    def _on_loop(self, pending: Pending) -> None:
        operation, request = pending.operation, pending.request
        self._turns.held = False
        if pending.cancelled or (not pending.claim() and operation.kind != "act"):
            return
        if operation.kind == "look":
            self._finish(pending, self._run_here(answering.look, operation, request))
        elif operation.kind == "act":
            self._spawned(self._act, pending)
        else:
            pending.feed = self._spawned(self._feed, pending)

    def _spawned(self, body: Callable[..., Any], pending: Pending) -> Pid:
        label = f"repl[{pending.operation.name}]"
        pid: Pid = self._run_here(lambda: spawn(body, pending, label=label))
        at_exit(pid, lambda _pid, reason: self._cut_off(pending, reason))
        return pid

    async def _act(self, pending: Pending) -> None:
        self._finish(pending, await answering.act(pending.operation, pending.request))

    async def _feed(self, pending: Pending) -> None:
        def emit(event: Any) -> None:
            if pending.emitted - pending.taken >= FEED_EVENTS_MAX:
                pending.lost += 1
                return
            pending.emitted += 1
            self._in_thread(lambda: self._event(pending, event))

        last = await answering.feed(pending.operation, pending.request, emit)
        self._in_thread(lambda: self._answer(pending, last))

    def _cut_off(self, pending: Pending, reason: Any) -> None:
        """Whoever answers has ended: when that was before the answer, the asker is told so."""
        if reason != "normal" and not pending.cancelled:
            text = f"{pending.operation.name} was ended before its answer: {bounded(reason, 200)}"
            self._in_thread(lambda: self._answer(pending, failure(text, "ended", end=True)))

    def _finish(self, pending: Pending, answer: Any) -> None:
        self._in_thread(lambda: self._answer(pending, answering.finished(answer)))

    def _end_feed(self, pending: Pending) -> None:
        feed = pending.feed
        if feed is not None:
            self._run_here(lambda: exit_signal(feed, "kill"))

    def _take_over(self, operation: Operation, taken: Taken) -> None:
        self._run_here(lambda: spawn(_taken_over, operation, taken, label=f"repl[{operation.name}]"))


async def _taken_over(operation: Operation, taken: Taken) -> None:
    try:
        await operation.run(taken)  # type: ignore[misc]
    except Exception as error:
        with suppress(OSError):
            taken.socket.send(encode(answering.failed(error)))
    finally:
        taken.socket.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file is there: another may come to stand at the same path."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def peer_uid(connection: socket.socket) -> int | None:
    """The user at the other end, where the system tells (Linux); elsewhere the folder's mode is the guard."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return int(uid)
