"""Edge. Paths of the working folder that go on from what a person typed, ignored files left out."""

import os
from pathlib import Path
from typing import Final

from coding_agent.tools.ignore import Rules
from coding_agent.tools.walk import FOLDER, walk

ENTRIES_MAX: Final = 20_000
"""So many files and folders are looked at."""
PATHS_MAX: Final = 50


class _Enough(Exception):
    """As many as may be were looked at."""


def complete_files(cwd: Path, prefix: str, *, limit: int = PATHS_MAX) -> list[str]:
    """Paths, folders with a slash behind them: first those that begin with `prefix`, then those that hold its name.

    A prefix that leads out of the working folder is completed from the folder it names, whatever is ignored there.
    """
    typed = os.path.expanduser(prefix) if prefix.startswith("~") else prefix
    if os.path.isabs(typed) or typed.startswith(".."):
        return _beside(cwd, typed, prefix, limit)
    wanted = typed.removeprefix("./").lower()
    begin: list[str] = []
    hold: list[str] = []
    for path in _below(cwd):
        low = path.lower()
        if low.startswith(wanted):
            begin.append(path)
        elif wanted and wanted in low:
            hold.append(path)
    begin.sort(key=lambda path: (path.rstrip("/").count("/"), path))
    hold.sort(key=lambda path: (wanted not in path.rstrip("/").rpartition("/")[2].lower(), len(path), path))
    return [*begin, *hold][:limit]


def _below(cwd: Path) -> list[str]:
    found: list[str] = []
    looked = 0

    def check() -> None:
        if looked > ENTRIES_MAX:
            raise _Enough

    def skip(path: str, name: str, is_dir: bool, rules: Rules) -> bool:
        return name == ".git" or rules.ignored(path, name, is_dir)

    try:
        directory = os.open(cwd, FOLDER)
    except OSError:
        return found
    try:
        for path, _, kind, _, _ in walk(directory, check, skip=skip, rules=Rules.above(directory, "")):
            looked += 1
            found.append(f"{path}/" if kind == "directory" else path)
            check()
    except (_Enough, OSError):
        pass
    finally:
        os.close(directory)
    return found


def _beside(cwd: Path, typed: str, prefix: str, limit: int) -> list[str]:
    folder, _, name = typed.rpartition("/")
    shown = prefix[: len(prefix) - len(name)]
    try:
        entries = sorted(os.scandir(cwd / (folder or "/")), key=lambda entry: entry.name)
    except OSError:
        return []
    return [
        f"{shown}{entry.name}{'/' if entry.is_dir() else ''}"
        for entry in entries
        if entry.name.lower().startswith(name.lower())
    ][:limit]
