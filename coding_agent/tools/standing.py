"""The processes that tools rely on, for the tree of this package: before the sessions, in this order."""

from coding_agent.tools import program_keeper, todo_store
from coding_agent.tools.background_program import supervisor_spec
from lemon_otp import ChildSpec


def tool_children() -> list[ChildSpec]:
    """Child specifications of program_keeper, todo_store and background_supervisor."""
    return [program_keeper.child_spec(), todo_store.child_spec(), supervisor_spec()]
