"""Edge. The page on a thread of its own: web server, who looks, what is known. It answers while the loop does not."""

import asyncio
import socket
from contextlib import suppress
from typing import Any, Final

from coding_agent.observer.addresses import ListenAt
from coding_agent.observer.guard import Guard
from coding_agent.observer.recorder import Recorder
from coding_agent.observer.routes import application
from coding_agent.observer.server import BACKLOG, CLOSE_S, WebServer, bound_to
from coding_agent.observer.watching import Watching
from coding_agent.observer.web_thread import WebThread
from lemon_otp import Pid, at_exit, frozen, repl, self_pid, send

LEAVE_S: Final = CLOSE_S + 0.5
"""How long the end of the thread is waited for; its server takes that long at most."""


@frozen
class Failed:
    """To the process that opened the site: its thread has ended, which nobody wanted."""

    error: Exception


class Site:
    """Served from `open` until `close`, or until the process that opened it ends. When it fails that is sent `Failed`.

    Attributes:
        at: Where it listens.
    """

    def __init__(self, at: ListenAt, token_hash: bytes) -> None:
        """Args:
        at: Where to listen.
        token_hash: Of what askers must say.
        """
        self.at = at
        self._token_hash = token_hash
        self._host = repl.FromThread()
        self._thread = WebThread("observer page")
        self._in_haste = False
        self._watching: Watching | None = None
        self._recorder = Recorder(lambda name, value: self._thread.call(self._hear, name, value))

    def open(self) -> None:
        """Listen, and serve the page from now on.

        Raises:
            BadUsage: The address is taken or is none of this machine's.
        """
        bound, self.at = bound_to(self.at)
        bound.listen(BACKLOG)  # whoever comes before the thread is there waits for it
        me = self_pid()
        at_exit(me, self._gone)
        self._recorder.start()
        self._thread.start(
            lambda stop: self._serve(bound, stop), failed=lambda error: self._host.call(send, me, Failed(error))
        )

    async def close(self) -> None:
        """Serve no more; pages that are open are left, answers under way have a moment."""
        self._recorder.stop()
        await asyncio.to_thread(self._thread.stop, LEAVE_S)

    def _gone(self, _pid: Pid, _reason: Any) -> None:
        """The process has ended; if nobody has closed this, all is cut, so that the next one finds the address free."""
        self._host.run_here(self._recorder.stop)
        self._in_haste = True
        self._thread.stop(LEAVE_S)

    # In the thread.

    async def _serve(self, bound: socket.socket, stop: asyncio.Event) -> None:
        watching = self._watching = Watching(self._host)
        guard = Guard(application(watching, self._host), self.at, self._token_hash)
        try:
            server = await WebServer.over(bound, self.at, guard)
        except BaseException:
            bound.close()
            raise
        looking = asyncio.gather(watching.run(), return_exceptions=True)
        try:
            await stop.wait()
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
            watching.feeds.end()
            if self._in_haste:
                server.cut()
            else:
                await server.close()

    def _hear(self, name: str, value: Any) -> None:
        if self._watching is not None:
            self._watching.hear(name, value)
