"""lemon_ai/auth: PKCE and device flows, against a vendor played on loopback."""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import pytest

from lemon_ai.auth import (
    LoginFailed,
    OAuthClient,
    anthropic_login,
    begin,
    begin_device_login,
    codex_login,
    enable_model,
    exchange_code,
    finish_device_login,
    gemini_cli_login,
    logins_of,
    read_code,
    refresh_secret,
    wait_for_code,
    with_project,
)
from lemon_ai.auth.device import DeviceCode, request_device_code, wait_for_token
from lemon_ai.auth.github_copilot import GithubHost, base_url_of
from lemon_ai.auth.oauth_secret import OAuthSecret
from lemon_ai.errors import ProviderError, ServerFailed
from lemon_otp.testing import FakeClock
from tests.lemon_ai.auth.login_server import LoginServer, running

Json = dict[str, Any]


@pytest.fixture
async def server() -> AsyncIterator[LoginServer]:
    async with running() as server:
        yield server


def client(url: str, **changes: Any) -> OAuthClient:
    known = {
        "provider": "p",
        "secret_type": "p_oauth",
        "authorize_url": "https://login.example/authorize",
        "token_url": f"{url}/token",
        "client_id": "mine",
        "redirect_uri": "http://localhost:1/callback",
        "scopes": ("a", "b"),
    }
    return OAuthClient(**(known | changes))


async def no_wait(seconds: float) -> None:
    """A sleep that takes no time."""


def test_the_browsers_address_carries_the_challenge_and_not_the_verifier():
    """What proves the login stays here until the code is exchanged."""
    login = begin(client("http://x"))

    query = dict(parse_qsl(urlsplit(login.url).query))
    digest = hashlib.sha256(login.verifier.encode()).digest()
    assert query["code_challenge"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert query["code_challenge_method"] == "S256"
    assert (query["client_id"], query["scope"], query["state"]) == ("mine", "a b", login.state)
    assert login.verifier not in login.url
    assert begin(client("http://x")).verifier != login.verifier


@pytest.mark.parametrize(
    "pasted",
    [
        "http://localhost:1455/auth/callback?code=abc&state=s1",
        "/auth/callback?state=s1&code=abc",
        "code=abc&state=s1",
        "?code=abc&state=s1",
        "abc#s1",
        "  abc  ",
    ],
)
def test_a_code_is_read_from_whatever_was_pasted(pasted: str):
    """An address, its query, code and state, or the code alone."""
    assert read_code(pasted, "s1") == "abc"


@pytest.mark.parametrize(
    ("pasted", "said"),
    [
        ("code=abc&state=other", "another login"),
        ("abc#other", "another login"),
        ("error=access_denied&error_description=No", "not granted: No"),
        ("", "no code"),
        ("two words", "no code"),
    ],
)
def test_an_answer_that_is_not_ours_is_refused(pasted: str, said: str):
    """Another state, a refusal, nothing."""
    with pytest.raises(LoginFailed, match=said):
        read_code(pasted, "s1")


@pytest.mark.parametrize("form", ["form", "json"])
async def test_a_code_is_exchanged_for_tokens_with_the_verifier(server: LoginServer, form: Any):
    """As a form or as JSON, whichever the vendor takes."""
    server.answers["/token"] = [(200, {"access_token": "at", "refresh_token": "rt", "expires_in": 60})]
    login = begin(client(server.url))

    secret = await exchange_code(client(server.url, token_format=form, client_secret="cs"), login, "abc")

    sent = server.asked[0][1]
    asked = json.loads(sent) if form == "json" else dict(parse_qsl(sent))
    assert (asked["code"], asked["code_verifier"], asked["client_id"]) == ("abc", login.verifier, "mine")
    assert (asked["grant_type"], asked["client_secret"]) == ("authorization_code", "cs")
    assert (secret.type, secret.access_token, secret.refresh_token) == ("p_oauth", "at", "rt")
    assert secret.expires_at_ms == secret.updated_at_ms + 60_000


async def test_a_refresh_keeps_what_the_answer_leaves_out(server: LoginServer):
    """Servers that do not rotate send no refresh token back."""
    server.answers["/token"] = [(200, {"access_token": "new"})]
    old = OAuthSecret(type="p_oauth", access_token="old", refresh_token="rt", created_at_ms=5, extras={"account": "a"})

    fresh = await refresh_secret(client(server.url), old)

    assert (fresh.access_token, fresh.refresh_token, fresh.created_at_ms) == ("new", "rt", 5)
    assert fresh.extras == {"account": "a"}
    with pytest.raises(LoginFailed, match="no refresh token"):
        await refresh_secret(client(server.url), OAuthSecret(type="p_oauth"))


async def test_a_token_server_that_refuses_or_talks_nonsense(server: LoginServer):
    """The failure is classified and shows nothing that was sent."""
    login = begin(client(server.url))
    server.answers["/token"] = [(400, lambda sent: {"error": "invalid_grant", "error_description": sent})]
    with pytest.raises(ProviderError) as refused:
        await exchange_code(client(server.url), login, "the-secret-code")
    assert "the-secret-code" not in str(refused.value)

    server.answers["/token"] = [(200, {"no": "token"})]
    with pytest.raises(LoginFailed, match="no access token"):
        await exchange_code(client(server.url), login, "abc")

    server.answers["/token"] = [(200, [])]  # type: ignore[list-item]
    with pytest.raises(ServerFailed, match="no JSON object"):
        await exchange_code(client(server.url), login, "abc")


async def test_the_browser_brings_the_code_to_this_machine(unused_port: int):
    """Other paths are answered with 404 and do not end the waiting."""
    redirect = f"http://localhost:{unused_port}/auth/callback"
    login = begin(client("http://x", redirect_uri=redirect))

    async def browser() -> list[int]:
        async with httpx.AsyncClient(trust_env=False) as visitor:
            while True:
                try:
                    other = await visitor.get(f"http://localhost:{unused_port}/favicon.ico")
                    break
                except httpx.ConnectError:
                    await asyncio.sleep(0)
            came = await visitor.get(redirect, params={"code": "abc", "state": login.state})
            return [other.status_code, came.status_code]

    code, statuses = await asyncio.gather(wait_for_code(login, redirect), browser())

    assert code == "abc"
    assert statuses == [404, 200]


async def test_a_browser_that_brings_another_state_fails_the_login(unused_port: int):
    """Somebody else's answer is no answer."""
    redirect = f"http://localhost:{unused_port}/cb"
    login = begin(client("http://x", redirect_uri=redirect))

    async def browser() -> int:
        async with httpx.AsyncClient(trust_env=False) as visitor:
            while True:
                try:
                    return (await visitor.get(redirect, params={"code": "abc", "state": "other"})).status_code
                except httpx.ConnectError:
                    await asyncio.sleep(0)

    waited, status = await asyncio.gather(wait_for_code(login, redirect), browser(), return_exceptions=True)

    assert isinstance(waited, LoginFailed)
    assert status == 400


async def test_nobody_comes(unused_port: int):
    """The waiting ends, and the port is free again."""
    login = begin(client("http://x"))
    for _ in range(2):
        with pytest.raises(LoginFailed, match="No browser came back"):
            await wait_for_code(login, f"http://localhost:{unused_port}/cb", timeout_s=0.01)


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("localhost", 0))
        return int(free.getsockname()[1])


