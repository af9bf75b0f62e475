"""Value. What a session gives its MCP servers when they ask something of it."""

from pathlib import Path

from attrs import field, frozen

from coding_agent.hosting.dialogs import Dialogs
from coding_agent.mcp.standing import Standing
from coding_agent.permissions.gate import PermissionGate


@frozen(eq=False)
class Backing:
    """What a session gives its servers when they ask.

    Attributes:
        roots: The folders it works in.
        dialogs: Its questions to a person; None where nobody is there.
        gate: Decides whether a server may have the model answer.
        sampling: The person lets servers ask the model at all.
        standing: Knows which session it is.
    """

    roots: tuple[Path, ...] = ()
    dialogs: Dialogs | None = field(default=None, repr=False)
    gate: PermissionGate | None = field(default=None, repr=False)
    sampling: bool = False
    standing: Standing = field(factory=Standing, repr=False)
