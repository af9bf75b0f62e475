"""Values. How the terminal reaches the sessions: commands down, events up, as JSON objects of the RPC protocol."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from coding_agent.errors import CommandFailed

Message: TypeAlias = dict[str, Any]
"""A command, a response or an event."""


class Channel(Protocol):
    """A connection to a host, in this process or behind a socket.

    Events go to whoever listens, one call for each, in the order of the protocol, in the event loop of the listener.
    After the connection has ended there is one more: `{"type": "connection_closed", "reason": TEXT}`.
    """

    async def send(self, command: Message) -> Message:
        """The response to `command`. A connection that ended answers with a failure."""

    def post(self, message: Message) -> None:
        """Send what has no response, such as `extension_ui_response`. Never raises."""

    def listen(self, take: Callable[[Message], None]) -> None:
        """Give each event from now on to `take`."""


async def ask(channel: Channel, command: str, /, **fields: Any) -> Message:
    """What the host answers to a command, its `data`; fields that are None are left out.

    Raises:
        CommandFailed: It was refused.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    response = await channel.send({"type": command, **given})
    if not response.get("success"):
        raise CommandFailed(command, str(response.get("error") or f"{command} failed"))
    return response.get("data") or {}
