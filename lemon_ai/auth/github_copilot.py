"""Edge. GitHub Copilot: a device login at GitHub, whose token is changed for a short-lived one of Copilot."""

import re
from typing import Any, Final

from attrs import evolve, frozen

from lemon_ai.auth.device import DeviceCode, Sleep, request_device_code, wait_for_token
from lemon_ai.auth.oauth_secret import OAuthSecret
from lemon_ai.auth.pkce import LoginFailed
from lemon_ai.auth.token_request import get_json, post_json
from lemon_ai.auth.vendors import COPILOT
from lemon_ai.errors import ProviderError
from lemon_ai.network import is_loopback
from lemon_otp import wall_ms

PROVIDER: Final = "github_copilot"
SCOPE: Final = "read:user"
DEFAULT_BASE_URL: Final = "https://api.individual.githubcopilot.com"
_EARLY_MS: Final = 300_000
_PROXY = re.compile(r"(?:^|;)proxy-ep=([^;]+)")


@frozen
class GithubHost:
    """github.com, or a company's own.

    Attributes:
        domain: Its name.
    """

    domain: str = "github.com"

    @property
    def site(self) -> str:
        """Where people log in."""
        return f"{'http' if is_loopback(f'http://{self.domain}') else 'https'}://{self.domain}"

    @property
    def api(self) -> str:
        """Where programs ask."""
        return self.site if is_loopback(self.site) else f"https://api.{self.domain}"


async def begin_device_login(client_id: str, *, host: GithubHost | None = None) -> DeviceCode:
    """A code for the user to enter at GitHub. Raises as `request_device_code` does."""
    url = f"{(host or GithubHost()).site}/login/device/code"
    return await request_device_code(PROVIDER, url, client_id=client_id, scope=SCOPE)


async def finish_device_login(
    client_id: str, code: DeviceCode, *, sleep: Sleep, host: GithubHost | None = None
) -> OAuthSecret:
    """The login, once the user has entered the code. Raises as `wait_for_token` does."""
    host = host or GithubHost()
    url = f"{host.site}/login/oauth/access_token"
    answer = await wait_for_token(PROVIDER, url, code, client_id=client_id, sleep=sleep)
    github = OAuthSecret(
        type=COPILOT,
        refresh_token=str(answer["access_token"]),
        created_at_ms=wall_ms(),
        extras={"domain": host.domain},
    )
    return await refresh_copilot(github)


async def refresh_copilot(secret: OAuthSecret) -> OAuthSecret:
    """`secret` with a new Copilot token; its refresh token is the one of GitHub, and stays.

    Raises:
        ProviderError: GitHub refused, or the account has no Copilot.
        LoginFailed: GitHub gave no token.
    """
    host = GithubHost(str(secret.extras.get("domain") or "github.com"))
    headers = {"authorization": f"Bearer {secret.refresh_token or ''}"}
    answer = await get_json(PROVIDER, f"{host.api}/copilot_internal/v2/token", headers=headers)
    token = answer.get("token")
    if not token:
        raise LoginFailed("GitHub gave no Copilot token.")
    expires_at_s: Any = answer.get("expires_at")
    now_ms = wall_ms()
    return evolve(
        secret,
        access_token=str(token),
        expires_at_ms=int(expires_at_s) * 1000 - _EARLY_MS if expires_at_s else None,
        created_at_ms=secret.created_at_ms or now_ms,
        updated_at_ms=now_ms,
    )


def base_url_of(secret: OAuthSecret) -> str:
    """Where Copilot is asked: the token says so, else the company's address, else the one for individuals."""
    found = _PROXY.search(secret.access_token)
    if found:
        return f"https://{re.sub('^proxy[.]', 'api.', found.group(1))}"
    domain = str(secret.extras.get("domain") or "github.com")
    return DEFAULT_BASE_URL if domain == "github.com" else f"https://copilot-api.{domain}"


async def enable_model(secret: OAuthSecret, model_id: str, *, base_url: str | None = None) -> bool:
    """Accept a model's policy for the account; whether that was possible."""
    url = f"{base_url or base_url_of(secret)}/models/{model_id}/policy"
    try:
        await post_json(PROVIDER, url, {"state": "enabled"}, headers={"authorization": f"Bearer {secret.access_token}"})
    except ProviderError:
        return False
    return True
