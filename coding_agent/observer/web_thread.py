"""Edge. A thread with an event loop of its own, for what is to be answered while the host's loop is held up."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Final

CALLS_MAX: Final = 10_000
"""What may wait for the thread; a thread that does not keep up loses the oldest."""

_log: Final = logging.getLogger(__name__)


class WebThread:
    """Runs one coroutine in a thread, with the runtime of whoever made it current, until it is stopped."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._context = copy_context()
        self._calls: deque[Callable[[], None]] = deque(maxlen=CALLS_MAX)
        self._is_called = False
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=name)
        self._main: Callable[[asyncio.Event], Awaitable[None]]
        self._failed: Callable[[Exception], Any]

    def start(self, main: Callable[[asyncio.Event], Awaitable[None]], failed: Callable[[Exception], Any]) -> None:
        """Run `main`; it returns soon after the event it is given is set.

        Args:
            main: In the thread's loop.
            failed: Told what it raises, in the thread.
        """
        self._main, self._failed = main, failed
        self._thread.start()

    def call(self, function: Callable[..., None], *args: Any) -> None:
        """Call this in the thread, behind what was handed to it before. Any thread may; after its end nothing happens.

        However many calls come at once, the thread is woken for the first of them.
        """
        self._calls.append(lambda: function(*args))
        if not self._is_called:
            self._is_called = True
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._take_calls)

    def stop(self, within_s: float) -> None:
        """Have it end, and wait for that so long at most. Twice does no harm."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(within_s)

    def _take_calls(self) -> None:
        self._is_called = False  # first: what comes from here on rings again
        while self._calls:
            try:
                self._calls.popleft()()
            except Exception:
                _log.exception("the thread of the web page failed at a call and goes on")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._context.run(self._loop.run_until_complete, self._main(self._stop))
        except Exception as error:
            self._failed(error)
        finally:
            with suppress(Exception):
                self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
