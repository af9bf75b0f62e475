"""Pure. Which files a conversation has read and changed, so that a summary of it does not lose them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import frozen

from coding_agent.tool_kinds import CHANGES_FILES
from lemon_ai import AssistantMessage, ToolCall

READERS: Final = frozenset({"read"})
WRITERS: Final = CHANGES_FILES | {"apply_patch", "multi_edit", "notebook_edit"}


@frozen
class FileOperations:
    """Paths as the tools were given them.

    Attributes:
        read: Files that were read and not changed, sorted.
        modified: Files that were changed, sorted.
    """

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()

    def to_json(self) -> dict[str, list[str]]:
        """The `details` of a compaction or a branch summary."""
        return {"readFiles": list(self.read), "modifiedFiles": list(self.modified)}

    def blocks(self) -> str:
        """The lists as they are put under a summary; empty when there are none."""
        parts = [
            f"<{tag}>\n" + "\n".join(paths) + f"\n</{tag}>"
            for tag, paths in (("read-files", self.read), ("modified-files", self.modified))
            if paths
        ]
        return "\n\n".join(parts)


NO_FILES: Final = FileOperations()


def operations(read: Iterable[str], modified: Iterable[str]) -> FileOperations:
    """Both lists sorted, without repetition; a file that was changed is not listed as read."""
    changed = set(modified)
    return FileOperations(tuple(sorted(set(read) - changed)), tuple(sorted(changed)))


def track(messages: Iterable[Any], earlier: FileOperations = NO_FILES) -> FileOperations:
    """The files the tool calls of some messages touch, added to those known before."""
    read, modified = set(earlier.read), set(earlier.modified)
    for message in messages:
        if isinstance(message, AssistantMessage):
            for block in message.content:
                if isinstance(block, ToolCall):
                    _note(block, read, modified)
    return operations(read, modified)


def from_details(details: Any) -> FileOperations:
    """The lists an earlier summary was stored with; older files spell the members with underscores."""
    if not isinstance(details, Mapping):
        return FileOperations()
    read = details.get("readFiles", details.get("read_files"))
    modified = details.get("modifiedFiles", details.get("modified_files"))
    return operations(_paths(read), _paths(modified))


def _paths(value: Any) -> list[str]:
    return [path for path in value if isinstance(path, str)] if isinstance(value, list | tuple) else []


def _note(call: ToolCall, read: set[str], modified: set[str]) -> None:
    if isinstance(patch := call.arguments.get("patch_text"), str):  # names its files itself
        from coding_agent.tools.patch_files import paths_in

        modified.update(paths_in(patch))
        return
    path = call.arguments.get("path", call.arguments.get("file_path"))
    if not isinstance(path, str) or not path:
        return
    name = call.name.lower()
    if name in READERS:
        read.add(path)
    elif name in WRITERS:
        modified.add(path)
