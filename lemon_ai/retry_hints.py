"""Pure. How long a provider asked us to wait: read from headers, from an error's body, or from its words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lemon_ai.patterns import Pattern

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = Pattern(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_DURATION = Pattern(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
_WORDS = (
    Pattern(r"reset (?:after|in) ((?:\d+(?:\.\d+)?(?:ms|[smhd])\s?)+)", re.I),
    Pattern(r"(?:please )?(?:retry|try again) in ((?:\d+(?:\.\d+)?\s?(?:ms|[smhd])\s?)+)", re.I),
    Pattern(r"\"retryDelay\"\s*:\s*\"((?:\d+(?:\.\d+)?(?:ms|[smhd]))+)\"", re.I),
    Pattern(r"(?:retry|try again|wait)(?: again)? (?:in|after|for) (?:about )?(\d+(?:\.\d+)?) ?sec", re.I),
)
_RESET_HEADERS = (
    "x-ratelimit-reset-after",
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "x-ratelimit-reset",
    "ratelimit-reset",
    "anthropic-ratelimit-requests-reset",
    "anthropic-ratelimit-tokens-reset",
)


def retry_after_s(headers: Mapping[str, str], body: Any = None, text: str = "", *, now_ms: int) -> float | None:
    """Seconds a provider asked us to wait, or None.

    `retry-after` and its millisecond relatives come first, then the moment a limit is said to reset, then the body,
    then the words of the message. A millisecond header that says more than 0 is finer than `retry-after`.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        milliseconds = _number(lower.get(name))
        if milliseconds:
            return milliseconds / 1000
    told = _moment_or_seconds(lower.get("retry-after"), now_ms)
    if told is not None:
        return told
    resets = [reset for name in _RESET_HEADERS if (reset := _moment_or_seconds(lower.get(name), now_ms)) is not None]
    if resets:
        return max(resets) if len(resets) == 1 else _longest_exhausted(lower, now_ms) or max(resets)
    in_body = _from_body(body, now_ms)
    return in_body if in_body is not None else _from_words(text)


def parse_duration_s(text: str) -> float | None:
    """Seconds in "1m30s", "250ms", "34.07s"; None for anything else."""
    compact = text.replace(" ", "")
    if not _DURATION.fullmatch(compact):
        return None
    return sum(float(number) * _UNITS_S[unit] for number, unit in _PART.compiled.findall(compact))


def _longest_exhausted(headers: Mapping[str, str], now_ms: int) -> float | None:
    """Among limits that say nothing remains, the one that resets last."""
    waits = []
    for kind in ("requests", "tokens"):
        for left, reset in (
            (f"x-ratelimit-remaining-{kind}", f"x-ratelimit-reset-{kind}"),
            (f"anthropic-ratelimit-{kind}-remaining", f"anthropic-ratelimit-{kind}-reset"),
        ):
            if _number(headers.get(left)) == 0:
                waits.append(_moment_or_seconds(headers.get(reset), now_ms))
    known = [wait for wait in waits if wait is not None]
    return max(known) if known else None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _moment_or_seconds(text: str | None, now_ms: int) -> float | None:
    if not text:
        return None
    text = text.split(",")[0].strip() if not re.match(r"[A-Za-z]{3},", text) else text.strip()
    number = _number(text)
    if number is not None:
        if number >= 1e12:
            return max(0.0, (number - now_ms) / 1000)
        return number if number < 1e9 else max(0.0, number - now_ms / 1000)
    return parse_duration_s(text) if _DURATION.fullmatch(text) else _until(text, now_ms)


def _until(text: str, now_ms: int) -> float | None:
    from datetime import UTC, datetime  # both are slow to import and rarely needed
    from email.utils import parsedate_to_datetime

    try:
        moment = datetime.fromisoformat(text) if text[:4].isdigit() else parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - now_ms / 1000)


_BODY_NAMES = (
    ("retry_after_ms", 0.001),
    ("retryAfterMs", 0.001),
    ("retry_after", 1),
    ("retryAfter", 1),
    ("resets_in_seconds", 1),
)


def _from_body(body: Any, now_ms: int) -> float | None:
    if not isinstance(body, Mapping):
        return None
    for place in (body, body.get("error")):
        if not isinstance(place, Mapping):
            continue
        for name, scale in _BODY_NAMES:
            value = place.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
                return value * scale
        resets_at_s = place.get("resets_at")
        if isinstance(resets_at_s, (int, float)) and not isinstance(resets_at_s, bool):
            return max(0.0, resets_at_s - now_ms / 1000)
        details = place.get("details")
        for detail in details if isinstance(details, list) else ():
            delay = detail.get("retryDelay") if isinstance(detail, Mapping) else None
            if isinstance(delay, str) and (seconds := parse_duration_s(delay)) is not None:
                return seconds
    return None


def _from_words(text: str) -> float | None:
    for pattern in _WORDS:
        found = pattern.search(text)
        if found:
            told = found.group(1).replace(" ", "")
            return parse_duration_s(told) if told[-1].isalpha() else float(told)
    return None