@pytest.mark.usefixtures("clocked_runtime")
async def test_a_device_login_waits_as_long_as_it_is_told_to(server: LoginServer, fake_clock: FakeClock):
    """Pending is waited out, slow_down adds five seconds, then the token comes."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await fake_clock.advance(seconds)

    server.answers["/code"] = [
        (200, {"user_code": "AB-CD", "verification_uri": "https://x/d", "device_code": "dc", "interval": 0})
    ]
    server.answers["/token"] = [
        (200, {"error": "authorization_pending"}),
        (200, {"error": "slow_down"}),
        (200, {"access_token": "at"}),
    ]

    code = await request_device_code("p", f"{server.url}/code", client_id="mine", scope="s")
    answer = await wait_for_token("p", f"{server.url}/token", code, client_id="mine", sleep=sleep)

    assert (code.user_code, code.verification_uri, code.interval_s) == ("AB-CD", "https://x/d", 5.0)
    assert answer["access_token"] == "at"
    assert pauses == [5.0, 5.0, 10.0]


@pytest.mark.usefixtures("clocked_runtime")
async def test_a_device_login_that_is_declined_or_forgotten_ends(server: LoginServer, fake_clock: FakeClock):
    """Both are told apart from a server that does not answer."""
    code = DeviceCode("AB", "https://x", "dc", interval_s=1.0, expires_in_s=3.0)
    server.answers["/token"] = [(200, {"error": "access_denied"})]
    with pytest.raises(LoginFailed, match="access_denied"):
        await wait_for_token("p", f"{server.url}/token", code, client_id="m", sleep=no_wait)

    server.answers["/token"] = [(200, {"error": "authorization_pending"})]
    with pytest.raises(LoginFailed, match="not entered in time"):
        await wait_for_token("p", f"{server.url}/token", code, client_id="m", sleep=fake_clock.advance)

    server.answers["/code"] = [(200, {"user_code": "x"})]
    with pytest.raises(LoginFailed, match="left out"):
        await request_device_code("p", f"{server.url}/code", client_id="m", scope="s")


async def test_copilot_changes_githubs_token_for_its_own(server: LoginServer):
    """The kept refresh token is GitHub's; the token says where Copilot is asked."""
    host = GithubHost(server.url.removeprefix("http://"))
    server.answers |= {
        "/login/device/code": [
            (200, {"user_code": "u", "verification_uri": "v", "device_code": "d", "interval": 1, "expires_in": 9})
        ],
        "/login/oauth/access_token": [(200, {"access_token": "gho_x"})],
        "/copilot_internal/v2/token": [
            (200, {"token": "tid=1;proxy-ep=proxy.business.githubcopilot.com;x", "expires_at": 2_000_000_000})
        ],
        "/models/m/policy": [(200, {}), (404, {})],
    }

    code = await begin_device_login("mine", host=host)
    secret = await finish_device_login("mine", code, sleep=no_wait, host=host)

    assert secret.refresh_token == "gho_x"
    assert secret.expires_at_ms == (2_000_000_000 - 300) * 1000
    assert base_url_of(secret) == "https://api.business.githubcopilot.com"
    assert server.headers[2]["authorization"] == "Bearer gho_x"
    assert parse_qs(server.asked[0][1])["scope"] == ["read:user"]
    assert await enable_model(secret, "m", base_url=server.url)
    assert not await enable_model(secret, "m", base_url=server.url)


