"""Pure. The authorization-code flow with PKCE: what to open in a browser, and what comes back from it."""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from attrs import field, frozen

from lemon_ai.errors import AiError


class LoginFailed(AiError):
    """A login could not be finished: the state is another one's, the code is missing, the user declined."""


@frozen(kw_only=True)
class OAuthClient:
    """One vendor's login, as the caller configured it. No client id comes with this package.

    Attributes:
        provider: The provider the credential is for.
        secret_type: The `type` of the stored secret.
        authorize_url, token_url: The vendor's addresses.
        client_id, client_secret: The caller's registration with the vendor.
        redirect_uri: Where the browser is sent with the code.
        scopes: What is asked for.
        extra: Further parameters of the browser's address.
        token_format: How the token server wants its questions.
        refresh_early_s: Seconds before its end at which a token counts as ended.
        keep_on_failure: Whether an old token is still tried when it cannot be refreshed.
    """

    provider: str
    secret_type: str
    authorize_url: str
    token_url: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    redirect_uri: str = ""
    scopes: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(factory=dict)
    token_format: Literal["form", "json"] = "form"
    refresh_early_s: float = 300.0
    keep_on_failure: bool = True


@frozen
class PendingLogin:
    """A login the browser has to finish.

    Attributes:
        url: To be opened by the user.
        state: What must come back with the code.
        verifier: What proves to the token server that the code is ours.
    """

    url: str
    state: str
    verifier: str = field(repr=False)


def new_verifier() -> str:
    """32 random bytes, base64url."""
    return _base64url(secrets.token_bytes(32))


def new_state() -> str:
    """16 random bytes, base64url."""
    return _base64url(secrets.token_bytes(16))


def challenge_of(verifier: str) -> str:
    """The S256 challenge of a verifier."""
    return _base64url(hashlib.sha256(verifier.encode("ascii")).digest())


def begin(client: OAuthClient, *, verifier: str | None = None, state: str | None = None) -> PendingLogin:
    """A login to be finished in a browser."""
    verifier, state = verifier or new_verifier(), state or new_state()
    query = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": client.redirect_uri,
        "scope": " ".join(client.scopes),
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": "S256",
        "state": state,
        **client.extra,
    }
    return PendingLogin(f"{client.authorize_url}?{urlencode(query)}", state, verifier)


def read_code(answer: str, state: str) -> str:
    """The code in what the browser was sent to, or in what a user pasted: an address, a query, `code#state`, a code.

    Raises:
        LoginFailed: The vendor reported an error, the state is another one's, or there is no code.
    """
    answer = answer.strip()
    if "code=" in answer or "error=" in answer:
        query = urlsplit(answer).query if "://" in answer or answer.startswith("/") else answer.lstrip("?")
        found = dict(parse_qsl(query))
        if "error" in found:
            raise LoginFailed(f"The login was not granted: {found.get('error_description') or found['error']}")
        code, told = found.get("code", ""), found.get("state")
    else:
        code, _, told = answer.partition("#")
    if told and not secrets.compare_digest(told.encode(), state.encode()):
        raise LoginFailed("The answer belongs to another login: its state does not match.")
    if not code or any(letter.isspace() for letter in code):
        raise LoginFailed("The answer holds no code.")
    return code


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")
