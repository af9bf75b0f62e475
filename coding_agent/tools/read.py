"""Edge. The tool `read`: part of a text file with its line numbers, a picture, or a notebook as text."""

from typing import Any, Final

from coding_agent.tools.arguments import optional_number, required_text
from coding_agent.tools.workspace import in_thread, workspace_for
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, OnUpdate, check_abort

LINES_MAX: Final = 2_000

PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file, relative to the working directory or absolute."},
        "offset": {"type": "integer", "description": "The line to begin with, from 1."},
        "limit": {"type": "integer", "description": f"How many lines; at most {LINES_MAX} are shown."},
        "byte_offset": {
            "type": "integer",
            "description": "Begin at this byte of the file instead of at a line, to go on within a very long line.",
        },
    },
    "required": ["path"],
}

DESCRIPTION: Final = (
    "Read a file. Text comes with line numbers, which are not part of it; at most "
    f"{LINES_MAX} lines or 50 kB are shown, and the last line then says how to go on. "
    "Pictures (png, jpeg, gif, webp) are shown, notebooks come as text. Binary files are refused."
)


def read_tool(cwd: str, **options: Any) -> AgentTool:
    """The tool `read` for a working directory; see `Workspace` for the options.

    With `hashlines` lines are named for `hashline_edit`, by number and two letters of their content.
    """
    hashlines = bool(options.pop("hashlines", False))
    workspace = workspace_for(cwd, options)

    async def execute(
        _id: str, params: dict[str, Any], signal: AbortSignal | None = None, _on_update: OnUpdate | None = None
    ) -> AgentToolResult:
        from coding_agent.tools.read_file import Shown, look

        check_abort(signal)
        path = required_text(params, "path", "Path is required")
        offset = max(1, optional_number(params, "offset", 1, least=-(2**62)))
        limit = optional_number(params, "limit", LINES_MAX, most=LINES_MAX)
        byte_offset = optional_number(params, "byte_offset", -1, least=0)
        place = await workspace.place(path, "read", tolerant=True)
        shown = Shown(shrink=workspace.shrinks_pictures, hashlines=hashlines)
        answer = await in_thread(look, place, offset, limit, byte_offset, shown, signal=signal)
        workspace.seen[answer.real] = answer.version
        return answer.result

    return AgentTool(
        name="read",
        label="Read",
        description=DESCRIPTION,
        parameters=PARAMETERS,
        execute=execute,
        main_argument="path",
        idempotent=True,
    )
