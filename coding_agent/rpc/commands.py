"""Value. The commands of the protocol by name. What adds one puts it here before a client speaks."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from coding_agent.rpc import asking, choosing, navigating, talking
from coding_agent.rpc.fields import Fields

if TYPE_CHECKING:
    from coding_agent.rpc.connection import RpcConnection

Handler: TypeAlias = "Callable[[RpcConnection, Fields], Awaitable[Any]]"
"""Carries a command out; what it returns is the response's data."""

COMMANDS: dict[str, Handler] = {
    **talking.COMMANDS,
    **choosing.COMMANDS,
    **navigating.COMMANDS,
    **asking.COMMANDS,
}
