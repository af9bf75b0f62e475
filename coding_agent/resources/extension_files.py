"""Edge. Where extensions are: those that are installed, in the person's folders, in a trusted project's, or named.

Only looked for here, so that a start without any pays for nothing else. What comes from the repository is not among
them before the project is trusted: its folder is passed over, and what is installed is looked for outside of it only.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coding_agent.errors import UnreadableFile
from coding_agent.resources.files import entries, is_file, read_bytes
from coding_agent.resources.places import OURS
from lemon_otp import frozen

if TYPE_CHECKING:
    from coding_agent.settings import Settings

GROUP: Final = "lemon.extensions"
ENTRY: Final = "extension"
"""What a file must define."""


@frozen
class Source:
    """Where an extension is.

    Attributes:
        name: What it is called by.
        path: Its file, or `module:object` when it is installed.
        installed: It is an entry point.
    """

    name: str
    path: str
    installed: bool = False


def sources(settings: "Settings", *, trusted: bool, problems: list[str]) -> Iterator[Source]:
    """Where extensions are, in the order they are asked in: installed, the person's, the project's, named ones."""
    wanted = settings.resources
    left_out = {os.path.basename(text[1:]) for text in wanted.extensions if text[:1] in ("!", "-")}
    named = [text.lstrip("+") for text in wanted.extensions if text[:1] not in ("!", "-", "")]
    found: list[Source] = []
    if wanted.use_extensions:
        found += installed(sys.path, settings.cwd)
        found += _in_folder(settings.config_dir / "extensions")
        if trusted:
            found += _in_folder(settings.cwd / OURS / "extensions")
    for source in found:
        if source.name not in left_out:
            yield source
    for path in named:
        file = _file_of(Path(path))
        if file is None:
            problems.append(f"there is no extension at {path}")
        else:
            yield file


def _in_folder(folder: Path) -> Iterator[Source]:
    for entry in entries(folder):
        if entry.name[0] not in "._" and (entry.name.endswith(".py") or not is_file(entry)):
            file = _file_of(Path(entry.path))
            if file is not None:
                yield file


def _file_of(path: Path) -> Source | None:
    if path.is_dir():
        inner = path / f"{ENTRY}.py"
        return Source(path.name, str(inner)) if inner.is_file() else None
    return Source(path.stem, str(path)) if path.is_file() else None


# What is installed. `importlib.metadata` takes longer to import than all of this to read.


def installed(path: Sequence[str], project: Path) -> list[Source]:
    """The entry points of the group, by name; those of a package within the project are passed over.

    A virtual environment in it is not: the program itself runs from there.
    """
    found: dict[str, Source] = {}
    for folder in path:
        if not _is_ours(folder, project):
            continue
        for entry in entries(Path(folder)):
            if entry.name.endswith((".dist-info", ".egg-info")):
                for source in _entry_points(Path(entry.path) / "entry_points.txt"):
                    found.setdefault(source.name, source)
    return [found[name] for name in sorted(found)]


def _is_ours(folder: str, project: Path) -> bool:
    if not folder or not os.path.isdir(folder):
        return False
    real = Path(os.path.realpath(folder))
    inside = real.is_relative_to(os.path.realpath(project))
    return not inside or real.is_relative_to(os.path.realpath(sys.prefix))


def _entry_points(file: Path) -> Iterable[Source]:
    try:
        raw, _ = read_bytes(file, 256 * 1024)
    except (FileNotFoundError, UnreadableFile):
        return
    if GROUP.encode() not in raw:
        return
    within = False
    for line in raw.decode("utf-8", errors="replace").splitlines():
        text = line.strip()
        if text.startswith("["):
            within = text == f"[{GROUP}]"
        elif within and "=" in text and not text.startswith("#"):
            name, _, target = text.partition("=")
            yield Source(name.strip(), target.partition("[")[0].strip(), installed=True)
