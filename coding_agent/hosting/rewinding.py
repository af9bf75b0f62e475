"""Edge. Going back to an entry of the session that is open: files, conversation or both; or what that would do."""

import asyncio
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from coding_agent import client
from coding_agent.checkpoints.history import history_of
from coding_agent.checkpoints.plan import Moment
from coding_agent.checkpoints.restore import described, plan_rewind, rewind_files
from coding_agent.checkpoints.rewind_command import moment_of
from coding_agent.errors import SessionBusy
from coding_agent.hosting.desk import Desk
from coding_agent.storage.navigation import plan_navigation
from coding_agent.storage.session_manager import SessionManager
from coding_agent.tools.paths import PathGuard
from lemon_otp import frozen

What: TypeAlias = Literal["code", "chat", "both"]
WHAT: Final[Sequence[What]] = ("code", "chat", "both")


@frozen
class Rewound:
    """What was done, or would be.

    Attributes:
        changes: A line for each file.
        conflicts: What is left alone, with the reason.
        editor_text: The user's words there, to edit and send again.
    """

    changes: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    editor_text: str | None = None


async def rewind(desk: Desk, entry_id: str, what: What, *, preview: bool = False) -> Rewound:
    """Go back to an entry, or with `preview` say what that would do and change nothing.

    Raises:
        SessionBusy: A run is going on. Nothing was changed.
        EntryNotFound: There is no such entry. Nothing was changed.
    """
    state = await desk.state()
    if state.phase != "idle" and not preview:
        raise SessionBusy(state.session_id, state.phase)
    moment, text = await desk.look(lambda store: _moment(store, entry_id))
    changes: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    if what in ("code", "both"):
        changes, conflicts = await asyncio.to_thread(_files, desk, moment, preview)
    if what in ("chat", "both") and not preview:
        text = (await client.navigate_tree(await desk.pid(), entry_id)).editor_text
    return Rewound(changes, conflicts, text if what in ("chat", "both") else None)


def _moment(store: SessionManager, entry_id: str) -> tuple[Moment, str | None]:
    store.position(entry_id)  # says which entry there is not
    navigation = plan_navigation(store.log, entry_id)
    leaf = entry_id if navigation is None else navigation.new_leaf
    return moment_of(store, leaf), None if navigation is None else navigation.editor_text


def _files(desk: Desk, moment: Moment, preview: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    store = history_of(desk.session.file)
    guard = PathGuard(desk.host.settings.cwd, outside="allow")
    if moment.at_ms <= store.pruned_until_ms():
        return (), ("the checkpoints of that time were removed to make room; files stay as they are",)
    todo = plan_rewind(store, guard, moment)
    notes = [f"{guard.shown(path.rstrip('/'))}: changed by a command, not undone" for path in todo.by_commands]
    if todo.partial:
        notes.append("commands may have changed more: the folder was too large to look through")
    if preview:
        left = [f"{guard.shown(step.path)}: {step.why}" for step in todo.conflicts]
        return tuple(described(todo.changes, guard)), (*left, *notes)
    outcome = rewind_files(store, guard, todo)
    left = [f"{guard.shown(step.path)}: {why}" for step, why in outcome.failed]
    return tuple(described(outcome.done, guard)), (*left, *notes)
