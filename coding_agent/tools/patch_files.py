"""Edge. What the tool `patch` does: check every operation, make every new content in memory, then write them all.

Loaded with the first patch. When a write fails in the middle, what was written before is put back.
"""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final

from attrs import define, field

from coding_agent.tools import diff
from coding_agent.tools.edits import Change
from coding_agent.tools.files import Fence, Version, read_bytes, remove, replace
from coding_agent.tools.patch_format import BadPatch, Operation, changes_of, parse
from coding_agent.tools.paths import Place
from coding_agent.tools.text_file import NotText, TextFile, decode
from coding_agent.tools.workspace import Workspace
from lemon_agent import AgentToolResult, ToolError, text_result

FILE_BYTES_MAX: Final = 10 * 1024 * 1024
DIFF_BYTES_MAX: Final = 24_000


@define
class Step:
    """One file's part of the patch.

    Attributes:
        place: Where the operation is.
        target: Where a moved file goes, else None.
        old: The content before, None for a new file.
        new: The content after, None for a deleted one.
    """

    operation: Operation
    place: Place
    target: Place | None
    old: bytes | None = field(default=None, repr=False)
    new: bytes | None = field(default=None, repr=False)
    version: Version | None = None
    mode: int | None = None
    diff: str = ""
    loose: bool = False


@define
class Done:
    """What a patch did."""

    changed: list[str] = field(factory=list)
    additions: int = 0
    removals: int = 0
    diffs: list[str] = field(factory=list)
    loose: list[str] = field(factory=list)
    versions: dict[str, Version | None] = field(factory=dict)


def paths_in(text: str) -> list[str]:
    """Every path a patch names; none when it cannot be read."""
    try:
        operations = parse(text)
    except BadPatch:
        return []
    return [path for one in operations for path in (one.path, one.move_to) if path is not None]


