"""Edge. The tool `write`: create a file, or replace all of it."""

from typing import Any, Final

from coding_agent.tools.arguments import required_text
from coding_agent.tools.files import Fence, Version, read_bytes, replace
from coding_agent.tools.paths import Place
from coding_agent.tools.workspace import in_thread, workspace_for
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, OnUpdate, ToolError, check_abort, text_result

DIFFED_BYTES_MAX: Final = 512 * 1024

PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file, relative to the working directory or absolute."},
        "content": {"type": "string", "description": "Everything the file shall contain."},
    },
    "required": ["path", "content"],
}

DESCRIPTION: Final = (
    "Write a file: creates it with its parent directories, or replaces everything in it. "
    "To change part of a file use edit instead."
)


def write_tool(cwd: str, **options: Any) -> AgentTool:
    """The tool `write` for a working directory; see `Workspace` for the options."""
    workspace = workspace_for(cwd, options)

    async def execute(
        _id: str, params: dict[str, Any], signal: AbortSignal | None = None, _on_update: OnUpdate | None = None
    ) -> AgentToolResult:
        if signal is not None and signal.aborted:
            raise ToolError("aborted")
        path = required_text(params, "path", "Path is required")
        content = required_text(params, "content", "Content is required", empty=True)
        async with workspace.turn(path):
            place = await workspace.place(path, "write")
            real, shown = place.real, place.shown
            async with workspace.writing(real):
                check_abort(signal)
                data, seen = encoded(content), workspace.seen.get(real)
                version, details = await in_thread(put, place, data, seen, signal=signal)
                workspace.seen[real] = version
        return text_result(f"Successfully wrote {details['bytes_written']} bytes to {path}", {"path": shown, **details})

    return AgentTool(
        name="write",
        label="Write",
        description=DESCRIPTION,
        parameters=PARAMETERS,
        execute=execute,
        main_argument="path",
    )


def encoded(content: str) -> bytes:
    """The bytes of the content.

    Raises:
        ToolError: It holds half a surrogate pair, which no file can.
    """
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"content holds half a character (a lone surrogate) at position {error.start}") from None


def put(place: Place, data: bytes, seen: Version | None, fence: Fence) -> tuple[Version, dict[str, Any]]:
    """Write in a worker thread; returns the new version and the details.

    Raises:
        ToolError: It could not be done, or would undo somebody's change that the model has not seen.
    """
    with place:
        before = place.status
        expected = None if before is None else Version.of(before)
        if expected is not None and seen is not None and seen != expected:
            raise ToolError(
                f"{place.given} was changed by somebody else since it was last read; read it again before replacing it"
            )
        changed = {} if before is None else difference(place, data)
        after = replace(place, [data], fence, expected=expected)
    return Version.of(after), {
        "bytes_written": len(data),
        "created": before is None,
        "formatted": False,
        **changed,
    }


def difference(place: Place, data: bytes) -> dict[str, Any]:
    """The diff for the screen, when both versions are text of a size somebody may want to look at."""
    if place.status is None or max(place.status.st_size, len(data)) > DIFFED_BYTES_MAX:
        return {}
    from coding_agent.tools import diff
    from coding_agent.tools.text_file import NotText, decode

    try:
        old, new = decode(read_bytes(place, DIFFED_BYTES_MAX)[0]).text, decode(data).text
    except (NotText, ToolError):
        return {}
    return {"diff": diff.whole(old, new)}
