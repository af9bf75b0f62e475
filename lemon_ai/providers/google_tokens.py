"""Edge. Access tokens for Google's clouds: passed in, or got for a service account, a user's file, or by gcloud."""

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import Factory, define, field, frozen

from lemon_ai.auth.token_request import post_form
from lemon_ai.errors import BadRequest, MissingCredential
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.asking import settings_of
from lemon_ai.wire_text import short_hash
from lemon_otp import monotonic_s, wall_ms

SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
TOKEN_URI: Final = "https://oauth2.googleapis.com/token"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
LIFETIME_S: Final = 3600
_EARLY_S: Final = 120.0
_GCLOUD_TIMEOUT_S: Final = 20.0


@frozen
class _Kept:
    token: str = field(repr=False)
    until_s: float


@define(eq=False)
class GoogleTokens:
    """Finds a token for a call and keeps it until shortly before it ends.

    Attributes:
        gcloud: The command that prints a token; empty switches it off.
    """

    gcloud: tuple[str, ...] = ("gcloud", "auth", "print-access-token")
    _kept: dict[str, _Kept] = field(init=False, repr=False, default=Factory(dict))

    async def token_for(self, request: ProviderRequest) -> str:
        """The token to ask with.

        Raises:
            MissingCredential: No credential was found anywhere.
            ProviderError: The token server refused it, or did not answer.
        """
        settings = settings_of(request)
        given = request.options.access_token or settings.get("access_token")
        if given:
            return str(given)
        account = _account(request, settings)
        name = "gcloud" if account is None else short_hash(json.dumps(account, sort_keys=True, default=str), 32)
        kept = self._kept.get(name)
        if kept is None or kept.until_s <= monotonic_s():
            kept = self._kept[name] = await self._fetch(request, account)
        return kept.token

    async def _fetch(self, request: ProviderRequest, account: Mapping[str, Any] | None) -> _Kept:
        provider = request.model.provider
        if account is None:
            return _Kept(await self._from_gcloud(provider), monotonic_s() + LIFETIME_S / 2)
        uri = str(account.get("token_uri") or TOKEN_URI)
        answer = await post_form(provider, uri, grant_of(provider, account))
        token = answer.get("access_token")
        if not token:
            raise MissingCredential(provider=provider, hint="the token server gave no access_token.")
        lasts_s = float(answer.get("expires_in") or LIFETIME_S)
        return _Kept(str(token), monotonic_s() + max(lasts_s - _EARLY_S, 0.0))

    async def _from_gcloud(self, provider: str) -> str:
        hint = (
            "give access_token or service_account_json in the stream options, set GOOGLE_APPLICATION_CREDENTIALS,"
            " or log in with gcloud."
        )
        missing = MissingCredential(provider=provider, variables=("GOOGLE_APPLICATION_CREDENTIALS",), hint=hint)
        if not self.gcloud:
            raise missing
        try:
            async with asyncio.timeout(_GCLOUD_TIMEOUT_S):
                printed = await _output_of(self.gcloud)
        except (OSError, TimeoutError) as error:
            raise missing from error
        if not printed:
            raise missing
        return printed


async def _output_of(command: tuple[str, ...]) -> str:
    """What a command prints; empty when it fails. It is killed when the caller stops waiting."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return printed.decode("utf-8", "replace").strip() if process.returncode == 0 else ""


def grant_of(provider: str, account: Mapping[str, Any]) -> dict[str, str]:
    """The form a credential is exchanged with: a signed assertion for a service account, a refresh for a user.

    Raises:
        BadRequest: google-auth, which signs, is not installed, or the credential is not usable.
    """
    if account.get("type") == "authorized_user":
        names = ("client_id", "client_secret", "refresh_token")
        return {"grant_type": "refresh_token"} | {name: str(account.get(name) or "") for name in names}
    try:
        from google.auth import crypt, jwt
    except ImportError as error:
        said = "Vertex needs google-auth to sign for a service account: pip install 'lemon-agents[vertex]'."
        raise BadRequest(provider=provider, message=said) from error
    try:
        key = crypt.RSASigner.from_service_account_info(account)  # type: ignore[no-untyped-call]
        issuer = str(account["client_email"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadRequest(provider=provider, message="The service account has no usable key.") from error
    now_s = wall_ms() // 1000
    claims = {
        "iss": issuer,
        "sub": issuer,
        "scope": SCOPE,
        "aud": str(account.get("token_uri") or TOKEN_URI),
        "iat": now_s,
        "exp": now_s + LIFETIME_S,
    }
    assertion = jwt.encode(key, claims)  # type: ignore[no-untyped-call]
    return {"grant_type": JWT_BEARER, "assertion": assertion.decode()}


def _account(request: ProviderRequest, settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The credential's JSON: of the options, of the settings, or of the file the environment names."""
    provider = request.model.provider
    account = request.options.service_account_json or settings.get("service_account_json")
    if account is None and (file := os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")):
        try:
            account = Path(file).read_text(encoding="utf-8")
        except OSError as error:
            hint = f"GOOGLE_APPLICATION_CREDENTIALS names a file that cannot be read: {error.strerror}."
            raise MissingCredential(provider=provider, hint=hint) from error
    if isinstance(account, str):
        try:
            account = json.loads(account)
        except ValueError as error:
            raise BadRequest(provider=provider, message="The service account is not JSON.") from error
    return account if isinstance(account, Mapping) else None
