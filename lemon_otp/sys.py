"""Edge. Looking into a running server, and holding it: what `sys` is on the BEAM.

Every function works on any GenServer, supervisors included; a process that is none does not answer, which
ends in CallTimeout. The requests stand in the server's mailbox in their turn, but are served while it is suspended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from lemon_otp.caller import SYSTEM, Caller
from lemon_otp.gen_server import asked
from lemon_otp.pid import Address
from lemon_otp.process import current_process
from lemon_otp.server_process import send_request
from lemon_otp.system import (
    CountMessages,
    Failed,
    GetState,
    GetStatus,
    ReplaceState,
    Resume,
    Statistics,
    Status,
    Suspend,
    Trace,
    Watcher,
)

__all__ = [
    "Statistics", "Status", "Watcher", "get_state", "get_status", "replace_state", "resume", "statistics", "suspend",
    "trace",
]  # fmt: skip


async def get_state(address: Address, *, timeout_s: float | None = 5.0) -> Any:
    """The server's state, the object itself: do not change it.

    Raises:
        CallFailed: There is no such process, or it ended.
        CallTimeout: It did not answer in time.
    """
    return await _ask(address, GetState(), timeout_s)


async def replace_state(address: Address, change: Callable[[Any], Any], *, timeout_s: float | None = 5.0) -> Any:
    """Give the server the state `change(state)`, and return it. What `change` raises is raised here."""
    return await _ask(address, ReplaceState(change), timeout_s)


async def suspend(address: Address, *, timeout_s: float | None = 5.0) -> None:
    """Let the server serve nothing but these functions and its parent's exit, until `resume`."""
    await _ask(address, Suspend(), timeout_s)


async def resume(address: Address, *, timeout_s: float | None = 5.0) -> None:
    """Let a suspended server go on with what has come meanwhile."""
    await _ask(address, Resume(), timeout_s)


async def get_status(address: Address, *, timeout_s: float | None = 5.0) -> Status:
    """What is known about the server: state, parent, mailbox length, whether it is suspended."""
    status: Status = await _ask(address, GetStatus(), timeout_s)
    return status


async def trace(address: Address, watcher: Watcher | None, *, timeout_s: float | None = 5.0) -> None:
    """Call `watcher("in" or "out", message, state)` in the server for every message and answer; None stops that.

    A watcher that raises is logged and not called again; the server goes on.
    """
    await _ask(address, Trace(watcher), timeout_s)


async def statistics(
    address: Address, what: Literal["start", "stop", "get"] = "get", *, timeout_s: float | None = 5.0
) -> Statistics | None:
    """Begin or end counting messages, or say what was counted; None while nothing is counted."""
    counted: Statistics | None = await _ask(address, CountMessages(what), timeout_s)
    return counted


async def _ask(address: Address, request: Any, timeout_s: float | None) -> Any:
    me = current_process()
    target = asked(me, address)
    if me.alert:
        await me.heed()
    caller = Caller(me)
    send_request(me.runtime, target, (SYSTEM, caller, request))
    answer = await caller.wait(me, target, timeout_s)
    if isinstance(answer, Failed):
        raise answer.error
    return answer
