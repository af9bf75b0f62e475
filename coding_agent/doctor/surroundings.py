"""Edge. The terminal, the sandbox, the disk, the limits of this process."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from coding_agent.doctor.finding import Finding, Level, Place
from coding_agent.storage.locations import default_session_dir

LITTLE_SPACE: Final = 1024**3
NO_SPACE: Final = 64 * 1024**2
FEW_FILES: Final = 256
NARROW: Final = 40


def terminal(place: Place) -> Iterator[Finding]:
    """What the interactive terminal would have to work with."""
    environ = place.environ
    kind, encoding = environ.get("TERM") or "", (sys.stdout.encoding or "").lower()
    facts = {
        "term": kind,
        "isTerminal": sys.stdout.isatty() and sys.stdin.isatty(),
        "encoding": encoding,
        "noColor": bool(environ.get("NO_COLOR")),
        "trueColor": environ.get("COLORTERM", "") in ("truecolor", "24bit"),
    }
    if not facts["isTerminal"]:
        yield Finding("terminal", "ok", "this is no terminal; -p and --mode rpc need none", facts=facts)
        return
    columns, rows = shutil.get_terminal_size()
    facts |= {"columns": columns, "rows": rows}
    yield Finding("terminal", "ok", f"{kind or 'unknown'}, {columns} columns, {rows} rows", facts=facts)
    if kind in ("", "dumb"):
        yield Finding("terminal", "warn", "TERM says that it can do nothing", "set TERM, such as TERM=xterm-256color")
    if "utf" not in encoding:
        yield Finding("terminal", "warn", f"its encoding is {encoding or 'unknown'}", "set LANG to a UTF-8 locale")
    if columns < NARROW:
        yield Finding("terminal", "warn", f"{columns} columns are few", f"make it {NARROW} columns wide or more")


def sandbox(place: Place) -> Iterator[Finding]:
    """Whether `--sandbox` would work."""
    from coding_agent.sandbox import unavailable

    why = unavailable()
    if why is None:
        yield Finding("sandbox", "ok", f"bubblewrap works, {shutil.which('bwrap')}")
    else:
        yield Finding("sandbox", "warn", f"not available: {why}", "install bubblewrap (package bubblewrap)")


def disk(place: Place) -> Iterator[Finding]:
    """Room for sessions, and for what tools put aside."""
    seen: set[int] = set()
    for folder in (default_session_dir(place.environ), Path(place.environ.get("TMPDIR") or "/tmp"), place.cwd):
        there = nearest(folder)
        try:
            device, free = there.stat().st_dev, shutil.disk_usage(there).free
        except OSError as error:
            yield Finding("disk", "warn", f"{there} cannot be looked at: {error.strerror}", "check the disk")
            continue
        if device not in seen:
            seen.add(device)
            yield room(there, free)


def room(folder: Path, free: int) -> Finding:
    """What this much space on the disk of a folder means."""
    level: Level = "fail" if free < NO_SPACE else "warn" if free < LITTLE_SPACE else "ok"
    said = f"{free / 1024**3:.1f} GiB free at {folder}"
    return Finding("disk", level, said, "" if level == "ok" else "make room", {"path": str(folder), "free": free})


def limits(place: Place) -> Iterator[Finding]:
    """How many files may be open at one time."""
    try:
        import resource
    except ImportError:
        return
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FEW_FILES:
        yield Finding("limits", "warn", f"{soft} open files are few", "raise it: ulimit -n 1024", {"files": soft})
    else:
        yield Finding("limits", "ok", f"{'any number of' if soft < 0 else soft} open files", facts={"files": soft})


def nearest(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that is there."""
    for candidate in (folder, *folder.parents):
        if os.path.isdir(candidate):
            return candidate
    return Path("/")
