"""Edge. Whether this runtime may reach beyond this machine: told once, asked before a connection is opened."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from lemon_ai.errors import Offline
from lemon_otp import OtpError, get_env, put_env

_OFFLINE: Final = "offline"
_LOOPBACK: Final = re.compile(r"(?:.*\.)?localhost|127(?:\.\d{1,3}){1,3}|::1|0\.0\.0\.0")


def go_offline() -> None:
    """Have every connection of this runtime to another machine be refused; servers of this machine are still reached.

    The application that is loaded forgets it: call this when it runs.
    """
    put_env("lemon_ai", _OFFLINE, True)


def is_offline() -> bool:
    """Was this runtime told to stay on this machine?"""
    try:
        return get_env("lemon_ai", _OFFLINE) is True
    except OtpError:  # there is no runtime
        return False


def is_loopback(url: str) -> bool:
    """Whether an address is this machine; what is no address is not."""
    return _LOOPBACK.fullmatch(_host(url)) is not None


def check_reachable(provider: str, url: str) -> None:
    """Return when an address may be connected to.

    Raises:
        Offline: It is another machine's, and this runtime stays on its own.
    """
    if is_offline() and not is_loopback(url):
        raise Offline(provider=provider, message=f"offline: nothing was sent to {provider} at {_host(url)}")


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
