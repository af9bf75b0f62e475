"""login, logout and auth list: as real programs with pipes and a real terminal; nothing of a key is ever shown."""

import asyncio
import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from coding_agent.credentials import login_command, oauth_login
from coding_agent.errors import BadUsage
from lemon_ai.auth import LoginFailed, OAuthClient
from lemon_otp import wall_ms
from tests.flows.hosts import Machine
from tests.lemon_ai.auth.login_server import running

KEY = "sk-ant-api03-0123456789abcdefghij"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def auth_file(machine: Machine) -> Path:
    return machine.home / ".config" / "lemon" / "auth.json"


def test_a_key_from_a_pipe_is_stored_and_shown_nowhere(machine):
    """`login PROVIDER < file`: private file, nothing of the key in what is printed, then or by `auth list`."""
    done = machine.run("login", "anthropic", stdin=f"{KEY}\nmore lines\n")
    listed = machine.run("auth", "list")
    as_json = machine.run("auth", "list", "--json")
    assert (done.returncode, done.stdout) == (0, "")
    assert json.loads(auth_file(machine).read_text()) == {"anthropic": {"type": "api_key", "key": KEY}}
    assert stat.S_IMODE(auth_file(machine).stat().st_mode) == 0o600
    assert "anthropic" in listed.stdout
    assert json.loads(as_json.stdout)["credentials"][0]["kind"] == "api_key"
    for part in (KEY, KEY[-6:], KEY[:10]):
        assert part not in done.stderr + listed.stdout + as_json.stdout


@pytest.mark.xdist_group("terminal")
def test_a_key_typed_at_a_terminal_is_not_echoed(machine):
    """The prompt asks; what is typed does not appear."""
    child = pexpect.spawn(
        sys.executable, ["-m", "coding_agent", "login", "openai"], env=machine.env(), cwd=str(machine.project),
        encoding="utf-8", timeout=30,
    )  # fmt: skip
    child.expect("API key for openai .*: ")
    child.waitnoecho()
    child.sendline("typed-key-123456")
    child.expect("stored for openai")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "typed-key" not in (child.before or "")
    assert json.loads(auth_file(machine).read_text())["openai"]["key"] == "typed-key-123456"


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (["login", "antropic"], "k\n", "did you mean anthropic"),
        (["login", "openai"], "\n", "no key was given"),
        (["login", "openai"], "", "no key was given"),
        (["login", "openai"], "two words\n", "that is no key"),
        (["login", "openai"], "k\x00\n", "that is no key"),
        (["login", "openai"], "x" * 20_000 + "\n", "that is no key"),
        (["login"], "k\n", "name a provider"),
        (["login", "openai", "--oauth"], "", "has no logins"),
        (["login", "anthropic", "--oauth"], "", "ANTHROPIC_OAUTH_CLIENT_ID"),
        (["login", "github-copilot"], "", "GITHUB_COPILOT_CLIENT_ID"),
        (["login", "--key", "k"], "", "unrecognized arguments"),
        (["logout"], "", "PROVIDER"),
    ],
)
def test_what_cannot_be_meant_is_bad_usage_and_stores_nothing(machine, monkeypatch, arguments, stdin, said):
    """One line that says what to do (the program ends with 2); no file is made."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
    command, *rest = arguments
    with pytest.raises(BadUsage, match=said) as bad:
        {"login": login_command.login, "logout": login_command.logout}[command](rest, machine.env())
    assert len(str(bad.value).splitlines()) == 1
    assert not auth_file(machine).exists()


def test_bad_usage_of_the_program_is_exit_code_2(machine):
    """No traceback."""
    done = machine.run("login", "antropic", stdin="k\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


def test_a_stored_key_answers_for_its_provider_and_is_forgotten_by_logout(machine):
    """A host started with no variable set asks with it; afterwards there is nothing to log out of."""
    machine.run("login", "groq", stdin="gsk-some-key\n")
    machine.extra_env["GROQ_API_KEY"] = "another-key"
    first, second = machine.run("logout", "groq"), machine.run("logout", "groq")
    assert (first.returncode, second.returncode) == (0, 1)
    assert "GROQ_API_KEY is set and still counts" in first.stderr
    assert "nothing is stored" in second.stderr
    assert "variable GROQ_API_KEY" in machine.run("auth", "list").stdout
    assert json.loads(auth_file(machine).read_text()) == {}


def test_a_torn_file_is_named_before_anybody_types_a_key(machine):
    """One line with its path; nothing of what is in it, and it is not written over."""
    auth_file(machine).parent.mkdir(parents=True)
    auth_file(machine).write_text('{"openai": {"key": "sk-half')
    done = machine.run("login", "openai", stdin="k-123456\n")
    assert done.returncode == 1
    assert "auth.json is no JSON" in done.stderr
    assert "sk-half" not in done.stderr
    assert auth_file(machine).read_text() == '{"openai": {"key": "sk-half'


async def test_a_device_login_as_a_program(machine):
    """The code is shown, the login is polled for and stored; no token is printed."""
    async with running() as server:
        server.answers["/login/device/code"] = [
            (
                200,
                {
                    "user_code": "AB-12",
                    "verification_uri": "http://x/dev",
                    "device_code": "secret-device",
                    "interval": 1,
                },
            )
        ]
        server.answers["/login/oauth/access_token"] = [(200, {"access_token": "gh-secret-token"})]
        server.answers["/copilot_internal/v2/token"] = [
            (200, {"token": "copilot-secret", "expires_at": wall_ms() // 1000 + 3600})
        ]
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "coding_agent", "login", "github-copilot", "--domain",
            server.url.removeprefix("http://"), env={**machine.env(), "GITHUB_COPILOT_CLIENT_ID": "id"},
            cwd=machine.project, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        out, err = await asyncio.wait_for(child.communicate(), 30)
    assert child.returncode == 0, err
    assert b"open http://x/dev and enter AB-12" in err
    assert b"secret" not in out + err
    entry = json.loads(auth_file(machine).read_text())["github-copilot"]
    assert (entry["type"], entry["access"], entry["refresh"]) == ("oauth", "copilot-secret", "gh-secret-token")


# The browser flow, with a vendor of our own.


def client(url: str, redirect: str) -> OAuthClient:
    return OAuthClient(
        provider="p", secret_type="p_oauth", authorize_url=f"{url}/authorize", token_url=f"{url}/token", client_id="c",
        redirect_uri=redirect,
    )  # fmt: skip


@pytest.fixture
def stdin(monkeypatch):
    """Standard input as a pipe; the other end."""
    read, write = os.pipe()
    with os.fdopen(read) as reading, os.fdopen(write, "w") as writing:
        monkeypatch.setattr(sys, "stdin", reading)
        yield writing


def state_of(said: list[str]) -> str:
    from urllib.parse import parse_qs, urlsplit

    return parse_qs(urlsplit(said[0].splitlines()[1]).query)["state"][0]


async def test_what_a_person_pastes_finishes_a_login(runtime, stdin):
    """For a redirect to the vendor's own page: the code with its state, pasted."""
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            stdin.write(f"\nthe-code#{state_of(said)}\n")
            stdin.flush()

    async with running() as server:
        server.answers["/token"] = [(200, {"access_token": "a", "refresh_token": "r", "expires_in": 60})]
        secret = await oauth_login.with_browser(client(server.url, "https://vendor.example/callback"), say)
    assert (secret.access_token, secret.refresh_token) == ("a", "r")
    assert "code=the-code" in server.asked[0][1]


