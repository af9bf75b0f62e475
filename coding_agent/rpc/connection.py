"""Edge. One client of the protocol, whatever carries its lines: commands in, responses and events out.

Commands are handled side by side, each in a process of its own that ends with the client's; they begin in the order in
which they come. A response says that a command was accepted or what it answers; what comes of it later are events.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from coding_agent.errors import CodingAgentError
from coding_agent.hosting.desk import Desk
from coding_agent.hosting.desk_events import DeskEvent
from coding_agent.rpc.commands import COMMANDS
from coding_agent.rpc.events import EventWriter, Message, is_passing
from coding_agent.rpc.fields import NULL, Fields
from lemon_otp import CallFailed, error_line, error_trace, reason_words, spawn, spawn_link

UI_RESPONSE: Final = "extension_ui_response"

Write = Callable[[Message], None]

_log: Final = logging.getLogger(__name__)


class RpcConnection:
    """A client of the protocol.

    Attributes:
        desk: What it looks at.
        events: How it is told of events.
    """

    def __init__(
        self, desk: Desk, write: Write, *, deltas: bool = False, congested: Callable[[], bool] | None = None
    ) -> None:
        """Args:
        desk: The client's own; it may be opened later.
        write: Takes each response and event, in order. Must not wait and must not raise.
        deltas: Leave the growing message out of `message_update`.
        congested: Does too much wait to be read? Then what a later event says too is left out.
        """
        self.desk = desk
        self.events = EventWriter(deltas=deltas)
        self._write = write
        self._congested = congested
        self._handling = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._deaf = desk.listen(self._hear)

    def close(self) -> None:
        """Write nothing any more. The desk is whose it is to close."""
        self._deaf()
        self._write = _nowhere

    def write(self, message: Message) -> None:
        """Write something of the carrier's own, such as the response to a line that is no command."""
        self._write(message)

    def accept(self, message: Mapping[str, Any]) -> None:
        """Take one object of the client's and answer it with `write`, now or later. Called by a process."""
        if message.get("type") == UI_RESPONSE:
            self.answer_dialog(message)
            return
        self._handling += 1
        self._idle.clear()
        spawn_link(self._answer, message, label=f"connection[{message.get('type')}]")

    def answer_dialog(self, message: Mapping[str, Any]) -> None:
        """Take an `extension_ui_response`; one to a question that is not open is ignored."""
        if self.desk.has_session and isinstance(question_id := message.get("id"), str):
            self.desk.dialogs.answer(question_id, message)

    async def _answer(self, message: Mapping[str, Any]) -> None:
        try:
            self._write(await self.handle(message))
        finally:
            self._handling -= 1
            if self._handling == 0:
                self._idle.set()

    def go_on(self, work: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        """Do this although its command is answered already; whether the client is still there is no matter."""

        async def beside() -> None:
            try:
                await work(*arguments)
            except Exception as error:
                _log.error("what a command had begun failed\n%s", error_trace(error))

        spawn(beside, label="connection[beside]")

    async def settled(self) -> None:
        """Return when every command that came was answered."""
        await self._idle.wait()

    async def handle(self, message: Mapping[str, Any]) -> Message:
        """Carry one command out; its response. Never raises: what went wrong is the response."""
        name = message.get("type")
        known = COMMANDS.get(name) if isinstance(name, str) else None
        if known is None:
            shown = name if isinstance(name, str) else "unknown"
            return failure(message, shown, f"Unknown command: {shown}")
        try:
            return success(message, await known(self, Fields(str(name), message)))
        except CodingAgentError as error:
            return failure(message, str(name), str(error))
        except CallFailed as error:
            return failure(message, str(name), f"the session has ended: {reason_words(error.reason)}")
        except OSError as error:
            return failure(message, str(name), f"{error.filename or ''}: {error.strerror or error}".lstrip(": "))
        except Exception as error:
            _log.error("the command %s failed\n%s", name, error_trace(error))
            return failure(message, str(name), error_line(error))

    def _hear(self, event: DeskEvent) -> None:
        if self._congested is not None and is_passing(event) and self._congested():
            return
        for message in self.events.messages(event):
            self._write(message)


def success(command: Mapping[str, Any], data: Any = None) -> Message:
    """The response to a command that was carried out; `data` is there when the command answers something."""
    whole = {**_response(command, str(command.get("type"))), "success": True}
    return whole if data is None else {**whole, "data": None if data is NULL else data}


def failure(command: Mapping[str, Any], name: str, error: str) -> Message:
    """The response to a command that was not."""
    return {**_response(command, name), "success": False, "error": error}


def parse_failure(error: str) -> Message:
    """The response to a line that is no command."""
    return failure({}, "parse", f"Failed to parse command: {error}")


def _response(command: Mapping[str, Any], name: str) -> Message:
    given = {"id": command["id"]} if "id" in command else {}
    return {**given, "type": "response", "command": name}


def _nowhere(_message: Message) -> None:
    pass
