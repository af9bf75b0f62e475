"""Edge and process. An object that says "stop", handed down to whatever must hear it; and who lists those in use.

Tree:  lemon_agent.supervisor / table_owner
Owns:  the table `abort_signals`, one row a signal in use, for whoever looks from outside. What a signal says is in the
       signal: a table owner that starts anew fills the table again, and nobody below notices.
"""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final
from weakref import ReferenceType, ref

from lemon_agent.errors import ToolError
from lemon_otp import GenServer, NotAProcess, Table, current_runtime

TABLE: Final = "abort_signals"
REDIRECTED: Final = "redirected"
"""What listeners are told in place of a reason when a redirect is asked for."""
_IN_USE: Final = "lemon_agent.abort_signals"
_ids: Final = itertools.count(1)
_LOCK: Final = threading.RLock()
"""Held for a moment where a signal is said or listened to, by any thread. One for all: every run has a signal."""

Row = tuple[int, "ReferenceType[AbortSignal]"]
Heard = Callable[[Any], None]
"""Called with the reason, on the event loop."""


class AbortSignal:
    """Says once and for all that a run should stop, and why.

    Sticky: the first reason stays. May be read and set from any thread; what waits on it is woken on its own event
    loop. A second, independent bit asks for a redirect: give up only the model request in flight and ask again.

    Attributes:
        aborted: Was it said? To be read only; cheap enough for a tight loop.
        reason: Why, or None while nothing was said.
        redirect_requested: Should the model request in flight be given up and asked again?
    """

    __slots__ = (
        "__weakref__",
        "_heard",
        "_loop",
        "_redirect_heard",
        "aborted",
        "id",
        "reason",
        "redirect_requested",
    )

    def __init__(self) -> None:
        self.id = next(_ids)
        self.aborted = False
        self.reason: Any = None
        self.redirect_requested = False
        self._heard: dict[object, Heard] = {}
        self._redirect_heard: dict[object, Heard] = {}
        self._loop = _running_loop()

    def __repr__(self) -> str:
        return f"<abort signal {self.id}: {'aborted' if self.aborted else 'quiet'}>"

    def abort(self, reason: Any = "aborted") -> None:
        """Say it. What waits is woken; saying it again changes nothing."""
        with _LOCK:
            if self.aborted:
                return
            self.reason = reason
            self.aborted = True
            heard, self._heard = self._heard, {}
        self._tell(heard.values(), reason)

    def request_redirect(self) -> None:
        """Ask for the model request in flight to be given up. Tools and the run itself go on."""
        with _LOCK:
            self.redirect_requested = True
            heard, self._redirect_heard = self._redirect_heard, {}
        self._tell(heard.values(), REDIRECTED)

    def clear_redirect(self) -> None:
        """Take the request back, or mark it as followed."""
        self.redirect_requested = False

    def clear(self) -> None:
        """Forget both bits: it reads as never said."""
        with _LOCK:
            self.aborted = False
            self.reason = None
            self.redirect_requested = False

    def track(self) -> None:
        """List it in the table of this runtime until `untrack`."""
        row = (self.id, ref(self))
        _in_use(current_runtime())[self.id] = row
        table = Table.whereis(TABLE)
        if table is not None:
            table.insert(row)

    def untrack(self) -> None:
        """Take it off the list: whatever ran under it has ended. What it says stays."""
        try:
            runtime = current_runtime()
        except NotAProcess:
            return
        _in_use(runtime).pop(self.id, None)
        table = Table.whereis(TABLE)
        if table is not None:
            table.delete(self.id)

    def on_abort(self, heard: Heard) -> Callable[[], None]:
        """Have `heard` called with the reason when it is said, or at once when it was. Returns what undoes this."""
        with _LOCK:
            if not self.aborted:
                self._loop = self._loop or _running_loop()
                return _listed(self._heard, heard)
        self._tell((heard,), self.reason)
        return _nothing

    def on_redirect(self, heard: Heard) -> Callable[[], None]:
        """As `on_abort`, for the redirect bit."""
        with _LOCK:
            if not self.redirect_requested:
                self._loop = self._loop or _running_loop()
                return _listed(self._redirect_heard, heard)
        self._tell((heard,), REDIRECTED)
        return _nothing

    def add(self, listener: Heard, *, redirect: bool = False) -> None:
        """As `on_abort` and, when asked, `on_redirect`, for who takes it back by `forget`: every model call does so."""
        with _LOCK:
            self._loop = self._loop or _running_loop()
            was_said, was_asked = self.aborted, redirect and self.redirect_requested
            if not was_said:
                self._heard[listener] = listener
            if redirect and not was_asked:
                self._redirect_heard[listener] = listener
        if was_said or was_asked:
            self._tell((listener,), self.reason if was_said else REDIRECTED)

    def forget(self, listener: Heard) -> None:
        """Tell this listener no more."""
        self._heard.pop(listener, None)
        self._redirect_heard.pop(listener, None)

    async def wait(self) -> Any:
        """Return the reason once it was said. Cancelling leaves the signal as it is."""
        if self.aborted:
            return self.reason
        loop = asyncio.get_running_loop()
        said: asyncio.Future[Any] = loop.create_future()

        def wake(reason: Any) -> None:
            if not said.done():
                said.set_result(reason)

        undo = self.on_abort(lambda reason: _on(loop, wake, reason))
        try:
            return await said
        finally:
            undo()

    def wait_in_thread(self, timeout_s: float | None = None) -> bool:
        """Block the calling thread, never the event loop's, until it was said (True) or the time is up."""
        said = threading.Event()
        with _LOCK:
            if self.aborted:
                return True

            def wake(_reason: Any) -> None:
                said.set()

            undo = _listed(self._heard, wake)
        try:
            said.wait(timeout_s)
        finally:
            undo()
        return self.aborted

    def _tell(self, heard: Iterable[Heard], reason: Any) -> None:
        for each in heard:
            _on(self._loop, each, reason)


