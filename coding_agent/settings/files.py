"""Edge. A settings file: read with the place of whatever is wrong in it, and written without losing a word."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from coding_agent.errors import BadUsage, UnreadableFile
from coding_agent.private_files import replace_file
from coding_agent.resources.files import read_text
from coding_agent.settings.layers import Layer, Origin, layer_of
from coding_agent.settings.schema import BY_KEY, BadValue, valid

BYTES_MAX: Final = 1024 * 1024


def read_layer(file: Path, origin: Origin, *, ours: bool) -> Layer:
    """What a file says; nothing when there is none. Paths in it are made absolute.

    A file of another program's that is broken is a problem and no more.

    Raises:
        BadUsage: The file is ours and broken, or holds a value that guards something and cannot be understood.
    """
    try:
        document = read_document(file)
    except BadUsage as error:
        if ours:
            raise
        return Layer(origin, problems=(f"{error}; it was passed over",), file=file)
    return placed(layer_of(document, origin, file, strict=ours), file.parent)


def read_document(file: Path) -> dict[str, Any]:
    """The JSON object of a file, empty when there is none.

    Raises:
        BadUsage: It cannot be read; the text names the file, the line and the column.
    """
    try:
        text = read_text(file, BYTES_MAX)
    except FileNotFoundError:
        return {}
    except UnreadableFile as error:
        raise BadUsage(f"the settings file {error}") from error
    if not text.strip():
        return {}
    try:
        document = json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadUsage(f"the settings file {file} is broken at {where}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise BadUsage(f"the settings file {file} is broken: {error}") from error
    if not isinstance(document, dict):
        raise BadUsage(f"the settings file {file} must hold an object, {{...}}")
    return document


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise ValueError(f"{twice!r} stands there twice")
    return dict(pairs)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def placed(layer: Layer, folder: Path) -> Layer:
    """The same with the paths in it made absolute, from `folder` on."""
    from attrs import evolve

    values = {
        key: tuple(_absolute(item, folder) for item in value) if BY_KEY[key].paths else value
        for key, value in layer.values.items()
    }
    return evolve(layer, values=values)


def _absolute(item: str, folder: Path) -> str:
    sign, path = (item[0], item[1:]) if item[0] in "!+-" else ("", item)
    return sign + os.path.normpath(os.path.join(folder, os.path.expanduser(path)))


def store_setting(file: Path, key: str, value: Any) -> None:
    """Write one setting into a file, or with None take it out; every other word of it stays.

    Raises:
        BadUsage: There is no such setting, it cannot have this value, or the file is broken or cannot be written.
            Nothing was changed.
    """
    if key not in BY_KEY:
        raise BadUsage(f"there is no setting {key!r}; `config show` lists them")
    try:
        if value is not None:
            valid(BY_KEY[key], value)
    except BadValue as error:
        raise BadUsage(str(error)) from error
    from filelock import FileLock, Timeout

    real = Path(os.path.realpath(file))
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{real}.lock", timeout=10.0):
            _write(real, _changed(read_document(real), key.split("."), value, file))
    except Timeout as error:
        raise BadUsage(f"{file} is in use by another program; try again") from error
    except OSError as error:
        raise BadUsage(f"{file} cannot be written: {error.strerror or error}") from error


def _changed(document: Mapping[str, Any], path: list[str], value: Any, file: Path) -> dict[str, Any]:
    changed, name = dict(document), path[0]
    if len(path) > 1:
        inner = changed.get(name) or {}
        if not isinstance(inner, dict):
            raise BadUsage(f"{file}: {name} must be an object")
        value = _changed(inner, path[1:], value, file) or None
    if value is None:
        changed.pop(name, None)
    else:
        changed[name] = value
    return changed


def _write(file: Path, document: Mapping[str, Any]) -> None:
    """The file keeps its mode; a new one is private."""
    try:
        mode = file.stat().st_mode & 0o777
    except FileNotFoundError:
        mode = 0o600
    replace_file(file, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode(), mode=mode, locked=True)
