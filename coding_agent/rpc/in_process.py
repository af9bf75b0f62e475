"""Process. A client of the protocol in this program: the interactive terminal's way to its sessions.

Tree:  the process that opens it / in_process; the commands' processes, connection[type], are linked to it
Owns:  the answers that are waited for

Who uses it need not be a process: a task of somebody's user interface may send commands and await their answers.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from coding_agent.hosting.desk import Desk
from coding_agent.rpc.connection import UI_RESPONSE, RpcConnection, failure
from coding_agent.rpc.events import Message
from lemon_otp import Pid, frozen, receive, send, spawn_link

CLOSED: Final = "connection_closed"


@frozen
class _Command:
    message: Message
    answer: "asyncio.Future[Message]"


class _Close:
    pass


class InProcessChannel:
    """Commands down and events up, as the objects of the protocol. Opened by the process the desk belongs to."""

    def __init__(self, desk: Desk, *, deltas: bool = True) -> None:
        """Args:
        desk: The client's own.
        deltas: Leave the growing message out of `message_update`.
        """
        self._take: Callable[[Message], None] | None = None
        self._early: list[Message] = []
        self._connection = RpcConnection(desk, self._hear, deltas=deltas)
        self._pid: Pid = spawn_link(self._run, label="in_process")
        self._open = True

    async def send(self, command: Message) -> Message:
        """The response to `command`. A connection that ended answers with a failure."""
        if not self._open or not self._pid.alive:
            return failure(command, str(command.get("type")), "the connection has ended")
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        send(self._pid, _Command(command, answer))
        return await answer

    def post(self, message: Message) -> None:
        """Send what has no response, such as `extension_ui_response`. Never raises."""
        if self._open and message.get("type") == UI_RESPONSE:
            self._connection.answer_dialog(message)

    def listen(self, take: Callable[[Message], None]) -> None:
        """Give each event from now on to `take`, and first those that nobody has heard yet."""
        self._take = take
        early, self._early = self._early, []
        for message in early:
            take(message)

    def close(self, reason: str = "the host has closed it") -> None:
        """End it; the listener hears of that, and nothing more."""
        if self._open:
            self._open = False
            self._connection.close()
            self._hear({"type": CLOSED, "reason": reason})
            send(self._pid, _Close())

    def _hear(self, message: Message) -> None:
        if self._take is None:
            self._early.append(message)
        else:
            self._take(message)

    async def _run(self) -> None:
        """Process. Starts a process for each command."""
        waiting: set[asyncio.Future[Message]] = set()
        try:
            while True:
                match await receive():
                    case _Command(message, answer):
                        waiting.add(answer)
                        answer.add_done_callback(waiting.discard)
                        spawn_link(self._answer, message, answer, label=f"connection[{message.get('type')}]")
                    case _Close():
                        return
        finally:
            for answer in list(waiting):
                if not answer.done():
                    answer.set_result(failure({}, "unknown", "the connection has ended"))

    async def _answer(self, message: Message, answer: "asyncio.Future[Message]") -> None:
        response: Any = await self._connection.handle(message)
        if not answer.done():
            answer.set_result(response)