class TableOwner(GenServer[None, None, None, Table]):
    """Owns the table of signals in use, so that no short-lived process does."""

    async def init(self, arg: None) -> Table:
        table = Table.new(TABLE, access="public")
        table.insert(list(_in_use(current_runtime()).values()))
        return table


def signals_in_use() -> list[AbortSignal]:
    """Every signal that something runs under, oldest first."""
    table = Table.whereis(TABLE)
    listed = [] if table is None else [row[1]() for row in table.rows()]
    return sorted((signal for signal in listed if signal is not None), key=lambda signal: signal.id)


def _in_use(runtime: Any) -> dict[int, Row]:
    """The rows of the signals something runs under: what a table owner that starts anew fills its table with."""
    in_use: dict[int, Row] | None = runtime.store.get(_IN_USE)
    if in_use is None:
        in_use = runtime.store[_IN_USE] = {}
    return in_use


def is_aborted(signal: AbortSignal | None) -> bool:
    """Was it said? No signal means nobody can have."""
    return signal is not None and signal.aborted


def check_abort(signal: AbortSignal | None) -> None:
    """Return when nothing was said.

    Raises:
        ToolError: "Operation aborted". For a tool to call between its steps.
    """
    if is_aborted(signal):
        raise ToolError("Operation aborted")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _on(loop: asyncio.AbstractEventLoop | None, heard: Heard, reason: Any) -> None:
    """Call it on its own loop: at once when we are there, soon from anywhere else, never on a loop that is closed."""
    if loop is None or loop is _running_loop():
        heard(reason)
    elif not loop.is_closed():
        loop.call_soon_threadsafe(heard, reason)


def _listed(waiting: dict[object, Heard], heard: Heard) -> Callable[[], None]:
    """List whoever wants to hear of it; what takes the entry back, once."""
    entry = object()
    waiting[entry] = heard
    return lambda: _strike(waiting, entry)


def _strike(waiting: dict[object, Heard], entry: object) -> None:
    waiting.pop(entry, None)


def _nothing() -> None:
    """There is nothing to undo."""
