"""Edge. The control socket of a tree: a thread that talks to askers and has the event loop answer them.

Three parts, and where each runs: `thread_half` (with `askers` and `turns`) on the thread, `loop_half` on the event
loop, `handover` between the two. This module puts them together, and is called by the process that serves.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any

from lemon_otp.process import at_exit, current_runtime, self_pid
from lemon_otp.repl.askers import LEAVE_S
from lemon_otp.repl.handover import HELD_S, Handover
from lemon_otp.repl.loop_half import LoopHalf
from lemon_otp.repl.thread_half import ThreadHalf


class ControlSocket:
    """Serves a bound Unix socket for the calling process's runtime until `close`, or until that process ends.

    Args:
        bound: The socket; listened on from `start` and closed in the end.
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
        self._file = _identity(path)
        self._handover = handover = Handover(current_runtime(), copy_context())
        self._loop_half = handover.loop = LoopHalf(handover)
        self._thread_half = handover.thread = ThreadHalf(
            bound, handover, unsafe=unsafe, about=dict(about or {}), held_s=held_s
        )
        self._thread = threading.Thread(target=self._thread_half.run, daemon=True, name="lemon_otp control socket")

    def start(self) -> None:
        """Begin to listen."""
        self._thread_half.listen()
        at_exit(self_pid(), lambda _pid, _reason: self.close())
        self._thread.start()

    def close(self) -> None:
        """Stop listening, leave every asker, end the feeds and remove the socket's file. Twice does no harm."""
        if self._handover.stopped:
            return
        with suppress(OSError):  # somebody has taken the folder away
            if _identity(self.path) == self._file:
                self.path.unlink()
        self._loop_half.stop()
        self._handover.stop()
        if self._thread.ident is None:  # it never began, so it cannot clear up
            self._thread_half.close()
        elif self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(LEAVE_S)


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file is there: another may come to stand at the same path."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
