"""Value. The logins of four vendors: their addresses and what they want to be asked.

Client ids are the caller's, from its configuration or from the environment; none comes with this package, and no
login pretends to be another product's.
"""

import os
from collections.abc import Mapping
from typing import Final

from lemon_ai.auth.pkce import OAuthClient

ANTHROPIC: Final = "anthropic_oauth"
CODEX: Final = "openai_codex_oauth"
COPILOT: Final = "github_copilot_oauth"
GEMINI_CLI: Final = "google_gemini_cli_oauth"

CLIENT_ID_VARIABLES: Final[Mapping[str, str]] = {
    ANTHROPIC: "ANTHROPIC_OAUTH_CLIENT_ID",
    CODEX: "OPENAI_CODEX_OAUTH_CLIENT_ID",
    COPILOT: "GITHUB_COPILOT_CLIENT_ID",
    GEMINI_CLI: "GOOGLE_GEMINI_CLI_OAUTH_CLIENT_ID",
}
"""Where each login's client id is looked for."""


def anthropic_login(client_id: str, *, token_url: str = "https://platform.claude.com/v1/oauth/token") -> OAuthClient:
    """Anthropic: JSON questions; a token that cannot be renewed is not tried again."""
    return OAuthClient(
        provider="anthropic",
        secret_type=ANTHROPIC,
        authorize_url="https://claude.ai/oauth/authorize",
        token_url=token_url,
        client_id=client_id,
        redirect_uri="https://platform.claude.com/oauth/code/callback",
        scopes=("org:create_api_key", "user:profile", "user:inference"),
        token_format="json",
        refresh_early_s=60.0,
        keep_on_failure=False,
    )


def codex_login(client_id: str, *, issuer: str = "https://auth.openai.com") -> OAuthClient:
    """OpenAI Codex: a ChatGPT account."""
    return OAuthClient(
        provider="openai_codex",
        secret_type=CODEX,
        authorize_url=f"{issuer}/oauth/authorize",
        token_url=f"{issuer}/oauth/token",
        client_id=client_id,
        redirect_uri="http://localhost:1455/auth/callback",
        scopes=("openid", "profile", "email", "offline_access"),
        extra={"id_token_add_organizations": "true", "codex_cli_simplified_flow": "true", "originator": "lemon"},
        refresh_early_s=600.0,
    )


def gemini_cli_login(
    client_id: str, client_secret: str | None, *, token_url: str = "https://oauth2.googleapis.com/token"
) -> OAuthClient:
    """Gemini through Code Assist: a Google account."""
    base = "https://www.googleapis.com/auth"
    return OAuthClient(
        provider="google_gemini_cli",
        secret_type=GEMINI_CLI,
        authorize_url="https://accounts.google.com/o/oauth2/v2/auth",
        token_url=token_url,
        client_id=client_id,
        client_secret=client_secret,
        redirect_uri="http://localhost:8085/oauth2callback",
        scopes=(f"{base}/cloud-platform", f"{base}/userinfo.email", f"{base}/userinfo.profile"),
        extra={"access_type": "offline", "prompt": "consent"},
    )


def logins_of(environ: Mapping[str, str] | None = None) -> dict[str, OAuthClient]:
    """The browser logins whose client ids the environment gives, by the type of their secrets."""
    values = os.environ if environ is None else environ
    given = {kind: values[name] for kind, name in CLIENT_ID_VARIABLES.items() if values.get(name)}
    logins: dict[str, OAuthClient] = {}
    if ANTHROPIC in given:
        logins[ANTHROPIC] = anthropic_login(given[ANTHROPIC])
    if CODEX in given:
        logins[CODEX] = codex_login(given[CODEX])
    if GEMINI_CLI in given:
        secret = values.get("GOOGLE_GEMINI_CLI_OAUTH_CLIENT_SECRET") or None
        logins[GEMINI_CLI] = gemini_cli_login(given[GEMINI_CLI], secret)
    return logins
