"""Logins at a real server of the library over HTTP, with its own authorization server."""

import asyncio
import json
import os
import stat
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit

import pytest

from coding_agent.credentials.credentials import Credentials
from coding_agent.errors import BadCredentialFile, LoginRefused
from coding_agent.mcp.entries import BadEntry, OAuthChoice, ServerEntry, entry_from
from coding_agent.mcp.mcp_command import main
from coding_agent.mcp.oauth import log_in
from coding_agent.mcp.oauth_store import login_name
from tests.coding_agent.mcp.support import Toolbox, free_port, listens, served
from tests.coding_agent.mcp.test_servers import until, until_async

pytestmark = pytest.mark.xdist_group("mcp")

GUARDED = Path(__file__).with_name("guarded_server.py")


@pytest.fixture
def auth_file(host, tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("LEMON_AUTH_FILE", str(tmp_path / "private" / "auth.json"))
    monkeypatch.setattr("coding_agent.mcp.mcp_server.delay_s", lambda failures: None)
    return tmp_path / "private" / "auth.json"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a server that stays the same for these tests; each has a credential file of its own."""
    with served(GUARDED, "PORT") as address:
        yield address


@pytest.fixture
def server(address: str) -> ServerEntry:
    return ServerEntry("g", "http", url=address)


@asynccontextmanager
async def guarded(port: int):
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(GUARDED), str(port), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await until(lambda: listens(port))
        yield ServerEntry("g", "http", url=f"http://127.0.0.1:{port}/mcp")
    finally:
        process.kill()
        await process.wait()


async def browser(url: str, _redirect: str):
    """Goes where it is sent, and reads where it is sent from there."""
    from mcp.shared.auth import AuthorizationCodeResult

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_args):
            return None

    def visit() -> str:
        try:
            urllib.request.build_opener(Stay).open(url)
        except HTTPError as answer:
            return answer.headers["location"]
        raise AssertionError("it was sent nowhere")

    query = parse_qs(urlsplit(await asyncio.to_thread(visit)).query)
    return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0])


async def test_a_server_that_wants_a_login_says_how_and_lets_in_who_has_one(auth_file, server, tmp_path):
    """The login is kept in a private file under the server's address; sessions send it and send nobody to a browser."""
    before = await Toolbox.open(server, folder=tmp_path)
    assert before.tools == {}
    assert (await before.status("g")).error == "it wants a login: python -m coding_agent mcp login g"
    assert not auth_file.exists()

    await log_in(server, browser)
    box = await Toolbox.open(server, folder=tmp_path)

    assert await box.text("mcp__g__secret") == "forty-two"
    assert stat.S_IMODE(auth_file.stat().st_mode) == 0o600
    stored = json.loads(auth_file.read_text())[login_name(server.url)]
    assert stored["type"] == "mcp_oauth"
    secrets = Credentials(os.environ).secrets()
    assert {stored["access"], stored["refresh"], stored["clientSecret"]} <= secrets
    elsewhere = ServerEntry("g", "http", url=f"{server.url}?other")
    assert "wants a login" in (await (await Toolbox.open(elsewhere, folder=tmp_path)).status("g")).error


async def test_a_login_that_has_ended_is_renewed_without_asking(auth_file, server, tmp_path):
    """At the authorization server that was found when it was made; what comes of it is kept."""
    await log_in(server, browser)
    first = json.loads(auth_file.read_text())[login_name(server.url)]
    ended = {**first, "expires": 1}
    auth_file.write_text(json.dumps({login_name(server.url): ended}))

    box = await Toolbox.open(server, folder=tmp_path)

    assert await box.text("mcp__g__secret") == "forty-two"
    renewed = json.loads(auth_file.read_text())[login_name(server.url)]
    assert renewed["access"] != first["access"]
    assert renewed["refresh"] != first["refresh"]
    assert renewed["expires"] > 1


async def test_a_renewed_login_that_cannot_be_kept_is_used_all_the_same(auth_file, server, tmp_path, monkeypatch):
    """The file cannot be changed: this connection has its login, and the file is as it was."""

    def full(_file, _name, _entry):
        raise BadCredentialFile(auth_file, "cannot be written: the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("coding_agent.credentials.credential_file.CredentialFile.put", full)
        with pytest.raises(BadCredentialFile):
            await log_in(server, browser)
    await log_in(server, browser)
    ended = {**json.loads(auth_file.read_text())[login_name(server.url)], "expires": 1}
    auth_file.write_text(json.dumps({login_name(server.url): ended}))
    monkeypatch.setattr("coding_agent.credentials.credential_file.CredentialFile.put", full)

    box = await Toolbox.open(server, folder=tmp_path)

    assert await box.text("mcp__g__secret") == "forty-two"
    assert json.loads(auth_file.read_text()) == {login_name(server.url): ended}


async def test_a_login_that_is_not_taken_any_more_asks_for_another(auth_file, tmp_path):
    """The server has forgotten it: nobody is sent to a browser from a session; the error says what to do."""
    port = free_port()
    async with guarded(port) as server:
        await log_in(server, browser)
    async with guarded(port) as server:  # another one, which knows nobody
        box = await Toolbox.open(server, folder=tmp_path)

        assert "wants a login" in (await box.status("g")).error


async def test_a_login_that_is_lost_while_it_is_used_is_found_out_by_a_call(auth_file, tmp_path):
    """The call fails, and the server says what it wants."""
    port = free_port()
    async with guarded(port) as server:
        await log_in(server, browser)
        box = await Toolbox.open(server, folder=tmp_path)
    async with guarded(port):
        failed = await box.call("mcp__g__secret")

        assert failed.error_info is not None
        await until_async(box, "g", "failed")
        assert "wants a login" in (await box.status("g")).error


async def test_a_login_that_does_not_come_about_keeps_nothing(auth_file, tmp_path):
    """Declined by the person, or not asked for by the server: the file is as it was."""

    async def declines(_url: str, _redirect: str):
        raise LoginRefused("The login was not granted")

    async with guarded(free_port()) as server:
        with pytest.raises(LoginRefused, match="not granted"):
            await log_in(server, declines)
        nothing = ServerEntry("x", "http", url=server.url.replace("/mcp", "/nothing"))
        with pytest.raises(LoginRefused, match="asks for no login"):
            await log_in(nothing, browser)
    with pytest.raises(LoginRefused, match="no login at g"):
        await log_in(server, browser)
    assert not auth_file.exists()


async def test_a_wrong_state_ends_a_login(auth_file, server, tmp_path):
    """An answer that belongs to another login is none."""
    from mcp.shared.auth import AuthorizationCodeResult

    async def forged(url: str, redirect: str):
        return AuthorizationCodeResult(code=(await browser(url, redirect)).code, state="another")

    with pytest.raises(LoginRefused, match="State parameter mismatch"):
        await log_in(server, forged)
    assert not auth_file.exists()


async def test_the_command_logs_in_through_a_browser_and_out_again(auth_file, server, tmp_path):
    """The browser comes back to this machine; nothing secret is printed."""
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"g": {"url": server.url}}}))
    command = [sys.executable, "-m", "coding_agent", "mcp"]
    options = ["g", "--trust", "--cwd", str(tmp_path)]
    process = await asyncio.create_subprocess_exec(
        *command, "login", *options, stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said = []
    while line := (await process.stderr.readline()).decode():
        said.append(line)
        if line.startswith("http"):
            await asyncio.to_thread(urllib.request.urlopen, line.strip())
    assert await process.wait() == 0
    stored = json.loads(auth_file.read_text())[login_name(server.url)]
    assert stored["access"] not in "".join(said)
    assert "logged in at g" in said[-1]

    out = [await asyncio.create_subprocess_exec(*command, "logout", *options) for _round in range(2)]
    assert sorted([await each.wait() for each in out]) == [0, 1]
    assert json.loads(auth_file.read_text()) == {}


def test_only_one_server_over_http_can_be_logged_in_at(tmp_path, capsys):
    """The names that can be given are said; one with a credential of its own needs no login."""
    from coding_agent.errors import BadUsage

    servers = {
        "a": {"command": "x"},
        "b": {"url": "http://127.0.0.1:9/", "headers": {"authorization": "Bearer abcdef"}},
    }
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}

    for names in ([], ["a"], ["a", "b"]):
        with pytest.raises(BadUsage, match="name one server that is reached over HTTP: b"):
            main(["login", *names, "--trust", "--cwd", str(tmp_path)], environ)
    with pytest.raises(BadUsage, match="given a credential in its headers"):
        main(["login", "b", "--trust", "--cwd", str(tmp_path)], environ)


def test_an_entry_may_say_how_one_logs_in():
    """For servers that do not register everybody; the secret is none to be shown."""
    entry = entry_from(
        "a",
        {"url": "http://x/", "oauth": {"clientId": "me", "clientSecret": "${S}", "callbackPort": 8123, "scope": "r"}},
        {"S": "canary-123"},
    )

    assert entry.oauth == OAuthChoice("me", "canary-123", 8123, "r")
    assert entry.masked("canary-123") == "***"
    assert "canary" not in repr(entry)
    for bad in ({"callbackPort": "8123"}, {"callbackPort": 0}, "yes"):
        with pytest.raises(BadEntry, match="oauth"):
            entry_from("a", {"url": "http://x/", "oauth": bad}, {})
