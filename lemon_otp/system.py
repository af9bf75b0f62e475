"""Edge. The server's side of `lemon_otp.sys`: suspended, watched, asked for its state.

A system request stands in the mailbox with the others, but is served even while the server is suspended.
What a server that nobody watches pays is one comparison a message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from lemon_otp.caller import SYSTEM, Caller
from lemon_otp.errors import BadArgument, CallFailed, ProcessExit
from lemon_otp.exits import Exit
from lemon_otp.telling import describe, error_trace
from lemon_otp.values import define, frozen

if TYPE_CHECKING:
    from lemon_otp.server_process import ServerProcess

_log: Final = logging.getLogger("lemon_otp")

Direction: TypeAlias = Literal["in", "out"]
Watcher: TypeAlias = Callable[[Direction, Any, Any], None]
"""Called with the direction, the message or the answer, and the state at that moment."""


@frozen
class GetState:
    """The state."""


@frozen
class ReplaceState:
    """Replace the state by what `change` makes of it."""

    change: Callable[[Any], Any]


@frozen
class Suspend:
    """Serve system requests only, from now on."""


@frozen
class Resume:
    """Serve everything again."""


@frozen
class Terminate:
    """End with `reason`, after `terminate`."""

    reason: Any


@frozen
class Trace:
    """Call `watcher` for what goes in and out; None stops that."""

    watcher: Watcher | None


@frozen
class CountMessages:
    """Start, stop or read the statistics."""

    what: Literal["start", "stop", "get"]


@frozen
class GetStatus:
    """Everything that is known about the server."""


@frozen
class Statistics:
    """What a server did since statistics were switched on."""

    started_s: float
    now_s: float
    messages_in: int
    messages_out: int


@frozen
class Status:
    """What `get_status` says."""

    pid: Any
    module: str
    status: Literal["running", "suspended"]
    parent: Any
    state: Any
    mailbox: int
    handled: int


@define
class SystemState:
    """What a server keeps only once somebody has sent it a system request that needs it."""

    suspended: bool = False
    watcher: Watcher | None = None
    counting_since_s: float | None = None
    messages_in: int = 0
    messages_out: int = 0

    def saw(self, direction: Direction, message: Any, state: Any) -> None:
        """Note one message or answer."""
        if self.counting_since_s is not None:
            if direction == "in":
                self.messages_in += 1
            else:
                self.messages_out += 1
        if self.watcher is not None:
            try:
                self.watcher(direction, message, state)
            except (Exception, ProcessExit) as error:
                self.watcher = None
                _log.warning("a trace raised and is not called again\n%s", error_trace(error))


def is_wanted(message: Any, parent: Any) -> bool:
    """Whether a suspended server takes this message."""
    if type(message) is tuple:
        return bool(message) and message[0] is SYSTEM
    return type(message) is Exit and message.pid is parent


def handle_system(process: ServerProcess, caller: Caller, request: Any) -> None:
    """Serve one system request, and answer it. Raises ProcessExit for a request to end."""
    if type(request) is Terminate:
        caller.answer(None)
        raise ProcessExit(request.reason)
    try:
        answer = _answer(process, request)
    except Exception as error:
        answer = Failed(error)
    except ProcessExit as leaving:
        answer = Failed(CallFailed(leaving.reason, process))
    caller.answer(answer)


@frozen
class Failed:
    """The request raised; whoever asked raises it again."""

    error: Exception


def _answer(process: ServerProcess, request: Any) -> Any:
    match request:
        case GetState():
            return process.state
        case ReplaceState(change):
            process.state = change(process.state)
            return process.state
        case Suspend():
            process.watch_system().suspended = True
            return None
        case Resume():
            process.watch_system().suspended = False
            return None
        case Trace(watcher):
            process.watch_system().watcher = watcher
            return None
        case CountMessages(what):
            return _count(process, what)
        case GetStatus():
            return _status(process)
    raise BadArgument(f"{describe(request)} is no system request")


def _count(process: ServerProcess, what: str) -> Statistics | None:
    state = process.watch_system()
    now_s = process.runtime.clock.monotonic_s()
    if what == "get":
        if state.counting_since_s is None:
            return None
        return Statistics(state.counting_since_s, now_s, state.messages_in, state.messages_out)
    if what not in ("start", "stop"):
        raise BadArgument(f'what={what!r}; expected "start", "stop" or "get"')
    state.messages_in = state.messages_out = 0
    state.counting_since_s = now_s if what == "start" else None
    return None


def _status(process: ServerProcess) -> Status:
    suspended = process.sys is not None and process.sys.suspended
    return Status(
        pid=process,
        module=type(process.server).__module__,
        status="suspended" if suspended else "running",
        parent=process.parent,
        state=process.state,
        mailbox=len(process.mailbox or ()),
        handled=process.handled,
    )
