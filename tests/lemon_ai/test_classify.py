"""What an error means: its class, its detail, and the wait it asks for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lemon_ai import (
    AuthFailed,
    BadRequest,
    ContextOverflow,
    ProviderError,
    ProviderUnavailable,
    QuotaExhausted,
    RateLimited,
    ServerFailed,
    is_context_overflow,
)
from lemon_ai.classify import http_error, stream_error, text_error


def classified(
    status: int, document: Any, headers: dict[str, str] | None = None, provider: str = "openai"
) -> ProviderError:
    body = document if isinstance(document, str) else json.dumps(document)
    return http_error(provider, status, body, headers or {})


@pytest.mark.parametrize(
    ("status", "document", "cls"),
    [
        (401, {"error": {"message": "no"}}, AuthFailed),
        (403, {"message": "The security token included in the request is invalid."}, AuthFailed),
        (400, {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}, AuthFailed),
        (400, {"code": "invalid-argument", "error": "Incorrect API key provided."}, AuthFailed),
        (429, {"error": {"message": "slow down"}}, RateLimited),
        (400, {"__type": "com.amazon#ThrottlingException", "message": "x"}, RateLimited),
        (500, {"error": {"message": "Too many requests"}}, RateLimited),
        (429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}, QuotaExhausted),
        (429, {"error": {"message": "You have reached your monthly usage limit"}}, QuotaExhausted),
        (400, {"error": {"message": "prompt is too long: 3333404 tokens > 200000 maximum"}}, ContextOverflow),
        (400, {"error": {"code": "context_length_exceeded", "message": "x"}}, ContextOverflow),
        (413, {"error": {"message": "the request exceeds the available context size (4096)"}}, ContextOverflow),
        (400, {"error": {"message": "x", "type": "too_many_prompt_tokens", "code": 400}}, ContextOverflow),
        (429, {"error": {"message": "token limit reached, slow down"}}, RateLimited),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, ProviderUnavailable),
        (503, "upstream connect error", ProviderUnavailable),
        (400, {"error": {"message": "The service is temporarily unavailable"}}, ProviderUnavailable),
        (500, {"error": {"message": "boom"}}, ServerFailed),
        (501, "", ServerFailed),
        (404, {"error": {"message": "no such model"}}, BadRequest),
        (422, {"detail": [{"loc": ["body", "messages"], "msg": "field required"}]}, BadRequest),
    ],
)
def test_a_status_and_a_body_are_one_of_our_errors(status: int, document: Any, cls: type[ProviderError]) -> None:
    """The class decides what callers do; the order of the questions matters where a body says two things."""
    assert type(classified(status, document)) is cls


def test_a_bodyless_refusal_of_cerebras_is_an_overflow() -> None:
    """There it means that the conversation is too long; elsewhere it is a bad request."""
    assert type(classified(413, "", provider="cerebras")) is ContextOverflow
    assert type(classified(400, "", provider="groq")) is BadRequest


@pytest.mark.parametrize(
    ("document", "said", "kind", "code"),
    [
        ({"error": {"message": "m", "type": "t", "code": "c", "param": "p"}}, "m", "t", "c"),
        ({"error": {"message": "", "errors": [{"message": "nested"}]}}, "nested", None, None),
        ({"errors": [{"message": "one"}, {"message": "two"}]}, "one; two", None, None),
        ({"error": "plain", "error_description": "why"}, "why", "plain", None),
        ({"error": "model 'x' not found"}, "model 'x' not found", None, None),
        ({"message": "top"}, "top", None, None),
        ({"Message": "Top"}, "Top", None, None),
        ({"detail": "Invalid API Key"}, "Invalid API Key", None, None),
        ({"detail": [{"loc": ["body", "x"], "msg": "required"}]}, "body.x: required", None, None),
        ({"error": {"code": 404, "message": "m", "status": "NOT_FOUND"}}, "m", "NOT_FOUND", None),
        (
            {"error": {"message": "m", "metadata": {"raw": "the model behind says no"}}},
            "m (the model behind says no)",
            None,
            None,
        ),
        ({"object": "error", "message": "m", "type": "BadRequestError", "code": 400}, "m", "BadRequestError", "400"),
        ([{"error": {"message": "in a list"}}], "in a list", None, None),
    ],
)
def test_the_providers_own_words_are_kept(document: Any, said: str, kind: str | None, code: str | None) -> None:
    """The most telling sentence is found in any of their shapes, with type and code."""
    error = classified(418, document)
    assert (error.provider_message, error.type, error.code) == (said, kind, code)
    assert "HTTP 418" in str(error)
    assert said in str(error)


def test_a_page_in_place_of_json_is_told_by_its_title_and_long_text_by_its_beginning() -> None:
    """Nothing of markup, nothing without end."""
    page = classified(502, "<html><head><title>Bad  Gateway &amp; more</title></head></html>")
    assert page.provider_message == "Bad Gateway & more"
    assert len(classified(500, "x" * 5000).provider_message or "") == 200


def test_headers_tell_type_and_request_id_and_where_it_moved() -> None:
    """What only headers say is not lost."""
    error = classified(
        400, {"message": "m"}, {"X-Amzn-ErrorType": "ValidationException:http://x", "x-amzn-requestid": "r1"}
    )
    assert (error.type, error.request_id) == ("ValidationException", "r1")
    moved = classified(308, "", {"location": "https://other.example/v1"})
    assert "https://other.example/v1" in str(moved)


@pytest.mark.parametrize(
    ("headers", "document", "seconds"),
    [
        ({"retry-after": "7"}, {}, 7.0),
        ({"retry-after-ms": "1500", "retry-after": "7"}, {}, 1.5),
        ({"retry-after-ms": "0", "retry-after": "1"}, {}, 1.0),
        ({"x-ratelimit-reset-requests": "1m30s"}, {}, 90.0),
        ({"x-ratelimit-reset-tokens": "250ms"}, {}, 0.25),
        ({}, {"error": {"details": [{"@type": "RetryInfo", "retryDelay": "34.07s"}]}}, 34.07),
        ({}, {"error": {"message": "Please try again in 1m2.5s."}}, 62.5),
        ({}, {"error": {"message": "Your quota will reset after 2h3m."}}, 7380.0),
        ({}, {"error": {"message": "x", "retry_after": 3}}, 3.0),
        ({}, {"error": {"message": "x"}}, None),
    ],
)
@pytest.mark.requirement("BR-031")
def test_a_wait_is_found_in_headers_body_or_words(
    headers: dict[str, str], document: Any, seconds: float | None
) -> None:
    """Wherever a provider puts it."""
    found = classified(429, document, headers).retry_after_s
    assert found == (None if seconds is None else pytest.approx(seconds))


def test_a_wait_until_a_date_counts_from_now(clocked_runtime: Any) -> None:
    """HTTP dates and ISO dates are turned into seconds; a date that has passed is no wait."""
    now_s = 1_700_000_000
    for date, seconds in (
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60.0),
        ("2023-11-14T22:14:20Z", 60.0),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 0.0),
        (str((now_s + 30) * 1000), 30.0),
    ):
        assert classified(429, {}, {"retry-after": date}).retry_after_s == pytest.approx(seconds, abs=0.01)


def test_an_error_inside_a_stream_has_no_status_of_its_own() -> None:
    """But a number in the object counts for the class."""
    error = stream_error("anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert (type(error), error.status, error.in_stream) == (ProviderUnavailable, None, True)
    assert type(stream_error("p", {"error": {"code": 429, "message": "m"}})) is RateLimited
    assert (
        type(stream_error("p", {"error": {"message": "Unknown parameter", "type": "invalid_request_error"}}))
        is BadRequest
    )
    assert "no detail" in str(stream_error("p", {}, fallback="no detail"))


@pytest.mark.parametrize(
    ("text", "cls"),
    [
        ("This model's maximum context length is 10 tokens", ContextOverflow),
        ("HTTP 401 Unauthorized", AuthFailed),
        ("rate limit hit", RateLimited),
        ("connection reset by peer", ProviderUnavailable),
        ("request timed out", ProviderUnavailable),
        ("status: 500", ServerFailed),
        ("something odd", ProviderError),
    ],
)
def test_words_alone_are_classified(text: str, cls: type[ProviderError]) -> None:
    """For failures that left nothing else."""
    assert type(text_error("p", text)) is cls


def test_overflow_is_recognised_in_many_tongues() -> None:
    """Each server says it in its own way."""
    for text in (
        "input is too long for requested model",
        "The input token count (1200) exceeds the maximum number of tokens allowed (1000)",
        "maximum prompt length is 131072",
        "Your input exceeds the context window of this model",
        "greater than the context length",
        "context window exceeds limit",
        "too large for model with 8192 maximum context length",
    ):
        assert is_context_overflow(text), text
    assert not is_context_overflow("The model answered")


def test_credentials_never_leave_in_an_error() -> None:
    """Neither the request's own secret nor anything that looks like one; status, type and parameter stay."""
    document = {
        "error": {"message": "Incorrect key my-own-secret, or sk-abcdefghijklmnop1234", "type": "t", "param": "p"}
    }
    error = http_error("openai", 401, json.dumps(document), {}, secrets=["my-own-secret"])
    shown = f"{error} {error!r}"
    assert "my-own-secret" not in shown
    assert "sk-abcdef" not in shown
    assert "HTTP 401" in shown
