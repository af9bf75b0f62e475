"""Edge. Folders that only this user can enter."""

from __future__ import annotations

from pathlib import Path


def make_private(folder: Path) -> None:
    """Make a folder that only this user can enter, and every folder above it that is not there, in the same way.

    A folder that is there stays as it is. `Path.mkdir(parents=True)` would give those above the mode of the system.

    Raises:
        OSError: It cannot be made, or what is there is no folder.
    """
    if folder.is_dir():
        return
    missing = [one for one in folder.parents if not one.exists()]
    for one in (*reversed(missing), folder):
        one.mkdir(mode=0o700, exist_ok=True)
