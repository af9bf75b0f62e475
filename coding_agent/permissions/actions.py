"""Edge. A tool call as the actions that a policy is asked about: which files, which commands, which addresses."""

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import evolve, frozen

from coding_agent.permissions.parts import ReadsFile, Run, Unclear, WritesFile
from coding_agent.permissions.policy import Action, Fetch, FileAccess, InShell, Use
from coding_agent.tool_kinds import CHANGES_FILES, FETCHES, LOOKS_AT_FILES
from coding_agent.tools.paths import PathGuard, Purpose, protected_folder
from lemon_agent import ToolError

BROWSER_LOOKS: Final = frozenset({"read", "screenshot", "back", "close"})
NOTES: Final = frozenset({"todo", "todoread", "todowrite", "ask_parent", "task"})
"""Tools that touch nothing but what they keep themselves; what a subagent does comes here with its own calls."""
_LOOKS: Final = frozenset({"list", "poll", "logs", "status", "clear", "kill"})


@frozen
class ToolUse:
    """A tool call taken apart.

    Attributes:
        actions: What it does.
        asks_guard: The paths, and what for, about which the path guard will ask as well.
        shown: The whole of it, for a person who is asked.
    """

    actions: tuple[Action, ...]
    asks_guard: tuple[tuple[str, Purpose], ...] = ()
    shown: str = ""


def also_read(change: Action) -> tuple[Action, ...]:
    """A change of a part of a file, whose surroundings the model is shown: so it must be one it may read."""
    if not isinstance(change, FileAccess):
        return (change,)
    return change, evolve(change, tool="read", writes=False, protected=None)


def tool_use(tool: str, args: Mapping[str, Any], guard: PathGuard) -> ToolUse:
    """Take a call apart; looks at the disk to see where paths lead, so for a worker thread."""
    finder = _Finder(tool, guard)
    actions = tuple(finder.actions(args))
    return ToolUse(actions, tuple(finder.asks_guard), shown(tool, args))


def shown(tool: str, args: Mapping[str, Any]) -> str:
    """A call as a person should see it before deciding: nothing hidden, control characters as escapes."""
    main = main_text(args)
    text = f"{tool}: {main}" if main else tool
    return "".join(char if char.isprintable() or char == "\n" else f"\\u{ord(char):04x}" for char in text)


def main_text(args: Mapping[str, Any]) -> str:
    """The argument that says most: the first with one of the usual names, else the first text."""
    for name in ("command", "path", "url", "query", "code", "patch_text", "prompt"):
        if isinstance(found := args.get(name), str) and found:
            return found
    return next((value for value in args.values() if isinstance(value, str) and value), "")


class _Finder:
    def __init__(self, tool: str, guard: PathGuard) -> None:
        self.tool = tool
        self.guard = guard
        self.asks_guard: list[tuple[str, Purpose]] = []

    def actions(self, args: Mapping[str, Any]) -> Iterator[Action]:
        tool = self.tool
        if tool in LOOKS_AT_FILES:
            yield self.file(tool, str(args.get("path") or "."), "read")
        elif tool == "patch":
            yield from self.patch(args)
        elif tool in CHANGES_FILES:
            changed = self.file(tool, str(args.get("path") or ""), "write", tolerant=tool != "write")
            yield from (changed,) if tool == "write" else also_read(changed)
        elif tool == "bash":
            yield from self.command(str(args.get("command") or ""))
        elif tool == "process":
            yield from self.process(args)
        elif tool in FETCHES:
            yield from self.fetch(args)
        elif tool == "browser":
            yield self.browse(args)
        elif tool == "checkpoint":
            action = str(args.get("action"))
            yield Use(tool, f"{action} {args.get('checkpoint_id') or ''}".strip(), harmless=action in ("list", "diff"))
        else:
            yield Use(tool, main_text(args), harmless=tool in NOTES)

    def file(self, tool: str, path: str, purpose: Purpose, *, tolerant: bool = True) -> Action:
        """Where a path leads; one that leads nowhere is the tool's to refuse."""
        try:
            with self.guard.locate(path, tolerant=tolerant) as place:
                question = self.guard.question(place, purpose)  # what the guard will ask, by itself
                writes = purpose == "write"
                inside = place.inside or question is None
                relative = os.path.relpath(place.real, self.guard.root)
                protected = protected_folder(relative) if writes and place.inside else None
                if question is not None:
                    self.asks_guard.append((place.real, purpose))
                return FileAccess(tool, path, place.shown, place.real, inside, writes, protected)
        except ToolError:
            return Use(tool, path, harmless=True)

    def patch(self, args: Mapping[str, Any]) -> Iterator[Action]:
        from coding_agent.tools.patch_format import BadPatch, parse

        try:
            operations = parse(str(args.get("patch_text") or ""))
        except BadPatch:
            yield Use("patch", "", harmless=True)
            return
        for operation in operations:
            yield from also_read(self.file("patch", operation.path, "write"))
            if operation.move_to is not None:
                yield self.file("patch", operation.move_to, "write")

    def process(self, args: Mapping[str, Any]) -> Iterator[Action]:
        match args.get("action"):
            case "start":
                yield from self.command(str(args.get("command") or ""))
            case "write":
                yield InShell(self.tool, Unclear("input for a program that runs already"))
            case "restart":
                yield InShell(self.tool, Unclear("a program is started again"))
            case action:
                yield Use(self.tool, str(action), harmless=action in _LOOKS)

    def browse(self, args: Mapping[str, Any]) -> Action:
        """A page is opened, looked at, or used: a click may do anything the page can do."""
        action = str(args.get("action"))
        if action == "navigate":
            return Fetch(self.tool, str(args.get("url") or ""))
        return Use(self.tool, f"{action} {args.get('selector') or ''}".strip(), harmless=action in BROWSER_LOOKS)

    def fetch(self, args: Mapping[str, Any]) -> Iterator[Action]:
        yield Fetch(self.tool, str(args.get("url") or args.get("query") or ""))
        path = args.get("path") or args.get("output_path")
        if self.tool == "web_download" and isinstance(path, str):
            yield self.file(self.tool, path, "write")

    def command(self, command: str) -> Iterator[Action]:
        """Every part of a shell command."""
        from coding_agent.permissions.shell import NoParser, parts_of

        try:
            parts = parts_of(command)
        except NoParser as missing:
            yield InShell(self.tool, Unclear(str(missing)))
            return
        except RecursionError:
            yield InShell(self.tool, Unclear("the command is nested too deep to follow"))
            return
        for part in parts or (Unclear("an empty command"),):
            match part:
                case WritesFile(path):
                    yield self.redirection("write", path, "write")
                case ReadsFile(path):
                    yield self.redirection("read", path, "read")
                case Run() | Unclear():
                    yield InShell(self.tool, part)

    def redirection(self, tool: str, path: str, purpose: Purpose) -> Action:
        """A file the shell opens. The path guard is not asked about it, so where it leads must be known."""
        before = len(self.asks_guard)
        found = self.file(tool, path, purpose, tolerant=False)
        del self.asks_guard[before:]
        if isinstance(found, Use):
            return InShell(self.tool, Unclear(f"a redirection to {path}, which leads nowhere"))
        return found
