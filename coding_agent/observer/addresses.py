"""Pure. Where a web server of the host may listen, and whom it answers.

A page in some browser can send requests to any address that it can name, this machine's included. So a server here
answers only to its own names (a stranger's name that resolves to this machine is not one), and only to its own pages.
"""

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from coding_agent.errors import BadUsage
from lemon_otp import frozen

LOOPBACK: Final = "127.0.0.1"


@frozen
class ListenAt:
    """A host and a port; port 0 is any that is free."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host == "localhost" or (_is_ip(self.host) and ip_address(self.host).is_loopback)


def listen_at(text: str, flag: str) -> ListenAt:
    """`HOST:PORT`, `:PORT`, `PORT` or `HOST` as an address; what is left out is loopback and any free port.

    Raises:
        BadUsage: It is none of these.
    """
    given = text.strip()
    refused = BadUsage(f"{flag} {text!r} is no address; give HOST:PORT, such as 127.0.0.1:4450")
    if given.isdecimal():
        host, port = "", given
    elif given.startswith("["):
        inside, closed, rest = given[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")) or not _is_ip(inside):
            raise refused
        host, port = inside, rest[1:]
    elif given.count(":") > 1:
        host, port = given, ""
        if not _is_ip(host):
            raise refused
    else:
        host, _, port = given.partition(":")
    if port and not (port.isascii() and port.isdecimal() and int(port) < 65536):
        raise refused
    if any(char.isspace() or char in "/?#@" for char in host):
        raise refused
    return ListenAt(host or LOOPBACK, int(port or 0))


def url_host(host: str) -> str:
    """A host as it stands in a URL."""
    return f"[{host}]" if ":" in host else host


def host_is_ours(header: str | None, at: ListenAt) -> bool:
    """Whether a request's Host header names this server: an address, `localhost`, or the very name it listens at."""
    name = _name_of(header)
    if name is None:
        return False
    if name == "localhost" or name == at.host.lower():
        return True
    if not _is_ip(name):
        return False
    return not at.is_loopback or ip_address(name).is_loopback


def origin_is_ours(origin: str | None, host_header: str | None) -> bool:
    """Whether a request comes from a page of this server, or from no page at all: then there is no Origin header."""
    if origin is None:
        return True
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query or parts.fragment:
        return False
    default = 443 if parts.scheme == "https" else 80
    return (parts.hostname.lower(), port or default) == _place_of(host_header, default)


def _place_of(header: str | None, default: int) -> tuple[str, int] | None:
    try:
        parts = urlsplit(f"//{header or ''}")
        return None if not parts.hostname else (parts.hostname.lower(), parts.port or default)
    except ValueError:
        return None


def _name_of(header: str | None) -> str | None:
    if not header or any(char in header for char in "/?#@\\, "):
        return None
    place = _place_of(header, 80)
    return None if place is None else place[0]


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
