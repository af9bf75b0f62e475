"""Edge. The one guard for paths: every tool that touches a file gets its `Place` here and nowhere else.

A path is walked by hand, one component at a time from a directory that is already open, and symbolic links are
followed by reading them. So the guard knows where a path really leads, and what is done to the file afterwards is done
in that open directory, whatever is renamed or linked meanwhile. Links may lead anywhere *inside* the workspace; what
lies outside is a question of policy, and kernel file systems and devices are refused always.
"""

import errno
import os
import re
import stat
import unicodedata
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

from attrs import define, frozen

from lemon_agent import ToolError

Purpose: TypeAlias = Literal["read", "write"]
Policy: TypeAlias = Literal["ask", "allow", "deny"]

LINKS_MAX: Final = 40
LONGEST_PATH: Final = 4096
DIRECTORY: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
KERNEL_FOLDERS: Final = ("/proc", "/sys", "/dev")
PROTECTED: Final = frozenset({".git", ".lemon"})
"""Folders whose files make other programs run code or change our own settings: writing there is asked for."""
SPACES: Final = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
QUOTES: Final = str.maketrans({"\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u201c": '"', "\u201d": '"'})


@frozen
class AccessRequest:
    """A path that the guard does not decide about by itself.

    Attributes:
        path: Where it really leads.
        purpose: What for.
        reason: Why it is asked, as a sentence for a person.
    """

    path: str
    purpose: Purpose
    reason: str


Approve: TypeAlias = Callable[[AccessRequest], Awaitable[bool]]


