"""The processes that tools rely on, for the tree of this package: before the sessions, in this order."""

from coding_agent.tools import background_supervisor, program_keeper, todo_store
from lemon_otp import ChildSpec


def tool_children() -> list[ChildSpec]:
    """Child specifications of program_keeper, todo_store and background_supervisor."""
    return [program_keeper.child_spec(), todo_store.child_spec(), background_supervisor.child_spec()]
