"""Edge. What projects say to every agent that works in them: `AGENTS.md` or `CLAUDE.md`, and the files these import.

From the root of the disk down to the working folder, so that the nearest has the last word. The text is read whoever
wrote it: it is words for the model, and the rules about what may be done stand outside of it. Imports and links can
name other files, so they are followed no further than the person, or the project, can mean.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from coding_agent.errors import UnreadableFile
from coding_agent.resources.files import git_root, read_bytes

NAMES: Final = ("AGENTS.md", "CLAUDE.md")
FILE_BYTES_MAX: Final = 32 * 1024
IMPORT_DEPTH_MAX: Final = 5
FILES_MAX: Final = 100
TEXT_SUFFIXES: Final = frozenset({".md", ".mdx", ".markdown", ".txt", ".rst", ".adoc", ".org"})

_CODE: Final = re.compile(r"^(?P<fence>```+|~~~+).*?(?:^(?P=fence)|\Z)|(?P<tick>`+)[^\n]*?(?P=tick)", re.M | re.S)
_IMPORT: Final = re.compile(r"(?:(?<=\s)|^)@([^\s`]+)")


@frozen
class ContextFile:
    """What a file says to every agent that works below its folder.

    Attributes:
        path: Where it was found.
        text: What it says.
        truncated: It is longer; what is above `FILE_BYTES_MAX` bytes was left out.
    """

    path: Path
    text: str
    truncated: bool = False


@frozen
class Roots:
    """How far the imports of a file go, and the links that stand for one.

    Attributes:
        folders: What they may lie in.
        any_kind: Files of every kind, not only text that is meant to be read.
        links: A link may lead anywhere.
    """

    folders: tuple[Path, ...]
    any_kind: bool = False
    links: bool = False

    def admit(self, real: Path) -> bool:
        """May this file, all links followed, be taken in?"""
        inside = any(real.is_relative_to(os.path.realpath(folder)) for folder in self.folders)
        return inside and (self.any_kind or real.suffix.lower() in TEXT_SUFFIXES)


@define
class Reading:
    """The files read so far; each counts once, by whatever name it is reached."""

    files: list[ContextFile] = field(factory=list)
    problems: list[str] = field(factory=list)
    _seen: set[Path] = field(factory=set)

    def take(self, path: Path, roots: Roots, depth: int = 0) -> bool:
        """Read a file and what it imports, imports first; False when there is no such file."""
        try:
            real = path.resolve(strict=True)
            if real in self._seen:
                return True
            if depth == 0 and not (roots.links or roots.admit(real)):
                self._say(f"{path} was not read: it is a link to what is no text of the project itself")
                return True
            if len(self.files) >= FILES_MAX:
                self._say(f"only the first {FILES_MAX} context files were read")
                return True
            raw, more = read_bytes(real, FILE_BYTES_MAX)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except (UnreadableFile, OSError, RuntimeError) as error:
            problem = error.problem if isinstance(error, UnreadableFile) else getattr(error, "strerror", None) or error
            self._say(f"{path}: {problem}")
            return True
        self._seen.add(real)
        text = raw.decode("utf-8-sig", errors="replace" if not more else "ignore").replace("\r\n", "\n").strip()
        for name in imports(text):
            self._import(name, real, roots, depth)
        if text:
            self.files.append(ContextFile(path, text, more))
        return True

    def _import(self, name: str, importer: Path, roots: Roots, depth: int) -> None:
        path = Path(os.path.expanduser(name)) if name.startswith("~/") else importer.parent / name
        try:
            real = path.resolve(strict=True)
            if not real.is_file() or real in self._seen:
                return
        except (OSError, ValueError, RuntimeError):
            if path.suffix.lower() in TEXT_SUFFIXES:
                self._say(f"{importer}: @{name} is not there")
            return
        if not roots.admit(real):
            self._say(f"{importer}: @{name} was not read: only text of the project itself is")
        elif depth >= IMPORT_DEPTH_MAX:
            self._say(f"{importer}: @{name} was not read: it is more than {IMPORT_DEPTH_MAX} imports away")
        else:
            self.take(path, roots, depth + 1)

    def _say(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


def imports(text: str) -> Iterator[str]:
    """The paths that a text imports: words that begin with `@`, outside of code."""
    prose = _CODE.sub(" ", text)
    for found in dict.fromkeys(_IMPORT.findall(prose)):
        name = found.rstrip(".,;:!?)]}\"'")
        if name and "\0" not in name:
            yield name


def read_context(
    cwd: Path, personal: Sequence[Path] = (), *, home: Path | None = None, trusted: bool = False
) -> Reading:
    """The context files that hold in a folder, the nearest last.

    Args:
        cwd: The working folder.
        personal: The person's own folders; the first of them that has such a file gives the first one.
        home: What the imports of that file may lie in, besides its folder.
        trusted: Files of the project may import files of every kind.
    """
    reading = Reading()
    for folder in personal:
        roots = Roots((folder, *((home,) if home is not None else ())), any_kind=True, links=True)
        if _take_first(reading, folder, roots):
            break
    project = git_root(cwd) or cwd
    for folder in [*reversed(cwd.parents), cwd]:
        inside = project if folder.is_relative_to(project) else folder
        _take_first(reading, folder, Roots((inside,), any_kind=trusted))
    return reading


def _take_first(reading: Reading, folder: Path, roots: Roots) -> bool:
    return any(reading.take(folder / name, roots) for name in NAMES)
