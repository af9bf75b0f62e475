"""Edge. Logins at servers over HTTP, by the library's own OAuth client.

A session only uses what is stored, and renews it; it never sends anybody to a browser. `mcp login NAME` does that once,
with a person before the screen.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from attrs import define

from coding_agent.errors import BadCredentialFile, LoginRefused
from coding_agent.mcp.bounded_http import http_client
from coding_agent.mcp.entries import ServerEntry
from coding_agent.mcp.oauth_store import LoginStore, stored_login

CLIENT_NAME: Final = "Lemon"
CALLBACK: Final = "/callback"
ANSWER_S: Final = 30.0
"""How long a server may be silent while one logs in there; the person has their own time."""
PROBE: Final = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
"""Any request shows whether a server lets us in."""
ACCEPT: Final = {"accept": "application/json, text/event-stream"}


class LoginNeeded(Exception):
    """A person has to log in, here or again."""


@define
class Access:
    """Whether a server lets us in, as far as one connection knows.

    Attributes:
        refused: It wants a login that there is not.
    """

    entry: ServerEntry
    refused: bool = False

    def note(self, url: str, status: int) -> None:
        """A request was answered."""
        if url.rstrip("/") == self.entry.url.rstrip("/"):
            self.refused = status == 401


async def auth_of(access: Access, environ: Mapping[str, str] = os.environ) -> Any:
    """What signs the requests to a server, for the library's HTTP client; None where nobody has logged in.

    An entry with a credential of its own in its headers has no login beside it.
    """
    entry = access.entry
    if has_own_credential(entry):
        return None
    try:
        if await asyncio.to_thread(stored_login, entry, environ) is None:
            return None
    except BadCredentialFile:
        return None

    async def nobody(*_url: str) -> Any:
        access.refused = True
        raise LoginNeeded

    return _provider(entry, LoginStore(entry, environ), "http://127.0.0.1:1" + CALLBACK, nobody, nobody)


def has_own_credential(entry: ServerEntry) -> bool:
    """Does its configuration say how to be let in?"""
    return any(name.lower() == "authorization" for name in entry.headers)


def login_hint(entry: ServerEntry) -> str:
    """What to do when a server lets nobody in, as the end of a sentence about it."""
    if has_own_credential(entry):
        return "it refuses the credential in its headers"
    return f"it wants a login: python -m coding_agent mcp login {entry.name}"


async def log_in(
    entry: ServerEntry, ask: Callable[[str, str], Awaitable[Any]], environ: Mapping[str, str] = os.environ
) -> None:
    """Log in at a server, and keep what comes of it. In place of an earlier login, whatever that was worth.

    Args:
        entry: The server.
        ask: Sends a person to an address and returns what comes back to the second one, the `AuthorizationCodeResult`.
        environ: Says where credentials are kept.

    Raises:
        LoginRefused: It lets everybody in, or the login did not come about. Nothing was changed.
    """
    import httpx2
    from mcp.client.auth.exceptions import OAuthFlowError

    redirect = f"http://127.0.0.1:{_port(entry)}{CALLBACK}"
    sent: list[str] = []

    async def send_to(url: str) -> None:
        sent.append(url)

    async def come_back() -> Any:
        return await ask(sent[-1], redirect)

    provider = _provider(entry, LoginStore(entry, environ, fresh=True), redirect, send_to, come_back)
    try:
        async with (
            http_client(dict(entry.headers), ANSWER_S, provider) as http,
            http.stream("POST", entry.url, json=PROBE, headers=ACCEPT) as answer,  # what it says does not matter
        ):
            status = answer.status_code
    except (OAuthFlowError, httpx2.HTTPError, ValueError) as error:
        raise LoginRefused(
            f"no login at {entry.name}: {entry.masked(str(error))[:300] or type(error).__name__}"
        ) from error
    if not sent:
        raise LoginRefused(f"{entry.name} asks for no login (it answers {status})")
    if status in (401, 403):
        raise LoginRefused(f"{entry.name} does not take the login it has just granted")


def _provider(entry: ServerEntry, store: LoginStore, redirect: str, send_to: Any, come_back: Any) -> Any:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    metadata = OAuthClientMetadata.model_validate(
        {
            "client_name": CLIENT_NAME,
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "scope": None if entry.oauth is None else entry.oauth.scope,
        }
    )
    provider = OAuthClientProvider(entry.url, metadata, store, send_to, come_back)
    store.context = provider.context
    return provider


def _port(entry: ServerEntry) -> int:
    """Where the browser comes back: as configured, else wherever there is room."""
    if entry.oauth is not None and entry.oauth.callback_port:
        return entry.oauth.callback_port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
