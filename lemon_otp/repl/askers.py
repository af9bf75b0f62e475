"""Edge. Those who are connected to a control socket: lines in, lines out, and nobody is waited for.

Lives on the thread that serves. Answers stand in a buffer for each connection; who does not read is left in the end.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from lemon_otp.repl.connections import Connection
from lemon_otp.repl.private_socket import peer_uid
from lemon_otp.repl.wire import REQUEST_BYTES_MAX, encode, failure

LEAVE_S: Final = 1.0
"""How long an asker has to read its last word and hang up."""
ASK_BY_S: Final = 30.0
"""How long a connection may say nothing at first: others may want its place."""
ACCEPT_PAUSE_S: Final = 0.2
"""How long nobody is let in when no descriptor is left for one."""
CONNECTIONS_MAX: Final = 64
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""What may wait for an asker before it is left."""


class Askers:
    """The connections of a bound socket.

    Args:
        bound: Listened on from `listen`, closed by `close_all`.
        heard: Called with each line that somebody says.
        left: Called when a connection is closed, by whichever side.

    Attributes:
        connections: Who is there.
    """

    def __init__(
        self,
        bound: socket.socket,
        heard: Callable[[Connection, bytes], None],
        left: Callable[[Connection], None],
    ) -> None:
        self.connections: set[Connection] = set()
        self._bound = bound
        self._heard = heard
        self._left = left
        self._selector = selectors.DefaultSelector()
        self._accept_at_s: float | None = None

    def listen(self, bell: socket.socket, rung: Callable[[], None]) -> None:
        """Let askers in from now on, and call `rung` when there is something at `bell`."""
        self._bound.listen(CONNECTIONS_MAX)
        self._bound.setblocking(False)
        self._selector.register(self._bound, selectors.EVENT_READ, lambda _events: self._accept())
        self._selector.register(bell, selectors.EVENT_READ, lambda _events: rung())

    def ready(self, timeout_s: float | None) -> Iterator[Callable[[], None]]:
        """What there is to do, once something happens or the time is over."""
        for key, events in self._selector.select(timeout_s):
            yield partial(key.data, events)

    def deadlines_s(self) -> list[float]:
        """When `look_at_clock` has something to do."""
        found = [by_s for each in self.connections for by_s in (each.leave_by_s, each.ask_by_s) if by_s is not None]
        return found if self._accept_at_s is None else [*found, self._accept_at_s]

    def look_at_clock(self, now_s: float) -> None:
        """Leave those whose time is over."""
        if self._accept_at_s is not None and self._accept_at_s <= now_s:
            self._accept_at_s = None
            self._selector.register(self._bound, selectors.EVENT_READ, lambda _events: self._accept())
        for connection in list(self.connections):
            if (connection.until_s() or now_s) < now_s:
                self.close(connection)

    # In.

    def _accept(self) -> None:
        try:
            accepted, _ = self._bound.accept()
        except OSError as error:  # it went away again, or no descriptor is left: then the asker waits
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._selector.unregister(self._bound)
                self._accept_at_s = time.monotonic() + ACCEPT_PAUSE_S
            return
        accepted.setblocking(False)
        connection = Connection(accepted, ask_by_s=time.monotonic() + ASK_BY_S)
        self.connections.add(connection)
        self._watch(connection)
        if peer_uid(accepted) not in (None, os.getuid()):
            self.leave(connection, failure("this host belongs to another user", "wrong_owner"))
        elif len(self.connections) > CONNECTIONS_MAX:
            self.leave(connection, failure(f"{CONNECTIONS_MAX} others are connected already", "too_many"))

    def _happened(self, connection: Connection, events: int) -> None:
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
            self.close(connection)
            return
        if connection.closing:
            if not data:
                self._ended(connection)
            return
        connection.received += data
        self._lines(connection)
        if connection.closed:
            return
        if len(connection.received) > REQUEST_BYTES_MAX:
            text = f"a request is at most {REQUEST_BYTES_MAX} bytes"
            self.leave(connection, failure(text, "bad_request"))
        elif not data:
            if connection.received and not connection.closing:  # a last line that nobody ended
                connection.received.clear()
                self.leave(connection, failure("the request is not a line of JSON", "bad_request"))
            self._ended(connection)

    def _lines(self, connection: Connection) -> None:
        while not connection.closing and not connection.closed:
            end = connection.received.find(b"\n")
            if end < 0:
                return
            line = bytes(connection.received[:end])
            del connection.received[: end + 1]
            if line.strip():
                connection.ask_by_s = None
                self._heard(connection, line)

    def _ended(self, connection: Connection) -> None:
        """The asker says no more. One with a single question may still listen; any other has gone."""
        if connection.greeted or connection.leave_by_s is not None:
            self.close(connection)
            return
        connection.eof = True
        self._watch(connection)
        self.leave_if_idle(connection)

    # Out.

    def say(self, connection: Connection, answer: Mapping[str, Any]) -> None:
        """Say a line, as soon as it is read."""
        try:
            line = encode(answer)
        except Exception as error:
            line = encode(failure(f"the answer cannot be written as JSON: {type(error).__name__}"))
        connection.waiting += line
        self._write(connection)
        if len(connection.waiting) > ANSWER_BYTES_MAX + len(line):
            self.close(connection)

    def leave(self, connection: Connection, answer: Mapping[str, Any]) -> None:
        """Say a last line."""
        connection.closing = True
        self.say(connection, answer)

    def leave_if_idle(self, connection: Connection) -> None:
        """Hang up, when it was the last line and nothing waits."""
        done = connection.closing or connection.eof
        if not done or connection.requests or connection.waiting or connection.closed:
            return
        if connection.eof:
            self.close(connection)
        elif connection.leave_by_s is None:
            # Closed with words of the asker's unread, it would not get to read ours.
            connection.leave_by_s = time.monotonic() + LEAVE_S
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_WR)

    def _write(self, connection: Connection) -> None:
        try:
            while connection.waiting:
                sent = connection.socket.send(memoryview(connection.waiting)[: 1 << 20])
                del connection.waiting[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.close(connection)
            return
        self._watch(connection)
        self.leave_if_idle(connection)

    def _watch(self, connection: Connection) -> None:
        """Tell the selector what is of interest now."""
        if connection.closed:
            return
        events = 0 if connection.eof else selectors.EVENT_READ
        events |= selectors.EVENT_WRITE if connection.waiting else 0
        known = self._selector.get_map().get(connection.socket)
        if known is None and events:
            self._selector.register(connection.socket, events, partial(self._happened, connection))
        elif known is not None and not events:
            self._selector.unregister(connection.socket)
        elif known is not None and known.events != events:
            self._selector.modify(connection.socket, events, known.data)

    # Ends.

    def give_away(self, connection: Connection) -> socket.socket:
        """Have no more to do with a connection; its socket, which is open."""
        self._selector.unregister(connection.socket)
        self.connections.discard(connection)
        connection.closed = True
        return connection.socket

    def close(self, connection: Connection) -> None:
        """Hang up, whatever still waits."""
        if connection.closed:
            return
        connection.closed = True
        with suppress(KeyError):
            self._selector.unregister(connection.socket)
        connection.socket.close()
        self.connections.discard(connection)
        self._left(connection)

    def close_all(self) -> None:
        """Hang up on everybody, after what can be said at once, and let nobody in."""
        for connection in list(self.connections):
            self._write(connection)
            self.close(connection)
        self._selector.close()
        self._bound.close()
