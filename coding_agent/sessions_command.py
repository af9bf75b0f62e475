"""Edge. `python -m coding_agent sessions ...`: what is stored, looked at from outside.

Nothing here takes a session's lock, so it works beside a running host. Only `fork` writes, and only a new file.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from coding_agent.command_parser import CommandParser, or_first
from coding_agent.credentials import known_secrets
from coding_agent.errors import CodingAgentError
from coding_agent.exporting.formats import FORMATS, Format, export, to_document
from coding_agent.exporting.save import write_new
from coding_agent.hosting.session_list import listed
from coding_agent.storage import copying
from coding_agent.storage.context import context_json
from coding_agent.storage.finding import MEANT, find_session, is_path
from coding_agent.storage.gist import entry_words, message_words
from coding_agent.storage.listing import list_sessions
from coding_agent.storage.opening import open_for_reading
from coding_agent.storage.session_manager import SessionManager
from coding_agent.storage.stamps import iso
from coding_agent.storage.transcript import repair
from coding_agent.storage.tree import ROOT, SessionTree

FAILED: Final = 2
DAMAGED: Final = 1
LOOKED_AT: Final = 256 * 1024
"""Bytes of each file in which `list` looks for a name and the first words."""


def main(argv: Sequence[str]) -> int:
    """Run one command; the exit status: 0 well, 1 `check` found damage, 2 it could not be done."""
    if argv[:1] in (["live"], ["stop"]):  # about what runs, not about files
        from coding_agent.serving import live_command

        return (live_command.live if argv[0] == "live" else live_command.stop)(argv[1:])
    arguments = _parser().parse_args(or_first(argv, "list"))
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        return command(arguments)
    except CodingAgentError as error:
        return _fail(str(error))
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone; nothing is left to say
        return 0
    except OSError as error:
        return _fail(f"{error.filename or ''}: {error.strerror or error}".lstrip(": "))


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m coding_agent sessions",
        description="Look at stored sessions.",
        epilog="sessions live lists those that run now, sessions stop ID ends one",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (command, description) in _COMMANDS.items():
        one = commands.add_parser(name, help=description, description=description)
        one.set_defaults(command=command)
        one.add_argument("--json", action="store_true", help="print JSON")
        if name == "list":
            one.add_argument("file", nargs="?", type=Path, metavar="DIR", help="folder to look in")
            one.add_argument("--cwd", help="only sessions of this working folder")
        else:
            one.add_argument("file", metavar="SESSION", help=MEANT)
        one.add_argument("--session-dir", metavar="DIR", help="where session files lie")
        if name in ("show", "context"):
            one.add_argument("--entry", help="at this entry instead of the current leaf")
    _fork_options(commands.choices["fork"])
    _export_options(commands.choices["export"])
    return parser


def _fork_options(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--at", metavar="ID", help="keep the branch up to and with this entry")
    where.add_argument("--before", metavar="ID", help="keep the branch in front of this message of the user")
    where.add_argument("--clone", action="store_true", help="keep the current branch only")
    parser.add_argument("--cwd", help="working folder of the new session")


def _export_options(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--format", choices=FORMATS, help="what to write; markdown by default, json with --json")
    for form in ("html", "markdown"):
        which.add_argument(f"--{form}", dest="format", action="store_const", const=form, help=f"--format {form}")
    parser.add_argument("-o", "--output", type=Path, help="write to this new file instead of standard output")


def _list(arguments: argparse.Namespace) -> int:
    directory = arguments.file or _session_dir(arguments)
    cwd = arguments.cwd and str(Path(arguments.cwd).resolve())
    sessions = list_sessions(directory, cwd)
    if arguments.json:
        return _print_json([session.to_json() for session in sessions])
    for session in sessions:
        _say(f"{iso(session.created_ms)}  {session.id}  {session.cwd or '-'}  {session.path}")
        one = listed(session, bytes_max=LOOKED_AT)
        _say(f"    {_first_line(one.name or one.first_message)}")
    if not sessions:
        print(f"no sessions in {directory}", file=sys.stderr)
    return 0


def _tree(arguments: argparse.Namespace) -> int:
    with _opened(arguments) as manager:
        tree = manager.tree
        nodes = _walk(tree)
        if arguments.json:
            entries = [_node(manager, position, depth) for position, depth in nodes]
            return _print_json({"leafId": manager.leaf_id, "name": manager.name, "entries": entries})
        for position, depth in nodes:
            mark = "*" if position == tree.leaf else " "
            label = tree.labels.get(tree.ids[position])
            _say(
                f"{mark} {'  ' * depth}{tree.ids[position]} {tree.kinds[position]}"
                + (f" [{label}]" if label else "")
                + f"  {_gist(manager, position)}".rstrip()
            )
    return 0


def _show(arguments: argparse.Namespace) -> int:
    with _opened(arguments) as manager:
        position = None if arguments.entry is None else manager.position(arguments.entry)
        path = manager.tree.path(position)
        entries = [manager.log.entry_data(at) for at in path]
        if arguments.json:
            return _print_json({"header": dict(manager.header.data), "leafId": manager.leaf_id, "entries": entries})
        _say(f"{manager.session_id}  {manager.name or ''}".rstrip())
        for at in path:
            _say(f"{manager.tree.ids[at]}  {manager.tree.kinds[at]}  {_gist(manager, at)}".rstrip())
    return 0


def _context(arguments: argparse.Namespace) -> int:
    with _opened(arguments) as manager:
        if arguments.json:
            leaf = None if arguments.entry is None else manager.position(arguments.entry)
            return _print_json(context_json(manager.log, leaf))
        context = manager.build_context(arguments.entry, repaired=False)
        _say(f"model           {context.model or '-'}")
        _say(f"thinking level  {context.thinking_level}")
        _say(f"active tools    {'-' if context.active_tools is None else ', '.join(context.active_tools)}")
        for message in context.messages:
            _say(f"{message.role:<18}  {_first_line(message_words(message))}".rstrip())
    return 0


def _check(arguments: argparse.Namespace) -> int:
    with _opened(arguments) as manager:
        manager.tree.find_cycles()
        unanswered = repair(manager.build_context(repaired=False).messages).added
        report = manager.report
        if arguments.json:
            found = {
                "path": str(manager.path),
                "id": manager.session_id,
                "leafId": manager.leaf_id,
                "unansweredCalls": [result.tool_call_id for result in unanswered],
                **report.to_json(),
            }
            _print_json(found)
        else:
            _say(f"{manager.path}: format {report.version}, {report.entries} entries, {report.size} bytes")
            for sentence in report:
                _say(f"  {sentence}")
            if unanswered:
                _say(f"  {len(unanswered)} tool calls of the current branch have no result")
        return 0 if report.clean() else DAMAGED


def _fork(arguments: argparse.Namespace) -> int:
    with _opened(arguments) as manager:
        where: dict[str, Any] = {"session_dir": _session_dir(arguments), "cwd": arguments.cwd}
        if arguments.clone:
            made = copying.clone(manager.log, **where)
        elif arguments.at:
            made = copying.fork(manager.log, arguments.at, "at", **where)
        else:
            made = copying.fork(manager.log, arguments.before, "before", **where)
    if arguments.json:
        return _print_json(
            {
                "path": str(made.path),
                "id": made.session_id,
                "parentSession": str(manager.path),
                "entries": made.entries,
                "editorText": made.editor_text,
            }
        )
    _say(str(made.path))
    return 0


def _export(arguments: argparse.Namespace) -> int:
    with _opened(arguments) as manager:
        form: Format = arguments.format or ("json" if arguments.json else "markdown")
        if form == "json" and arguments.output is None:
            return _print_json(to_document(manager))
        text = export(manager, form, secrets=known_secrets())
        if arguments.output is None:
            _say(text, end="")
        else:
            try:
                path = write_new(arguments.output, [text])
            except FileExistsError:
                return _fail(f"{arguments.output} is there already and is left as it is; give another name with -o")
            print(f"wrote {path}", file=sys.stderr)
    return 0


_COMMANDS: Final[Mapping[str, tuple[Callable[[argparse.Namespace], int], str]]] = {
    "list": (_list, "the sessions there are, newest first"),
    "tree": (_tree, "every entry of a session, branches indented; * marks the leaf"),
    "show": (_show, "the entries of the current branch"),
    "context": (_context, "what a model would be given at the current leaf"),
    "check": (_check, "what is wrong with a file; the exit status is 1 when something is"),
    "fork": (_fork, "a new session out of another: the whole of it, or a part"),
    "export": (_export, "a session as Markdown, HTML, JSON or a file pi opens"),
}


def _opened(arguments: argparse.Namespace) -> SessionManager:
    """The session that is meant, for reading. Where sessions lie is looked up only for a word that is no path."""
    word: str = arguments.file
    return open_for_reading(word if is_path(word) else find_session(word, _session_dir(arguments), Path.cwd()))


def _session_dir(arguments: argparse.Namespace) -> Path:
    from coding_agent.settings import read_settings

    return read_settings(os.environ, session_dir=arguments.session_dir).session_dir


def _walk(tree: SessionTree) -> list[tuple[int, int]]:
    """Every entry with its depth: a chain stays in one column, a branch is indented."""
    children = tree.children()
    found: list[tuple[int, int]] = []
    open_ = [(position, 0) for position in reversed(children.get(ROOT, []))]
    seen: set[int] = set()
    while open_:
        position, depth = open_.pop()
        if position in seen:
            continue
        seen.add(position)
        found.append((position, depth))
        below = children.get(position, [])
        inner = depth + 1 if len(below) > 1 else depth
        open_ += [(child, inner) for child in reversed(below)]
    found += [(position, 0) for position in range(len(tree)) if position not in seen]
    return found


def _node(manager: SessionManager, position: int, depth: int) -> dict[str, Any]:
    tree = manager.tree
    parent = tree.parents[position]
    return {
        "id": tree.ids[position],
        "parentId": tree.ids[parent] if parent >= 0 else None,
        "type": tree.kinds[position].partition("/")[0],
        "role": tree.kinds[position].partition("/")[2] or None,
        "depth": depth,
        "label": tree.labels.get(tree.ids[position]),
        "isLeaf": position == tree.leaf,
        "gist": _gist(manager, position),
    }


def _gist(manager: SessionManager, position: int) -> str:
    """One line that says which entry it is: its words, or what it holds."""
    words = entry_words(manager, position)
    if not words and not manager.tree.kinds[position].startswith("message/"):
        data = manager.log.entry_data(position)
        own = {key: value for key, value in data.items() if key not in ("type", "id", "parentId", "timestamp")}
        words = json.dumps(own, ensure_ascii=False) if own else ""
    return _first_line(words)


def _first_line(text: str, limit: int = 80) -> str:
    line = " ".join(text.split())
    shown = "".join(character if character.isprintable() else "\ufffd" for character in line[:limit])
    return shown + ("..." if len(line) > limit else "")


def _print_json(value: Any) -> int:
    try:
        print(json.dumps(value, ensure_ascii=False, indent=2))
    except UnicodeEncodeError:  # half a surrogate pair, or a terminal that knows fewer characters
        print(json.dumps(value, ensure_ascii=True, indent=2))
    return 0


def _say(text: str, *, end: str = "\n") -> None:
    """Print text; what the terminal does not know is shown as an escape."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), end=end)


def _fail(message: str) -> int:
    print(f"sessions: {message}", file=sys.stderr)  # standard error escapes what it cannot show
    return FAILED
