"""Edge. One login at a vendor's, with a person: what to open, and what came back.

No client ids come with this program: each vendor's is looked for in the variable named in the message.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

from attrs import frozen

from coding_agent.credentials.oauth_entries import SECRET_TYPES
from coding_agent.errors import BadUsage
from lemon_ai.auth import (
    GithubHost,
    LoginFailed,
    OAuthClient,
    OAuthSecret,
    PendingLogin,
    begin,
    begin_device_login,
    exchange_code,
    finish_device_login,
    logins_of,
    read_code,
    wait_for_code,
    with_project,
)
from lemon_otp import Pid, receive, self_pid, send, sleep_s, spawn

CLIENT_IDS: Final[Mapping[str, str]] = {
    "anthropic": "ANTHROPIC_OAUTH_CLIENT_ID",
    "openai_codex": "OPENAI_CODEX_OAUTH_CLIENT_ID",
    "github_copilot": "GITHUB_COPILOT_CLIENT_ID",
    "google_gemini_cli": "GOOGLE_GEMINI_CLI_OAUTH_CLIENT_ID",
}
"""The variable each vendor's client id is looked for in."""

Say = Callable[[str], None]


@frozen
class FromBrowser:
    """The browser came back, or will not.

    Attributes:
        code: What it brought.
        problem: Why there is none; an `OSError` leaves pasting.
    """

    code: str = ""
    problem: Exception | None = None


@frozen
class Pasted:
    """A person typed a line; empty when there are no more."""

    line: str


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


async def log_in(provider: str, domain: str, environ: Mapping[str, str], say: Say = _print) -> OAuthSecret:
    """The login at this vendor's, once a person has finished it.

    Raises:
        BadUsage: No client id is configured; the message names the variable.
        LoginFailed: It was declined, or nobody finished it in time.
        ProviderError: The vendor refused or did not answer.
    """
    client_id = environ.get(CLIENT_IDS[provider])
    if not client_id:
        raise BadUsage(f"set {CLIENT_IDS[provider]} to the id of your registration at the vendor's, then try again")
    if provider == "github_copilot":
        host = GithubHost(domain)
        code = await begin_device_login(client_id, host=host)
        say(f"open {code.verification_uri} and enter {code.user_code}")
        return await finish_device_login(client_id, code, sleep=sleep_s, host=host)
    client = logins_of(environ)[SECRET_TYPES[provider]]
    secret = await with_browser(client, say)
    if provider == "google_gemini_cli":
        secret = await with_project(secret, sleep=sleep_s, project=environ.get("GOOGLE_CLOUD_PROJECT") or None)
    return secret


async def with_browser(client: OAuthClient, say: Say = _print) -> OAuthSecret:
    """A login through a browser on this machine, or through one elsewhere whose answer is pasted.

    Whichever comes first counts. Raises as `log_in` does.
    """
    pending = begin(client)
    say(f"open this address in a browser:\n{pending.url}")
    say("then, unless this goes on by itself, paste here the address you are sent to, or the code you are shown:")
    with _listening(client, pending) as waits_for_browser, _lines_of_stdin(self_pid()):
        code = await _first_code(pending, waits_for_browser)
    return await exchange_code(client, pending, code)


async def _first_code(pending: PendingLogin, waits_for_browser: bool) -> str:
    waits_for_lines = True
    while waits_for_browser or waits_for_lines:
        match await receive(lambda message: isinstance(message, FromBrowser | Pasted)):
            case FromBrowser(problem=OSError()):  # the port is taken
                waits_for_browser = False
            case FromBrowser(problem=Exception() as problem):
                raise problem
            case FromBrowser(code=code):
                return code
            case Pasted(line=""):
                waits_for_lines = False
            case Pasted(line=line) if line.strip():
                return read_code(line, pending.state)
            case _:
                pass
    raise LoginFailed("No browser came back, and nothing was pasted.")


@contextmanager
def _listening(client: OAuthClient, pending: PendingLogin) -> Iterator[bool]:
    """While inside, a process waits for the browser where the redirect leads to this machine."""
    if urlsplit(client.redirect_uri).hostname not in ("localhost", "127.0.0.1"):
        yield False
        return
    from lemon_otp import exit_signal

    waiter = spawn(_wait, self_pid(), pending, client.redirect_uri, label="oauth_callback")
    try:
        yield True
    finally:
        exit_signal(waiter, "kill")


async def _wait(asker: Pid, pending: PendingLogin, redirect_uri: str) -> None:
    try:
        send(asker, FromBrowser(await wait_for_code(pending, redirect_uri)))
    except (LoginFailed, OSError) as problem:
        send(asker, FromBrowser(problem=problem))


@contextmanager
def _lines_of_stdin(reader: Pid) -> Iterator[None]:
    """While inside, lines of standard input go to `reader`; a stream that cannot be watched is read at once."""
    loop, descriptor, held = asyncio.get_running_loop(), sys.stdin.fileno(), bytearray()

    def readable() -> None:
        held.extend(data := os.read(descriptor, 4096))
        while b"\n" in held:
            line, _, rest = bytes(held).partition(b"\n")
            held[:] = rest
            send(reader, Pasted(line.decode("utf-8", "replace") + "\n"))
        if not data:
            loop.remove_reader(descriptor)
            send(reader, Pasted(held.decode("utf-8", "replace")))
            held.clear()
            send(reader, Pasted(""))

    try:
        loop.add_reader(descriptor, readable)
    except OSError:  # a plain file, which is always ready
        for line in sys.stdin:
            send(reader, Pasted(line))
        send(reader, Pasted(""))
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
