"""Python of others that takes part: it hears what happens, has a say at fixed points, and adds tools and commands.

An extension is a function that is given an `Extension` and registers what it wants:

    def extension(lemon: Extension) -> None:
        @lemon.on("tool_call")
        async def no_force(event, session):
            if event.tool_name == "bash" and "--force" in event.input.get("command", ""):
                return {"block": True, "reason": "not with --force"}
"""

from coding_agent.extensions.api import Extension
from coding_agent.extensions.session_handle import SessionHandle

__all__ = ["Extension", "SessionHandle"]
