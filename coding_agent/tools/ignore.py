"""Edge. What `.gitignore` files say about a path; their meaning is pathspec's, which is asked only where it must be.

Shared with the program `search_main`, so it imports nothing of ours and nothing heavy. Like git and ripgrep: the rules
of a directory's own file come before those of its parents, and a directory that holds a `.git` has no parents.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

IGNORE_FILE: Final = ".gitignore"
REPOSITORY: Final = ".git"
IGNORE_BYTES_MAX: Final = 1_000_000
READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
SIMPLE: Final = re.compile(r"(\*?)([\w.+~@,=%-]+)(/?)")
"""A name, or a star and an ending: what most lines of such files are, and fast to decide."""


class IgnoreFile:
    """One file's rules, for paths relative to its directory."""

    def __init__(self, lines: list[str]) -> None:
        # An exception makes the order of all lines matter; then nothing can be taken out of it.
        mixed = any(line.startswith("!") for line in lines)
        simple = {line: None if mixed else SIMPLE.fullmatch(line) for line in lines}
        found = [match for match in simple.values() if match]
        self.names = frozenset(match[2] for match in found if not match[1] and not match[3])
        self.folders = frozenset(match[2] for match in found if not match[1] and match[3])
        self.endings = tuple(match[2] for match in found if match[1] and not match[3])
        self.folder_endings = tuple(match[2] for match in found if match[1] and match[3])
        rest = [line for line in lines if not simple[line]]
        self.spec = git_spec(rest) if rest else None
        self.folder_spec = git_spec([about_inside(line) for line in rest]) if rest else None
        self.lines = [Line(line) for line in reversed(rest)]

    def says(self, relative: str, name: str, is_dir: bool) -> bool | None:
        """True: ignored, False: named as an exception, None: nothing."""
        if name in self.names or name.endswith(self.endings):
            return True
        if is_dir and (name in self.folders or name.endswith(self.folder_endings)):
            return True
        spec, path = (self.folder_spec, relative + "/") if is_dir else (self.spec, relative)
        if spec is None or spec.check_file(path).include is None:
            return None
        return next((not line.is_exception for line in self.lines if line.is_about(relative, name, is_dir)), None)


class Line:
    """One line of a file: it is about what it names, not about what is inside that.

    What is inside an ignored directory is never asked about; what is inside one that an exception gave back is
    judged by itself.
    """

    def __init__(self, line: str) -> None:
        self.is_exception = line.startswith("!")
        pattern = line[1:] if self.is_exception else line
        self.spec = git_spec([pattern])
        self.folder_spec = git_spec([about_inside(pattern)])
        self.core = pattern.strip().rstrip("/")

    def is_about(self, relative: str, name: str, is_dir: bool) -> bool:
        """Does the line decide about this path?"""
        spec, end = (self.folder_spec, "/") if is_dir else (self.spec, "")
        if self.core.endswith("/**"):
            return bool(spec.match_file(relative + end))
        if "/" not in self.core:
            return bool(spec.match_file(name + end))
        parent = relative.rpartition("/")[0]
        inside = bool(parent) and self.folder_spec.match_file(parent + "/")
        return bool(spec.match_file(relative + end)) and not inside


def about_inside(line: str) -> str:
    """The line for directories: `d/**` is about what is in `d` and not about `d`; pathspec takes it for both."""
    return line[:-1] if line.endswith("/**") else line


def parsed(text: str) -> IgnoreFile | None:
    """The rules of a file's text; None when it has none."""
    lines = [line.rstrip("\r") for line in text.split("\n")]
    lines = [line for line in lines if line.strip() and not line.startswith("#")]
    return IgnoreFile(lines) if lines else None


def git_spec(lines: list[str]) -> Any:
    """The lines as pathspec understands them; a line it cannot read is left out."""
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        good = []
        for line in lines:
            try:
                GitIgnoreSpec.from_lines([line])
            except ValueError:
                continue
            good.append(line)
        return GitIgnoreSpec.from_lines(good)


def read_ignore_file(directory: int) -> IgnoreFile | None:
    """The rules in an open directory, None when it has none that can be read."""
    try:
        fd = os.open(IGNORE_FILE, READ_FLAGS, dir_fd=directory)
    except OSError:
        return None
    try:
        return parsed(os.read(fd, IGNORE_BYTES_MAX).decode(errors="replace"))
    except OSError:
        return None
    finally:
        os.close(fd)


class Rules:
    """The ignore files that apply in a directory, innermost first.

    Each stands with the length of its own directory's path, as the walk spells it, and with what must be put before a
    path when its directory is above where the walk began.
    """

    def __init__(self, chain: tuple[tuple[IgnoreFile, int, str], ...] = ()) -> None:
        self.chain = chain

    @classmethod
    def above(cls, directory: int, prefix: str) -> Rules:
        """What the parents of an open directory say about what is in it; `prefix` is how the walk spells paths."""
        chain: list[tuple[IgnoreFile, int, str]] = []
        before = ""
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
        path = os.readlink(f"/proc/self/fd/{here}") if os.path.isdir("/proc/self/fd") else ""
        try:
            while path not in ("", "/") and not exists(here, REPOSITORY):
                path, _, name = path.rpartition("/")
                before = f"{name}/{before}"
                parent = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=here)
                os.close(here)
                here = parent
                own = read_ignore_file(here)
                if own is not None:
                    chain.append((own, len(prefix), before))
        except OSError:
            pass
        finally:
            os.close(here)
        return cls(tuple(chain))

    def inside(self, directory: int, prefix: str, *, has_file: bool, is_repository: bool) -> Rules:
        """The rules within a directory, whose entries' paths all begin with `prefix`."""
        outer = () if is_repository else self.chain
        own = read_ignore_file(directory) if has_file else None
        if own is not None:
            return Rules(((own, len(prefix), ""), *outer))
        return Rules() if is_repository else self

    def ignored(self, path: str, name: str, is_dir: bool) -> bool:
        """Is this entry to be passed over? The innermost file that says anything decides."""
        for rules, skip, before in self.chain:
            verdict = rules.says(before + path[skip:], name, is_dir)
            if verdict is not None:
                return verdict
        return False


def exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return True
