"""Edge. A code for tokens, and old tokens for new ones."""

from lemon_ai.auth.oauth_secret import OAuthSecret
from lemon_ai.auth.pkce import LoginFailed, OAuthClient, PendingLogin
from lemon_ai.auth.token_request import post_form, post_json
from lemon_otp import wall_ms


async def exchange_code(client: OAuthClient, login: PendingLogin, code: str) -> OAuthSecret:
    """The tokens a code stands for.

    Raises:
        ProviderError: The token server refused or did not answer.
        LoginFailed: It answered without a token.
    """
    question = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": client.redirect_uri,
        "code_verifier": login.verifier,
    }
    if client.token_format == "json":
        question["state"] = login.state
    return await _ask(client, question, OAuthSecret(type=client.secret_type))


async def refresh_secret(client: OAuthClient, secret: OAuthSecret) -> OAuthSecret:
    """`secret` with new tokens. Raises as `exchange_code` does."""
    if not secret.refresh_token:
        raise LoginFailed(f"The login for {client.provider} cannot be renewed: it has no refresh token.")
    return await _ask(client, {"grant_type": "refresh_token", "refresh_token": secret.refresh_token}, secret)


async def _ask(client: OAuthClient, question: dict[str, str], secret: OAuthSecret) -> OAuthSecret:
    question["client_id"] = client.client_id
    if client.client_secret:
        question["client_secret"] = client.client_secret
    post = post_json if client.token_format == "json" else post_form
    answer = await post(client.provider, client.token_url, question)
    if not answer.get("access_token"):
        raise LoginFailed(f"The token server of {client.provider} gave no access token.")
    return secret.refreshed(answer, now_ms=wall_ms())
