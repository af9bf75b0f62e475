"""Value. The commands of the protocol by name. What adds one puts it here before a client speaks."""

from coding_agent.rpc import asking, choosing, navigating, talking
from coding_agent.rpc.here import Handler

COMMANDS: dict[str, Handler] = {
    **talking.COMMANDS,
    **choosing.COMMANDS,
    **navigating.COMMANDS,
    **asking.COMMANDS,
}
