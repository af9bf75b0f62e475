"""Value. What the control socket keeps of each asker and of each request that is being answered."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from attrs import field

from lemon_otp.repl.claim import Claim
from lemon_otp.repl.operations import Operation
from lemon_otp.values import define


@define(eq=False)
class Pending:
    """A request that is being answered: the thread's, but for what is said to be read or written by both halves.

    Attributes:
        claim: Whoever takes it answers.
        cancelled: Nobody wants the answer any more; set by either half, read by both.
        emitted, lost: Events of the feed that were handed to the thread, and those that were not, for want of room.
            Counted by the loop; the thread reads `lost`.
        taken, dropped, told: Events that the thread took, dropped, and has told the asker are missing. Counted by the
            thread; the loop reads `taken`.
    """

    connection: Connection
    request: dict[str, Any]
    operation: Operation
    deadline_s: float
    claim: Claim = field(factory=Claim)
    cancelled: bool = False
    emitted: int = 0
    lost: int = 0
    taken: int = 0
    dropped: int = 0
    told: int = 0


@define(eq=False)
class Connection:
    """One asker. Belongs to the thread.

    Attributes:
        ask_by_s: When it must have asked something; None once it has.
        leave_by_s: When it is left even if it has not read all; None while it is answered.
    """

    socket: socket.socket
    received: bytearray = field(factory=bytearray)
    waiting: bytearray = field(factory=bytearray)
    requests: dict[Any, Pending] = field(factory=dict)
    greeted: bool = False
    asked: bool = False
    eof: bool = False
    closing: bool = False
    closed: bool = False
    ask_by_s: float | None = None
    leave_by_s: float | None = None

    def until_s(self) -> float | None:
        """When it is closed, unless something happens first."""
        return self.ask_by_s if self.leave_by_s is None else self.leave_by_s


@define(eq=False)
class Taken:
    """A connection that an operation takes over.

    Attributes:
        socket: Connected, not blocking; whoever has it closes it.
        request: The line that asked for it.
        received: What the asker has sent after that line.
    """

    socket: socket.socket
    request: Mapping[str, Any]
    received: bytes