class Patching:
    """One patch on its way."""

    def __init__(self, workspace: Workspace, steps: list[Step]) -> None:
        self._workspace = workspace
        self._steps = steps

    @classmethod
    async def of(cls, workspace: Workspace, text: str) -> "Patching":
        """Read the patch and admit every path in it.

        Raises:
            ToolError: It cannot be read, names a file twice, or leads where it must not.
        """
        try:
            operations = parse(text)
        except BadPatch as error:
            raise ToolError(f"Invalid patch: {error}") from error
        steps: list[Step] = []
        for operation in operations:
            place = await cls._place(workspace, operation.path)
            target = None if operation.move_to is None else await cls._place(workspace, operation.move_to)
            steps.append(Step(operation, place, target))
        named = [each.real for step in steps for each in (step.place, step.target) if each is not None]
        twice = {real for real in named if named.count(real) > 1}
        if twice:
            raise ToolError(f"Invalid patch: more than one operation on {workspace.guard.shown(min(twice))}")
        return cls(workspace, steps)

    @staticmethod
    async def _place(workspace: Workspace, path: str) -> Place:
        if "//" in path:
            raise ToolError(f"Invalid patch: the path {path!r} holds '//'")
        place = await workspace.place(path, "write")
        if place.linked:
            raise ToolError(f"Invalid patch: {path} is a symbolic link")
        return place

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Around `apply`: no other call works on these files. In one order, so that two patches cannot block."""
        reals = {each.real for step in self._steps for each in (step.place, step.target) if each is not None}
        async with AsyncExitStack() as stack:
            for real in sorted(reals):
                await stack.enter_async_context(self._workspace.writing(real))
            yield

    def apply(self, fence: Fence) -> Done:
        """Check everything, then write everything; in a worker thread.

        Raises:
            ToolError: Something does not fit, or a write failed; every file is as it was.
        """
        places = [each for step in self._steps for each in (step.place, step.target) if each is not None]
        try:
            for step in self._steps:
                self._prepare(step)
            return self._write(fence)
        finally:
            for place in places:
                place.close()

    def _prepare(self, step: Step) -> None:
        operation, place = step.operation, step.place
        if operation.kind == "add":
            if place.status is not None:
                raise ToolError(f"Cannot add {operation.path}: it exists already")
            step.new = encoded(operation.content, "utf-8", operation.path)
            step.diff = diff.whole("", operation.content)
            return
        if place.status is None:
            raise ToolError(f"File not found: {operation.path}")
        if step.target is not None and step.target.status is not None:
            raise ToolError(f"Cannot move to {operation.move_to}: it exists already")
        step.old, status = read_bytes(place, FILE_BYTES_MAX)
        step.version, step.mode = Version.of(status), status.st_mode
        if operation.kind == "delete":
            return
        file = text_of(place, step.old)
        try:
            changes = changes_of(file.text, operation.hunks, operation.path)
        except BadPatch as error:
            raise ToolError(str(error)) from error
        step.new = spliced(place, file, changes)
        step.loose = any(change.loose for change in changes)
        step.diff = diff.unified(file.text, changes) if changes else ""

    def _write(self, fence: Fence) -> Done:
        done = Done()
        undo: list[Step] = []
        try:
            for step in self._steps:
                undo.append(step)
                self._write_one(step, fence, done)
        except BaseException:
            for step in reversed(undo):
                put_back(step)
            raise
        return done

    def _write_one(self, step: Step, fence: Fence, done: Done) -> None:
        target = step.target or step.place
        if step.new is not None:
            after = replace(target, [step.new], fence, expected=None if step.target else step.version, mode=step.mode)
            done.versions[target.real] = Version.of(after)
        if step.new is None or step.target is not None:
            remove(step.place, fence, expected=step.version)
            done.versions[step.place.real] = None
        done.changed.append(described(step))
        lines = step.diff.split("\n")
        done.additions += sum(line.startswith("+") for line in lines)
        done.removals += sum(line.startswith("-") for line in lines)
        if step.old is not None and step.new is None:
            done.removals += step.old.count(b"\n")
        if step.diff:
            done.diffs.append(f"--- {target.shown}\n{step.diff}")
        if step.loose:
            done.loose.append(target.shown)


def text_of(place: Place, data: bytes) -> TextFile:
    """The file as text.

    Raises:
        ToolError: It is binary.
    """
    try:
        return decode(data)
    except NotText:
        raise ToolError(f"{place.given} is a binary file; patch changes text only") from None


def spliced(place: Place, file: TextFile, changes: list[Change]) -> bytes:
    """The new content.

    Raises:
        ToolError: It has a character that the file's encoding has not.
    """
    try:
        return b"".join(file.spliced([(change.start, change.end, change.new) for change in changes]))
    except UnicodeEncodeError as error:
        raise ToolError(f"{place.given} is encoded in {file.encoding}: {error.reason}") from None


def encoded(text: str, encoding: str, path: str) -> bytes:
    """The bytes of a new file.

    Raises:
        ToolError: It holds half a character.
    """
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        raise ToolError(f"The content of {path} holds half a character (a lone surrogate)") from None


def put_back(step: Step) -> None:
    """Undo what was done of one step, as far as nobody else has changed it since."""
    free = Fence()
    with suppress(ToolError, OSError):
        target = step.target or step.place
        if step.old is None or step.target is not None:
            _forget(target, step.new, free)
        if step.old is not None:
            step.place.status = _status(step.place)
            if step.place.status is None or _content(step.place) == step.new:
                replace(step.place, [step.old], free, mode=step.mode)


def _forget(place: Place, written: bytes | None, free: Fence) -> None:
    place.status = _status(place)
    if place.status is not None and _content(place) == written:
        remove(place, free)


def _status(place: Place) -> os.stat_result | None:
    try:
        return os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _content(place: Place) -> bytes:
    return read_bytes(place, FILE_BYTES_MAX)[0]


def described(step: Step) -> str:
    """One line about a step."""
    if step.operation.kind == "add":
        return f"A {step.place.shown}"
    if step.operation.kind == "delete":
        return f"D {step.place.shown}"
    if step.target is not None:
        return f"R {step.place.shown} -> {step.target.shown}"
    return f"M {step.place.shown}"


def report(done: Done) -> AgentToolResult:
    """What the model and the screen are told."""
    count = len(done.changed)
    lines = [
        f"Patch applied: {count} {'file' if count == 1 else 'files'}, {done.additions} additions, "
        f"{done.removals} removals.",
        *done.changed,
    ]
    if done.loose:
        lines.append(f"Note: blanks at line ends differ from the patch in {', '.join(done.loose)}.")
    diffs = "\n".join(done.diffs)
    details = {
        "changed": done.changed,
        "additions": done.additions,
        "removals": done.removals,
        "diff": diffs if len(diffs) <= DIFF_BYTES_MAX else diffs[:DIFF_BYTES_MAX] + "\n[... cut ...]",
    }
    return text_result("\n".join(lines), details)
