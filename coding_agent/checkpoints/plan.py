"""Pure. What going back to an entry means for files: which checkpoints are undone, and what each file becomes.

A file is put back only when it is exactly as a tool of ours left it; whatever else happened to it is a conflict, which
is reported and left alone.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from attrs import field, frozen

from coding_agent.checkpoints.records import Checkpoint, FileState

What: TypeAlias = Literal["write", "create", "delete", "mode", "nothing", "conflict"]


@frozen
class Moment:
    """An entry of the session as a moment for files.

    Attributes:
        at_ms: Its time; 0 for before everything.
        kept: Calls whose results stand at or before it, with the time of the result: what they did stays. Some
            providers use the same ids again, so an id alone says nothing.
    """

    at_ms: int
    kept: Mapping[str, int] = field(factory=dict)

    def undoes(self, checkpoint: Checkpoint) -> bool:
        """Did this happen after the moment? Only time tells for a call that no entry names, such as a subagent's."""
        return checkpoint.at_ms >= self.at_ms and checkpoint.at_ms > self.kept.get(checkpoint.tool_call_id, -1)


@frozen
class Step:
    """What becomes of one file.

    Attributes:
        target: What it is to be.
        found: What it is now; None for something that is no plain file.
        why: For a conflict, as a sentence for people.
    """

    path: str
    what: What
    target: FileState
    found: FileState | None
    why: str = ""


@frozen
class Plan:
    """What going back does.

    Attributes:
        by_commands: Paths that commands changed meanwhile; nobody kept what was there.
        partial: A command may have changed more than is listed.
    """

    steps: tuple[Step, ...]
    by_commands: tuple[str, ...] = ()
    partial: bool = False

    @property
    def conflicts(self) -> tuple[Step, ...]:
        """The files that stay as they are."""
        return tuple(step for step in self.steps if step.what == "conflict")

    @property
    def changes(self) -> tuple[Step, ...]:
        """The files that change."""
        return tuple(step for step in self.steps if step.what not in ("conflict", "nothing"))


def plan(
    checkpoints: Sequence[Checkpoint],
    moment: Moment,
    look: Callable[[str], FileState | None],
    has: Callable[[str], bool],
) -> Plan:
    """What to do to get back to a moment.

    Args:
        checkpoints: All of the session, in the order they were begun.
        moment: Where to.
        look: What stands at a path now; None for no plain file.
        has: Is a content kept?
    """
    undone = [each for each in checkpoints if moment.undoes(each)]
    targets: dict[str, FileState] = {}
    for checkpoint in undone:
        if checkpoint.kind == "files":
            for one in checkpoint.files:
                if one.before is not None:
                    targets.setdefault(one.path, one.before)
    left = _left_by(checkpoints)
    steps = tuple(_step(path, target, left.get(path), look(path), has) for path, target in sorted(targets.items()))
    commands = [each for each in undone if each.kind == "shell"]
    touched = {one.path for each in commands for one in each.files} - {step.path for step in steps}
    return Plan(steps, tuple(sorted(touched)), any(each.partial for each in commands))


def plan_restore(
    checkpoints: Sequence[Checkpoint],
    chosen: Checkpoint,
    paths: Collection[str],
    look: Callable[[str], FileState | None],
    has: Callable[[str], bool],
) -> Plan:
    """What to do to have files as they were before one call, whatever came after it.

    Args:
        checkpoints: All of the session, in the order they were begun.
        chosen: One of them.
        paths: Which of its files.
        look: What stands at a path now; None for no plain file.
        has: Is a content kept?
    """
    targets = {one.path: one.before for one in chosen.files if one.path in paths and one.before is not None}
    left = _left_by(checkpoints)
    return Plan(tuple(_step(path, target, left.get(path), look(path), has) for path, target in sorted(targets.items())))


def _left_by(checkpoints: Iterable[Checkpoint]) -> dict[str, FileState | None]:
    """What the last of our tools left at each path; None where that is not known."""
    last: dict[str, FileState | None] = {}
    unfinished = [each for each in checkpoints if each.settled is None and each.kind != "shell"]
    ended = sorted((each for each in checkpoints if each.settled is not None), key=lambda each: each.settled or 0)
    for checkpoint in ended:
        if checkpoint.kind != "shell":
            last.update({one.path: one.after for one in checkpoint.files})
    for checkpoint in unfinished:
        newest = max((each.id for each in ended if _touches(each, checkpoint)), default="")
        if checkpoint.id > newest:
            last.update({one.path: None for one in checkpoint.files})
    return last


def _touches(one: Checkpoint, other: Checkpoint) -> bool:
    return one.kind != "shell" and bool({each.path for each in one.files} & {each.path for each in other.files})


def _step(
    path: str, target: FileState, left: FileState | None, found: FileState | None, has: Callable[[str], bool]
) -> Step:
    def conflict(why: str) -> Step:
        return Step(path, "conflict", target, found, why)

    if found is None:
        return conflict("something else stands there now")
    if target.same_content(found):
        if target.sha is not None and target.mode != found.mode and found == left:
            return Step(path, "mode", target, found)
        return Step(path, "nothing", target, found)
    if left is None:
        return conflict("it is not known what the agent left there")
    if not left.same_content(found):
        return conflict("it was changed by somebody else, or by a command, since the agent changed it")
    if target.sha is None:
        return Step(path, "delete", target, found)
    if not has(target.sha):
        return conflict("the content it had is not kept any more")
    return Step(path, "create" if found.sha is None else "write", target, found)
