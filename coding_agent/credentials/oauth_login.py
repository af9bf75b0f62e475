"""Edge. One login at a vendor's, with a person: what to open, and what came back.

No client ids come with this program: each vendor's is looked for in the variable named in the message.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

from attrs import frozen

from coding_agent.credentials.oauth_entries import SECRET_TYPES
from coding_agent.errors import BadUsage
from lemon_ai.auth import (
    GithubHost,
    LoginFailed,
    OAuthClient,
    OAuthSecret,
    begin,
    begin_device_login,
    exchange_code,
    finish_device_login,
    logins_of,
    read_code,
    wait_for_answer,
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

T = TypeVar("T")
Say = Callable[[str], None]


@frozen
class FromBrowser:
    """The browser came back, or will not.

    Attributes:
        answer: What it brought, as it was read.
        problem: Why there is none; an `OSError` leaves pasting.
    """

    answer: Any = None
    problem: Exception | None = None


class _Ready:
    """The browser can come, or will not."""


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
    code = await from_browser(pending.url, client.redirect_uri, lambda answer: read_code(answer, pending.state), say)
    return await exchange_code(client, pending, code)


async def from_browser(url: str, redirect_uri: str, read: Callable[[str], T], say: Say = _print) -> T:
    """Send a person to an address; what `read` makes of the one the browser is sent to then, or of what is pasted.

    Raises:
        LoginFailed: `read` raised it, or nobody finished the login in time.
    """
    with _listening(redirect_uri, read) as waits_for_browser, _lines_of_stdin(self_pid()):
        if waits_for_browser:
            await receive(lambda message: isinstance(message, _Ready))
        say(f"open this address in a browser:\n{url}")
        say("then, unless this goes on by itself, paste here the address you are sent to, or the code you are shown:")
        return await _first_answer(read, waits_for_browser)


async def _first_answer(read: Callable[[str], T], waits_for_browser: bool) -> T:
    waits_for_lines = True
    while waits_for_browser or waits_for_lines:
        match await receive(lambda message: isinstance(message, FromBrowser | Pasted)):
            case FromBrowser(problem=OSError()):  # the port is taken
                waits_for_browser = False
            case FromBrowser(problem=Exception() as problem):
                raise problem
            case FromBrowser(answer=answer):
                return cast("T", answer)
            case Pasted(line=""):
                waits_for_lines = False
            case Pasted(line=line) if line.strip():
                return read(line)
            case _:
                pass
    raise LoginFailed("No browser came back, and nothing was pasted.")


@contextmanager
def _listening(redirect_uri: str, read: Callable[[str], Any]) -> Iterator[bool]:
    """While inside, a process waits for the browser where the redirect leads to this machine."""
    if urlsplit(redirect_uri).hostname not in ("localhost", "127.0.0.1"):
        yield False
        return
    from lemon_otp import exit_signal

    waiter = spawn(_wait, self_pid(), read, redirect_uri, label="oauth_callback")
    try:
        yield True
    finally:
        exit_signal(waiter, "kill")


async def _wait(asker: Pid, read: Callable[[str], Any], redirect_uri: str) -> None:
    def ready() -> None:
        send(asker, _Ready())

    try:
        send(asker, FromBrowser(await wait_for_answer(read, redirect_uri, on_listening=ready)))
    except (LoginFailed, OSError) as problem:
        ready()  # whoever waits for it need not any more
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