@define
class Place:
    """Where a path leads, checked: a name in a directory that is held open.

    Whoever works on it, usually a thread, does so in a `with` block. One that nobody came to use closes itself.

    Attributes:
        given: The path as it was asked for.
        real: The absolute path without links.
        shown: For people: relative to the workspace when inside, absolute otherwise.
        name: The last component; "." for a directory that has no name here, such as the workspace itself.
        missing: Directories that do not exist yet between the open one and the name.
        status: The file's own, None when it does not exist.
        inside: Within the workspace.
        kernel: On a file system that the kernel makes up, or among the devices.
        renamed: The name was found in another spelling than asked for.
        linked: The last part of the path is a symbolic link, which was followed.
    """

    given: str
    real: str
    shown: str
    name: str
    directory: int
    missing: tuple[str, ...]
    status: os.stat_result | None
    inside: bool
    kernel: bool
    renamed: bool
    linked: bool = False

    def __enter__(self) -> "Place":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Let the directory go."""
        if self.directory >= 0:
            os.close(self.directory)
            self.directory = -1

    @property
    def is_dir(self) -> bool:
        """Does a directory stand there?"""
        return self.status is not None and stat.S_ISDIR(self.status.st_mode)


class PathGuard:
    """Says where paths lead, and what may be done there.

    Attributes:
        root: The workspace, without links.
    """

    def __init__(
        self,
        cwd: str | Path,
        *,
        outside: Policy = "ask",
        approve: Approve | None = None,
        readable: Sequence[str | Path] = (),
    ) -> None:
        """Args:
        cwd: The workspace; relative paths start here.
        outside: What to do about paths that lead out of it.
        approve: Asked when the policy says so; without it nobody is there to ask, and the answer is no.
        readable: Further folders that may be read.
        """
        self.root = os.path.realpath(cwd)
        self._outside = outside
        self._approve = approve
        self._readable = [os.path.realpath(each) for each in readable]
        self._roots: list[str] = []
        self._kernel_devices = {os.stat(each).st_dev for each in KERNEL_FOLDERS[:2] if os.path.isdir(each)}

    def allow_reading(self, folder: str | Path) -> None:
        """Let everything in `folder` be read from now on."""
        real = os.path.realpath(folder)
        if real not in self._readable:
            self._readable.append(real)

    def work_in(self, folder: str | Path) -> None:
        """Let this folder be worked in as the workspace is, from now on. Relative paths do not start there."""
        real = os.path.realpath(folder)
        if real not in self._roots and not contains(self.root, real):
            self._roots.append(real)

    def shown(self, real: str) -> str:
        """A real path as people should see it."""
        return os.path.relpath(real, self.root) if contains(self.root, real) else real

    def locate(self, path: str, *, tolerant: bool = False) -> Place:
        """Find where `path` leads, links followed. Says nothing about whether it may be used: see `admit`.

        Args:
            path: Absolute, relative to the workspace, or starting with `~`.
            tolerant: A name that does not exist may be found in another Unicode spelling, if just one fits.

        Raises:
            ToolError: There is no such path to walk, for the reason the text gives.
        """
        absolute = self._absolute(path)
        try:
            return _Walk(self, path, tolerant).walk(absolute)
        except OSError as error:
            raise path_error(error, path) from error

    async def admit(self, place: Place, purpose: Purpose) -> None:
        """Return when the place may be used.

        Raises:
            ToolError: It may not; the text says why and what would be possible.
        """
        if place.kernel:
            raise ToolError(f"{place.given} leads to {place.real}: devices and kernel files are not for this tool")
        reason = self.question(place, purpose)
        if reason is None:
            return
        if self._outside == "ask" and self._approve is not None:
            if await self._approve(AccessRequest(place.real, purpose, reason)):
                return
            raise ToolError(f"Not allowed: {reason}")
        why = "the policy forbids it" if self._outside == "deny" else "nobody is there to allow it"
        raise ToolError(f"Not allowed: {reason}, and {why}")

    def question(self, place: Place, purpose: Purpose) -> str | None:
        """What `admit` would have to ask about, as a sentence for a person; None when it would ask nothing."""
        deed = "reading" if purpose == "read" else "writing"
        root = self.root if place.inside else next((each for each in self._roots if contains(each, place.real)), None)
        if root is not None:
            folder = protected_folder(os.path.relpath(place.real, root))
            if purpose == "write" and folder:
                return f"writing {place.shown} in the protected folder {folder}"
            return None
        if purpose == "read" and any(contains(each, place.real) for each in self._readable):
            return None
        if self._outside == "allow":
            return None
        return f"{deed} {place.real}, outside the workspace {self.root}"

    def _absolute(self, path: str) -> str:
        if not path or not path.strip():
            raise ToolError("Path is required")
        if "\0" in path:
            raise ToolError("Path holds a NUL character")
        try:
            length = len(os.fsencode(path))
        except UnicodeEncodeError:
            raise ToolError("Path holds characters that no file name can have") from None
        if length > LONGEST_PATH:
            raise ToolError(f"Path is longer than {LONGEST_PATH} bytes")
        expanded = os.path.expanduser(path) if path.startswith("~") else path
        return expanded if expanded.startswith("/") else f"{self.root}/{expanded}"


class _Walk:
    """One walk. Holds the directories on the way open, so that `..` leads back to where it came from."""

    def __init__(self, guard: PathGuard, given: str, tolerant: bool) -> None:
        self.guard = guard
        self.given = given
        self.tolerant = tolerant
        self.renamed = False
        self.linked = False
        self.names: list[str] = []
        self.directories: list[int] = []

    def walk(self, absolute: str) -> Place:
        try:
            self.directories.append(os.open("/", DIRECTORY))
            return self._steps(deque(absolute.split("/")))
        finally:
            for directory in self.directories:
                os.close(directory)

    def _steps(self, parts: "deque[str]") -> Place:
        links = 0
        while parts:
            part = parts.popleft()
            if part == "..":
                self._up()
            elif part not in ("", "."):
                part, status = self._look(part)
                if status is None:
                    return self._missing(part, parts)
                if stat.S_ISLNK(status.st_mode):
                    links += 1
                    if links > LINKS_MAX:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                    self.linked = self.linked or not any(parts)
                    self._follow(part, parts)
                elif stat.S_ISDIR(status.st_mode):
                    self.directories.append(os.open(part, DIRECTORY, dir_fd=self.directories[-1]))
                    self.names.append(part)
                else:
                    return self._file(part, parts, status)
        return self._place(".", (), os.fstat(self.directories[-1]), self.names)

    def _up(self) -> None:
        if self.names:
            self.names.pop()
            os.close(self.directories.pop())

    def _follow(self, part: str, parts: "deque[str]") -> None:
        target = os.readlink(part, dir_fd=self.directories[-1])
        if target.startswith("/"):
            while self.names:
                self._up()
        parts.extendleft(reversed(target.split("/")))

    def _look(self, part: str) -> tuple[str, os.stat_result | None]:
        here = self.directories[-1]
        try:
            return part, os.stat(part, dir_fd=here, follow_symlinks=False)
        except FileNotFoundError:
            if not self.tolerant:
                return part, None
        other = other_spelling(part, self._entries())
        if other is None:
            return part, None
        self.renamed = True
        return other, os.stat(other, dir_fd=here, follow_symlinks=False)

    def _entries(self) -> list[str]:
        reading = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.directories[-1])
        try:
            return os.listdir(reading)
        finally:
            os.close(reading)

    def _file(self, part: str, parts: "deque[str]", status: os.stat_result) -> Place:
        if any(parts):  # also a trailing slash's empty part is fine, anything named is not
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return self._place(part, (), status, [*self.names, part])

    def _missing(self, part: str, parts: "deque[str]") -> Place:
        rest = [part, *(each for each in parts if each not in ("", "."))]
        if ".." in rest:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self._place(rest[-1], tuple(rest[:-1]), None, self.names + rest)

    def _place(self, name: str, missing: tuple[str, ...], status: os.stat_result | None, names: list[str]) -> Place:
        real = "/" + "/".join(names)
        directory = self.directories.pop()
        root = self.guard.root
        kernel = any(contains(each, real) and not contains(each, root) for each in KERNEL_FOLDERS)
        kernel = kernel or os.fstat(directory).st_dev in self.guard._kernel_devices
        return Place(
            given=self.given,
            real=real,
            shown=self.guard.shown(real),
            name=name,
            directory=directory,
            missing=missing,
            status=status,
            inside=contains(root, real),
            kernel=kernel,
            renamed=self.renamed,
            linked=self.linked,
        )


def contains(folder: str, real: str) -> bool:
    """Is `real` the folder or in it? Both without links."""
    return real == folder or real.startswith(folder if folder.endswith("/") else folder + "/")


def protected_folder(relative: str) -> str | None:
    """The protected folder that a path relative to the workspace leads into, however it is spelled."""
    for part in relative.split("/"):
        folded = unicodedata.normalize("NFKC", part).casefold().rstrip(" .")
        folded = "".join(char for char in folded if unicodedata.category(char) != "Cf")
        if folded in PROTECTED:
            return part
    return None


def folded_name(name: str) -> str:
    """A file name with accents composed and spaces and quotes made plain."""
    return unicodedata.normalize("NFC", SPACES.sub(" ", name.translate(QUOTES)))


def other_spelling(name: str, entries: Sequence[str]) -> str | None:
    """The one entry that is `name` but for its Unicode spelling; None when none is or several are."""
    wanted = folded_name(name)
    fitting = [entry for entry in entries if folded_name(entry) == wanted]
    return fitting[0] if len(fitting) == 1 else None


def path_error(error: OSError, path: str) -> ToolError:
    """What the model is told about an error of the operating system."""
    if isinstance(error, FileNotFoundError):
        return ToolError(f"File not found: {path}")
    if isinstance(error, PermissionError):
        return ToolError(f"Permission denied: {path}")
    if isinstance(error, IsADirectoryError):
        return ToolError(f"Path is a directory, not a file: {path}")
    if isinstance(error, NotADirectoryError):
        return ToolError(f"Path leads through something that is not a directory: {path}")
    if error.errno == errno.ELOOP:
        return ToolError(f"Too many symbolic links, or the path was changed meanwhile: {path}")
    if error.errno == errno.ENAMETOOLONG:
        return ToolError(f"File name too long: {path[:200]}")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ToolError(f"No space left on the disk; nothing was changed: {path}")
    if error.errno == errno.EROFS:
        return ToolError(f"The file system is read-only: {path}")
    return ToolError(f"{error.strerror or error}: {path}")
