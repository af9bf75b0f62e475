"""Values. What a desk tells those that listen to it."""

from typing import TypeAlias

from coding_agent.events import SessionEvent
from coding_agent.hosting.dialogs import Asked, Closed, Shown
from coding_agent.hosting.user_bash import BashOutput
from lemon_otp import frozen


@frozen
class Opened:
    """The desk looks at another session from here on.

    Attributes:
        reason: `start`, `new`, `switch`, `fork`, `clone`, `reset` or `crash`.
    """

    session_id: str
    reason: str


@frozen
class Ended:
    """The session's process has ended without being asked to; what it had said is stored.

    Attributes:
        reason: What it ended with, in words.
    """

    session_id: str
    reason: str


@frozen
class HookFailed:
    """Something of an extension's failed on the way of a prompt; the conversation goes on."""

    path: str
    event: str
    error: str


DeskEvent: TypeAlias = SessionEvent | Asked | Closed | Shown | BashOutput | Opened | Ended | HookFailed
"""What a desk tells its listeners."""