async def test_a_browser_on_this_machine_finishes_a_login(runtime, stdin, unused_tcp_port):
    """The redirect comes to a port of ours while standard input stays open."""
    said: list[str] = []
    redirect = f"http://localhost:{unused_tcp_port}/callback"

    async def browse() -> None:
        from lemon_otp import sleep_s

        for _ in range(200):
            try:
                _, writer = await asyncio.open_connection("localhost", unused_tcp_port)
            except OSError:
                await sleep_s(0.02)
                continue
            path = f"/callback?code=c1&state={state_of(said)}"
            writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            writer.close()
            return

    from lemon_otp import spawn

    async with running() as server:
        server.answers["/token"] = [(200, {"access_token": "a"})]
        spawn(browse)
        secret = await oauth_login.with_browser(client(server.url, redirect), said.append)
    assert secret.access_token == "a"
    assert "code=c1" in server.asked[0][1]


async def test_when_the_port_is_taken_pasting_is_left(runtime, stdin, unused_tcp_port):
    """And when nothing is pasted either, the login fails in words."""
    taken = await asyncio.start_server(lambda *_: None, "localhost", unused_tcp_port)
    stdin.close()
    try:
        with pytest.raises(LoginFailed, match="nothing was pasted"):
            await oauth_login.with_browser(client("http://x", f"http://localhost:{unused_tcp_port}/cb"), lambda _: None)
    finally:
        taken.close()


async def test_an_answer_of_another_login_is_refused(runtime, stdin):
    """Its state does not match; no token is asked for."""
    stdin.write("code#another-state\n")
    stdin.flush()
    async with running() as server:
        with pytest.raises(LoginFailed, match="another login"):
            await oauth_login.with_browser(client(server.url, "https://vendor.example/callback"), lambda _: None)
    assert server.asked == []
