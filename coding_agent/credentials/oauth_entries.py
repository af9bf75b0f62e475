"""Pure. A login as `auth.json` keeps it and as `lemon_ai.auth` uses it: one is the other's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lemon_ai.auth import OAuthSecret

SECRET_TYPES: Final[Mapping[str, str]] = {
    "anthropic": "anthropic_oauth",
    "openai_codex": "openai_codex_oauth",
    "github_copilot": "github_copilot_oauth",
    "google_gemini_cli": "google_gemini_cli_oauth",
}
"""Providers one can log in at, with the type of what is kept of it."""

_EXTRAS: Final[Mapping[str, str]] = {
    "projectId": "project_id",
    "accountId": "account_id",
    "enterpriseUrl": "domain",
    "created": "created_at_ms",
    "updated": "updated_at_ms",
}
"""Members of an entry that the package spells otherwise."""

_OWN: Final = frozenset({"type", "access", "refresh", "expires", "created", "updated"})


def to_secret(provider: str, entry: Mapping[str, Any]) -> OAuthSecret | None:
    """The login in an entry; None for a provider one cannot log in at."""
    from lemon_ai.auth import OAuthSecret

    kind = SECRET_TYPES.get(provider)
    if kind is None:
        return None
    expires = entry.get("expires")
    return OAuthSecret(
        type=kind,
        access_token=str(entry.get("access") or ""),
        refresh_token=str(entry.get("refresh") or "") or None,
        expires_at_ms=int(expires) if isinstance(expires, int | float) and expires > 0 else None,
        created_at_ms=_milliseconds(entry.get("created")),
        updated_at_ms=_milliseconds(entry.get("updated")),
        extras={_EXTRAS.get(name, name): value for name, value in entry.items() if name not in _OWN},
    )


def to_entry(secret: OAuthSecret) -> dict[str, Any]:
    """The entry to keep."""
    spelled = {ours: theirs for theirs, ours in _EXTRAS.items()}
    return {
        "type": "oauth",
        "access": secret.access_token,
        "refresh": secret.refresh_token or "",
        "expires": secret.expires_at_ms or 0,
        **{spelled.get(name, name): value for name, value in secret.extras.items()},
        "created": secret.created_at_ms,
        "updated": secret.updated_at_ms,
    }


def _milliseconds(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0
