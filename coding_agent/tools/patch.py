"""Edge. The tool `patch`: changes in many files at once, all of them or none."""

from typing import Any, Final

from coding_agent.tools.arguments import required_text
from coding_agent.tools.workspace import in_thread, workspace_for
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, OnUpdate, check_abort

PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "patch_text": {
            "type": "string",
            "description": "*** Begin Patch, then for each file *** Add File: PATH with + lines, "
            "*** Delete File: PATH, or *** Update File: PATH (perhaps *** Move to: PATH) with hunks: @@ and "
            "perhaps a line to look for, then lines that begin with a space (kept), - (removed) or + (added). "
            "At the end *** End Patch.",
        }
    },
    "required": ["patch_text"],
}

DESCRIPTION: Final = (
    "Change several files in one step: add, update, move, delete. Hunks are found by their kept and removed lines, "
    "which must stand in the file exactly. Everything is checked before anything is changed."
)


def patch_tool(cwd: str, **options: Any) -> AgentTool:
    """The tool `patch` for a working directory; see `Workspace` for the options."""
    workspace = workspace_for(cwd, options)

    async def execute(
        _id: str, params: dict[str, Any], signal: AbortSignal | None = None, _on_update: OnUpdate | None = None
    ) -> AgentToolResult:
        from coding_agent.tools.patch_files import Patching, paths_in, report

        check_abort(signal)
        text = required_text(params, "patch_text", "patch_text is required")
        async with workspace.turn(*paths_in(text)):
            patching = await Patching.of(workspace, text)
            async with patching.locked():
                done = await in_thread(patching.apply, signal=signal)
                for real, version in done.versions.items():
                    workspace.saw(real, version)
        return report(done)

    return AgentTool(
        name="patch",
        label="Patch",
        description=DESCRIPTION,
        parameters=PARAMETERS,
        execute=execute,
    )
