"""Starts and lists the servers of the Model Context Protocol, and who keeps their tools together.

Tree: coding_agent.supervisor / mcp_supervisor, a `DynamicSupervisor`; each child is `mcp_toolbox[id]`, one a session
that has servers, or `mcp_server[name]`
"""

from typing import Final

from lemon_otp import ChildSpec, DynamicSupervisor

NAME: Final = "mcp_supervisor"


def child_spec() -> ChildSpec:
    """For the tree of this package: after `program_keeper`, which starts the programs."""
    return DynamicSupervisor.child_spec(id=NAME, name=NAME, max_restarts=20, max_seconds=10.0)
