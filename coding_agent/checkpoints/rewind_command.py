"""Edge. `python -m coding_agent rewind SESSION ENTRY`: files, conversation or both, back to an entry.

The session must not be open elsewhere: two writers would undo each other. With `--preview` nothing is changed.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from coding_agent.checkpoints.history import history_of
from coding_agent.checkpoints.plan import Moment, Plan
from coding_agent.checkpoints.restore import Outcome, described, difference, plan_rewind, rewind_files
from coding_agent.checkpoints.store import CheckpointStore
from coding_agent.command_parser import CommandParser
from coding_agent.errors import CodingAgentError
from coding_agent.storage.finding import MEANT, find_session, is_path
from coding_agent.storage.navigation import plan_navigation
from coding_agent.storage.opening import open_for_reading
from coding_agent.storage.session_manager import SessionManager
from coding_agent.storage.stamps import parse_iso
from coding_agent.tools.paths import PathGuard

DONE: Final = 0
INCOMPLETE: Final = 1
FAILED: Final = 2


def main(argv: Sequence[str]) -> int:
    """Run the command; 0 well, 1 some files were left alone, 2 it could not be done."""
    arguments = _parser().parse_args(argv)
    try:
        return _rewind(arguments)
    except (CodingAgentError, OSError) as error:
        print(f"rewind: {error}", file=sys.stderr)
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m coding_agent rewind",
        description="Go back to an entry of a session: what was said, and the files as they were then. "
        "A file that somebody else changed since is left alone and named. What commands changed is named, not undone.",
        epilog="entries: `sessions show SESSION` lists those of the current branch. An entry with your words is gone "
        "back to the moment before them. exit codes: 0 done; 1 some files were left alone; 2 it could not be done",
    )
    parser.add_argument("session", metavar="SESSION", help=MEANT)
    parser.add_argument("entry", metavar="ENTRY", help="the id of an entry")
    what = parser.add_mutually_exclusive_group()
    for name, meaning in (("code", "files only"), ("chat", "conversation only"), ("both", "both (the default)")):
        what.add_argument(f"--{name}", dest="what", action="store_const", const=name, default="both", help=meaning)
    parser.add_argument("--preview", action="store_true", help="show what would be done, and do nothing")
    parser.add_argument("--cwd", type=Path, help="the working folder, where it is not the one the session names")
    return parser


def _rewind(arguments: argparse.Namespace) -> int:
    session = _file(arguments.session)
    code, chat = arguments.what in ("code", "both"), arguments.what in ("chat", "both")
    opened = open_for_reading(session) if arguments.preview else SessionManager.open(session)
    with opened as manager:
        leaf, text = _target(manager, arguments.entry)
        status = DONE
        if code:
            guard = PathGuard(arguments.cwd or manager.header.data.get("cwd") or ".", outside="allow")
            status = _code(history_of(session), guard, moment_of(manager, leaf), arguments.preview)
        if chat:
            _chat(manager, leaf, text, arguments.preview)
    return status


def _file(wanted: str) -> Path:
    if is_path(wanted):
        return Path(wanted).absolute()
    from coding_agent.settings import read_settings

    return find_session(wanted, read_settings(os.environ).session_dir, Path.cwd())


def _target(manager: SessionManager, entry: str) -> tuple[str | None, str | None]:
    """Where the conversation goes on, and the words that go back to the editor."""
    manager.position(entry)  # says which entry there is not
    navigation = plan_navigation(manager.log, entry)
    return (entry, None) if navigation is None else (navigation.new_leaf, navigation.editor_text)


def moment_of(manager: SessionManager, leaf: str | None) -> Moment:
    """The moment right after an entry; None is before the first."""
    if leaf is None:
        return Moment(0)
    here = manager.tree.path(manager.position(leaf))
    kept: dict[str, int] = {}
    at_ms = 0
    for position in here:
        entry = manager.log.entry_data(position)
        at_ms = parse_iso(entry.get("timestamp")) or at_ms
        message: Any = entry.get("message") or {}
        if message.get("role") == "toolResult" and isinstance(call_id := message.get("toolCallId"), str):
            kept[call_id] = at_ms
    return Moment(at_ms, kept)


def _code(store: CheckpointStore, guard: PathGuard, moment: Moment, preview: bool) -> int:
    if moment.at_ms <= store.pruned_until_ms():
        print("rewind: the checkpoints of that time were removed to make room; files stay as they are", file=sys.stderr)
        return INCOMPLETE
    todo = plan_rewind(store, guard, moment)
    if preview:
        _preview(store, guard, todo)
        return INCOMPLETE if todo.conflicts else DONE
    outcome = rewind_files(store, guard, todo)
    for line in described(outcome.done, guard):
        print(f"done: {line}")
    if not todo.steps:
        print("no file was changed by the agent since")
    _report(guard, todo, outcome)
    return INCOMPLETE if outcome.failed else DONE


def _preview(store: CheckpointStore, guard: PathGuard, todo: Plan) -> None:
    for step, line in zip(todo.changes, described(todo.changes, guard), strict=True):
        print(f"would {line}")
        if text := difference(store, guard, step):
            print(text)
    if not todo.changes:
        print("would change no file")
    _report(guard, todo, Outcome((), tuple((step, step.why) for step in todo.conflicts)))


def _report(guard: PathGuard, todo: Plan, outcome: Outcome) -> None:
    for step, why in outcome.failed:
        print(f"left alone: {guard.shown(step.path)}: {why}", file=sys.stderr)
    for path in todo.by_commands:
        slash = "/" if path.endswith("/") else ""
        print(f"changed by a command, not undone: {guard.shown(path.rstrip('/'))}{slash}", file=sys.stderr)
    if todo.partial:
        print("commands may have changed more: the folder was too large to look through", file=sys.stderr)


def _chat(manager: SessionManager, leaf: str | None, text: str | None, preview: bool) -> None:
    where = "the beginning" if leaf is None else f"entry {leaf}"
    if preview:
        print(f"would go on at {where}")
    else:
        manager.set_leaf(leaf)
        manager.turn_end()
        print(f"the conversation goes on at {where}")
    if text:
        print(f"your words there: {text}")
