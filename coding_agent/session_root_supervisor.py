"""A session that comes back: a supervisor of its own, so that one session that keeps failing takes no other along.

Tree: coding_agent.supervisor / session_supervisor / session_root_supervisor[id], temporary; below it session[id]
"""

from typing import Final

from coding_agent.session.options import SessionOptions
from coding_agent.session.session import Session
from lemon_otp import ChildSpec, Pid, Restart, Supervisor

SESSION_SHUTDOWN_S: Final = 5.0


def session_spec(options: SessionOptions, restart: Restart) -> ChildSpec:
    """How a session is started."""
    name = f"session[{options.session_id}]"
    return Session.child_spec(options, id=name, restart=restart, shutdown=SESSION_SHUTDOWN_S)


def root_spec(options: SessionOptions, restart: Restart) -> ChildSpec:
    """How a supervisor with one session is started; it gives up after three restarts in five seconds, alone."""
    name = f"session_root_supervisor[{options.session_id}]"
    return Supervisor.child_spec(
        [session_spec(options, restart)], strategy="rest_for_one", id=name, restart="temporary"
    )


async def session_of(root: Pid) -> Pid:
    """The session below such a supervisor, as it is now."""
    (child,) = await Supervisor.which_children(root)
    assert isinstance(child.pid, Pid)
    return child.pid
