"""Edge. Writes a session as a page or a document to a new file that only this user can read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from coding_agent.exporting.formats import Format, export
from coding_agent.exporting.page import page_parts
from coding_agent.storage.session_manager import SessionManager


def save_html(manager: SessionManager, output: Path | None = None, *, secrets: Iterable[str] = ()) -> Path:
    """Write the session as a self-contained page; where it is now.

    Args:
        manager: The session; its words may still grow, what is stored now is written.
        output: The new file; None takes the session file's name, in the working folder of this program.
        secrets: Exact values that are hidden beside what looks like a secret.

    Raises:
        OSError: The file is there already or cannot be written. What was begun is removed.
    """
    return write_new(output or _beside(manager, ".html"), page_parts(manager, secrets=secrets))


def save_markdown(manager: SessionManager, output: Path | None = None, *, secrets: Iterable[str] = ()) -> Path:
    """Write the session's current branch as Markdown; where it is now. Arguments and errors as of `save_html`."""
    return write_new(output or _beside(manager, ".md"), [export(manager, "markdown", secrets=secrets)])


SUFFIXES: Final[Mapping[str, Format]] = {".md": "markdown", ".markdown": "markdown", ".json": "json", ".jsonl": "jsonl"}
"""What a file's name says of its format; any other name is that of a page."""


def save(manager: SessionManager, output: Path | None = None, *, secrets: Iterable[str] = ()) -> Path:
    """Write the session in the format that the file's name asks for; where it is now. As `save_html` otherwise."""
    form = None if output is None else SUFFIXES.get(output.suffix.lower())
    if output is None or form is None:
        return save_html(manager, output, secrets=secrets)
    return write_new(output, [export(manager, form, secrets=secrets)])


def _beside(manager: SessionManager, suffix: str) -> Path:
    """A name that is free, after the session file's."""
    stem = manager.path.stem or "session"
    for number in range(1, 1000):
        path = Path.cwd() / (f"{stem}{suffix}" if number == 1 else f"{stem}-{number}{suffix}")
        if not path.exists():
            return path
    return Path.cwd() / f"{stem}{suffix}"


def write_new(path: Path, parts: Iterable[str]) -> Path:
    """Write a new file that only this user can read; where it is now.

    Raises:
        OSError: It is there already or cannot be written. What was begun is removed.
    """
    path = path.expanduser().absolute()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.writelines(parts)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path
