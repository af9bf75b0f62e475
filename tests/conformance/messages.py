"""Pure. How a message that a process received is recorded, and which handler it has."""

from __future__ import annotations

from typing import Any

from lemon_otp import TIMEOUT, Caller, Down, Exit, TableTransfer
from lemon_otp.caller import SYSTEM
from lemon_otp.system import Terminate
from tests.conformance.normalise import MonitoredName
from tests.conformance.terms import atom_name, is_atom, is_tagged


def event_of(message: Any, kind: str) -> tuple[str, tuple[Any, ...]]:
    """Name and terms of the event of a message that came as a `kind` (`msg`, `handle_info`)."""
    match message:
        case Exit():
            return "EXIT", (message.pid, message.reason)
        case ("EXIT", pid, reason):
            return "EXIT", (pid, reason)
        case (str(tag), Caller() as caller, Terminate(reason)) if tag == SYSTEM:
            return kind, (("system", caller, ("terminate", reason)),)
        case Down():
            watched = message.process
            return "DOWN", (MonitoredName(watched) if isinstance(watched, str) else watched, message.reason)
        case _ if message is TIMEOUT:
            return kind, ("timeout",)
        case _:
            return kind, (message,)


def key_of(message: Any) -> str:
    """The key of the message in a table of handlers."""
    if isinstance(message, Exit):
        return "EXIT"
    if isinstance(message, Down):
        return "DOWN"
    if isinstance(message, TableTransfer):
        return "ETS-TRANSFER"
    if message is TIMEOUT:
        return "timeout"
    if is_atom(message):
        return atom_name(message)
    return atom_name(message[0]) if is_tagged(message) else "*"
