"""Edge. `config show`, `config path`, `config set`: what holds, where it comes from, and changing it."""

import argparse
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coding_agent.command_parser import CommandParser, or_first
from coding_agent.errors import BadUsage
from coding_agent.folders import folders
from coding_agent.settings.files import store_setting
from coding_agent.settings.layers import Merged, Origin
from coding_agent.settings.reading import read_settings, settings_files
from coding_agent.settings.schema import BY_KEY, BadValue, from_text
from coding_agent.tools.visible_text import plain

_EPILOG = """\
config show [--origin] [--json]   every setting; --origin with where each comes from
config path                       the files that are read, the strongest last
config set KEY VALUE [--project]  change one in your file, or in the project's
config unset KEY [--project]      take one out of it
"""


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run the command and return the exit code; always 0, because whatever is wrong is raised.

    Raises:
        BadUsage: The command line or a settings file cannot be used. Nothing was changed.
    """
    asked = _parser().parse_args(or_first(argv, "show"))
    cwd = Path(asked.cwd or ".").absolute()
    match asked.what:
        case "show":
            _show(asked, environ)
        case "path":
            _paths(cwd, environ)
        case "set" | "unset":
            _store(asked, cwd, environ)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m coding_agent config", epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("show", "path", "set", "unset"), metavar="show|path|set|unset")
    parser.add_argument("key", nargs="?", help="a setting, such as compaction.reserveTokens")
    parser.add_argument("value", nargs="?", help="its value, as JSON or as a word")
    parser.add_argument("--origin", action="store_true", help="say where each comes from")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--project", action="store_true", help="the project's file, .lemon/settings.json")
    parser.add_argument("--cwd", metavar="DIR", help="the project (default: this folder)")
    parser.add_argument("--trust", action="store_true", help="as if this project were trusted")
    return parser


def _show(asked: argparse.Namespace, environ: Mapping[str, str]) -> None:
    settings = read_settings(environ, cwd=asked.cwd, trust_once=asked.trust)
    merged = settings.merged
    assert merged is not None
    if asked.key is not None and asked.key not in BY_KEY:
        raise BadUsage(f"there is no setting {asked.key!r}; `config show` lists them")
    keys = [asked.key] if asked.key else list(BY_KEY)
    if asked.json:
        print(json.dumps(_as_json(merged, keys, settings.problems, origin=asked.origin), indent=2, ensure_ascii=False))
        return
    for line in _lines(merged, keys, origin=asked.origin):
        print(plain(line))
    for file, waiting in merged.waiting.items():
        if not settings.trusted:
            print(plain(f"# waits for trust: {', '.join(waiting)} in {file}"))
    for problem in settings.problems:
        print(plain(f"# {problem}"))


def _lines(merged: Merged, keys: Sequence[str], *, origin: bool) -> Iterator[str]:
    for key in keys:
        found = merged.settings[key]
        value = json.dumps(found.shown, ensure_ascii=False)
        yield f"{key} = {value}" + (f"    # {_origins(found.origins)}" if origin else "")
    if merged.mode_cap is not None and "permissions.mode" in keys:
        yield f"# the project asks for permissions.mode {merged.mode_cap} or a stricter one"


def _as_json(merged: Merged, keys: Sequence[str], problems: Sequence[str], *, origin: bool) -> dict[str, Any]:
    def shown(key: str) -> Any:
        found = merged.settings[key]
        if not origin:
            return found.shown
        return {"value": found.shown, "origin": [{"layer": each.layer, "place": each.place} for each in found.origins]}

    return {
        "settings": {key: shown(key) for key in keys},
        "waiting": {str(file): list(keys) for file, keys in merged.waiting.items()},
        "unknown": [{"key": name, "place": origin_of.place} for name, origin_of in merged.unknown],
        "problems": list(problems),
    }


def _origins(origins: Sequence[Origin]) -> str:
    return ", ".join(str(each) for each in origins)


def _paths(cwd: Path, environ: Mapping[str, str]) -> None:
    for file, origin, _ in settings_files(folders(environ), cwd):
        print(plain(f"{file}  ({origin.layer}{'' if file.exists() else ', not there'})"))


def _store(asked: argparse.Namespace, cwd: Path, environ: Mapping[str, str]) -> None:
    if asked.key not in BY_KEY:
        raise BadUsage(f"there is no setting {asked.key!r}; `config show` lists them")
    value = None
    if asked.what == "set":
        if asked.value is None:
            raise BadUsage("config set KEY VALUE: there is no value")
        try:
            value = from_text(BY_KEY[asked.key], asked.value)
        except BadValue as error:
            raise BadUsage(str(error)) from error
    files = [file for file, origin, ours in settings_files(folders(environ), cwd) if ours]
    file = files[1] if asked.project else files[0]
    store_setting(file, asked.key, list(value) if isinstance(value, tuple) else value)
    print(plain(f"{asked.key} {'is set' if asked.what == 'set' else 'is not set any more'} in {file}"))
