"""The application `coding_agent`: its tree, and what must run before it.

coding_agent.supervisor      one_for_one
├─ session_registry          unique keys
├─ session_supervisor        dynamic: session[id], one a conversation
├─ job_scheduler             bounded background jobs: summaries, exports
└─ ...                       what a host adds: listener
"""

from typing import Final

from coding_agent import session_registry, session_supervisor
from coding_agent.session.summary_job import JOB_SCHEDULER
from lemon_agent import APPLICATION as LEMON_AGENT
from lemon_otp import Application, ChildSpec, DynamicSupervisor, JobScheduler, Pid, Registry, Supervisor

SUPERVISOR: Final = "coding_agent.supervisor"


async def start() -> Pid:
    """Start the top supervisor with its standing children."""
    children = [
        Registry.child_spec(session_registry.NAME, keys="unique"),
        DynamicSupervisor.child_spec(id=session_supervisor.NAME, name=session_supervisor.NAME),
        JobScheduler.child_spec(name=JOB_SCHEDULER),
    ]
    return await Supervisor.start_link(children, strategy="one_for_one", name=SUPERVISOR)


async def add_child(spec: ChildSpec) -> Pid | None:
    """Let the tree carry one more child, started after and stopped before all that stand there."""
    return await Supervisor.start_child(SUPERVISOR, spec)


APPLICATION: Final = Application("coding_agent", start, deps=(LEMON_AGENT,))
