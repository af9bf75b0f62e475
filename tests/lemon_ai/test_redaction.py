"""No credential leaves the package."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_ai import StreamOptions, redact, redact_headers, secrets_of

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abcdef123456", "abcdef123456"),
        ("authorization=Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ('{"x-api-key": "abc123"}', "abc123"),
        ("x-goog-api-key: AIzaSyA1234567890abcdefghijklmnop", "AIzaSyA1234567890"),
        ("api-key=zzz999", "zzz999"),
        ("GET /v1?key=qwerty&alt=sse", "qwerty"),
        ("x-amz-security-token: FwoGZXIvYXdz", "FwoGZXIvYXdz"),
        ("cookie: session=deadbeef", "deadbeef"),
        ("set-cookie: session=deadbeef", "deadbeef"),
        ("proxy-authorization: Basic cHJveHk6cHc=", "cHJveHk6cHc="),
        ("chatgpt-account-id: acc-12345", "acc-12345"),
        (f"token {JWT} was refused", JWT),
        ("Incorrect API key sk-proj-abcdefghijklmnop", "sk-proj-abcdefghijklmnop"),
        ("gsk_abcdefghijklmnopqrst", "gsk_abcdefghijklmnopqrst"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123", "ghp_abcdefghijkl"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("http://user:hunter2@proxy.local:8080/", "hunter2"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE"),
    ],
)
@pytest.mark.requirement("AI-8")
def test_what_looks_like_a_credential_is_taken_out(text: str, secret: str) -> None:
    """By its shape or by the header it stands behind."""
    assert secret not in redact(text)
    assert "[redacted]" in redact(text)


def test_the_detail_a_person_needs_stays() -> None:
    """Status, type, code, parameter, request id and model names are no credentials."""
    text = (
        "HTTP 400 invalid_request_error (param max_tokens, code unsupported_parameter, request req_a74d9a95) gpt-5-mini"
    )
    assert redact(text) == text


@given(st.text(min_size=5, max_size=30).filter(lambda s: s.strip() == s), st.text(max_size=20), st.text(max_size=20))
def test_the_exact_values_of_a_request_are_taken_out_wherever_they_stand(secret: str, before: str, after: str) -> None:
    """Whatever a key looks like."""
    if "[redacted]".find(secret) < 0:
        assert secret not in redact(f"{before}{secret}{after}", [secret]).replace("[redacted]", "\x00")


def test_the_secrets_of_a_call_are_found_in_options_and_headers() -> None:
    """Keys, tokens, secret headers, and settings whose names say so; plain settings are none."""
    options = StreamOptions(
        api_key="key-one",
        access_token="token-two",
        headers={"X-Custom-Token": "three-3", "x-plain": "not-secret"},
        provider_options={"bedrock": {"aws_secret_access_key": "four-four", "region": "eu-west-1"}},
        service_account_json={"private_key": "five-five", "client_email": "me@example.org"},
    )
    found = secrets_of(options, {"authorization": "Bearer six-six"})
    assert {"key-one", "token-two", "three-3", "four-four", "five-five", "six-six"} <= found
    assert not {"not-secret", "eu-west-1", "me@example.org"} & found


def test_options_and_headers_show_no_secret_when_printed() -> None:
    """A value in a log line or a traceback is the most common leak."""
    options = StreamOptions(api_key="key-one", access_token="token-two", headers={"authorization": "Bearer x-y-z"})
    assert not any(secret in repr(options) for secret in ("key-one", "token-two", "x-y-z"))
    shown = redact_headers({"Authorization": "Bearer x", "x-request-id": "r1", "My-Secret": "s"})
    assert shown == {"Authorization": "[redacted]", "x-request-id": "r1", "My-Secret": "[redacted]"}
