"""Pure. What a provider's error means: one of our classes, with the detail a person can act on.

Three doors lead here: an HTTP answer that is no success, an error object inside a stream that had begun, and a
failure that left nothing but words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from lemon_ai.error_details import Details, read_details
from lemon_ai.errors import (
    AuthFailed,
    BadRequest,
    ContextOverflow,
    ProviderError,
    ProviderUnavailable,
    QuotaExhausted,
    RateLimited,
    ServerFailed,
    StreamTruncated,
)
from lemon_ai.patterns import Pattern
from lemon_ai.redaction import redact
from lemon_ai.retry_hints import retry_after_s
from lemon_otp import frozen, wall_ms

SAYS: Mapping[type[ProviderError], str] = {
    RateLimited: "Rate limit exceeded",
    QuotaExhausted: "Quota exhausted",
    AuthFailed: "Authentication failed",
    BadRequest: "Invalid request",
    ContextOverflow: "Context length exceeded",
    ServerFailed: "Server error",
    ProviderUnavailable: "Service temporarily unavailable",
    ProviderError: "Request failed",
}
"""The sentence each class begins with."""

RETRYABLE_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""Statuses after which the same request is tried again, while nothing was shown."""

_TRANSIENT_STATUSES = frozenset({408, 425, 502, 503, 504, 520, 521, 522, 523, 524, 529})
_OVERFLOW_CODES = ("context_length_exceeded", "max_tokens_exceeded", "token_limit_exceeded", "too_many_prompt_tokens")
_OVERFLOW = Pattern(
    r"context_length_exceeded|context length|maximum context|token limit|too many tokens|prompt is too long"
    r"|input is too long for requested model|exceeds the context window|input token count.*exceeds the maximum"
    r"|maximum prompt length is \d+|reduce the length of the messages|exceeds the limit of \d+"
    r"|exceeds? the available context size|greater than the context length|context window exceeds limit"
    r"|exceeded model token limit|too large for model with \d+ maximum context|model_context_window_exceeded"
    r"|length of all messages is too long",
    re.IGNORECASE | re.DOTALL,
)
_RATE = Pattern(r"rate.?limit|too many requests", re.IGNORECASE)
_RATE_CODE = Pattern(r"rate_?limit|throttl|too_?many_?requests|resource_?exhausted|^429$", re.IGNORECASE)
_QUOTA_CODE = Pattern(r"insufficient_quota|usage_limit|usage_not_included|billing|credit_?balance", re.IGNORECASE)
_QUOTA = Pattern(
    r"(?:monthly|weekly|daily|plan|chatgpt) usage limit|usage limit (?:has been |was )?reached|billing details"
    r"|credit balance is too low|insufficient (?:quota|credits|balance|funds)|out of credits",
    re.IGNORECASE,
)
_BUSY = Pattern(
    r"overloaded|temporarily unavailable|service unavailable|try again later|deadline exceeded|upstream connect"
    r"|connection refused|resource exhausted|other side closed|model is (?:currently )?loading|loading model",
    re.IGNORECASE,
)
_BUSY_CODE = Pattern(r"overloaded|unavailable|timeout|modelnotready|capacity", re.IGNORECASE)
_AUTH = Pattern(
    r"unauthori[sz]ed|authentication|(?:invalid|incorrect)[ _-](?:x-)?api[ _-]key"
    r"|api[ _-]key[ _](?:not[ _]valid|invalid)"
    r"|permission[ _]denied|forbidden|security token included in the request is (?:invalid|expired)",
    re.IGNORECASE,
)
_SERVER_CODE = Pattern(r"server_error|internal|api_error", re.IGNORECASE)
_TRANSPORT = Pattern(
    r"time[d ]?-?\s?out|connection (?:refused|reset|closed)|\bdns\b|\b50[234]\b|econn(?:refused|reset)", re.IGNORECASE
)
_STATUS_IN_WORDS = Pattern(r"\b(?:HTTP|status)[ :]+(\d{3})\b", re.IGNORECASE)
_TITLE = Pattern(r"<title[^>]*>(.*?)</title>|<h1[^>]*>(.*?)</h1>", re.IGNORECASE | re.DOTALL)
_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "x-goog-request-id")
_PREVIEW = 200


def http_error(
    provider: str,
    status: int,
    body: bytes | str,
    headers: Mapping[str, str],
    *,
    secrets: Iterable[str] = (),
) -> ProviderError:
    """The classified error behind an HTTP answer that is no success."""
    text = body if isinstance(body, str) else body.decode("utf-8", "replace")
    lower = {name.lower(): value for name, value in headers.items()}
    payload = _json_or_none(text)
    details = read_details(payload) if payload is not None else Details(message=_plain(text))
    errortype = lower.get("x-amzn-errortype")
    if errortype and not details.type:
        details = details.with_type(errortype.split(":")[0])
    if not details.message and 300 <= status < 400 and lower.get("location"):
        details = details.with_message(f"redirected to {lower['location']}; set base_url to the address it serves")
    wait = retry_after_s(lower, payload, text, now_ms=wall_ms())
    facts = _Facts(provider, status, details, wait, payload is not None or bool(text.strip()))
    request_id = next((lower[name] for name in _REQUEST_ID_HEADERS if name in lower), None)
    return _build(_class_of(facts), facts, secrets, request_id=request_id)


