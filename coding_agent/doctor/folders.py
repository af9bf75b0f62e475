"""Edge. Who may look into the folders and files this program keeps, and whether it may write there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from coding_agent import logs
from coding_agent.credentials.credential_file import credential_path
from coding_agent.doctor.finding import Finding, Place
from coding_agent.doctor.surroundings import nearest
from coding_agent.errors import CodingAgentError
from coding_agent.settings import read_settings, runtime_dir
from coding_agent.storage.locations import default_session_dir


def folders(place: Place) -> Iterator[Finding]:
    """Sessions, settings, sockets: there and private, or to be made without trouble."""
    named = {
        "sessions": default_session_dir(place.environ),
        "settings": credential_path({**place.environ, "LEMON_AUTH_FILE": ""}).parent,
        "sockets": runtime_dir(place.environ),
    }
    for what, path in named.items():
        yield _folder(what, path)
    yield from _working_folder(place.cwd)
    log = logs.log_file(place.environ)
    if log.is_file() and log.stat().st_mode & 0o077:
        yield Finding("folders", "warn", f"others can read the log file {log}", f"chmod 600 {log}")


def settings(place: Place) -> Iterator[Finding]:
    """Settings files that cannot be used, and what of the project waits for trust."""
    try:
        read = read_settings(place.environ, cwd=str(place.cwd))
    except CodingAgentError as error:
        yield Finding("settings", "fail", str(error), "mend the file; `config show --origin` says what counts")
        return
    for problem in read.problems:
        yield Finding("settings", "warn", problem, "mend it; `config show --origin` says what counts")
    if read.pending and not read.trusted:
        said = f"the project's own files wait for trust: {', '.join(read.pending)}"
        yield Finding("settings", "warn", said, "look at them with `trust show`, then `trust yes`")
    if not read.problems and not read.pending:
        yield Finding("settings", "ok", "every settings file can be used")


def _folder(what: str, path: Path) -> Finding:
    facts = {"path": str(path)}
    try:
        found = path.stat()
    except FileNotFoundError:
        above = nearest(path)
        if os.access(above, os.W_OK | os.X_OK):
            return Finding("folders", "ok", f"{what}: {path} is made when it is needed", facts=facts)
        return Finding("folders", "fail", f"{what}: {path} cannot be made in {above}", f"make {above} writable", facts)
    except OSError as error:
        return Finding("folders", "fail", f"{what}: {path}: {error.strerror}", "check its permissions", facts)
    if not stat.S_ISDIR(found.st_mode):
        return Finding("folders", "fail", f"{what}: {path} is not a folder", "move it away", facts)
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return Finding("folders", "fail", f"{what}: {path} cannot be written", f"chmod u+rwx {path}", facts)
    if found.st_uid != os.getuid():
        return Finding("folders", "fail", f"{what}: {path} belongs to another user", "use another folder", facts)
    if found.st_mode & 0o077:
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        return Finding(
            "folders", "warn", f"{what}: others can look into {path} (mode {mode})", f"chmod 700 {path}", facts
        )
    return Finding("folders", "ok", f"{what}: {path}", facts=facts)


def _working_folder(path: Path) -> Iterator[Finding]:
    if not os.access(path, os.R_OK | os.X_OK):
        yield Finding("folders", "fail", f"work: {path} cannot be read", "go to another folder, or give --cwd")
    elif not os.access(path, os.W_OK):
        yield Finding("folders", "warn", f"work: {path} cannot be written", "the agent can only read here")
    elif path == Path(path.anchor) or path == Path.home():
        yield Finding(
            "folders", "warn", f"work: {path} is large", "start in a project's folder: the agent may write here"
        )
