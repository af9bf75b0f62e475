"""Edge. `login`, `logout` and `auth list`: what is in `auth.json`, put there and taken out without ever being shown.

A key is typed unseen or comes from standard input, never from the command line, where every program of this machine
could read it. A login shows an address to open, and takes the browser's answer or what a person pastes.
"""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from coding_agent.command_parser import CommandParser
from coding_agent.credentials.credential_file import CredentialFile, Stored, credential_path
from coding_agent.credentials.oauth_entries import SECRET_TYPES, to_entry
from coding_agent.errors import BadUsage, LoginRefused
from coding_agent.tools.visible_text import plain
from lemon_ai import KEY_VARIABLES, KEYLESS, canonical

_LONGEST_KEY: Final = 16_384


def login(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Store a key or a login; 0 when it is stored.

    Raises:
        BadUsage: The provider is not known, or there is nobody to ask.
        BadCredentialFile, LoginRefused: Nothing was stored.
    """
    parser = CommandParser(
        prog="python -m coding_agent login",
        description="Store a provider's API key, or log in where the provider has logins. A key is asked for unseen; "
        "from a pipe the first line is taken.",
    )
    parser.add_argument("provider", nargs="?", metavar="PROVIDER", help="such as anthropic, openai, github-copilot")
    parser.add_argument("--oauth", action="store_true", help="log in through the browser instead of giving a key")
    parser.add_argument("--domain", default="github.com", help="github-copilot: a company's own GitHub")
    arguments = parser.parse_args(argv)
    provider = _known(arguments.provider or _asked_for_provider(), environ)
    file = CredentialFile(credential_path(environ))
    file.read()  # what cannot be mended is said before anybody types a key
    if arguments.oauth or provider in ("github_copilot", "openai_codex", "google_gemini_cli"):
        entry = _logged_in(provider, arguments.domain, environ)
    else:
        entry = {"type": "api_key", "key": _typed_key(provider)}
    file.put(provider, entry)
    print(f"stored for {provider} in {file.path}", file=sys.stderr)
    for variable in KEY_VARIABLES.get(provider, ()):
        if environ.get(variable):
            print(f"note: {variable} is set too; what is stored goes first", file=sys.stderr)
    return 0


def logout(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Forget what is stored for a provider; 0 when something was, 1 when there was nothing.

    Raises:
        BadCredentialFile: Nothing was changed.
    """
    parser = CommandParser(prog="python -m coding_agent logout", description="Forget a provider's stored key or login.")
    parser.add_argument("provider", metavar="PROVIDER")
    provider = canonical(parser.parse_args(argv).provider)
    file = CredentialFile(credential_path(environ))
    was_there = file.remove(provider)
    print(f"{'forgotten' if was_there else 'nothing is stored'}: {provider}", file=sys.stderr)
    for variable in KEY_VARIABLES.get(provider, ()):
        if environ.get(variable):
            print(f"note: {variable} is set and still counts", file=sys.stderr)
    return 0 if was_there else 1


def auth(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """`auth list [--json]`: whose credentials there are and where they come from; nothing of them is shown."""
    from coding_agent.models.user_models import user_models

    parser = CommandParser(prog="python -m coding_agent auth", description="Whose credentials there are.")
    parser.add_argument("what", nargs="?", choices=("list",), default="list")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(argv)
    known = user_models(environ).credentials
    stored = known.file.read()
    rows = []
    for provider in sorted({*KEY_VARIABLES, *stored, *known.named, *known.given}):
        source = known.source(provider)
        if source is None and provider not in stored:
            continue
        entry = stored.get(provider)
        rows.append(
            {
                "provider": provider,
                "kind": _kind(entry, known.has_variable(provider)),
                "source": source,
                "expires": entry.expires_ms if entry is not None else None,
                "variables": [name for name in KEY_VARIABLES.get(provider, ()) if environ.get(name)],
            }
        )
    if arguments.json:
        print(json.dumps({"file": str(known.file.path), "credentials": rows}, ensure_ascii=False, indent=2))
        return 0
    for row in rows:
        name = str(row["provider"])
        print(f"{name:<23} {row['source'] or _unused(stored[name])}{_ends(row['expires'])}")
    if not rows:
        print("no credentials; store one with: python -m coding_agent login PROVIDER", file=sys.stderr)
    return 0


def _unused(entry: Stored) -> str:
    """What an entry is that no provider's requests are made with."""
    if entry.kind == "mcp_oauth":
        return f"login at the MCP server {plain(str(entry.data.get('url')))}"
    return "an entry this program cannot use"


def _kind(entry: Stored | None, has_variable: bool) -> str:
    if entry is not None:
        return entry.kind
    return "variable" if has_variable else "models.json"


def _ends(expires_ms: Any) -> str:
    from coding_agent.storage.stamps import iso
    from lemon_otp import wall_ms

    if expires_ms is None:
        return ""
    return f", {'ended' if expires_ms <= wall_ms() else 'good until'} {iso(expires_ms)[:16]}Z"


def _known(given: str, environ: Mapping[str, str]) -> str:
    """The provider meant, which must be one that a key can be for."""
    from difflib import get_close_matches

    from coding_agent.models.user_models import user_models

    provider = canonical(given)
    catalog = user_models(environ).catalog
    known = {*KEY_VARIABLES, *SECRET_TYPES, *catalog.providers()} - {"scripted", "replay"}
    if provider in known or provider in KEYLESS:
        return provider
    close = get_close_matches(provider, known, n=3)
    hint = f"; did you mean {', '.join(close)}?" if close else "; `models list --all` shows them all"
    raise BadUsage(f"no provider is called {given!r}{hint}")


def _asked_for_provider() -> str:
    if not sys.stdin.isatty():
        raise BadUsage(f"name a provider: login PROVIDER, which is one of {', '.join(sorted(KEY_VARIABLES))}")
    print("providers:", ", ".join(sorted(KEY_VARIABLES)), file=sys.stderr)
    print("provider: ", end="", file=sys.stderr, flush=True)
    given = sys.stdin.readline().strip()
    if not given:
        raise BadUsage("no provider was named")
    return given


def _typed_key(provider: str) -> str:
    if sys.stdin.isatty():
        try:
            given = getpass.getpass(f"API key for {provider} (not shown): ", stream=sys.stderr)
        except EOFError:
            given = ""
    else:
        given = sys.stdin.readline(_LONGEST_KEY + 2)
    key = given.strip()
    if not key:
        raise BadUsage("no key was given; nothing was stored")
    if len(key) > _LONGEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise BadUsage("that is no key: it holds blanks, control or other odd characters; nothing was stored")
    return key


def _logged_in(provider: str, domain: str, environ: Mapping[str, str]) -> dict[str, Any]:
    if provider not in SECRET_TYPES:
        raise BadUsage(f"{provider} has no logins; leave out --oauth and give a key")
    from coding_agent.credentials.oauth_login import log_in
    from lemon_ai import AiError
    from lemon_otp import run

    try:
        return to_entry(run(log_in, provider, domain, environ))
    except AiError as error:
        raise LoginRefused(str(error)) from error
