"""Edge. What in a project could run something or weaken a rule, and a digest of each file of it.

Context files (`AGENTS.md`, `CLAUDE.md`) are not among them: they are words, and no rule gives way to words.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from coding_agent.resources.places import MCP_PROJECT_FILES, OURS, PI, agents_folders

FILES_MAX: Final = 2_000
BYTES_MAX: Final = 64 * 1024 * 1024
DEPTH_MAX: Final = 12
_CHUNK: Final = 1024 * 1024

_FOLDERS: Final[Sequence[tuple[str, str]]] = (
    (f"{OURS}/skills", "skills: instructions the model may follow"),
    (f"{PI}/skills", "skills: instructions the model may follow"),
    (f"{OURS}/prompts", "templates: what /NAME stands for"),
    (f"{PI}/prompts", "templates: what /NAME stands for"),
    (f"{OURS}/agents", "subagents: who they are and which model they use"),
    (f"{OURS}/extensions", "extensions: Python that runs in this program"),
)
_FILES: Final[Sequence[tuple[str, str]]] = (
    *((name, "MCP servers: starts programs, or connects to servers") for name in MCP_PROJECT_FILES),
    *((f"{folder}/{name}", "the system prompt") for folder in (OURS, PI) for name in ("SYSTEM.md", "APPEND_SYSTEM.md")),
)
UNREADABLE: Final = "unreadable"


class TooMuch(Exception):
    """There are more files than anybody would look through."""


@frozen
class Needs:
    """What else of a project waits for trust, known from its settings.

    Attributes:
        settings: Its settings files, each with the keys in it that only count when it is trusted.
        paths: Files and folders these name.
        claude: `.claude/commands` and `.claude/skills` are read.
    """

    settings: Mapping[Path, tuple[str, ...]] = field(factory=dict)
    paths: tuple[Path, ...] = ()
    claude: bool = False


@frozen
class Found:
    """What waits for trust.

    Attributes:
        files: A digest of each, by its name as seen from the project.
        lines: For a person: each file or folder, and what it does.
        too_much: There are more files than were looked at; nobody can be asked to trust them.
    """

    files: Mapping[str, str]
    lines: tuple[str, ...]
    too_much: bool = False


def look(project: Path, home: Path, needs: Needs) -> Found:
    """Look for everything that waits for trust. Only reads."""
    reading = Reading(project)
    lines: list[str] = []
    own = {os.path.realpath(home / OURS / "agents"), os.path.realpath(home / ".agents" / "skills")}
    try:
        for path, what in _wanted(project, needs):
            if os.path.realpath(path) not in own and reading.take(path):
                lines.append(f"{_name(path, project)}: {what}")
    except TooMuch:
        return Found(reading.digests, tuple(lines), too_much=True)
    return Found(reading.digests, tuple(lines))


def digest_of(project: Path, name: str) -> str | None:
    """The digest of one file as it is now, by its name as seen from the project; None when there is none."""
    reading = Reading(project)
    try:
        reading.take(project / name)
    except TooMuch:
        return None
    return reading.digests.get(name)


def _wanted(project: Path, needs: Needs) -> Iterator[tuple[Path, str]]:
    for path, keys in needs.settings.items():
        yield path, f"settings: {', '.join(keys)}"
    for name, what in (*_FILES, *_FOLDERS):
        yield project / name, what
    for folder in agents_folders(project):
        yield folder, "skills: instructions the model may follow"
    if needs.claude:
        yield project / ".claude" / "commands", "templates: what /NAME stands for"
        yield project / ".claude" / "skills", "skills: instructions the model may follow"
    for path in needs.paths:
        yield path, "named in the settings"


@define
class Reading:
    """Digests of files, those below folders too, up to a bound."""

    project: Path
    digests: dict[str, str] = field(factory=dict)
    _bytes: int = 0
    _folders: set[str] = field(factory=set)

    def take(self, path: Path, depth: int = 0) -> bool:
        """Read what is there; False when there is nothing.

        Raises:
            TooMuch: The bound is reached.
        """
        try:
            link = os.readlink(path) if path.is_symlink() else ""
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except (OSError, ValueError):
            return self._keep(path, UNREADABLE)
        if stat.S_ISDIR(status.st_mode):
            return self._folder(path, depth)
        if not stat.S_ISREG(status.st_mode):
            return self._keep(path, f"special {stat.S_IFMT(status.st_mode):o}")
        return self._keep(path, self._digest(path, link))

    def _folder(self, path: Path, depth: int) -> bool:
        real = os.path.realpath(path)
        if real in self._folders:
            return False
        if depth > DEPTH_MAX:
            raise TooMuch
        self._folders.add(real)
        try:
            names = sorted(os.listdir(path))
        except OSError:
            return self._keep(path, UNREADABLE)
        if len(names) > FILES_MAX:
            raise TooMuch
        taken = [self.take(path / name, depth + 1) for name in names]
        return any(taken)

    def _digest(self, path: Path, link: str) -> str:
        seen = hashlib.sha256(link.encode(errors="surrogateescape") + b"\0")
        try:
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as source:
                while chunk := source.read(_CHUNK):
                    self._bytes += len(chunk)
                    if self._bytes > BYTES_MAX:
                        raise TooMuch
                    seen.update(chunk)
        except OSError:
            return UNREADABLE
        return seen.hexdigest()

    def _keep(self, path: Path, digest: str) -> bool:
        if len(self.digests) >= FILES_MAX:
            raise TooMuch
        self.digests[_name(path, self.project)] = digest
        return True


def _name(path: Path, project: Path) -> str:
    """As seen from the project; characters no name should have are shown as escapes."""
    text = os.path.relpath(path, project)
    return text.encode("utf-8", "backslashreplace").decode().encode("unicode_escape").decode() if _odd(text) else text


def _odd(text: str) -> bool:
    return not text.isprintable()
