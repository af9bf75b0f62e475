"""lemon_ai/auth/resolve.py: a kept secret to the key a call is made with."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lemon_ai.auth import LoginFailed, OAuthClient, OAuthSecret, SecretResolver, decode_secret, encode_secret, key_of
from lemon_ai.errors import ProviderError
from lemon_otp import wall_ms
from tests.lemon_ai.auth.login_server import LoginServer, running

HOUR_MS = 3_600_000


@pytest.fixture
async def server() -> AsyncIterator[LoginServer]:
    async with running() as server:
        server.answers["/token"] = [(200, {"access_token": "new", "refresh_token": "rt2", "expires_in": 3600})]
        yield server


def login(server: LoginServer, **changes: Any) -> OAuthClient:
    known = {
        "provider": "p",
        "secret_type": "p_oauth",
        "authorize_url": "x",
        "token_url": f"{server.url}/token",
        "client_id": "c",
    }
    return OAuthClient(**(known | changes))


def secret(ends_in_ms: int, **changes: Any) -> str:
    known = {"type": "p_oauth", "access_token": "old", "refresh_token": "rt1", "expires_at_ms": wall_ms() + ends_in_ms}
    return encode_secret(OAuthSecret(**(known | changes)))


class Kept:
    """A place for secrets, that can be made to fail."""

    def __init__(self, failing: bool = False) -> None:
        self.values: dict[str, str] = {}
        self.writes = 0
        self.failing = failing

    def persist(self, name: str, value: str) -> None:
        self.writes += 1
        if self.failing:
            raise OSError("disk full")
        self.values[name] = value


def test_a_secret_is_one_string_and_what_is_unknown_in_it_stays():
    """Vendors and later versions add fields."""
    value = json.dumps({"type": "t", "access_token": "a", "account_id": "x", "new_field": [1]})

    read = decode_secret(value)

    assert read is not None
    assert read.extras == {"account_id": "x", "new_field": [1]}
    assert decode_secret(encode_secret(read)) == read
    assert "access_token" not in repr(read)


@pytest.mark.parametrize("value", ["sk-plain", "{broken", "[]", "{}", '{"type": 1}', '{"type": "somebody_elses"}'])
async def test_a_value_that_is_no_secret_of_ours_is_left_to_the_next(value: str, server: LoginServer):
    """A plain API key stands for itself."""
    resolver = SecretResolver(Kept().persist, logins={"p_oauth": login(server)})

    assert await resolver.api_key("n", value) is None


async def test_a_token_that_lasts_is_used_as_it_is(server: LoginServer):
    """Nobody is asked."""
    resolver = SecretResolver(Kept().persist, logins={"p_oauth": login(server)})

    assert await resolver.api_key("n", secret(HOUR_MS)) == "old"
    assert server.asked == []


async def test_a_token_about_to_end_is_renewed_and_kept(server: LoginServer):
    """Early by as much as the login wants; the rotated refresh token is kept with it."""
    kept = Kept()
    resolver = SecretResolver(kept.persist, logins={"p_oauth": login(server, refresh_early_s=600.0)})

    assert await resolver.api_key("n", secret(500_000)) == "new"
    stored = decode_secret(kept.values["n"])
    assert stored is not None
    assert stored.refresh_token == "rt2"


async def test_a_failure_to_keep_it_changes_nothing(server: LoginServer, caplog: pytest.LogCaptureFixture):
    """The call goes on with the new token; the failure is logged."""
    resolver = SecretResolver(Kept(failing=True).persist, logins={"p_oauth": login(server)})

    assert await resolver.api_key("n", secret(0)) == "new"
    assert "could not be kept" in caplog.text


async def test_an_old_token_is_tried_where_renewal_failed(server: LoginServer):
    """It may still be good; a login that knows better fails, and so does one without any token."""
    server.answers["/token"] = [(503, {"error": "down"})]
    kept = Kept()
    resolver = SecretResolver(kept.persist, logins={"p_oauth": login(server)})
    strict = SecretResolver(kept.persist, logins={"p_oauth": login(server, keep_on_failure=False)})

    assert await resolver.api_key("n", secret(0)) == "old"
    assert kept.writes == 0
    with pytest.raises(ProviderError):
        await strict.api_key("n", secret(0))
    with pytest.raises(ProviderError):
        await resolver.api_key("n", secret(0, access_token=""))


async def test_a_login_without_a_client_id_says_so():
    """Its kind is known, but nothing here may renew it."""
    resolver = SecretResolver(Kept().persist, logins={})

    with pytest.raises(LoginFailed, match="No client id"):
        await resolver.api_key("n", secret(0, type="openai_codex_oauth", access_token=""))


async def test_many_callers_renew_a_secret_once(server: LoginServer):
    """A refresh token that is good for one use must not be used twice: who waited looks again."""
    kept = Kept()
    value = secret(0)
    kept.values["n"] = value
    resolver = SecretResolver(kept.persist, reload=kept.values.get, logins={"p_oauth": login(server)})

    keys = await asyncio.gather(*(resolver.api_key("n", value) for _ in range(10)))

    assert keys == ["new"] * 10
    assert len(server.asked) == 1


async def test_two_processes_renew_a_secret_once(server: LoginServer, tmp_path: Path):
    """Here two resolvers that share nothing but the lock's folder and the place secrets are kept in."""
    kept = Kept()
    value = secret(0)
    kept.values["n"] = value
    one, other = (
        SecretResolver(kept.persist, reload=kept.values.get, lock_dir=tmp_path, logins={"p_oauth": login(server)})
        for _ in range(2)
    )

    keys = await asyncio.gather(*(resolver.api_key("n", value) for resolver in (one, other, one, other)))

    assert keys == ["new"] * 4
    assert len(server.asked) == 1


def test_the_key_of_code_assist_holds_the_project():
    """Token and project travel as one."""
    plain = OAuthSecret(type="openai_codex_oauth", access_token="at")
    cli = OAuthSecret(type="google_gemini_cli_oauth", access_token="at", extras={"project_id": "p"})

    assert key_of(plain) == "at"
    assert json.loads(key_of(cli)) == {"token": "at", "projectId": "p"}
