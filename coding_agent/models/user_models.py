"""Edge. The models a person added or changed: their `models.json` on top of the catalogue."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from coding_agent.credentials import Credentials
from coding_agent.errors import BadUsage
from coding_agent.folders import folders
from coding_agent.models.local_servers import LocalServers, configured_addresses, is_on_this_machine
from lemon_ai import BadCatalog, Catalog, Model, canonical, default_catalog
from lemon_otp import frozen

VARIABLE: Final = "LEMON_MODELS_FILE"


@frozen
class UserModels:
    """The catalogue of one start of the host, and the credentials for it.

    Attributes:
        catalog: Everything that can be asked for.
        credentials: Where the key of a request comes from.
        servers: Those of this machine, looked for when somebody asks.
        problems: What is wrong with another program's file, a line each.
    """

    catalog: Catalog
    credentials: Credentials
    servers: LocalServers
    problems: tuple[str, ...] = ()

    @property
    def key_finder(self) -> Callable[[str], Awaitable[str | None]]:
        """What `SessionOptions.get_api_key` wants: the key for a provider, asked before each request."""
        return self.credentials.api_key

    def find(self, name: str) -> Model:
        """The model a person means; one that a server of this machine was found to serve is taken as it is there.

        Raises:
            UnknownModel: Nothing fits; names what is close.
        """
        provider, _, model_id = name.partition("/")
        wanted = (canonical(provider), model_id)
        served = next((model for model in self.served() if (model.provider, model.id) == wanted), None)
        return self.catalog.find(name) if served is None else served

    def served(self) -> list[Model]:
        """The models of the servers that were found last; looks for none itself."""
        return [model for server in self.servers.last for model in server.as_models(self.catalog)]


Offered: TypeAlias = "Callable[[Catalog], Catalog]"
"""Puts further providers on top of a catalogue."""


def user_models(
    environ: Mapping[str, str], *, base_url: str | None = None, offered: Offered | None = None
) -> UserModels:
    """The catalogue with a person's file on top, and pi's `~/.pi/agent/models.json` beneath that, provider by provider.

    Without a file it is the package's own.

    Args:
        environ: Names the file, and holds the variables that stand for keys.
        base_url: Where this start sends its requests, if somebody said so; another vendor gets no stored key there.
        offered: What extensions bring, between those two files.

    Raises:
        BadUsage: The file was named and is not there, cannot be read, or says something that cannot be meant.
    """
    path, catalog = models_file(environ), default_catalog()
    problems: list[str] = []
    if not environ.get(VARIABLE):
        try:
            catalog = _on_top(catalog, folders(environ).home / ".pi" / "agent" / "models.json")
        except BadUsage as error:  # another program's file
            problems.append(f"{error}; it was passed over")
    if offered is not None:
        catalog = offered(catalog)
    try:
        return _with_credentials(
            _on_top(catalog, path, needed=bool(environ.get(VARIABLE))), environ, base_url, problems
        )
    except FileNotFoundError:
        raise BadUsage(f"there is no file {path}; {VARIABLE} names it") from None


def _on_top(catalog: Catalog, path: Path, *, needed: bool = False) -> Catalog:
    """The catalogue with a file on top; as it was where there is none.

    Raises:
        FileNotFoundError: It is needed and not there.
        BadUsage: It cannot be read, or says something that cannot be meant.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        if needed:
            raise FileNotFoundError(str(path)) from None
        return catalog
    except (OSError, UnicodeDecodeError) as error:
        raise BadUsage(f"{path} cannot be read: {error}") from error
    try:
        return catalog.with_overrides(json.loads(text), file=str(path))
    except (ValueError, RecursionError) as error:
        raise BadUsage(f"{path} is no JSON: {error}") from error
    except BadCatalog as error:
        raise BadUsage(str(error)) from error


def _with_credentials(
    catalog: Catalog, environ: Mapping[str, str], base_url: str | None, problems: Sequence[str]
) -> UserModels:
    named = {name: override.api_key for name, override in catalog.overrides.items() if override.api_key}
    address = base_url or environ.get("LEMON_BASE_URL") or None
    keyless = frozenset(name for name, override in catalog.overrides.items() if is_on_this_machine(override.base_url))
    credentials = Credentials(environ, named=named, base_url=address, keyless=keyless)
    servers = LocalServers(environ, configured_addresses(catalog, address))
    return UserModels(catalog, credentials, servers, tuple(problems))


def models_file(environ: Mapping[str, str]) -> Path:
    """`LEMON_MODELS_FILE`, else `lemon/models.json` in the user's folder for settings."""
    if given := environ.get(VARIABLE):
        return Path(given).absolute()
    return folders(environ).config / "models.json"
