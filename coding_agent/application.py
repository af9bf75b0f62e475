"""The application `coding_agent`: its tree, and what must run before it.

coding_agent.supervisor      one_for_one
├─ session_registry          unique keys
├─ session_supervisor        dynamic: session[id], one a conversation
├─ job_scheduler             bounded background jobs: summaries, exports
├─ lane_queue                seats in lanes: how many subagents may work at one time
├─ subagent_task_supervisor  tasks: subagent[id], one a subagent, each the owner of its session
├─ coordinator_supervisor    dynamic: coordinator[session id], one a session that has had subagents
├─ program_keeper            owns the helper that starts what tools run, and ends it all
├─ todo_store                the sessions' lists of things to do
├─ background_supervisor     dynamic: background_program[id], one a program that runs on
├─ mcp_supervisor            dynamic: mcp_toolbox[id] and mcp_server[name], what a session has of MCP
└─ ...                       what a host adds: listener; desk_supervisor and client_supervisor, once somebody comes
"""

from typing import Final

from coding_agent import session_registry, session_supervisor
from coding_agent.lane_queue import NAME as LANE_QUEUE
from coding_agent.lane_queue import LaneQueue
from coding_agent.mcp import mcp_supervisor
from coding_agent.session.summary_job import JOB_SCHEDULER
from coding_agent.tools import tool_children
from lemon_agent import APPLICATION as LEMON_AGENT
from lemon_otp import Application, ChildSpec, DynamicSupervisor, JobScheduler, Pid, Registry, Supervisor, TaskSupervisor

SUPERVISOR: Final = "coding_agent.supervisor"
SUBAGENT_TASK_SUPERVISOR: Final = "subagent_task_supervisor"
COORDINATOR_SUPERVISOR: Final = "coordinator_supervisor"


async def start() -> Pid:
    """Start the top supervisor with its standing children."""
    children = [
        Registry.child_spec(session_registry.NAME, keys="unique"),
        DynamicSupervisor.child_spec(id=session_supervisor.NAME, name=session_supervisor.NAME),
        JobScheduler.child_spec(name=JOB_SCHEDULER),
        LaneQueue.child_spec(name=LANE_QUEUE),
        TaskSupervisor.child_spec(id=SUBAGENT_TASK_SUPERVISOR, name=SUBAGENT_TASK_SUPERVISOR),
        DynamicSupervisor.child_spec(id=COORDINATOR_SUPERVISOR, name=COORDINATOR_SUPERVISOR),
        *tool_children(),
        mcp_supervisor.child_spec(),
    ]
    return await Supervisor.start_link(children, strategy="one_for_one", name=SUPERVISOR)


async def add_child(spec: ChildSpec) -> Pid | None:
    """Let the tree carry one more child, started after and stopped before all that stand there."""
    return await Supervisor.start_child(SUPERVISOR, spec)


APPLICATION: Final = Application("coding_agent", start, deps=(LEMON_AGENT,))
