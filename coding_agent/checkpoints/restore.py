"""Edge. Puts files back as a plan says, each only if it is still what the plan was made for.

Going back is itself a checkpoint, so what was there before is kept too.
"""

import os
from collections.abc import Sequence

from attrs import frozen

from coding_agent.checkpoints.plan import Moment, Plan, Step, plan
from coding_agent.checkpoints.records import FileChange, FileState
from coding_agent.checkpoints.snapshot import FILE_BYTES_MAX, NotKept, keep, look
from coding_agent.checkpoints.store import CheckpointStore
from coding_agent.tools.files import Fence, Version, read_bytes, remove, replace
from coding_agent.tools.paths import PathGuard, Place
from lemon_agent import ToolError


@frozen
class Outcome:
    """What was done.

    Attributes:
        done: The files that are as they were.
        failed: Those that are not, each with the reason: conflicts, and what went wrong on the way.
    """

    done: tuple[Step, ...]
    failed: tuple[tuple[Step, str], ...]


def plan_rewind(store: CheckpointStore, guard: PathGuard, moment: Moment) -> Plan:
    """What going back to a moment would do; nothing is changed."""
    return plan(store.all(), moment, lambda path: look(guard, path)[0], store.has)


def rewind_files(store: CheckpointStore, guard: PathGuard, todo: Plan) -> Outcome:
    """Do it. Conflicts are left alone; a file that cannot be put back does not keep the others from it.

    Raises:
        OSError: What is there now could not be kept first. Nothing was changed.
    """
    checkpoint = store.begin("rewind", "", "rewind")
    done: list[Step] = []
    files: list[FileChange] = []
    failed = [(step, step.why) for step in todo.conflicts]
    for step in todo.changes:
        try:
            before = _put_back(store, guard, step)
        except (ToolError, NotKept, ValueError) as error:
            failed.append((step, str(error)))
        else:
            done.append(step)
            files.append(FileChange(step.path, before, step.target))
    if files:
        store.save(checkpoint.with_files(tuple(files), store.next_settled()))
    return Outcome(tuple(done), tuple(failed))


def _put_back(store: CheckpointStore, guard: PathGuard, step: Step) -> FileState:
    """One file; answers what was there.

    Raises:
        ToolError: It is not what the plan was made for any more, or cannot be written.
    """
    with guard.locate(step.path) as place:
        if place.real != step.path or place.linked or place.kernel:
            raise ToolError("a link leads elsewhere now")
        before = keep(place, store)
        if not before.same_content(step.found):
            raise ToolError("it was changed meanwhile")
        expected = None if place.status is None else Version.of(place.status)
        if step.target.sha is None:
            remove(place, Fence(), expected=expected)
        else:
            if step.what != "mode":
                data = store.get(step.target.sha)
                replace(place, [data], Fence(), expected=expected, mode=step.target.mode)
            _set_mode(place, step.target.mode)
        return before


def _set_mode(place: Place, mode: int) -> None:
    fd = os.open(place.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place.directory)
    try:
        os.fchmod(fd, mode & 0o777)
    finally:
        os.close(fd)


def difference(store: CheckpointStore, guard: PathGuard, step: Step) -> str:
    """What putting a file back changes in it, as a diff; empty when that cannot be shown."""
    from coding_agent.tools import diff
    from coding_agent.tools.text_file import NotText, decode

    try:
        with guard.locate(step.path) as place:
            now = b"" if place.status is None else read_bytes(place, FILE_BYTES_MAX)[0]
        then = b"" if step.target.sha is None else store.get(step.target.sha)
        return diff.whole(decode(now).text, decode(then).text)
    except (ToolError, NotText, OSError, ValueError):
        return ""


def described(steps: Sequence[Step], guard: PathGuard) -> list[str]:
    """A line for each file."""
    words = {"write": "restore", "create": "bring back", "delete": "delete", "mode": "restore the mode of"}
    return [f"{words.get(step.what, step.what)} {guard.shown(step.path)}" for step in steps]