@pytest.mark.parametrize(
    ("extras", "url"),
    [
        ({}, "https://api.individual.githubcopilot.com"),
        ({"domain": "github.com"}, "https://api.individual.githubcopilot.com"),
        ({"domain": "ghe.example"}, "https://copilot-api.ghe.example"),
    ],
)
def test_where_copilot_is_asked_when_its_token_does_not_say(extras: Json, url: str):
    """The company's address, or the one for individuals."""
    assert base_url_of(OAuthSecret(type="github_copilot_oauth", access_token="tid=1", extras=extras)) == url


async def test_code_assist_names_its_project_or_makes_one(server: LoginServer):
    """Found at once, or after onboarding has finished."""
    secret = OAuthSecret(type="google_gemini_cli_oauth", access_token="at")
    load, onboard = "/v1internal:loadCodeAssist", "/v1internal:onboardUser"
    server.answers[load] = [(200, {"currentTier": {"id": "x"}, "cloudaicompanionProject": "p1"})]
    found = await with_project(secret, sleep=no_wait, base_url=server.url)

    server.answers[load] = [(200, {"allowedTiers": [{"id": "free-tier", "isDefault": True}]})]
    done = {"done": True, "response": {"cloudaicompanionProject": {"id": "p2"}}}
    server.answers[onboard] = [(200, {"done": False}), (200, done)]
    made = await with_project(secret, sleep=no_wait, base_url=server.url)

    assert found.extras["project_id"] == "p1"
    assert made.extras["project_id"] == "p2"


async def test_an_account_that_needs_its_own_project_is_told_so(server: LoginServer):
    """And an onboarding that never ends is given up."""
    secret = OAuthSecret(type="google_gemini_cli_oauth", access_token="at")
    server.answers["/v1internal:loadCodeAssist"] = [(200, {"allowedTiers": []})]
    with pytest.raises(LoginFailed, match="GOOGLE_CLOUD_PROJECT"):
        await with_project(secret, sleep=no_wait, base_url=server.url)

    server.answers["/v1internal:onboardUser"] = [(200, {"done": False})]
    with pytest.raises(LoginFailed, match="did not finish"):
        await with_project(secret, sleep=no_wait, base_url=server.url, project="mine")


def test_client_ids_are_the_callers():
    """None comes with the package: a login exists where the configuration names one."""
    environ = {
        "ANTHROPIC_OAUTH_CLIENT_ID": "a",
        "OPENAI_CODEX_OAUTH_CLIENT_ID": "c",
        "GOOGLE_GEMINI_CLI_OAUTH_CLIENT_ID": "g",
        "GOOGLE_GEMINI_CLI_OAUTH_CLIENT_SECRET": "gs",
    }

    logins = logins_of(environ)

    assert logins_of({}) == {}
    assert logins == {
        "anthropic_oauth": anthropic_login("a"),
        "openai_codex_oauth": codex_login("c"),
        "google_gemini_cli_oauth": gemini_cli_login("g", "gs"),
    }
    assert "gs" not in repr(logins)
