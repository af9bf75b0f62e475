"""Value. What a command of the protocol is carried out with; `RpcConnection` is one."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

from coding_agent.hosting.desk import Desk
from coding_agent.rpc.events import EventWriter
from coding_agent.rpc.fields import Fields


class Here(Protocol):
    """The client that a command came from.

    Attributes:
        desk: What it looks at.
        events: How it is told of events.
    """

    desk: Desk
    events: EventWriter

    def go_on(self, work: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        """Do this although its command is answered already; whether the client is still there is no matter."""


Handler: TypeAlias = Callable[[Here, Fields], Awaitable[Any]]
"""Carries a command out; what it returns is the response's data."""
