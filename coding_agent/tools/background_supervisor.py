"""Starts and lists the programs that run in the background.

Tree: coding_agent.supervisor / background_supervisor, a `DynamicSupervisor`; each child is `background_program[id]`
"""

from typing import Final

from lemon_otp import ChildSpec, DynamicSupervisor

NAME: Final = "background_supervisor"


def child_spec() -> ChildSpec:
    """For the tree of this package: after `program_keeper`."""
    return DynamicSupervisor.child_spec(id=NAME, name=NAME)
