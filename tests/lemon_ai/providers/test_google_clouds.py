"""lemon_ai/providers/google_{vertex,tokens,gemini_cli}.py: addresses, and the tokens they are asked with."""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from lemon_ai.errors import AuthFailed, BadRequest, MissingCredential
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.google_gemini_cli import encode_call as encode_cli
from lemon_ai.providers.google_gemini_cli import read_secret
from lemon_ai.providers.google_tokens import GoogleTokens, grant_of
from lemon_ai.providers.google_vertex import encode_anthropic_call, encode_call
from tests.lemon_ai.auth.login_server import LoginServer, running
from tests.lemon_ai.providers.wires import asked, model

Json = dict[str, Any]
VERTEX = model("google_vertex", "google_vertex")


@pytest.fixture
async def server() -> AsyncIterator[LoginServer]:
    async with running() as server:
        yield server


@pytest.fixture(autouse=True)
def no_credentials_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("APPLICATION_CREDENTIALS", "CLOUD_PROJECT", "CLOUD_LOCATION"):
        monkeypatch.delenv(f"GOOGLE_{name}", raising=False)
    monkeypatch.delenv("GCLOUD_PROJECT", raising=False)


@pytest.fixture(scope="module")
def service_account() -> Json:
    """A key made here, as the cloud's console would hand it out."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(encoding, form, serialization.NoEncryption()).decode()
    return {"type": "service_account", "client_email": "me@p.example", "private_key": pem, "private_key_id": "k1"}


def request(**options: Any) -> ProviderRequest:
    return asked(VERTEX, project="p", location="us-central1", **options)


def test_the_address_names_project_place_and_model():
    """The global place has a host without a region; Claude is asked under another publisher."""
    place = "projects/p/locations/{}/publishers/{}/models/a-model:{}"
    regional = encode_call(request(), "t").url
    everywhere = encode_call(asked(VERTEX, project="p", location="global"), "t").url
    claude = encode_anthropic_call(request(), "t")

    assert regional == (
        "https://us-central1-aiplatform.googleapis.com/v1/"
        + place.format("us-central1", "google", "streamGenerateContent?alt=sse")
    )
    assert everywhere.startswith("https://aiplatform.googleapis.com/v1/projects/p/locations/global/")
    assert claude.url.endswith(place.format("us-central1", "anthropic", "streamRawPredict"))
    assert claude.body["anthropic_version"] == "vertex-2023-10-16"
    assert "model" not in claude.body
    assert claude.headers["authorization"] == "Bearer t"


@pytest.mark.parametrize(("options", "missing"), [({"location": "l"}, "project"), ({"project": "p"}, "location")])
def test_a_project_and_a_place_are_needed(options: Json, missing: str, monkeypatch: pytest.MonkeyPatch):
    """What is missing is named; the environment may give both."""
    with pytest.raises(BadRequest, match=missing):
        encode_call(asked(VERTEX, **options), "t")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "ep")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "el")
    assert "/projects/ep/locations/el/" in encode_call(asked(VERTEX), "t").url


async def test_a_token_that_was_passed_in_is_used():
    """Before any other credential."""
    assert await GoogleTokens(gcloud=()).token_for(request(access_token="given")) == "given"


async def test_a_service_account_is_exchanged_once(service_account: Json, server: LoginServer):
    """A signed assertion for an access token, which is kept until shortly before it ends."""
    server.answers["/token"] = [(200, {"access_token": "ya29.new", "expires_in": 3600})]
    account = service_account | {"token_uri": f"{server.url}/token"}
    tokens = GoogleTokens(gcloud=())

    first = await tokens.token_for(request(service_account_json=account))
    second = await tokens.token_for(request(service_account_json=json.dumps(account)))

    ((_, sent),) = server.asked
    form = parse_qs(sent)
    assert (first, second) == ("ya29.new", "ya29.new")
    assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    assert form["assertion"][0].count(".") == 2


async def test_a_token_that_has_ended_is_got_again(service_account: Json, server: LoginServer):
    """One that lasts no longer than the margin is not kept at all."""
    server.answers["/token"] = [(200, {"access_token": f"t{n}", "expires_in": 60}) for n in (1, 2)]
    account = service_account | {"token_uri": f"{server.url}/token"}
    tokens = GoogleTokens(gcloud=())

    got = [await tokens.token_for(request(service_account_json=account)) for _ in range(2)]

    assert got == ["t1", "t2"]


def test_an_assertion_says_who_asks_for_what(service_account: Json):
    """Signed with the account's own key."""
    from google.auth import jwt

    claims = jwt.decode(grant_of("p", service_account)["assertion"], verify=False)  # type: ignore[no-untyped-call]

    assert claims["iss"] == claims["sub"] == "me@p.example"
    assert claims["aud"] == "https://oauth2.googleapis.com/token"
    assert claims["exp"] - claims["iat"] == 3600


