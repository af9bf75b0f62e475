"""Edge. The tool `ls`: what is in a directory."""

import os
import stat
from collections.abc import Callable
from typing import Any, Final

from attrs import frozen

from coding_agent.tools.arguments import optional_flag, optional_number, optional_text
from coding_agent.tools.files import Fence
from coding_agent.tools.find import in_concealed, printable
from coding_agent.tools.folders import open_folder
from coding_agent.tools.paths import Place, path_error
from coding_agent.tools.truncate import MAX_BYTES, whole_lines
from coding_agent.tools.visible_text import reveal
from coding_agent.tools.walk import walk
from coding_agent.tools.workspace import in_thread, workspace_for
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, OnUpdate, check_abort, text_result

ENTRIES: Final = 500
ENTRIES_MAX: Final = 5_000
COUNTED_MAX: Final = 200_000

PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The directory; the working directory if not given."},
        "all": {"type": "boolean", "description": "Names that begin with a dot too."},
        "long": {"type": "boolean", "description": "With mode, size and time of the last change."},
        "recursive": {"type": "boolean", "description": "What is in its directories too."},
        "max_depth": {"type": "integer", "description": "How many levels deep, with recursive."},
        "max_entries": {"type": "integer", "description": f"How many at most; {ENTRIES} if not given."},
    },
}

DESCRIPTION: Final = (
    "List a directory: directories first, then files, by name. `d` marks a directory, `l` a link, `?` anything else "
    "that is not a file."
)
MARKS: Final = {"directory": "d", "file": "-", "link": "l", "other": "?"}


@frozen
class Listed:
    """One entry, with what `long` shows."""

    path: str
    kind: str
    depth: int
    status: os.stat_result | None
    target: str

    @property
    def order(self) -> tuple[int, str, str, bool, str, str]:
        """By depth and directory, in it directories first, then by name without regard to capitals."""
        folder, _, name = self.path.rpartition("/")
        return self.depth, folder.casefold(), folder, self.kind != "directory", name.casefold(), name


def ls_tool(cwd: str, **options: Any) -> AgentTool:
    """The tool `ls` for a working directory; see `Workspace` for the options."""
    workspace = workspace_for(cwd, options)

    async def execute(
        _id: str, params: dict[str, Any], signal: AbortSignal | None = None, _on_update: OnUpdate | None = None
    ) -> AgentToolResult:
        check_abort(signal)
        listing = Listing(params)
        place = await workspace.place(optional_text(params, "path") or ".", "read", tolerant=True)
        return await in_thread(listing.run, place, workspace.concealed("ls", place), signal=signal)

    return AgentTool(
        name="ls",
        label="List",
        description=DESCRIPTION,
        parameters=PARAMETERS,
        execute=execute,
        main_argument="path",
        idempotent=True,
    )


class Listing:
    """What is asked for.

    Raises:
        ToolError: An argument makes no sense.
    """

    def __init__(self, params: dict[str, Any]) -> None:
        self.all = optional_flag(params, "all")
        self.long = optional_flag(params, "long")
        self.recursive = optional_flag(params, "recursive")
        depth = optional_number(params, "max_depth", 0) or None
        self.max_depth = depth if self.recursive else 1
        self.max_entries = optional_number(params, "max_entries", ENTRIES, most=ENTRIES_MAX)

    def run(self, place: Place, concealed: Callable[[str], bool] | None, fence: Fence) -> AgentToolResult:
        """List and report, in a worker thread."""
        with place:
            if place.status is not None and not place.is_dir:
                entries = [self._file(place)]
            else:
                entries = self._entries(place, concealed, fence)
        entries.sort(key=lambda entry: entry.order)
        return self._report(place, entries)

    def _entries(self, place: Place, concealed: Callable[[str], bool] | None, fence: Fence) -> list[Listed]:
        found = []
        with open_folder(place) as folder:
            for path, name, kind, depth, directory in walk(
                folder, fence.check, max_depth=self.max_depth, hidden=self.all
            ):
                if concealed is not None and in_concealed(path, concealed):
                    continue
                found.append(self._listed(path, name, kind, depth, directory))
                if len(found) >= COUNTED_MAX:
                    break
        return found

    def _listed(self, path: str, name: str, kind: str, depth: int, directory: int) -> Listed:
        status, target = None, ""
        try:
            if kind == "link":
                target = os.readlink(name, dir_fd=directory)
            if self.long:
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            pass
        return Listed(path, kind, depth, status, target)

    def _file(self, place: Place) -> Listed:
        try:
            status = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
        except OSError as error:
            raise path_error(error, place.given) from error
        return Listed(place.name, "file" if stat.S_ISREG(status.st_mode) else "other", 1, status, "")

    def _report(self, place: Place, entries: list[Listed]) -> AgentToolResult:
        body, hidden = reveal("\n".join(self._line(entry) for entry in entries[: self.max_entries]))
        fitting = whole_lines(body, MAX_BYTES)
        shown = fitting.count("\n") + 1 if fitting else 0
        truncated = len(entries) > shown
        if truncated:
            footer = f"[{shown} of {len(entries)} entries; the limit is {self.max_entries} or {MAX_BYTES} bytes.]"
        else:
            footer = f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'}"
        text = "\n".join(filter(None, [f"{place.shown}:", fitting])) + f"\n\n{footer}"
        details = {
            "path": place.shown,
            "total_entries": len(entries),
            "shown_entries": shown,
            "truncated": truncated,
            "recursive": self.recursive,
        }
        return text_result(text, details, trust="untrusted" if hidden else "trusted")

    def _line(self, entry: Listed) -> str:
        name = printable(entry.path) + ("/" if entry.kind == "directory" else "")
        if entry.target:
            name += f" -> {printable(entry.target)}"
        if not self.long:
            return f"{MARKS[entry.kind]} {name}"
        if entry.status is None:
            return f"{MARKS[entry.kind]} {'?':>10} {'?':>12} {'?':>16} {name}"
        from datetime import datetime

        try:
            changed = datetime.fromtimestamp(entry.status.st_mtime).strftime("%Y-%m-%d %H:%M")
        except (OverflowError, ValueError, OSError):
            changed = "?"
        mode = stat.filemode(entry.status.st_mode)
        return f"{MARKS[entry.kind]} {mode:>10} {entry.status.st_size:>12} {changed:>16} {name}"
