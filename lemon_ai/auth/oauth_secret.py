"""Value. A credential as it is kept: one JSON string with tokens, their end, and what the vendor adds."""

import json
from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve, field, frozen

from lemon_ai.wire_text import compact_json

_FIELDS: Final = ("type", "access_token", "refresh_token", "expires_at_ms", "created_at_ms", "updated_at_ms")


@frozen(kw_only=True)
class OAuthSecret:
    """Tokens of one login.

    Attributes:
        type: Which login made it, such as "openai_codex_oauth".
        access_token: What calls are made with.
        refresh_token: What gets the next one; may change with each use.
        expires_at_ms: When the access token ends, Unix milliseconds; None when unknown.
        created_at_ms, updated_at_ms: When the login was made and last refreshed.
        extras: What the vendor needs besides: an account, a project, an address.
    """

    type: str
    access_token: str = field(default="", repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at_ms: int | None = None
    created_at_ms: int = 0
    updated_at_ms: int = 0
    extras: Mapping[str, Any] = field(factory=dict, repr=False)

    def ends_before(self, moment_ms: float) -> bool:
        """Whether the access token is missing, or ends before a moment."""
        return not self.access_token or (self.expires_at_ms is not None and self.expires_at_ms <= moment_ms)

    def refreshed(self, answer: Mapping[str, Any], *, now_ms: int) -> "OAuthSecret":
        """This login with the tokens of a token server's answer."""
        lasts_s = answer.get("expires_in")
        return evolve(
            self,
            access_token=str(answer.get("access_token") or self.access_token),
            refresh_token=str(answer.get("refresh_token") or self.refresh_token or "") or None,
            expires_at_ms=None if lasts_s is None else now_ms + int(float(lasts_s) * 1000),
            created_at_ms=self.created_at_ms or now_ms,
            updated_at_ms=now_ms,
        )


def encode_secret(secret: OAuthSecret) -> str:
    """The string to keep."""
    return compact_json({**secret.extras, **{name: getattr(secret, name) for name in _FIELDS}})


def decode_secret(value: str) -> OAuthSecret | None:
    """The secret in a kept string; None for anything else, such as a plain API key."""
    try:
        stored = json.loads(value)
    except ValueError:
        return None
    if not isinstance(stored, dict) or not isinstance(stored.get("type"), str):
        return None
    known = {name: stored[name] for name in _FIELDS if stored.get(name) is not None}
    extras = {name: item for name, item in stored.items() if name not in _FIELDS}
    return OAuthSecret(**known, extras=extras)