async def test_the_file_the_environment_names_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: LoginServer
):
    """Here one of a user who logged in, which is renewed."""
    server.answers["/token"] = [(200, {"access_token": "ya29.user", "expires_in": 3600})]
    user = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}
    file = tmp_path / "adc.json"
    file.write_text(json.dumps(user | {"token_uri": f"{server.url}/token"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))

    assert await GoogleTokens(gcloud=()).token_for(request()) == "ya29.user"
    assert parse_qs(server.asked[0][1])["refresh_token"] == ["r"]


async def test_gcloud_is_asked_last():
    """What it prints is the token; when it fails, what to do is said."""
    prints = (sys.executable, "-c", "print('ya29.cli')")
    fails = (sys.executable, "-c", "raise SystemExit(1)")

    assert await GoogleTokens(gcloud=prints).token_for(request()) == "ya29.cli"
    for command in (fails, ("/no/such/program",), ()):
        with pytest.raises(MissingCredential, match="log in with gcloud"):
            await GoogleTokens(gcloud=command).token_for(request())


@pytest.mark.parametrize(
    ("account", "error", "said"),
    [
        ("{broken", BadRequest, "not JSON"),
        ({"type": "service_account", "client_email": "x"}, BadRequest, "no usable key"),
    ],
)
async def test_a_credential_that_is_none_is_told_apart(account: Any, error: type[Exception], said: str):
    """Before anything is sent."""
    with pytest.raises(error, match=said):
        await GoogleTokens(gcloud=()).token_for(request(service_account_json=account))


async def test_a_file_that_is_not_there_is_named_as_the_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Not as a missing login."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))

    with pytest.raises(MissingCredential, match="cannot be read"):
        await GoogleTokens(gcloud=()).token_for(request())


async def test_a_refused_assertion_does_not_show_it(service_account: Json, server: LoginServer):
    """What was sent is a secret."""
    server.answers["/token"] = [(401, lambda sent: {"error": "invalid_grant", "error_description": f"bad {sent}"})]
    account = service_account | {"token_uri": f"{server.url}/token"}

    with pytest.raises(AuthFailed) as caught:
        await GoogleTokens(gcloud=()).token_for(request(service_account_json=account))

    assert parse_qs(server.asked[0][1])["assertion"][0] not in str(caught.value)


def test_the_call_of_code_assist_is_wrapped():
    """Project and model outside, the conversation and its session inside, and a name of our own."""
    secret = json.dumps({"token": "ya29.x", "projectId": "proj"})

    call = encode_cli(asked(model("google_gemini_cli", "google_gemini_cli"), api_key=secret, session_id="s1"))

    assert call.url == "https://cloudcode-pa.googleapis.com/v1internal:streamGenerateContent?alt=sse"
    assert call.headers["authorization"] == "Bearer ya29.x"
    assert (call.body["project"], call.body["model"]) == ("proj", "a-model")
    assert call.body["request"]["contents"]
    assert call.body["request"]["sessionId"] == "s1"
    assert call.body["userAgent"] == "lemon-ai"


@pytest.mark.parametrize("bad", ["plain", "[]", "{}", '{"token": "x"}'])
def test_a_secret_of_another_shape_is_refused(bad: str):
    """And the shape is told."""
    with pytest.raises(MissingCredential, match="projectId"):
        read_secret("google_gemini_cli", bad)
