"""Edge. The models a person added or changed: their `models.json` on top of the catalogue, and the keys named in it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

from coding_agent.credentials import has_key
from coding_agent.errors import BadUsage
from lemon_ai import BadCatalog, Catalog, canonical, default_catalog

VARIABLE: Final = "LEMON_MODELS_FILE"
_COMMAND_TIMEOUT_S: Final = 10.0


@frozen
class UserModels:
    """The catalogue of one start of the host.

    Attributes:
        catalog: Everything that can be asked for.
        environ: Where names of variables are looked up.
    """

    catalog: Catalog
    environ: Mapping[str, str]

    @property
    def key_finder(self) -> Callable[[str], Awaitable[str | None]] | None:
        """What `SessionOptions.get_api_key` wants; None when the person's file names no key."""
        named = any(override.api_key for override in self.catalog.overrides.values())
        return self.api_key if named else None

    async def api_key(self, provider: str) -> str | None:
        """The key that the file names for a provider, if its own variables hold none; asked before each request.

        A command runs on a thread, so that nobody else waits for it.
        """
        override = self.catalog.overrides.get(canonical(provider))
        if override is None or not override.api_key or has_key(provider):
            return None
        return await asyncio.to_thread(resolved, override.api_key, self.environ)


def user_models(environ: Mapping[str, str]) -> UserModels:
    """The catalogue with a person's file on top; without a file it is the package's own.

    Raises:
        BadUsage: The file was named and is not there, cannot be read, or says something that cannot be meant.
    """
    path = models_file(environ)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if environ.get(VARIABLE):
            raise BadUsage(f"there is no file {path}; {VARIABLE} names it") from None
        return UserModels(default_catalog(), environ)
    except (OSError, UnicodeDecodeError) as error:
        raise BadUsage(f"{path} cannot be read: {error}") from error
    try:
        return UserModels(default_catalog().with_overrides(json.loads(text), file=str(path)), environ)
    except (ValueError, RecursionError) as error:
        raise BadUsage(f"{path} is no JSON: {error}") from error
    except BadCatalog as error:
        raise BadUsage(str(error)) from error


def models_file(environ: Mapping[str, str]) -> Path:
    """`LEMON_MODELS_FILE`, else `lemon/models.json` in the user's folder for settings."""
    if given := environ.get(VARIABLE):
        return Path(given).absolute()
    settings = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or Path.home()) / ".config"
    return Path(settings) / "lemon" / "models.json"


def resolved(value: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """What a value of the file stands for: `!command` its output, the name of a variable its value, else itself.

    None when the command fails or says nothing.
    """
    if not value.startswith("!"):
        return environ.get(value) or value
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", value[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_TIMEOUT_S,
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
