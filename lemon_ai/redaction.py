"""Pure. Takes credentials out of every string that leaves the package.

The exact values of a request's own credentials go first, then whatever looks like one. What a person needs to act
stays: status, type, code, parameter, request id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lemon_ai.patterns import Pattern
from lemon_ai.stream_options import StreamOptions

HIDDEN = "[redacted]"
_SHORTEST_SECRET = 5

SECRET_HEADERS = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "x-amz-security-token",
        "cookie",
        "set-cookie",
        "chatgpt-account-id",
    }
)
"""Header names, lower case, whose values are never shown."""

_SECRET_NAME = Pattern(r"key|token|secret|password|credential|cookie|authorization", re.IGNORECASE)
_HEADER_NAMES = "|".join(sorted(map(re.escape, SECRET_HEADERS), key=len, reverse=True))

_PATTERNS: tuple[tuple[Pattern, str], ...] = (
    (Pattern(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL), HIDDEN),
    (Pattern(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE), rf"\1 {HIDDEN}"),
    (
        Pattern(rf"(\b(?:{_HEADER_NAMES})[\"']?\s*[:=]\s*[\"']?)(?!\[redacted\])(?!bearer |basic )[^\s\"',;}}]+", re.I),
        rf"\1{HIDDEN}",
    ),
    (
        Pattern(r"([?&](?:api[_-]?key|key|access_token|token|sig|signature|X-Amz-[A-Za-z-]+)=)[^&\s\"']+", re.I),
        rf"\1{HIDDEN}",
    ),
    (Pattern(r"(://)[^/\s:@]+:[^/\s@]+@"), rf"\1{HIDDEN}@"),
    (Pattern(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), HIDDEN),
    (Pattern(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b"), HIDDEN),
    (Pattern(r"\bAIza[A-Za-z0-9_-]{20,}"), HIDDEN),
    (Pattern(r"\bya29\.[A-Za-z0-9_.-]{10,}"), HIDDEN),
    (Pattern(r"\b(?:sk|gsk|csk|xai|pplx|hf|r8|fw|rk|pk|key)[-_][A-Za-z0-9_-]{12,}"), HIDDEN),
    (Pattern(r"\b(?:gh[oprsu]_|github_pat_)[A-Za-z0-9_]{16,}"), HIDDEN),
)


def names_secret(name: str) -> bool:
    """Does the name of a variable or a header say that its value is a secret?"""
    return name.lower() in SECRET_HEADERS or bool(_SECRET_NAME.search(name))


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without the given secrets and without anything that looks like one."""
    for secret in sorted({secret for secret in secrets if len(secret) >= _SHORTEST_SECRET}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that can be shown."""
    return {
        name: HIDDEN if name.lower() in SECRET_HEADERS or _SECRET_NAME.search(name) else redact(value)
        for name, value in headers.items()
    }


def secrets_of(options: StreamOptions, headers: Mapping[str, str] | None = None) -> frozenset[str]:
    """The exact values in a call's options and headers that must not be shown."""
    found = {options.api_key, options.access_token}
    for sent in (options.headers, headers or {}):
        for name, value in sent.items():
            if name.lower() in SECRET_HEADERS or _SECRET_NAME.search(name):
                found.update((value, value.removeprefix("Bearer ")))
    for settings in options.provider_options.values():
        found.update(_secret_settings(settings))
    if isinstance(options.service_account_json, Mapping):
        found.update(_secret_settings(options.service_account_json))
    elif options.service_account_json:
        found.add(options.service_account_json)
    return frozenset(value for value in found if value)


def _secret_settings(settings: Mapping[str, Any]) -> set[str]:
    return {value for name, value in settings.items() if isinstance(value, str) and _SECRET_NAME.search(name)}
