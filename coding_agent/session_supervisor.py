"""Starts, stops and lists the sessions of this program.

Tree: coding_agent.supervisor / session_supervisor, a `DynamicSupervisor`; each child is `session[id]`
A crashed session is not started again unless it was asked to be (`restart="transient"` or `"permanent"`); then the new
process goes on from the session's file.
"""

from typing import Final

from coding_agent import session_registry
from coding_agent.errors import CodingAgentError, SessionNotRunning
from coding_agent.session.options import SessionOptions
from coding_agent.session.session import Session
from lemon_otp import DynamicSupervisor, Pid, Restart, StartFailed

NAME: Final = "session_supervisor"
SHUTDOWN_S: Final = 5.0


async def start_session(options: SessionOptions, *, restart: Restart = "temporary") -> Pid:
    """Start a session and wait until its file is open and its agent runs.

    Raises:
        SessionError: Its file could not be opened; which error says why. Nothing is left running, nothing was written.
        StartFailed: It could not be started for another reason; see `reason`.
    """
    spec = Session.child_spec(options, id=f"session[{options.session_id}]", restart=restart, shutdown=SHUTDOWN_S)
    try:
        return await DynamicSupervisor.start_child(NAME, spec)
    except StartFailed as failed:
        if isinstance(failed.reason, CodingAgentError):
            raise failed.reason from failed
        raise


async def stop_session(session: Pid | str) -> None:
    """Stop a session and wait until its agent, tools and streams have ended and its file is closed.

    Raises:
        SessionNotRunning: No such session runs here; a second stop finds none either.
    """
    pid = session_registry.lookup(session) if isinstance(session, str) else session
    if pid is None or not pid.alive:
        raise SessionNotRunning(str(session))
    await DynamicSupervisor.terminate_child(NAME, pid)


async def list_sessions() -> list[Pid]:
    """The processes of all sessions that run."""
    return [child.pid for child in await DynamicSupervisor.which_children(NAME) if isinstance(child.pid, Pid)]
