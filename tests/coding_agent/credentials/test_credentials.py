"""Which credential a request gets, and how a login is renewed once."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coding_agent.credentials import Credentials, has_key, known_secrets
from coding_agent.credentials.credential_file import CredentialFile
from coding_agent.credentials.oauth_entries import to_entry, to_secret
from lemon_ai.auth import LoginFailed
from lemon_otp import wall_ms
from tests.lemon_ai.auth.login_server import running

ROOT = Path(__file__).resolve().parents[3]
HOUR_MS = 3_600_000


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "LEMON_AUTH_FILE": str(tmp_path / "auth.json")}


def keep(variables: dict[str, str], provider: str, **entry) -> None:
    CredentialFile(Path(variables["LEMON_AUTH_FILE"])).put(provider, entry)


async def test_the_order_of_the_places(variables):
    """The key given to this start, the file, the variables (left to the package), what models.json names."""
    credentials = Credentials(variables, named={"openai": "named"})
    assert await credentials.api_key("openai") == "named"
    variables["OPENAI_API_KEY"] = "variable"
    assert await credentials.api_key("openai") is None
    assert credentials.source("openai") == "variable OPENAI_API_KEY"
    keep(variables, "openai", type="api_key", key="stored")
    assert await credentials.api_key("openai") == "stored"
    assert credentials.source("openai").startswith("key in ")
    credentials.given = {"openai": "given"}
    assert await credentials.api_key("OpenAI") == "given"
    assert await credentials.api_key("anthropic") is None


async def test_a_login_counts_before_the_variables_and_names_nothing(variables):
    """A login that lasts is used as it is, without asking anybody."""
    variables["ANTHROPIC_API_KEY"] = "variable"
    keep(variables, "anthropic", type="oauth", access="token", refresh="r", expires=wall_ms() + HOUR_MS)
    credentials = Credentials(variables)
    assert await credentials.api_key("anthropic") == "token"
    assert "token" not in repr(credentials)
    assert credentials.source("anthropic") == f"login in {variables['LEMON_AUTH_FILE']}"


async def test_a_login_that_has_ended_and_that_nobody_can_renew_says_what_to_do(variables):
    """Without a client id for the vendor the person has to log in again."""
    keep(variables, "anthropic", type="oauth", access="token", refresh="r", expires=1)
    with pytest.raises(LoginFailed, match="login anthropic"):
        await Credentials(variables).api_key("anthropic")


async def test_a_key_may_be_a_variable_or_a_command(variables):
    """As in models.json; a command that fails leaves the provider's own variables."""
    variables["ELSEWHERE"] = "value"
    for key, expected in (("ELSEWHERE", "value"), ("!printf made", "made"), ("!exit 1", None), ("", None), (7, None)):
        keep(variables, "openai", type="api_key", key=key)
        assert await Credentials(variables).api_key("openai") == expected


async def test_another_vendors_server_gets_no_stored_key(variables):
    """A key for OpenAI does not go to OpenRouter because a base URL says so; a server of one's own may have it."""
    keep(variables, "openai", type="api_key", key="stored")
    assert await Credentials(variables, base_url="https://openrouter.ai/api/v1").api_key("openai") is None
    assert await Credentials(variables, base_url="https://api.openai.com/v1").api_key("openai") == "stored"
    assert await Credentials(variables, base_url="http://127.0.0.1:9/v1").api_key("openai") == "stored"


async def test_a_torn_file_leaves_the_variables_and_says_so_in_the_log(variables, caplog):
    """A request is made with what there is; the log names the file and nothing in it."""
    Path(variables["LEMON_AUTH_FILE"]).write_text('{"openai": {"key": "sk-half')
    variables["OPENAI_API_KEY"] = "variable"
    assert await Credentials(variables).api_key("openai") is None
    assert has_key("openai", variables)
    assert "auth.json" in caplog.text
    assert "sk-half" not in caplog.text


async def test_a_login_made_while_the_program_runs_counts_from_the_next_request(variables):
    """And one that is forgotten counts no more."""
    credentials = Credentials(variables)
    assert await credentials.api_key("openai") is None
    keep(variables, "openai", type="api_key", key="stored")
    assert await credentials.api_key("openai") == "stored"
    credentials.file.remove("openai")
    assert await credentials.api_key("openai") is None
    assert not has_key("openai", variables)


