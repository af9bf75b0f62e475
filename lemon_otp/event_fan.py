"""Edge. One event to many streams, at about the price of putting it into as many buffers.

A stream that is open, has room and nobody waiting at it needs nothing but the event in its buffer. Those streams are
kept apart from the others, with a count of how many more events each of them surely has room for: reading only makes
more room. Whatever may change that (a reader that begins to wait, a listener, the end of the stream) is told to the fan
first, and the stream then goes the ordinary way of `push` until it is quiet again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lemon_otp.event_stream import EventStream


class EventFan:
    """The streams that all get the same ordinary events. Used on the thread of the event loop; never waits."""

    __slots__ = ("_appends", "_left", "_others", "_quiet")

    def __init__(self) -> None:
        self._quiet: dict[EventStream[Any, Any], None] = {}
        self._others: dict[EventStream[Any, Any], None] = {}
        self._appends: list[Callable[[Any], None]] | None = []
        self._left = 0

    def __len__(self) -> int:
        return len(self._quiet) + len(self._others)

    def add(self, stream: EventStream[Any, Any]) -> None:
        """From now on `stream` gets every event. A stream is in one fan at most."""
        self._others[stream] = None
        stream.join_fan(self)

    def remove(self, stream: EventStream[Any, Any]) -> None:
        """Nothing more goes to `stream`; one that is not here is no matter."""
        self.stir(stream)
        if self._others.pop(stream, self) is None:
            stream.join_fan(None)

    def push(self, event: Any) -> None:
        """Hand an ordinary event to every stream, as `push_async` does. Terminal events go to each stream by itself."""
        if self._left <= 0 and self._quiet:
            self._look_again()
        self._left -= 1
        appends = self._appends
        if appends is None:
            appends = self._appends = [stream.append for stream in self._quiet]
        for append in appends:
            append(event)
        if self._others:
            self._push_others(event)

    def stir(self, stream: EventStream[Any, Any]) -> None:
        """A stream is quiet no longer: let `push` see to it."""
        if stream in self._quiet:
            del self._quiet[stream]
            self._others[stream] = None
            self._appends = None

    def _push_others(self, event: Any) -> None:
        for stream in tuple(self._others):
            stream.push_async(event)
            room = stream.quiet_room()
            if room > 0:
                del self._others[stream]
                self._left = min(self._left, room) if self._quiet else room
                self._quiet[stream] = None
                self._appends = None

    def _look_again(self) -> None:
        """Those that are full go the ordinary way; the others have room for as many events as the fullest of them."""
        rooms = {stream: stream.quiet_room() for stream in self._quiet}
        for stream, room in rooms.items():
            if room <= 0:
                self.stir(stream)
        self._left = min((room for room in rooms.values() if room > 0), default=0)
