"""Process. A terminal's way to a session of another host: the RPC protocol over its Unix socket.

Tree:  the process that opens it / socket_channel
Owns:  the connection, and the answers that are waited for

Who uses it need not be a process; it is the `Channel` of `coding_agent.terminal`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from coding_agent.errors import HostUnreachable
from coding_agent.rpc.connection import failure
from coding_agent.rpc.framing import BadLine, LineSplitter, TooLong, decode, encode
from coding_agent.rpc.lines import BACKLOG_MAX
from coding_agent.serving.socket_pipe import Came, PeerGone, PeerSilent, SocketPipe
from lemon_otp import Pid, receive, self_pid, send, spawn_link

CLOSED: Final = "connection_closed"
HOST_LEFT: Final = "the host has ended"
GREETING_S: Final = 30.0
"""Opening a long session takes a while."""

Message = dict[str, Any]


class _Close:
    pass


class SocketChannel:
    """Commands down and events up, as the objects of the protocol. Made with `SocketChannel.open`.

    Attributes:
        session: The id of the session it looks at.
        cwd: The folder that session works in.
        host_left: The host has ended the connection, not we.
    """

    def __init__(self, session: str, cwd: Path) -> None:
        self.session = session
        self.cwd = cwd
        self.host_left = False
        self._pipe: SocketPipe | None = None
        self._pid: Pid | None = None
        self._take: Callable[[Message], None] | None = None
        self._early: list[Message] = []
        self._waiting: dict[str, tuple[Message, asyncio.Future[Message]]] = {}
        self._ids = itertools.count(1)

    @classmethod
    async def open(cls, path: Path, request: Mapping[str, Any]) -> SocketChannel:
        """Become a client of the host behind a socket.

        Args:
            path: The socket.
            request: Which session, as the operation `rpc` takes it.

        Raises:
            HostUnreachable: Nobody listens there, or the host refused; the text is what it said.
        """
        ready: asyncio.Future[SocketChannel] = asyncio.get_running_loop().create_future()
        spawn_link(_run, path, {**request, "op": "rpc"}, ready, label="socket_channel")
        return await ready

    async def send(self, command: Message) -> Message:
        """The response to `command`. A connection that ended answers with a failure."""
        if self._pipe is None:
            return failure(command, str(command.get("type")), HOST_LEFT)
        number = f"a{next(self._ids)}"
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[number] = command, answer
        self._pipe.write(encode({**command, "id": number}))
        try:
            return await answer
        finally:
            self._waiting.pop(number, None)

    def post(self, message: Message) -> None:
        """Send what has no response, such as `extension_ui_response`. Never raises."""
        if self._pipe is not None:
            self._pipe.write(encode(message))

    def listen(self, take: Callable[[Message], None]) -> None:
        """Give each event from now on to `take`, and first those that nobody has heard yet."""
        self._take = take
        early, self._early = self._early, []
        for message in early:
            take(message)

    def close(self) -> None:
        """Leave; the session goes on."""
        if self._pid is not None and self._pid.alive:
            send(self._pid, _Close())

    # What the process does.

    def begin(self, pipe: SocketPipe, pid: Pid) -> None:
        """The host has let us in."""
        self._pipe, self._pid = pipe, pid

    def heard(self, message: Message) -> None:
        """An object of the host's came: the answer to a command, or an event."""
        if message.get("type") == "response" and message.get("id") in self._waiting:
            command, answer = self._waiting[str(message["id"])]
            given = {"id": command["id"]} if "id" in command else {}
            if not answer.done():
                answer.set_result({**{name: value for name, value in message.items() if name != "id"}, **given})
            return
        if message.get("type") == "session_opened":
            self.session = str(message.get("sessionId"))
        if self._take is None:
            self._early.append(message)
        else:
            self._take(message)

    def ended(self, reason: str) -> None:
        """Nothing more comes: whoever waits is told, and then the listener."""
        if self._pipe is None:
            return
        self._pipe = None
        for command, answer in list(self._waiting.values()):
            if not answer.done():
                answer.set_result(failure(command, str(command.get("type")), reason))
        self.heard({"type": CLOSED, "reason": reason})


async def _run(path: Path, request: Mapping[str, Any], ready: asyncio.Future[SocketChannel]) -> None:
    splitter = LineSplitter(BACKLOG_MAX)  # a host may have more to say than anybody may say to it
    try:
        pipe = await SocketPipe.to(path, self_pid())
    except OSError as error:
        ready.set_exception(HostUnreachable(f"no host answers at {path}: {error.strerror or error}"))
        return
    channel: SocketChannel | None = None
    reason = HOST_LEFT
    try:
        pipe.write(encode(request))
        while True:
            timeout_s = GREETING_S if channel is None else None
            match await receive(timeout_s=timeout_s):
                case Came(data):
                    pipe.taken()
                    for line in splitter.feed(data):
                        if channel is None:
                            channel = _greeted(line, path)
                            channel.begin(pipe, self_pid())
                            ready.set_result(channel)
                        elif not isinstance(line, TooLong):
                            channel.heard(decode(line))
                case PeerSilent() | PeerGone():
                    if channel is not None:
                        channel.host_left = True
                    return
                case _Close():
                    reason = "it was left"
                    return
                case _:
                    pass
    except (HostUnreachable, BadLine, TimeoutError) as error:
        reason = str(error) or "the host does not answer"
    finally:
        pipe.close()
        if channel is not None:
            channel.ended(reason)
        elif not ready.done():
            ready.set_exception(HostUnreachable(reason))


def _greeted(line: bytes | TooLong, path: Path) -> SocketChannel:
    answer = {} if isinstance(line, TooLong) else decode(line)
    if not answer.get("ok"):
        raise HostUnreachable(str(answer.get("error") or f"the host behind {path} does not say who it is"))
    return SocketChannel(str(answer.get("session")), Path(str(answer.get("cwd") or ".")))