def test_every_secret_in_reach_is_known_to_whoever_hides_them(variables):
    """Variables for keys or with a secret's name, stored keys, both tokens of a login; short words are not secrets."""
    variables["GROQ_API_KEY"] = "from-a-variable"
    variables["XAI_API_KEY"] = "x"
    keep(variables, "openai", type="api_key", key="stored-key")
    keep(variables, "anthropic", type="oauth", access="access-token", refresh="refresh-token", expires=0)
    variables["DEPLOY_TOKEN"] = "of-another-program"
    stored = {"stored-key", "access-token", "refresh-token"}
    assert known_secrets(variables) == {"from-a-variable", "of-another-program", *stored}


def test_a_login_is_the_same_after_it_was_kept_and_read():
    """What a vendor adds stays too, under the names other programs use."""
    entry = {"type": "oauth", "access": "a", "refresh": "r", "expires": 5, "projectId": "p", "new": [1], "created": 1,
             "updated": 2}  # fmt: skip
    secret = to_secret("google_gemini_cli", entry)
    assert secret.extras["project_id"] == "p"
    assert to_entry(secret) == entry
    assert to_secret("openai", entry) is None


def copilot(server, **changes) -> dict:
    """A Copilot login that has ended, at a GitHub on this machine."""
    domain = server.url.removeprefix("http://")
    return {"type": "oauth", "access": "", "refresh": "gh", "expires": 1, "enterpriseUrl": domain} | changes


async def test_a_login_that_has_ended_is_renewed_and_kept(variables):
    """The new token is used and stored; the file stays private and the rest of it as it was."""
    async with running() as server:
        server.answers["/copilot_internal/v2/token"] = [(200, {"token": "new", "expires_at": wall_ms() // 1000 + 3600})]
        keep(variables, "openai", type="api_key", key="other")
        keep(variables, "github-copilot", **copilot(server, extra="kept"))
        assert await Credentials(variables).api_key("github_copilot") == "new"
        assert await Credentials(variables).api_key("github_copilot") == "new"
    assert len(server.asked) == 1
    document = json.loads(Path(variables["LEMON_AUTH_FILE"]).read_text())
    assert document["github-copilot"]["access"] == "new"
    assert document["github-copilot"]["refresh"] == "gh"
    assert document["github-copilot"]["extra"] == "kept"
    assert document["openai"]["key"] == "other"


async def test_a_login_that_cannot_be_renewed_fails_the_request_and_is_kept(variables):
    """The person is told; nothing that could still be of use is thrown away."""
    async with running() as server:
        server.answers["/copilot_internal/v2/token"] = [(200, {})]
        keep(variables, "github-copilot", **copilot(server))
        with pytest.raises(LoginFailed):
            await Credentials(variables).api_key("github_copilot")
    assert CredentialFile(Path(variables["LEMON_AUTH_FILE"])).read()["github_copilot"].data["refresh"] == "gh"


ASKER = """
import asyncio
from coding_agent.credentials import Credentials
print(asyncio.run(Credentials().api_key("github_copilot")))
"""


async def test_many_programs_and_requests_renew_a_login_once(variables):
    """A refresh token may be good for one use: whoever waited for the lock reads what the first one got."""
    async with running() as server:
        server.answers["/copilot_internal/v2/token"] = [(200, {"token": "new", "expires_at": wall_ms() // 1000 + 3600})]
        keep(variables, "github-copilot", **copilot(server))
        environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT)}
        children = [
            await asyncio.create_subprocess_exec(sys.executable, "-c", ASKER, stdout=subprocess.PIPE, env=environment)
            for _ in range(3)
        ]
        credentials = Credentials(variables)
        own = await asyncio.gather(*(credentials.api_key("github_copilot") for _ in range(5)))
        said = [(await child.communicate())[0] for child in children]
    assert own == ["new"] * 5
    assert said == [b"new\n"] * 3
    assert len(server.asked) == 1
