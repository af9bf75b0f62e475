"""Edge. The Google project Code Assist works in: found for an account, or made by onboarding it."""

from typing import Any, Final

from attrs import evolve

from lemon_ai.auth.device import Sleep
from lemon_ai.auth.oauth_secret import OAuthSecret
from lemon_ai.auth.pkce import LoginFailed
from lemon_ai.auth.token_request import post_json

PROVIDER: Final = "google_gemini_cli"
BASE_URL: Final = "https://cloudcode-pa.googleapis.com"
_ASKS: Final = 60
_BETWEEN_S: Final = 5.0
_METADATA: Final = {"ideType": "IDE_UNSPECIFIED", "platform": "PLATFORM_UNSPECIFIED", "pluginType": "GEMINI"}


async def with_project(
    secret: OAuthSecret, *, sleep: Sleep, project: str | None = None, base_url: str = BASE_URL
) -> OAuthSecret:
    """`secret` with the project its calls belong to.

    Raises:
        LoginFailed: The account needs a project of its own, or onboarding did not end.
        ProviderError: Code Assist refused or did not answer.
    """
    headers = {"authorization": f"Bearer {secret.access_token}"}
    known: dict[str, Any] = {"metadata": _METADATA} | ({"cloudaicompanionProject": project} if project else {})
    found = await post_json(PROVIDER, f"{base_url}/v1internal:loadCodeAssist", known, headers=headers)
    name = _name(found.get("cloudaicompanionProject")) or (project if found.get("currentTier") else None)
    if not name:
        tier = _default_tier(found)
        if tier != "free-tier" and not project:
            raise LoginFailed("This Google account needs a project of its own: set GOOGLE_CLOUD_PROJECT.")
        question = known | {"tierId": tier}
        if tier == "free-tier":
            question.pop("cloudaicompanionProject", None)
        name = await _onboard(f"{base_url}/v1internal:onboardUser", question, headers, sleep) or project
    if not name:
        raise LoginFailed("Code Assist named no project.")
    return evolve(secret, extras={**secret.extras, "project_id": name})


async def _onboard(url: str, question: dict[str, Any], headers: dict[str, str], sleep: Sleep) -> str | None:
    for _ in range(_ASKS):
        answer = await post_json(PROVIDER, url, question, headers=headers)
        if answer.get("done"):
            return _name((answer.get("response") or {}).get("cloudaicompanionProject"))
        await sleep(_BETWEEN_S)
    raise LoginFailed("Code Assist did not finish setting up the account.")


def _default_tier(found: dict[str, Any]) -> str:
    tiers = found.get("allowedTiers") or ()
    return next((str(tier.get("id")) for tier in tiers if tier.get("isDefault")), "legacy-tier")


def _name(project: Any) -> str | None:
    if isinstance(project, dict):
        project = project.get("id")
    return str(project) if project else None
