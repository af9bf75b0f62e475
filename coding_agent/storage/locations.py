"""Pure, but for one look at the environment. Where session files lie.

A folder for each working folder, whose name is only for people: the working folder of a session is what its header
says, because the name cannot be read back (`a-b/c` and `a/b-c` give the same).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from coding_agent.folders import folders
from coding_agent.storage.stamps import file_stamp, iso, new_session_id
from lemon_otp import wall_ms

_SEPARATORS = re.compile("[/\\\\:\0\ud800-\udc7f\udd00-\udfff]")
"""What parts names, and what no file name can hold."""
_LONGEST_NAME = 200


def default_session_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """`LEMON_SESSION_DIR`, else `lemon/sessions` in the user's folder for state."""
    if given := environ.get("LEMON_SESSION_DIR"):
        return Path(given).absolute()
    return folders(environ).state / "sessions"


def encode_cwd(cwd: str | Path) -> str:
    """The folder name of a working folder: `/home/me/x` is `--home-me-x--`. A very long one keeps its end."""
    text = str(cwd)
    name = _SEPARATORS.sub("-", text[1:] if text[:1] in ("/", "\\") else text)
    while len(name.encode("utf-8", "surrogateescape")) > _LONGEST_NAME:
        name = name[1:]
    return f"--{name}--"


def folder_for(session_dir: Path, cwd: str | Path) -> Path:
    """Where the sessions of a working folder lie."""
    return session_dir / encode_cwd(cwd)


def file_for(session_dir: Path, cwd: str | Path, timestamp: str, session_id: str) -> Path:
    """The path of a new session file."""
    safe_id = re.sub(r"[^A-Za-z0-9_.-]", "_", session_id)[:128]
    return folder_for(session_dir, cwd) / f"{file_stamp(timestamp)}_{safe_id}.jsonl"


def new_session_file(cwd: str | Path, session_dir: Path) -> tuple[str, Path]:
    """The id and the path of a session that does not exist yet. Nothing is made."""
    session_id = new_session_id()
    return session_id, file_for(session_dir, cwd, iso(wall_ms()), session_id)
