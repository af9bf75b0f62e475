"""Process. A client that came through the control socket, from its first line to its last.

Tree:  coding_agent.supervisor / client_supervisor / client[n], temporary
Owns:  the connection and a desk; the session is the host's and goes on without it

A client that is killed, closes its end, leaves 512 MiB unread or talks nonsense ends its own process and nothing else.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from coding_agent.application import add_child
from coding_agent.errors import BadUsage, CodingAgentError, SessionNotRunning
from coding_agent.hosting.desk import Desk
from coding_agent.hosting.host_parts import Host, OpenSession, Wanted
from coding_agent.rpc.framing import encode
from coding_agent.rpc.lines import CONGESTED, LineClient
from coding_agent.serving.socket_pipe import Came, PeerGone, PeerSilent, SocketPipe
from lemon_otp import CallFailed, MaxChildren, OtpError, TaskSupervisor, receive, repl, self_pid, whereis

SUPERVISOR: Final = "client_supervisor"
CLIENTS_MAX: Final = 64
LAST_ANSWERS_S: Final = 60.0
"""How long a client that only listens any more waits for what it has asked."""

_numbers: Final = itertools.count(1)
_log: Final = logging.getLogger(__name__)


async def hand_over(host: Host, taken: repl.Taken) -> None:
    """Start the process of a client and let it have the connection.

    Raises:
        Refusal: There are too many clients.
    """
    if whereis(SUPERVISOR) is None:
        with suppress(OtpError):  # another client was quicker
            spec = TaskSupervisor.child_spec(id=SUPERVISOR, name=SUPERVISOR, max_children=CLIENTS_MAX)
            await add_child(spec)
    own = taken.socket.dup()
    try:
        arguments = (host, own, dict(taken.request), taken.received)
        await TaskSupervisor.start_child(SUPERVISOR, serve_client, *arguments, label=f"client[{next(_numbers)}]")
    except BaseException as error:
        own.close()
        if isinstance(error, MaxChildren):
            raise repl.Refusal(f"{CLIENTS_MAX} clients are here already", "too_many") from error
        raise


async def serve_client(host: Host, connected: socket.socket, request: Mapping[str, Any], early: bytes) -> None:
    """Be one client until it goes. However this process ends, its desk leaves the session."""
    pipe = await SocketPipe.over(connected, self_pid())
    try:
        session = await _let_in(host, pipe, request)
        if session is None:
            return
        desk = await Desk.start(session.host)
        await _serve(desk, session, pipe, request, early)
    finally:
        pipe.close()
    await desk.close()


async def _let_in(host: Host, pipe: SocketPipe, request: Mapping[str, Any]) -> OpenSession | None:
    """The session a client is to look at, after its first line; None when it was refused, and told why."""
    try:
        session = await asked_for(host, request)
    except (CodingAgentError, OSError) as error:
        code = "no_such_session" if isinstance(error, SessionNotRunning) else "failed"
        pipe.write(encode({"ok": False, "error": str(error), "code": code}))
        return None
    except Exception as error:  # a bug of ours: the client is told, and the crash is reported
        pipe.write(encode({"ok": False, "error": f"{type(error).__name__}: {error}", "code": "failed"}))
        raise
    cwd = str(session.host.settings.cwd)
    pipe.write(encode({"ok": True, "session": session.session_id, "file": str(session.file), "cwd": cwd}))
    return session


async def _serve(desk: Desk, session: OpenSession, pipe: SocketPipe, request: Mapping[str, Any], early: bytes) -> None:
    deltas = request.get("rpcDeltas") is True
    client = LineClient(desk, pipe.write, deltas=deltas, congested=lambda: pipe.backlog > CONGESTED)
    try:
        await desk.look_at(session, reason="start")
        if session.host is not session.host.folders.first:  # of the first folder, whoever started the host was told
            desk.tell_notices()
        client.feed(early)
        await _talk(client, pipe)
    except CallFailed as error:
        _log.warning("a client's session ended before it could be looked at: %s", error.reason)
    finally:
        client.connection.close()


async def _talk(client: LineClient, pipe: SocketPipe) -> None:
    while True:
        match await receive(lambda message: isinstance(message, Came | PeerSilent | PeerGone)):
            case Came(data):
                pipe.taken()
                client.feed(data)
            case PeerSilent():
                client.finish()
                if not pipe.hung_up:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(LAST_ANSWERS_S):
                            await client.connection.settled()
                return
            case PeerGone(reason):
                _log.info("a client has gone: %s", reason)
                return


async def asked_for(host: Host, request: Mapping[str, Any]) -> OpenSession:
    """The session a client wants: one that runs, by its id or the beginning of it; the one in a file; a new one.

    With a `cwd` the new one, or the one in a file that says nothing of its folder, is of that folder.

    Raises:
        SessionNotRunning: None of that id runs here, or several do.
        CodingAgentError: It cannot be opened, or the folder not be served.
    """
    wanted, file, cwd = (request.get(name) for name in ("session", "file", "cwd"))
    if isinstance(wanted, str) and wanted:
        return host.folders.find(wanted)
    there = host if cwd is None else await host.folders.add(_whole(cwd))
    if isinstance(file, str) and file:
        path = _whole(file)
        there = await host.folders.of_file(path, there)
        return await there.sessions.open(Wanted(file=path))
    if wanted is None and file is None:
        return await there.sessions.open(Wanted())
    raise BadUsage("session and file are texts")


def _whole(path: Any) -> Path:
    if not isinstance(path, str) or not Path(path).is_absolute():
        raise BadUsage("the path of a session file or a folder is given whole")
    return Path(path)
