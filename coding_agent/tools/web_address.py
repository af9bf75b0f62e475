"""Pure. Which web addresses may be reached: names and numbers in any spelling, judged by what they come down to."""

import ipaddress
import re
import socket
from collections.abc import Sequence
from typing import Final, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from attrs import frozen

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

LOCAL_NAMES: Final = ("localhost", "local", "internal", "localdomain", "home.arpa", "intranet", "lan")
METADATA_NAMES: Final = frozenset({"metadata", "metadata.google.internal", "instance-data"})
METADATA_ADDRESSES: Final = frozenset(
    map(ipaddress.ip_address, ("169.254.169.254", "169.254.170.2", "100.100.100.200", "fd00:ec2::254"))
)
"""Where clouds hand out credentials: never reached, whatever is allowed."""
PRIVATE: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/3"),
            *("::/127", "fe80::/10", "fec0::/10", "fc00::/7", "ff00::/8", "100::/64"),
        ),
    )
)
NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
NUMBER: Final = re.compile(r"(?:0x[0-9a-f]*|\d+)(?:\.(?:0x[0-9a-f]*|\d+)){0,3}", re.IGNORECASE)
UNCLEAN: Final = re.compile(r"[\x00-\x20\x7f\\]")
URL_MAX: Final = 4_096


class AddressRefused(ValueError):
    """The address may not be reached; the text says why. Nothing was sent."""


@frozen
class Target:
    """A checked URL.

    Attributes:
        url: In its plain spelling, without the fragment.
        host: The name, or the address as `ipaddress` writes it.
        address: Set when the host is a number.
    """

    url: str
    scheme: str
    host: str
    port: int
    address: Address | None


def check_url(url: str) -> Target:
    """Take a URL apart and check what can be checked before its name is looked up.

    Raises:
        AddressRefused: It is no plain http or https URL, or names this machine or its network.
    """
    if len(url) > URL_MAX:
        raise AddressRefused("the URL is too long")
    if UNCLEAN.search(url.strip()):
        raise AddressRefused("the URL holds spaces, backslashes or control characters")
    try:
        parts = urlsplit(url.strip())
        port = parts.port
        raw_host = parts.hostname
    except ValueError as error:
        raise AddressRefused(f"the URL cannot be read: {error}") from error
    if parts.scheme not in ("http", "https"):
        raise AddressRefused("only http and https URLs are fetched")
    if "@" in parts.netloc:
        raise AddressRefused("the URL holds a user name")
    if not raw_host:
        raise AddressRefused("the URL names no host")
    host, address = plain_host(raw_host)
    port = port or (443 if parts.scheme == "https" else 80)
    shown = f"[{host}]" if ":" in host else host
    netloc = shown if port == (443 if parts.scheme == "https" else 80) else f"{shown}:{port}"
    plain = urlunsplit((parts.scheme, netloc, parts.path or "/", parts.query, ""))
    return Target(plain, parts.scheme, host, port, address)


def plain_host(raw: str) -> tuple[str, Address | None]:
    """A host in its plain spelling, and its address when it is one.

    Raises:
        AddressRefused: It can be neither a name nor an address, or is a name of this machine.
    """
    host = raw.rstrip(".").lower()
    if ":" in host:
        try:
            six = ipaddress.IPv6Address(host)
        except ValueError:
            raise AddressRefused(f"{raw} is no address") from None
        return str(six), six
    if NUMBER.fullmatch(host):
        try:
            four = ipaddress.IPv4Address(socket.inet_aton(host))
        except OSError:
            raise AddressRefused(f"{raw} is no address") from None
        return str(four), four
    try:
        name = host.encode("idna").decode().lower() if not host.isascii() else host
    except UnicodeError:
        raise AddressRefused(f"{raw} is no host name") from None
    if not all(LABEL.fullmatch(label) for label in name.split(".")) or len(name) > 253:
        raise AddressRefused(f"{raw} is no host name")
    if NUMBER.fullmatch(name):  # digits of another script
        return plain_host(name)
    if NUMBER.fullmatch(name.rpartition(".")[2]):
        raise AddressRefused(f"{raw} is no address")
    return name, None


def check_name(host: str, allowed: Sequence[str] = ()) -> None:
    """Return when a name may be looked up.

    Raises:
        AddressRefused: It means this machine, its network, or a cloud's metadata service.
    """
    if host in METADATA_NAMES:
        raise AddressRefused(f"{host} is a cloud's metadata service")
    if host in allowed:
        return
    if "." not in host or host.rpartition(".")[2] in LOCAL_NAMES or host.endswith(".home.arpa"):
        raise AddressRefused(f"{host} is a name in the local network")


def check_address(address: Address, allowed: Sequence[Network] = ()) -> None:
    """Return when an address may be connected to.

    Raises:
        AddressRefused: It is not public, in whatever dress, and not allowed.
    """
    real = undressed(address)
    if real in METADATA_ADDRESSES:
        raise AddressRefused(f"{address} is a cloud's metadata service")
    if any(real in network for network in allowed):
        return
    if not real.is_global or real.is_multicast or any(real in network for network in PRIVATE):
        raise AddressRefused(f"{address} is not a public address")


def undressed(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one that only wraps it."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    wrapped = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
    if wrapped is None and (address in NAT64 or (int(address) >> 32 == 0 and int(address) > 1)):
        wrapped = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return wrapped or address


def networks(allowed: Sequence[str]) -> tuple[Network, ...]:
    """The networks among what is allowed; names are left out.

    Raises:
        ValueError: One begins like a network but is none.
    """
    return tuple(
        ipaddress.ip_network(each, strict=False)
        for each in allowed
        if "/" in each or ":" in each or NUMBER.fullmatch(each)
    )
