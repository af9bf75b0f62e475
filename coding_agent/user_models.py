"""Edge. The models a person added or changed: their `models.json` on top of the catalogue."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

from coding_agent.credentials import Credentials
from coding_agent.errors import BadUsage
from lemon_ai import BadCatalog, Catalog, default_catalog

VARIABLE: Final = "LEMON_MODELS_FILE"


@frozen
class UserModels:
    """The catalogue of one start of the host, and the credentials for it.

    Attributes:
        catalog: Everything that can be asked for.
        credentials: Where the key of a request comes from.
    """

    catalog: Catalog
    credentials: Credentials

    @property
    def key_finder(self) -> Callable[[str], Awaitable[str | None]]:
        """What `SessionOptions.get_api_key` wants: the key for a provider, asked before each request."""
        return self.credentials.api_key


def user_models(environ: Mapping[str, str], *, base_url: str | None = None) -> UserModels:
    """The catalogue with a person's file on top; without a file it is the package's own.

    Args:
        environ: Names the file, and holds the variables that stand for keys.
        base_url: Where this start sends its requests, if somebody said so; another vendor gets no stored key there.

    Raises:
        BadUsage: The file was named and is not there, cannot be read, or says something that cannot be meant.
    """
    path = models_file(environ)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if environ.get(VARIABLE):
            raise BadUsage(f"there is no file {path}; {VARIABLE} names it") from None
        return _with_credentials(default_catalog(), environ, base_url)
    except (OSError, UnicodeDecodeError) as error:
        raise BadUsage(f"{path} cannot be read: {error}") from error
    try:
        catalog = default_catalog().with_overrides(json.loads(text), file=str(path))
    except (ValueError, RecursionError) as error:
        raise BadUsage(f"{path} is no JSON: {error}") from error
    except BadCatalog as error:
        raise BadUsage(str(error)) from error
    return _with_credentials(catalog, environ, base_url)


def _with_credentials(catalog: Catalog, environ: Mapping[str, str], base_url: str | None) -> UserModels:
    named = {name: override.api_key for name, override in catalog.overrides.items() if override.api_key}
    address = base_url or environ.get("LEMON_BASE_URL") or None
    return UserModels(catalog, Credentials(environ, named=named, base_url=address))


def models_file(environ: Mapping[str, str]) -> Path:
    """`LEMON_MODELS_FILE`, else `lemon/models.json` in the user's folder for settings."""
    if given := environ.get(VARIABLE):
        return Path(given).absolute()
    settings = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or Path.home()) / ".config"
    return Path(settings) / "lemon" / "models.json"
