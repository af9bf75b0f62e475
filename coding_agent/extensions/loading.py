"""Edge. The registration of each extension is run once; what is wrong with one is no matter of the others.

A file is compiled from its text, never from a cache beside it, which anybody could have put there.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from coding_agent.errors import BadExtension, UnreadableFile
from coding_agent.extensions.api import EventBus, Extension
from coding_agent.resources.extension_files import ENTRY, Source, sources
from coding_agent.resources.files import read_bytes

if TYPE_CHECKING:
    from coding_agent.settings import Settings

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
EXTENSIONS_MAX: Final = 100


def load_extensions(settings: "Settings", *, trusted: bool) -> tuple[list[Extension], list[str]]:
    """Run the registration of every extension there is; what is wrong with one is a problem of its own.

    Args:
        settings: Of this start.
        trusted: The project's own count.
    """
    loaded: list[Extension] = []
    events = EventBus()
    problems: list[str] = []
    taken: set[str] = set()
    for source in sources(settings, trusted=trusted, problems=problems):
        real = os.path.realpath(source.path) if not source.installed else source.path
        if real in taken:
            continue
        taken.add(real)
        if len(loaded) >= EXTENSIONS_MAX:
            problems.append(f"only the first {EXTENSIONS_MAX} extensions were loaded")
            break
        try:
            loaded.append(load(source, events))
        except BadExtension as error:
            problems.append(str(error))
    return loaded, problems


def load(source: Source, events: EventBus) -> Extension:
    """Run one extension's registration; it shares `events` with the others.

    Raises:
        BadExtension: It cannot be imported, has no such function, or raised. Nothing of it counts.
    """
    extension = Extension(source.name, source.path, events)
    try:
        register = _installed_function(source) if source.installed else _file_function(source)
        register(extension)
    except BadExtension:
        raise
    except (Exception, SystemExit) as error:
        raise BadExtension(source.name, f"{source.path}: {type(error).__name__}: {error}") from error
    return extension


def _file_function(source: Source) -> Callable[[Extension], Any]:
    path = Path(source.path)
    try:
        raw, more = read_bytes(path, FILE_BYTES_MAX)
    except (FileNotFoundError, UnreadableFile) as error:
        raise BadExtension(source.name, f"{path} cannot be read: {error}") from error
    if more:
        raise BadExtension(source.name, f"{path} is larger than {FILE_BYTES_MAX} bytes")
    module = ModuleType(f"lemon_extension_{source.name}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        exec(compile(raw, str(path), "exec"), module.__dict__)
    except BaseException:
        sys.modules.pop(module.__name__, None)
        raise
    return _function(source, getattr(module, ENTRY, None))


def _installed_function(source: Source) -> Callable[[Extension], Any]:
    import importlib

    module, _, names = source.path.partition(":")
    found: Any = importlib.import_module(module)
    for name in names.split(".") if names else (ENTRY,):
        found = getattr(found, name, None)
    return _function(source, found)


def _function(source: Source, found: Any) -> Callable[[Extension], Any]:
    if not callable(found):
        raise BadExtension(source.name, f"{source.path} has no function {ENTRY}(lemon)")
    function: Callable[[Extension], Any] = found
    return function
