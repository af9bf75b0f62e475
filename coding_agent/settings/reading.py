"""Flags and environment of one start of the host, read once into one frozen value.

Flags win over the environment, the environment over the defaults. Nothing below the host reads the environment again,
apart from the credentials, which are looked up by name for each model request (`coding_agent.credentials`).
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from coding_agent.errors import BadUsage
from coding_agent.settings.values import Settings

RUNTIME_DIR_BYTES_MAX: Final = 80
"""The path of a socket has a hundred bytes or so on every system; this leaves room for its name."""


def read_settings(
    environ: Mapping[str, str],
    *,
    cwd: str | None = None,
    session_dir: str | None = None,
    model: str | None = None,
    base_url: str | None = None,
    thinking_level: str | None = None,
) -> Settings:
    """Combine the flags given with the environment.

    Args:
        environ: `LEMON_SESSION_DIR`, `LEMON_RUNTIME_DIR`, `LEMON_MODEL`, `LEMON_BASE_URL`, `XDG_STATE_HOME`,
            `XDG_RUNTIME_DIR` and `HOME` are looked at.
        cwd: `--cwd`; None is the folder the program was started in.
        session_dir: `--session-dir`.
        model: `--model`.
        base_url: `--base-url`.
        thinking_level: `--thinking`.

    Raises:
        BadUsage: The working folder is missing, is no folder or cannot be read.
    """
    home = Path(environ.get("HOME") or Path.home())
    state = Path(environ.get("XDG_STATE_HOME") or home / ".local" / "state")
    return Settings(
        cwd=_working_folder(cwd),
        session_dir=Path(session_dir or environ.get("LEMON_SESSION_DIR") or state / "lemon" / "sessions").absolute(),
        runtime_dir=runtime_dir(environ),
        model=model or environ.get("LEMON_MODEL") or None,
        base_url=base_url or environ.get("LEMON_BASE_URL") or None,
        thinking_level=thinking_level or "off",
        home=home,
        config_dir=Path(environ.get("XDG_CONFIG_HOME") or home / ".config").absolute() / "lemon",
    )


def _working_folder(given: str | None) -> Path:
    try:
        path = Path(given or ".").absolute()
    except FileNotFoundError as error:
        raise BadUsage("the working folder does not exist any more; go to another or give one with --cwd") from error
    if not path.exists():
        raise BadUsage(f"the working folder {path} does not exist; give another with --cwd")
    if not path.is_dir():
        raise BadUsage(f"{path} is not a folder; give another with --cwd")
    if not os.access(path, os.R_OK | os.X_OK):
        raise BadUsage(f"the working folder {path} cannot be read; check its permissions or give another with --cwd")
    return path.resolve()


def runtime_dir(environ: Mapping[str, str]) -> Path:
    """The folder for control sockets: `LEMON_RUNTIME_DIR`, else a private one of this user, with a short path."""
    if given := environ.get("LEMON_RUNTIME_DIR"):
        return Path(given).absolute()
    folders = [Path(environ.get("TMPDIR") or "/tmp").absolute() / f"lemon-{os.getuid()}"]
    if given := environ.get("XDG_RUNTIME_DIR"):
        folders.insert(0, Path(given).absolute() / "lemon")
    short = [folder for folder in folders if len(os.fsencode(folder)) <= RUNTIME_DIR_BYTES_MAX]
    return short[0] if short else Path("/tmp") / f"lemon-{os.getuid()}"
