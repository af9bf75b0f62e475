"""Edge. The tool `find`: files and directories by name."""

import os
import stat
from collections.abc import Callable
from typing import Any, Final

from coding_agent.tools.arguments import optional_flag, optional_number, optional_text, required_text
from coding_agent.tools.files import Fence
from coding_agent.tools.folders import open_folder
from coding_agent.tools.ignore import Rules
from coding_agent.tools.path_globs import BadGlob, is_glob, name_pattern, path_pattern
from coding_agent.tools.paths import Place
from coding_agent.tools.truncate import MAX_BYTES, whole_lines
from coding_agent.tools.visible_text import reveal
from coding_agent.tools.walk import walk
from coding_agent.tools.workspace import in_thread, workspace_for
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, OnUpdate, ToolError, check_abort, text_result

RESULTS: Final = 100
RESULTS_MAX: Final = 5_000
KINDS: Final = ("file", "directory", "all")

PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "pattern": {
            "type": "string",
            "description": "A glob such as *.py or src/**/*.ts, or part of a name. Without a slash it is about names "
            "at any depth; all in lower case it matches capitals too.",
        },
        "path": {"type": "string", "description": "Where to look; the working directory if not given."},
        "type": {"type": "string", "enum": list(KINDS), "description": "What to find; all if not given."},
        "max_depth": {"type": "integer", "description": "How many levels deep."},
        "max_results": {"type": "integer", "description": f"How many at most; {RESULTS} if not given."},
        "hidden": {"type": "boolean", "description": "Names that begin with a dot too."},
        "respect_gitignore": {"type": "boolean", "description": "Leave out what .gitignore files name."},
    },
    "required": ["pattern"],
}

DESCRIPTION: Final = (
    "Find files and directories by name or glob. Paths come sorted and relative to the working directory. Links are "
    "shown but not followed. To search in files use grep."
)


def find_tool(cwd: str, **options: Any) -> AgentTool:
    """The tool `find` for a working directory; see `Workspace` for the options."""
    workspace = workspace_for(cwd, options)

    async def execute(
        _id: str, params: dict[str, Any], signal: AbortSignal | None = None, _on_update: OnUpdate | None = None
    ) -> AgentToolResult:
        check_abort(signal)
        search = Search(params)
        place = await workspace.place(optional_text(params, "path") or ".", "read", tolerant=True)
        return await in_thread(search.run, place, workspace.concealed("find", place), signal=signal)

    return AgentTool(
        name="find",
        label="Find",
        description=DESCRIPTION,
        parameters=PARAMETERS,
        execute=execute,
        main_argument="pattern",
        idempotent=True,
    )


class Search:
    """What is looked for.

    Raises:
        ToolError: An argument makes no sense.
    """

    def __init__(self, params: dict[str, Any]) -> None:
        pattern = required_text(params, "pattern", "Pattern is required")
        ignore_case = pattern == pattern.lower()
        glob = pattern if is_glob(pattern) or "/" in pattern else f"*{pattern}*"
        try:
            by_name = name_pattern(glob, ignore_case=ignore_case)
            self.by_name = by_name is not None
            self.matches: Callable[[str], object] = (by_name or path_pattern(glob, ignore_case=ignore_case)).fullmatch
        except BadGlob as error:
            raise ToolError(str(error)) from error
        if glob != pattern:
            self.matches = (lambda name: pattern in name.lower()) if ignore_case else (lambda name: pattern in name)
        self.kind = optional_text(params, "type") or "all"
        if self.kind not in KINDS:
            raise ToolError(f"type must be one of {', '.join(KINDS)}")
        self.max_depth = optional_number(params, "max_depth", 0) or None
        self.max_results = optional_number(params, "max_results", RESULTS, most=RESULTS_MAX)
        self.hidden = optional_flag(params, "hidden")
        self.gitignore = optional_flag(params, "respect_gitignore")

    def run(self, place: Place, concealed: Callable[[str], bool] | None, fence: Fence) -> AgentToolResult:
        """Walk and report, in a worker thread."""
        prefix = "" if place.shown == "." else place.shown + "/"
        skip_prefix = len(prefix)
        found: list[str] = []
        matches, by_name = self.matches, self.by_name
        with place, open_folder(place) as folder:
            rules = Rules.above(folder, prefix) if self.gitignore else None
            entries = walk(
                folder,
                fence.check,
                prefix=prefix,
                skip=_ignored if self.gitignore else None,
                rules=rules,
                max_depth=self.max_depth,
                hidden=self.hidden,
            )
            for path, name, kind, _depth, directory in entries:
                if not matches(name if by_name else path[skip_prefix:]):
                    continue
                if self.kind != "all" and self.kind != shown_kind(name, kind, directory):
                    continue
                if concealed is not None and in_concealed(path[skip_prefix:], concealed):
                    continue
                found.append(path + "/" if kind == "directory" else path)
                if len(found) > self.max_results:
                    break
        return self._report(found)

    def _report(self, found: list[str]) -> AgentToolResult:
        truncated = len(found) > self.max_results
        found = found[: self.max_results]
        details = {"count": len(found), "truncated": truncated, "max_results": self.max_results, "files": found}
        if not found:
            return text_result("No files found matching the pattern.", details)
        lines, hidden = reveal("\n".join(printable(path) for path in found))
        fitting = whole_lines(lines, MAX_BYTES)
        if fitting != lines:
            lines, truncated, details["truncated"] = fitting, True, True
        if truncated:
            lines += f"\n\n[Only the first {lines.count(chr(10)) + 1} are shown; make the pattern narrower.]"
        return text_result(lines, details, trust="untrusted" if hidden else "trusted")


def _ignored(path: str, name: str, is_dir: bool, rules: Rules) -> bool:
    return rules.ignored(path, name, is_dir)


def in_concealed(path: str, concealed: Callable[[str], bool]) -> bool:
    """Is it in a directory that must not be listed? A name beside others may be shown where what is in it may not."""
    at = path.find("/")
    while at >= 0:
        if concealed(path[:at]):
            return True
        at = path.find("/", at + 1)
    return False


def printable(path: str) -> str:
    """A path on one line; bytes that are no UTF-8 and control characters become escapes."""
    if path.isprintable():
        return path
    shown = path.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in shown)


def shown_kind(name: str, kind: str, directory: int) -> str:
    """What an entry counts as; a link counts as what it leads to."""
    if kind != "link":
        return kind
    try:
        mode = os.stat(name, dir_fd=directory).st_mode
    except OSError:
        return "link"
    return "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"
