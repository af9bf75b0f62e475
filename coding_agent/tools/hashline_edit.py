"""Edge. The tool `hashline_edit`: change lines that are named by number and two letters of their content.

It stands in for `edit` where a model is better at naming lines than at repeating them: `default_tools(cwd,
hashlines=True)`. `read` then shows the names.
"""

from typing import TYPE_CHECKING, Any, Final

from coding_agent.tools.arguments import required_text
from coding_agent.tools.workspace import in_thread, workspace_for
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, OnUpdate, ToolError, check_abort, text_result

if TYPE_CHECKING:
    from coding_agent.tools.files import Fence, Version
    from coding_agent.tools.hashlines import HashlineEdit
    from coding_agent.tools.paths import Place

PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file, relative to the working directory or absolute."},
        "edits": {
            "type": "array",
            "description": "All of them are made, or none. Each refers to the file as it was read.",
            "items": {
                "type": "object",
                "properties": {
                    "op": {
                        "type": "string",
                        "enum": ["replace", "append", "prepend"],
                        "description": "replace the lines from pos to end; append after pos; prepend before pos.",
                    },
                    "pos": {
                        "type": "string",
                        "description": "A line as read names it, such as 5#ZP. append without it: at the end of the "
                        "file; prepend without it: at the beginning.",
                    },
                    "end": {"type": "string", "description": "With replace: the last line; pos alone if not given."},
                    "lines": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "The new lines, without names and line ends; none takes lines away.",
                    },
                },
                "required": ["op"],
            },
        },
    },
    "required": ["path", "edits"],
}

DESCRIPTION: Final = (
    "Edit a text file by lines. Name each line as read shows it in front of the colon, number and letters; when a line "
    "is not that any more nothing is changed and its new name is told. Line ends and encoding stay as they are."
)


def hashline_edit_tool(cwd: str, **options: Any) -> AgentTool:
    """The tool `hashline_edit` for a working directory; see `Workspace` for the options. Not among the usual tools."""
    workspace = workspace_for(cwd, options)

    async def execute(
        _id: str, params: dict[str, Any], signal: AbortSignal | None = None, _on_update: OnUpdate | None = None
    ) -> AgentToolResult:
        from coding_agent.tools.hashlines import BadHashline, edits_of

        check_abort(signal)
        path = required_text(params, "path", "Path is required")
        try:
            edits = edits_of(params.get("edits"))
        except BadHashline as bad:
            raise ToolError(str(bad)) from bad
        async with workspace.turn(path):
            place = await workspace.place(path, "write", tolerant=True)
            async with workspace.writing(place.real):
                version, real, answer = await in_thread(changed, place, edits, signal=signal)
                workspace.seen[real] = version
        return answer

    return AgentTool(
        name="hashline_edit",
        label="Edit",
        description=DESCRIPTION,
        parameters=PARAMETERS,
        execute=execute,
        main_argument="path",
    )


def changed(place: "Place", edits: "list[HashlineEdit]", fence: "Fence") -> "tuple[Version, str, AgentToolResult]":
    """Read, change in memory, replace; in a worker thread.

    Raises:
        ToolError: Some edit does not fit; the file is as it was.
    """
    from coding_agent.tools import diff
    from coding_agent.tools.edit_file import FILE_BYTES_MAX
    from coding_agent.tools.files import Version, read_bytes, replace
    from coding_agent.tools.hashlines import BadHashline, plan
    from coding_agent.tools.text_file import NotText, decode

    with place:
        data, status = read_bytes(place, FILE_BYTES_MAX)
        try:
            file = decode(data)
            changes, same = plan(file.text, edits)
            new = file.spliced([(change.start, change.end, change.new) for change in changes])
        except NotText:
            raise ToolError(f"{place.given} is a binary file; hashline_edit changes text only") from None
        except BadHashline as bad:
            raise ToolError(str(bad)) from bad
        except UnicodeEncodeError as error:
            char = error.object[error.start]
            raise ToolError(f"{place.given} is encoded in {file.encoding}, which has no {char!r}") from None
        if not changes:
            raise ToolError(f"No changes made to {place.given}: the lines are already like that")
        after = replace(place, new, fence, expected=Version.of(status))
        first = diff.first_changed_line(file.text, changes)
        shown = diff.unified(file.text, changes, first)
        made = len(edits) - same
        text = f"Successfully made {made} {'edit' if made == 1 else 'edits'} in {place.shown}."
        if same:
            text += f" {same} changed nothing."
        details = {
            "path": place.shown,
            "diff": shown,
            "first_changed_line": first,
            "edits": made,
            "unchanged": same,
            "encoding": file.encoding,
        }
        return Version.of(after), place.real, text_result(f"{text}\n{shown}", details)