def stream_error(
    provider: str, payload: Any, *, secrets: Iterable[str] = (), fallback: str = "Unknown error"
) -> ProviderError:
    """The classified error behind an error object that came inside a stream, or as the body of a success."""
    details = read_details(payload)
    if not details.message:
        details = details.with_message(fallback)
    wait = retry_after_s({}, payload, details.message, now_ms=wall_ms())
    facts = _Facts(provider, details.status, details, wait, True)
    return _build(_class_of(facts), facts, secrets, in_stream=True)


def text_error(provider: str, text: str, *, secrets: Iterable[str] = ()) -> ProviderError:
    """The classified error behind words alone."""
    found = _STATUS_IN_WORDS.search(text)
    status = int(found.group(1)) if found else None
    details = Details(message=text)
    wait = retry_after_s({}, None, text, now_ms=wall_ms())
    facts = _Facts(provider, status, details, wait, True)
    return _class_of(facts)(provider=provider, message=redact(text, secrets), status=status, retry_after_s=wait)


def truncated(provider: str) -> StreamTruncated:
    """The error of an answer whose end never came."""
    return StreamTruncated(
        provider=provider, message=f"The answer of {provider} stopped before its end.", in_stream=True
    )


def is_context_overflow(text: str) -> bool:
    """Whether words say that a conversation is too long for a model."""
    return bool(_OVERFLOW.search(text))


@frozen
class _Facts:
    provider: str
    status: int | None
    details: Details
    retry_after_s: float | None
    has_body: bool


def _class_of(facts: _Facts) -> type[ProviderError]:
    """Which of our classes it is; the order of the questions is the rule."""
    status, message = facts.status, facts.details.message
    codes = [code for code in (facts.details.type, facts.details.code) if code]
    if status != 429 and _is_overflow(facts, codes):
        return ContextOverflow
    if status in (401, 403) or (
        (status is None or 400 <= status < 500) and status != 429 and _says_auth(message, codes)
    ):
        return AuthFailed
    if status in (None, 402, 429) and (any(map(_QUOTA_CODE.search, codes)) or _QUOTA.search(message)):
        return QuotaExhausted
    if status == 429 or _RATE.search(message) or any(map(_RATE_CODE.search, codes)):
        return RateLimited
    if _BUSY.search(message) or any(map(_BUSY_CODE.search, codes)):
        return ProviderUnavailable
    return _class_of_status(status, message, codes)


def _class_of_status(status: int | None, message: str, codes: list[str]) -> type[ProviderError]:
    if status is not None:
        if status in _TRANSIENT_STATUSES:
            return ProviderUnavailable
        if status >= 500:
            return ServerFailed
        return BadRequest if 300 <= status < 500 else ProviderError
    if _TRANSPORT.search(message):
        return ProviderUnavailable
    if any("invalid" in code.lower() or "not_found" in code.lower() for code in codes):
        return BadRequest
    return ServerFailed if any(map(_SERVER_CODE.search, codes)) else ProviderError


def _is_overflow(facts: _Facts, codes: list[str]) -> bool:
    if any(code.lower() in _OVERFLOW_CODES for code in codes):
        return True
    if facts.status in (None, 400, 413, 422) and _OVERFLOW.search(facts.details.message):
        return True
    return facts.provider == "cerebras" and facts.status in (400, 413) and not facts.has_body


def _says_auth(message: str, codes: list[str]) -> bool:
    return bool(_AUTH.search(message)) or any(map(_AUTH.search, codes))


def _build(
    cls: type[ProviderError],
    facts: _Facts,
    secrets: Iterable[str],
    *,
    request_id: str | None = None,
    in_stream: bool = False,
) -> ProviderError:
    details = facts.details
    secrets = tuple(secrets)
    said = redact(details.message, secrets)
    start = SAYS[cls] + (f" (HTTP {facts.status})" if facts.status is not None and not in_stream else "")
    wait = facts.retry_after_s
    return cls(
        provider=facts.provider,
        message=f"{start}: {said}" if said else start,
        status=facts.status,
        code=redact(details.code, secrets) if details.code else None,
        type=redact(details.type, secrets) if details.type else None,
        provider_message=said or None,
        retry_after_s=wait,
        request_id=request_id,
        in_stream=in_stream,
    )


def _json_or_none(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _plain(text: str) -> str:
    """What a body that is no JSON says: an HTML page its title, anything else its beginning."""
    if re.match(r"\s*(?:<!doctype|<html|<head|<\?xml|<body)", text, re.IGNORECASE):
        import html  # its table of entities is long, and pages are rare

        found = _TITLE.search(text)
        title = html.unescape(next(filter(None, found.groups()), "")) if found else ""
        return " ".join(title.split())[:_PREVIEW] or "an HTML page"
    return " ".join(text.split())[:_PREVIEW]
