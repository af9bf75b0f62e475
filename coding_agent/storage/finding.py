"""Edge. Which session a person means: a file, an id or how one begins, a name, or the latest of the folder.

One rule for every command that takes a session, whether what it names is stored or runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

from coding_agent.errors import NoSuchSession
from coding_agent.storage.listing import list_sessions, newest_session

LATEST: Final = "latest"
SHOWN: Final = 5
"""How many of several that fit are named."""
MEANT: Final = "a session's file, its id or how that begins, or latest"
"""What `find_session` takes, for whoever asks for one."""

T = TypeVar("T")


def meant(
    wanted: str,
    sessions: Iterable[T],
    id_of: Callable[[T], str],
    name_of: Callable[[T], str | None] = lambda _: None,
) -> list[T]:
    """Those that a word means: of that id or name; where there is none, those whose id begins with it."""
    every = list(sessions)
    exact = [one for one in every if wanted in (id_of(one), name_of(one))]
    return exact or [one for one in every if wanted and id_of(one).startswith(wanted)]


def find_session(wanted: str | Path, session_dir: Path, cwd: str | Path) -> Path:
    """The file of the session that is meant; it may have gone before it is opened.

    Args:
        wanted: A path, an id, the beginning of one, or `latest`. What looks like a path is one, there or not; so is
            the name of a file that is there.
        session_dir: Where session files lie.
        cwd: Whose newest session the latest one is.

    Raises:
        NoSuchSession: None is meant, or several are; the text says which.
    """
    if isinstance(wanted, Path) or is_path(wanted):
        return Path(wanted).expanduser().absolute()
    if wanted == LATEST:
        return latest_session(cwd, session_dir)
    found = meant(wanted, list_sessions(session_dir), lambda one: one.id)
    if len(found) == 1:
        return found[0].path
    if found:
        named = ", ".join(one.id for one in found[:SHOWN])
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise NoSuchSession(f"{wanted} may be {named}{more}; give more of it, or the path of the file")
    raise NoSuchSession(f"there is no session {wanted} in {session_dir}, and no such file; `sessions list` shows them")


def is_path(word: str) -> bool:
    """Is it a path, and not the id of a session?"""
    return os.sep in word or word.endswith(".jsonl") or os.path.isfile(word)


def latest_session(cwd: str | Path, session_dir: Path) -> Path:
    """The file of the session of a folder that was written last.

    Raises:
        NoSuchSession: It has none yet.
    """
    newest = newest_session(cwd, session_dir)
    if newest is None:
        raise NoSuchSession(f"there is no session for {cwd} yet in {session_dir}")
    return newest
