"""Edge. The end of a terminal: a window that closes sends several signals, and the first is enough."""

import asyncio
import signal


def ignore_further_ends(loop: asyncio.AbstractEventLoop) -> None:
    """From now on, and for as long as the loop runs, a request to end is not needed any more: that is under way.

    Without this the second signal would kill the program while it stores what the first has stopped.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        loop.add_signal_handler(number, _is_under_way)


def _is_under_way() -> None:
    pass
