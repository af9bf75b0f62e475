"""Edge. The login at one server, in the file of stored credentials, as the library's OAuth client wants to find it.

An entry is kept under the server's exact address, so that no other server is ever given its tokens. What the library
found out about the authorization server is kept with it: a token that has ended is renewed there, without asking anew.
"""

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from typing import Any, Final

from coding_agent.credentials.credential_file import CredentialFile, credential_path
from coding_agent.errors import BadCredentialFile
from coding_agent.mcp.entries import ServerEntry
from lemon_otp import wall_ms

KIND: Final = "mcp_oauth"
EARLY_S: Final = 30.0
"""So long before its end a token is renewed; one that ends on its way there would need a person."""

_log: Final = logging.getLogger(__name__)


def login_name(url: str) -> str:
    """What the login for an address is kept under. Addresses differ in what names may not, so it is their digest."""
    return f"mcp.{hashlib.sha256(url.encode()).hexdigest()[:24]}"


def stored_login(entry: ServerEntry, environ: Mapping[str, str]) -> Mapping[str, Any] | None:
    """What is stored for a server; None when nobody has logged in there. Reads a file: for a thread.

    Raises:
        BadCredentialFile: The file cannot be read.
    """
    found = CredentialFile(credential_path(environ)).read().get(login_name(entry.url))
    if found is None or found.kind != KIND or found.data.get("url") != entry.url:
        return None
    return found.data


class LoginStore:
    """A `TokenStorage` of the library for one server. What is asked and kept goes through threads.

    Attributes:
        context: Of the library's client that uses this; set by whoever makes the two.
    """

    def __init__(self, entry: ServerEntry, environ: Mapping[str, str], *, fresh: bool = False) -> None:
        """Args:
        entry: The server.
        environ: Says where the file is.
        fresh: Begin as if nothing were stored; what is kept replaces what is there.
        """
        self.context: Any = None
        self._entry = entry
        self._environ = environ
        self._file = CredentialFile(credential_path(environ))
        self._client: Any = None
        self._fresh = fresh

    async def get_tokens(self) -> Any:
        from mcp.shared.auth import OAuthToken

        stored = await self._stored()
        if not stored.get("access"):
            return None
        self._remember_server(stored)
        if isinstance(ends_ms := stored.get("expires"), int | float) and ends_ms > 0:
            self.context.token_expiry_time = ends_ms / 1000 - EARLY_S
        return OAuthToken(
            access_token=str(stored["access"]), refresh_token=stored.get("refresh") or None, scope=stored.get("scope")
        )

    async def set_tokens(self, tokens: Any) -> None:
        """Keep them, private to this user, in place of those before.

        Raises:
            BadCredentialFile: They cannot be kept, and one is about to log in. Those of a login that was renewed are
                used all the same, as long as this connection lasts.
        """
        client = self._client or await self.get_client_info()
        if tokens.expires_in is not None:
            self.context.token_expiry_time -= min(EARLY_S, tokens.expires_in / 10)
        entry = {
            "type": KIND,
            "url": self._entry.url,
            "access": tokens.access_token,
            "refresh": tokens.refresh_token or "",
            "expires": 0 if tokens.expires_in is None else wall_ms() + int(tokens.expires_in) * 1000,
            "scope": tokens.scope,
            "client": None if client is None else client.model_dump(mode="json", exclude_none=True),
            "clientSecret": "" if client is None else client.client_secret or "",
            "server": _dumped(self.context.oauth_metadata),
            "resource": _dumped(self.context.protected_resource_metadata),
            "issuer": self.context.auth_server_url,
        }
        if entry["client"] is not None:
            entry["client"].pop("client_secret", None)
        try:
            await asyncio.to_thread(self._file.put, login_name(self._entry.url), entry)
        except BadCredentialFile as error:
            if self._fresh:
                raise
            _log.warning("the renewed login at the MCP server %s is not kept: %s", self._entry.name, error)
        self._fresh = False

    async def get_client_info(self) -> Any:
        from mcp.shared.auth import OAuthClientInformationFull

        chosen = self._entry.oauth
        if chosen is not None and chosen.client_id:
            return OAuthClientInformationFull.model_validate(
                {
                    "client_id": chosen.client_id,
                    "client_secret": chosen.client_secret,
                    "redirect_uris": self.context.client_metadata.redirect_uris,
                    "token_endpoint_auth_method": "client_secret_post" if chosen.client_secret else "none",
                }
            )
        stored = await self._stored()
        if not isinstance(known := stored.get("client"), dict):
            return None
        self._client = OAuthClientInformationFull.model_validate(
            {**known, "client_secret": stored.get("clientSecret") or None}
        )
        return self._client

    async def set_client_info(self, client_info: Any) -> None:
        """Kept with the tokens, once there are some: a login that is not finished leaves nothing."""
        self._client = client_info

    async def _stored(self) -> Mapping[str, Any]:
        if self._fresh:
            return {}
        return await asyncio.to_thread(stored_login, self._entry, self._environ) or {}

    def _remember_server(self, stored: Mapping[str, Any]) -> None:
        from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata

        if isinstance(server := stored.get("server"), dict):
            self.context.oauth_metadata = OAuthMetadata.model_validate(server)
        if isinstance(resource := stored.get("resource"), dict):
            self.context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(resource)
        self.context.auth_server_url = stored.get("issuer")


def _dumped(model: Any) -> Any:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)
