"""Edge. What a host can be asked about its sessions: which there are, to end one, to stop, to become a client.

`{"op": "live_sessions"}` lists them; `{"op": "rpc", ...}` hands the connection over: the first line back says which
session it is, and from then on both sides speak the RPC protocol.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from coding_agent import client
from coding_agent.errors import SessionNotRunning
from lemon_otp import CallFailed, CallTimeout, Pid, repl, send

if TYPE_CHECKING:
    from coding_agent.hosting.host_parts import Host, OpenSession


class StopServing:
    """Somebody asked for the host's end; sent to the process that serves."""


def offer(host: Host, serving: Pid | None = None) -> None:
    """Let the calling runtime answer for the sessions of this host.

    Args:
        host: Whose sessions.
        serving: The process that keeps the host running for its clients; None where a front end of its own does.
    """
    known = repl.operations()
    mine = operations_of(host, serving)
    repl.add_operation(*(each for each in mine if serving is not None or each.name not in known))


def operations_of(host: Host, serving: Pid | None) -> tuple[repl.Operation, ...]:
    """The operations that `offer` adds; each has a name that no other operation has."""

    async def live_sessions(_: Mapping[str, Any]) -> Mapping[str, Any]:
        return await listed(host, serving=serving is not None)

    async def end_session(request: Mapping[str, Any]) -> Mapping[str, Any]:
        return await end(host, str(request.get("session") or ""))

    def stop_serving(_: Mapping[str, Any]) -> Mapping[str, Any]:
        if serving is None or not serving.alive:
            raise repl.Refusal("this host does not serve: whoever started it ends it", "not_serving")
        send(serving, StopServing())
        return {"os_pid": os.getpid()}

    async def leave_folder(request: Mapping[str, Any]) -> Mapping[str, Any]:
        return await leave(host, str(request.get("cwd") or ""))

    async def rpc(taken: repl.Taken) -> None:
        from coding_agent.serving.client import hand_over

        await hand_over(host, taken)

    return (
        repl.Operation("live_sessions", live_sessions, "act", "the sessions clients can look at, and who does"),
        repl.Operation("end_session", end_session, "act", "end a session; it is stored", timeout_s=30.0),
        repl.Operation("stop_serving", stop_serving, "act", "store every session and end a host that serves"),
        repl.Operation("leave_folder", leave_folder, "act", "store the sessions of a folder; serve it no more"),
        repl.Operation("rpc", rpc, "takeover", "become a client of one session"),
    )


async def listed(host: Host, *, serving: bool) -> dict[str, Any]:
    """The host, and its sessions in the order in which they were opened."""
    return {
        "os_pid": os.getpid(),
        "cwd": str(host.settings.cwd),
        "folders": [str(each.settings.cwd) for each in host.folders.all()],
        "serving": serving,
        "sessions": [await described(one) for one in host.folders.sessions()],
    }


async def described(one: OpenSession) -> dict[str, Any]:
    """One session: what it is called, what it is at, who looks at it."""
    found: dict[str, Any] = {
        "id": one.session_id,
        "cwd": str(one.host.settings.cwd),
        "file": str(one.file),
        "clients": one.clients,
        "openQuestions": len(one.dialogs.open),
        "state": "busy",
    }
    with suppress(CallFailed, CallTimeout):
        state = await client.get_state(one.pid)
        waits = bool(one.dialogs.open)
        found |= {
            "id": state.session_id,
            "name": state.name,
            "model": state.model,
            "messages": state.message_count,
            "state": "asking" if waits else "working" if state.phase == "turn" else state.phase,
        }
    return found


async def leave(host: Host, cwd: str) -> dict[str, Any]:
    """Work no more in one of several folders; its sessions are stored and end."""
    there = host.folders.at(cwd)
    if there is None or there is host:
        raise repl.Refusal(f"{cwd} is no folder that this host can leave", "no_such_folder")
    return {"cwd": cwd, "sessions": await host.folders.leave(there)}


async def end(host: Host, session_id: str) -> dict[str, Any]:
    """End a session whoever looks at it; what it was doing is aborted and stored."""
    try:
        one = host.folders.find(session_id)
    except SessionNotRunning as error:
        raise repl.Refusal(str(error), "no_such_session") from error
    await one.host.sessions.close(one)
    return {"session": one.session_id, "file": str(one.file)}
