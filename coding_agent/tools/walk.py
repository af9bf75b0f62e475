"""Edge. Everything below an open directory, in a fixed order, without following a link anywhere.

Shared with the program `search_main`, so it imports nothing heavy.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from coding_agent.tools.ignore import IGNORE_FILE, REPOSITORY, Rules
else:
    from ignore import IGNORE_FILE, REPOSITORY, Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Final, Literal

    Kind = Literal["directory", "file", "link", "other"]
    Skip = Callable[[str, str, bool, Rules], bool]

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def walk(
    directory: int,
    check: Callable[[], None],
    *,
    prefix: str = "",
    skip: Skip | None = None,
    rules: Rules | None = None,
    max_depth: int | None = None,
    hidden: bool = True,
) -> Iterator[tuple[str, str, Kind, int, int]]:
    """Every entry as path, name, kind, depth and the open directory it is in; parents first, names in order.

    Args:
        directory: An open directory, left open. Entries directly in it have depth 1.
        check: Called at every directory; may raise to end the walk.
        prefix: Put before every path; empty or ending with a slash.
        skip: `skip(path, name, is_directory, rules)` decides what is neither given nor entered.
        rules: What ignore files above say; None reads no ignore files.
        max_depth: How deep to go.
        hidden: Names that begin with a dot, too.
    """
    check()
    entries, known = listed(directory, prefix, rules, hidden)
    # One frame a level: what is left of its entries, how their paths begin, what applies to them, where they are.
    levels = [(iter(entries), prefix, known, directory)]
    try:
        while levels:
            entries_left, prefix, known, here = levels[-1]
            depth = len(levels)
            for name, kind in entries_left:
                path = prefix + name
                is_dir = kind == "directory"
                if skip is not None and skip(path, name, is_dir, known or NO_RULES):
                    continue
                yield path, name, kind, depth, here
                if is_dir and (max_depth is None or depth < max_depth):
                    check()
                    try:
                        inner = os.open(name, FOLDER, dir_fd=here)
                    except OSError:
                        continue
                    path += "/"
                    entries, below = listed(inner, path, known, hidden)
                    levels.append((iter(entries), path, below, inner))
                    break
            else:
                levels.pop()
                if levels:
                    os.close(here)
    finally:
        for _entries, _prefix, _rules, opened in levels[1:]:
            os.close(opened)


def listed(
    directory: int, prefix: str, rules: Rules | None, hidden: bool
) -> tuple[list[tuple[str, Kind]], Rules | None]:
    """A directory's entries in order, none when it cannot be read, and the ignore rules that apply to them."""
    try:
        entries: list[tuple[str, Kind]] = []
        with os.scandir(directory) as listing:
            for entry in listing:
                if entry.is_file(follow_symlinks=False):
                    entries.append((entry.name, "file"))
                elif entry.is_dir(follow_symlinks=False):
                    entries.append((entry.name, "directory"))
                else:
                    entries.append((entry.name, "link" if entry.is_symlink() else "other"))
    except OSError:
        return [], rules
    entries.sort()
    if rules is not None:
        names = {name for name, _kind in entries if name in SPECIAL}
        if names:
            has_file, is_repository = IGNORE_FILE in names, REPOSITORY in names
            rules = rules.inside(directory, prefix, has_file=has_file, is_repository=is_repository)
    return entries if hidden else [entry for entry in entries if entry[0][0] != "."], rules


SPECIAL: Final = frozenset({IGNORE_FILE, REPOSITORY})
NO_RULES: Final = Rules()
