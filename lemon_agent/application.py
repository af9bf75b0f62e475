"""The application `lemon_agent`: its tree, and what must run before it.

lemon_agent.supervisor       one_for_one
├─ table_owner               owns the table of abort signals in use
├─ agent_registry            unique keys: (session id, role, number)
├─ subagent_supervisor       dynamic: one agent each
├─ loop_task_supervisor      tasks: one run each
├─ tool_task_supervisor      tasks: one tool call each
└─ model_router              which credentials rest, whose turn it is
"""

from typing import Final

from lemon_agent import agent_registry, subagent_supervisor
from lemon_agent.abort_signal import TableOwner
from lemon_agent.loop.loop import LOOP_TASK_SUPERVISOR
from lemon_agent.model_runtime.model_router import MODEL_ROUTER, ModelRouter
from lemon_ai import APPLICATION as LEMON_AI
from lemon_otp import Application, ChildSpec, Pid, Supervisor, TaskSupervisor

SUPERVISOR: Final = "lemon_agent.supervisor"
TABLE_OWNER: Final = "table_owner"
TOOL_TASK_SUPERVISOR: Final = "tool_task_supervisor"


def children() -> list[ChildSpec]:
    """The children of the top supervisor, in the order they are started."""
    return [
        TableOwner.child_spec(id=TABLE_OWNER, name=TABLE_OWNER),
        agent_registry.child_spec(),
        subagent_supervisor.child_spec(),
        TaskSupervisor.child_spec(id=LOOP_TASK_SUPERVISOR, name=LOOP_TASK_SUPERVISOR),
        TaskSupervisor.child_spec(id=TOOL_TASK_SUPERVISOR, name=TOOL_TASK_SUPERVISOR),
        ModelRouter.child_spec(id=MODEL_ROUTER, name=MODEL_ROUTER),
    ]


async def start() -> Pid:
    """Start the tree and return its top supervisor."""
    return await Supervisor.start_link(children(), strategy="one_for_one", name=SUPERVISOR)


APPLICATION: Final = Application("lemon_agent", start, deps=(LEMON_AI,))
