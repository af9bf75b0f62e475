"""Edge. Files, environment and flags of one start of the host, read once into one frozen value.

A flag wins over the environment, the environment over the project's files, these over the person's, and those over the
defaults; pi's files lie beneath ours of the same kind. Nothing below the host reads the environment again, apart from
the credentials, which are looked up by name for each model request (`coding_agent.credentials`).
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from coding_agent.errors import BadUsage
from coding_agent.folders import Folders, folders
from coding_agent.resources.places import OURS, PI
from coding_agent.settings.files import placed, read_layer
from coding_agent.settings.layers import Layer, LayerName, Merged, Origin, merge
from coding_agent.settings.schema import BY_KEY, FIELDS, BadValue, from_text, valid
from coding_agent.settings.typed import typed
from coding_agent.settings.values import Settings
from coding_agent.trust import Needs, check_trust

RUNTIME_DIR_BYTES_MAX: Final = 80
"""The path of a socket has a hundred bytes or so on every system; this leaves room for its name."""
FILE_NAME: Final = "settings.json"


def settings_files(own: Folders, cwd: Path) -> list[tuple[Path, Origin, bool]]:
    """The files that are read, the lowest first; with where they belong and whether they are ours."""
    places: tuple[tuple[Path, LayerName, bool], ...] = (
        (own.home / PI / "agent" / FILE_NAME, "user", False),
        (own.config / FILE_NAME, "user", True),
        (cwd / PI / FILE_NAME, "project", False),
        (cwd / OURS / FILE_NAME, "project", True),
    )
    return [(file, Origin(layer, str(file)), ours) for file, layer, ours in places]


def read_settings(
    environ: Mapping[str, str],
    *,
    cwd: str | None = None,
    session_dir: str | None = None,
    model: str | None = None,
    base_url: str | None = None,
    thinking_level: str | None = None,
    flags: Mapping[str, Any] | None = None,
    choices: Mapping[str, Any] | None = None,
    trust_once: bool = False,
) -> Settings:
    """Combine what the files say with the environment and the flags. Asks nobody anything and changes nothing.

    Args:
        environ: `LEMON_SESSION_DIR`, `LEMON_RUNTIME_DIR`, `LEMON_MODEL`, `LEMON_BASE_URL`, the variables of `schema`,
            `XDG_CONFIG_HOME`, `XDG_STATE_HOME`, `XDG_RUNTIME_DIR` and `HOME` are looked at.
        cwd: `--cwd`; None is the folder the program was started in.
        session_dir: `--session-dir`.
        model: `--model`.
        base_url: `--base-url`.
        thinking_level: `--thinking`.
        flags: Further settings by their names in a file, such as `{"permissions.deny": ["bash(rm *)"]}`.
        choices: Fields of `ResourceChoices` that flags give; lists of paths are added to those of the files.
        trust_once: `--trust`: the project is trusted for this start.

    Raises:
        BadUsage: The working folder is missing, is no folder or cannot be read; or a settings file of this program is
            broken. The text says where.
    """
    own = folders(environ)
    folder = _working_folder(cwd)
    given = {**(flags or {})}
    if thinking_level is not None:
        given["defaultThinkingLevel"] = thinking_level
    if session_dir is not None:
        given["sessionDir"] = session_dir
    layers = [read_layer(file, origin, ours=ours) for file, origin, ours in _distinct(settings_files(own, folder))]
    layers += [_environment_layer(environ), _flag_layer(given)]
    untrusted = merge(layers, trusted=False)
    trust = check_trust(folder, own.home, own.state, _needs(untrusted, merge(layers, trusted=True), folder))
    if trust_once:
        trust = trust.once()
    merged = merge(layers, trusted=True) if trust.trusted else untrusted
    sessions = merged.value("sessionDir") or own.state / "sessions"
    return typed(
        merged,
        cwd=folder,
        session_dir=Path(os.path.expanduser(sessions)).absolute(),
        runtime_dir=runtime_dir(environ),
        model=model or environ.get("LEMON_MODEL") or None,
        base_url=base_url or environ.get("LEMON_BASE_URL") or None,
        own=(own.home, own.config, own.state),
        trust=trust,
        choices=choices or {},
    )


def _distinct(files: Sequence[tuple[Path, Origin, bool]]) -> Iterator[tuple[Path, Origin, bool]]:
    """Each file once: started in the home folder, a project's may be the person's own."""
    seen: set[str] = set()
    for file, origin, ours in files:
        real = os.path.realpath(file)
        if real not in seen:
            seen.add(real)
            yield file, origin, ours


def _needs(untrusted: Merged, whole: Merged, cwd: Path) -> Needs:
    """What else waits for trust: settings that loosen, and whatever in the project they name."""
    paths = [
        Path(item.lstrip("!+-"))
        for key in ("skills", "prompts", "extensions")
        if whole.settings[key] != untrusted.settings[key]
        for item in whole.value(key)
        if item[0] not in "!-"
    ]
    claude = bool(untrusted.value("claudeCommands") or untrusted.value("claudeSkills"))
    return Needs(untrusted.waiting, tuple(path for path in paths if path.is_relative_to(cwd)), claude)


def _environment_layer(environ: Mapping[str, str]) -> Layer:
    values: dict[str, Any] = {}
    for field in FIELDS:
        if field.variable and (text := environ.get(field.variable)):
            try:
                values[field.key] = from_text(field, text)
            except BadValue as error:
                raise BadUsage(f"{field.variable}: {error}") from error
    names = ", ".join(BY_KEY[key].variable or "" for key in values)
    return Layer(Origin("environment", names), values)


def _flag_layer(flags: Mapping[str, Any]) -> Layer:
    values: dict[str, Any] = {}
    for key, value in flags.items():
        try:
            values[key] = valid(BY_KEY[key], list(value) if isinstance(value, tuple) else value)
        except BadValue as error:
            raise BadUsage(str(error)) from error
    return placed(Layer(Origin("flag"), values), Path.cwd()) if values else Layer(Origin("flag"))


def _working_folder(given: str | None) -> Path:
    try:
        path = Path(given or ".").absolute()
    except FileNotFoundError as error:
        raise BadUsage("the working folder does not exist any more; go to another or give one with --cwd") from error
    if not path.exists():
        raise BadUsage(f"the working folder {path} does not exist; give another with --cwd")
    if not path.is_dir():
        raise BadUsage(f"{path} is not a folder; give another with --cwd")
    if not os.access(path, os.R_OK | os.X_OK):
        raise BadUsage(f"the working folder {path} cannot be read; check its permissions or give another with --cwd")
    return path.resolve()


def runtime_dir(environ: Mapping[str, str]) -> Path:
    """The folder for control sockets: `LEMON_RUNTIME_DIR`, else a private one of this user, with a short path."""
    if given := environ.get("LEMON_RUNTIME_DIR"):
        return Path(given).absolute()
    found = [Path(environ.get("TMPDIR") or "/tmp").absolute() / f"lemon-{os.getuid()}"]
    if given := environ.get("XDG_RUNTIME_DIR"):
        found.insert(0, Path(given).absolute() / "lemon")
    short = [folder for folder in found if len(os.fsencode(folder)) <= RUNTIME_DIR_BYTES_MAX]
    return short[0] if short else Path("/tmp") / f"lemon-{os.getuid()}"
