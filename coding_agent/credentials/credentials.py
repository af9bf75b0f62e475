"""Edge. Which credential a request gets, asked before each one, so that a login counts from the next request on.

In this order: the key given to this start of the program, a key in `auth.json`, a login in `auth.json` (renewed when it
is about to end), the provider's own variables, the key that `models.json` names. The variables are looked up by
`lemon_ai`, under the names of the provider that gets the request, so that no account's key goes to another's server;
here they only decide whether `models.json` is asked.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from attrs import field

from coding_agent.credentials.credential_file import CredentialFile, Stored, credential_path
from coding_agent.credentials.oauth_entries import to_entry, to_secret
from coding_agent.errors import BadCredentialFile
from coding_agent.own_environment import secrets_in
from lemon_ai import KEY_VARIABLES, canonical, key_variables
from lemon_otp import define

if TYPE_CHECKING:
    from lemon_ai.auth import SecretResolver

log = logging.getLogger(__name__)

_COMMAND_TIMEOUT_S: Final = 10.0
_SHORTEST_SECRET: Final = 5
SECRET_MEMBERS: Final = ("key", "access", "refresh", "clientSecret")
"""Of an entry of the file."""


@define(eq=False)
class Credentials:
    """The credentials of one start of the program.

    Attributes:
        environ: Where names of variables are looked up.
        given: Keys given to this start, by provider.
        named: What `models.json` says about keys, by provider.
        base_url: Where this start sends its requests, if somebody said so.
        keyless: Providers whose server is on this machine and needs no key.
    """

    environ: Mapping[str, str] = field(factory=lambda: os.environ, repr=False)
    given: Mapping[str, str] = field(factory=dict, repr=False)
    named: Mapping[str, str] = field(factory=dict, repr=False)
    base_url: str | None = None
    keyless: frozenset[str] = frozenset()
    _resolver: SecretResolver | None = field(default=None, init=False, repr=False)

    @property
    def file(self) -> CredentialFile:
        """Where stored credentials are."""
        return CredentialFile(credential_path(self.environ))

    async def api_key(self, provider: str) -> str | None:
        """The key for a request to a provider; None leaves it to the provider's own variables.

        A file that cannot be read is said in the log and counts as empty. Commands, files and renewals never make
        anybody else wait.

        Raises:
            LoginFailed: The login has ended and cannot be renewed.
            ProviderError: It has ended, and the login server refused or did not answer.
        """
        name = canonical(provider)
        if self.given.get(name):
            return self.given[name]
        if self.file.path.exists() and (entry := await asyncio.to_thread(self._stored, name)) is not None:
            key = await self._stored_key(name, entry)
            if key:
                return key
        if self.has_variable(name) or not (named := self.named.get(name)):
            return None
        return await asyncio.to_thread(resolved, named, self.environ)

    def has(self, provider: str) -> bool:
        """Is there anything a request to this provider could be made with?"""
        return self.source(provider) is not None

    def source(self, provider: str) -> str | None:
        """Where the provider's credential would come from, in words that show nothing of it."""
        name = canonical(provider)
        if self.given.get(name):
            return "given to this start"
        entry = self._stored(name)
        if entry is not None and (entry.data.get("key") if entry.kind == "api_key" else to_secret(name, entry.data)):
            return f"{'key' if entry.kind == 'api_key' else 'login'} in {self.file.path}"
        if variable := self.variable(name):
            return f"variable {variable}"
        if self.named.get(name):
            return "models.json"
        return "needs none: it is on this machine" if name in self.keyless else None

    def variable(self, provider: str) -> str | None:
        """The variable of the provider that is set and would be used."""
        return next((name for name in key_variables(provider) if self.environ.get(name)), None)

    def has_variable(self, provider: str) -> bool:
        """Is one of the provider's own variables set?"""
        return self.variable(provider) is not None

    def secrets(self) -> frozenset[str]:
        """Every value in reach that must not be shown: variables for keys, and what the file holds."""
        names = {variable for variables in KEY_VARIABLES.values() for variable in variables}
        found = {value for name in names if (value := self.environ.get(name))} | set(self.given.values())
        try:
            stored = self.file.read()
        except BadCredentialFile:
            stored = {}
        for entry in stored.values():
            found.update(str(entry.data[member]) for member in SECRET_MEMBERS if entry.data.get(member))
        return frozenset(value for value in found if len(value) >= _SHORTEST_SECRET)

    def _stored(self, provider: str) -> Stored | None:
        if not self._is_its_server(provider):
            return None
        try:
            return self.file.read().get(provider)
        except BadCredentialFile as error:
            log.warning("no stored credentials: %s", error)
            return None

    def _is_its_server(self, provider: str) -> bool:
        """False where this start talks to another vendor, who must not get this provider's key."""
        if not self.base_url:
            return True
        return bool(set(key_variables(provider, self.base_url)) & set(key_variables(provider)))

    async def _stored_key(self, provider: str, entry: Stored) -> str | None:
        if entry.kind == "api_key":
            key = entry.data.get("key")
            return await asyncio.to_thread(resolved, key, self.environ) if isinstance(key, str) and key else None
        secret = to_secret(provider, entry.data) if entry.kind == "oauth" else None
        if secret is None:
            return None
        from lemon_ai.auth import LoginFailed, encode_secret, key_of
        from lemon_otp import wall_ms

        key = await self._secret_resolver().api_key(provider, encode_secret(secret))
        if key is not None:
            return key
        if secret.ends_before(wall_ms()):  # nobody here knows how to renew it
            raise LoginFailed(f"The login for {provider} has ended; log in again with `login {provider}`.")
        return key_of(secret)

    def _secret_resolver(self) -> SecretResolver:
        if self._resolver is None:
            from lemon_ai.auth import SecretResolver, logins_of

            folder = self.file.path.parent
            self._resolver = SecretResolver(self._persist, self._reload, folder, logins_of(self.environ))
        return self._resolver

    async def _persist(self, provider: str, value: str) -> None:
        from lemon_ai.auth import decode_secret

        if (secret := decode_secret(value)) is not None:
            await asyncio.to_thread(self.file.put, provider, to_entry(secret))

    def _reload(self, provider: str) -> str | None:
        from lemon_ai.auth import encode_secret

        entry = self.file.read().get(provider)
        secret = to_secret(provider, entry.data) if entry is not None and entry.kind == "oauth" else None
        return None if secret is None else encode_secret(secret)


def has_key(provider: str, environ: Mapping[str, str] | None = None) -> bool:
    """Is there a variable, a stored key or a login for this provider?"""
    return Credentials(os.environ if environ is None else environ).has(provider)


def known_secrets(environ: Mapping[str, str] | None = None) -> frozenset[str]:
    """Every secret in reach, so that what is shown to others can leave it out: credentials, and variables by name."""
    where = os.environ if environ is None else environ
    return Credentials(where).secrets() | secrets_in(where)


def resolved(value: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """What a value of a file stands for: `!command` its output, the name of a variable its value, else itself.

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
