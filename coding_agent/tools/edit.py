"""Edge. The tool `edit`: replace text in a file, one place or several, all or none."""

from typing import Any, Final

from coding_agent.tools.arguments import required_text
from coding_agent.tools.workspace import in_thread, workspace_for
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, OnUpdate, check_abort

PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file, relative to the working directory or absolute."},
        "old_text": {
            "type": "string",
            "description": "The text to replace, exactly as it stands in the file; it must occur only once.",
        },
        "new_text": {"type": "string", "description": "What to put in its place."},
        "replace_all": {"type": "boolean", "description": "Replace every occurrence instead of the only one."},
        "edits": {
            "type": "array",
            "description": "Instead of old_text and new_text: several replacements, made together or not at all. "
            "Each refers to the file as it is now; they must not overlap.",
            "items": {
                "type": "object",
                "properties": {
                    "old_text": {"type": "string"},
                    "new_text": {"type": "string"},
                    "replace_all": {"type": "boolean"},
                },
                "required": ["old_text", "new_text"],
            },
        },
    },
    "required": ["path"],
}

DESCRIPTION: Final = (
    "Edit a text file by replacing exact text. old_text must match the file, including indentation, and be unique; "
    "take more surrounding lines when it is not, or set replace_all. Line endings, encoding and everything outside the "
    "replaced text stay as they are."
)


def edit_tool(cwd: str, **options: Any) -> AgentTool:
    """The tool `edit` for a working directory; see `Workspace` for the options."""
    workspace = workspace_for(cwd, options)

    async def execute(
        _id: str, params: dict[str, Any], signal: AbortSignal | None = None, _on_update: OnUpdate | None = None
    ) -> AgentToolResult:
        from coding_agent.tools.edit_file import apply, edits_of, report

        check_abort(signal)
        edits = edits_of(params)
        path = required_text(params, "path", "Path is required")
        async with workspace.turn(path):
            place = await workspace.place(path, "write", tolerant=True)
            async with workspace.writing(place.real):
                edited = await in_thread(apply, place, edits, workspace.seen.get(place.real), signal=signal)
                workspace.seen[edited.real] = edited.version
        return report(edited)

    return AgentTool(
        name="edit",
        label="Edit",
        description=DESCRIPTION,
        parameters=PARAMETERS,
        execute=execute,
        main_argument="path",
    )
