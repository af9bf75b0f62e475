"""Edge. The tool `grep`: lines in files, by ripgrep when it is there and by `search_main` when not, with one answer."""

from typing import Any, Final

from coding_agent.tools.arguments import optional_text
from coding_agent.tools.keeper import found_in_path
from coding_agent.tools.workspace import workspace_for
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, OnUpdate, check_abort

PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "pattern": {"type": "string", "description": "A regular expression, matched within single lines."},
        "path": {"type": "string", "description": "A directory or file; the working directory if not given."},
        "glob": {
            "type": "string",
            "description": "Only files like this, such as *.py or src/**/*.{ts,tsx}; !*.js leaves these out.",
        },
        "case_sensitive": {"type": "boolean", "description": "True if not given."},
        "literal": {"type": "boolean", "description": "Take the pattern as plain text."},
        "context_lines": {"type": "integer", "description": "Lines to show before and after each match."},
        "max_results": {"type": "integer", "description": "How many matching lines; 100 if not given."},
    },
    "required": ["pattern"],
}

DESCRIPTION: Final = (
    "Search the contents of files for a regular expression. Shows path, line number and line. What .gitignore names, "
    ".git directories and binary files are left out; links are not followed. To find files by name use find."
)


def grep_tool(cwd: str, **options: Any) -> AgentTool:
    """The tool `grep` for a working directory; see `Workspace` for the options.

    `ripgrep` is the program's path, None to do without; if not given it is looked for.
    """
    ripgrep = options.pop("ripgrep", "rg")
    workspace = workspace_for(cwd, options)

    async def execute(
        _id: str, params: dict[str, Any], signal: AbortSignal | None = None, _on_update: OnUpdate | None = None
    ) -> AgentToolResult:
        from coding_agent.tools.search import report, request_of, search

        check_abort(signal)
        request = request_of(params)
        place = await workspace.place(optional_text(params, "path") or ".", "read", tolerant=True)
        rg = None if ripgrep is None else found_in_path(ripgrep, workspace.environment()["PATH"])
        with place:
            hits, timed_out = await search(workspace, place, request, rg, signal)
        return report(hits, request, timed_out)

    return AgentTool(
        name="grep",
        label="Search",
        description=DESCRIPTION,
        parameters=PARAMETERS,
        execute=execute,
        main_argument="pattern",
        idempotent=True,
    )
