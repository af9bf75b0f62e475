"""Starts, stops and lists the sessions of this program.

Tree: coding_agent.supervisor / session_supervisor, a `DynamicSupervisor`; each child is `session[id]`, or
`session_root_supervisor[id]` when the session is to come back after a crash
"""

from typing import Final

from coding_agent import session_registry
from coding_agent.errors import CodingAgentError, SessionNotRunning
from coding_agent.session.options import SessionOptions
from coding_agent.session_root_supervisor import root_spec, session_of, session_spec
from lemon_otp import DynamicSupervisor, Pid, Restart, StartFailed, get_env

NAME: Final = "session_supervisor"


async def start_session(options: SessionOptions, *, restart: Restart = "temporary") -> Pid:
    """Start a session and wait until its file is open and its agent runs.

    Args:
        options: The session.
        restart: `temporary` leaves a crashed session alone; with `transient` or `permanent` a new process goes on from
            the session's file.

    Raises:
        SessionError: Its file could not be opened; which error says why. Nothing is left running, nothing was written.
        StartFailed: It could not be started for another reason; see `reason`.
    """
    if (traces := get_env("coding_agent", "traces")) is not None:
        options = traces.of(options)
    try:
        if restart == "temporary":
            return await DynamicSupervisor.start_child(NAME, session_spec(options, restart))
        return await session_of(await DynamicSupervisor.start_child(NAME, root_spec(options, restart)))
    except StartFailed as failed:
        if isinstance(cause := _cause(failed.reason), CodingAgentError):
            raise cause from failed
        raise


async def stop_session(session: Pid | str) -> None:
    """Stop a session and wait until its agent, tools and streams have ended and its file is closed.

    Raises:
        SessionNotRunning: No such session runs here; a second stop finds none either.
    """
    pid = session_registry.lookup(session) if isinstance(session, str) else session
    for child in await DynamicSupervisor.which_children(NAME):
        assert isinstance(child.pid, Pid)
        if pid is not None and pid in (child.pid, await _session_below(child.pid, child.kind)):
            await DynamicSupervisor.terminate_child(NAME, child.pid)
            return
    raise SessionNotRunning(f"no session {session} runs here")


async def list_sessions() -> list[Pid]:
    """The processes of all sessions that run."""
    children = await DynamicSupervisor.which_children(NAME)
    found = [await _session_below(child.pid, child.kind) for child in children if isinstance(child.pid, Pid)]
    return [pid for pid in found if pid is not None]


async def _session_below(pid: Pid, kind: str) -> Pid | None:
    return pid if kind == "worker" else await session_of(pid)


def _cause(reason: object) -> object:
    """What a supervisor with one child says of its failed start, down to the child's own reason."""
    while isinstance(reason, tuple) and reason:
        reason = reason[-1] if not isinstance(reason[0], CodingAgentError) else reason[0]
    return reason
