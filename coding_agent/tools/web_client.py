"""Edge. One GET on the web: every hop checked before it is connected to, at the very address that was checked.

The name of each hop is looked up once, all addresses it has must be public, and the connection goes to one of them, so
that a name cannot mean something else a moment later. The body is read up to a limit, and unpacked up to a limit.
"""

import asyncio
import ipaddress
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urljoin

from attrs import define, frozen

from coding_agent.tools.web_address import (
    Address,
    AddressRefused,
    Target,
    check_address,
    check_name,
    check_url,
    networks,
)

if TYPE_CHECKING:
    import httpx

REDIRECTS_MAX: Final = 3
TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 10.0
HEADERS: Final = {
    "User-Agent": "Mozilla/5.0 (compatible; lemon-coding-agent)",
    "Accept-Language": "en;q=0.9, *;q=0.5",
    "Accept-Encoding": "gzip, deflate",
}
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
UNPACKED_CHUNK: Final = 1 << 18

Permit: TypeAlias = Callable[[str], Awaitable[str | None]]
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]


class FetchFailed(Exception):
    """Nothing came back; the text says why."""


@frozen
class WebPolicy:
    """What may be reached beyond the public web.

    Attributes:
        allowed: Names, addresses and networks that are reached though they are private.
    """

    allowed: tuple[str, ...] = ()

    @property
    def networks(self) -> Sequence[Any]:
        """The addresses among them."""
        return networks(self.allowed)


@define
class Page:
    """An answer whose body is still to be read.

    Attributes:
        url: Of the last hop.
        status: Its code.
        headers: Its headers, names in lower case.
        redirects: The URLs before.
        truncated: After reading: there was more than the limit.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    redirects: tuple[str, ...]
    chunks: AsyncIterator[bytes]
    truncated: bool = False

    @property
    def content_type(self) -> str:
        """Without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def pieces(self, limit: int) -> AsyncIterator[bytes]:
        """The unpacked body in pieces, `limit` bytes in all.

        Raises:
            FetchFailed: It broke off, or is packed in a way that was not asked for.
        """
        unpack = unpacker(self.headers.get("content-encoding", ""))
        total = 0
        async for packed in self.chunks:
            for piece in unpack(packed):
                if total + len(piece) > limit:
                    self.truncated = True
                    if total < limit:
                        yield piece[: limit - total]
                    return
                total += len(piece)
                yield piece

    async def read(self, limit: int) -> bytes:
        """The unpacked body, up to `limit` bytes."""
        return b"".join([piece async for piece in self.pieces(limit)])


class WebClient:
    """Fetches pages for the tools of one session."""

    def __init__(
        self,
        policy: WebPolicy | None = None,
        *,
        resolve: Resolve | None = None,
        transport: "httpx.AsyncBaseTransport | None" = None,
    ) -> None:
        """Args:
        policy: What may be reached beyond the public web.
        resolve: Looks up a name; the operating system's way if not given.
        transport: Carries the requests, addressed by number; for tests.
        """
        self._policy = policy or WebPolicy()
        self._resolve = resolve or look_up
        self._transport = transport

    @asynccontextmanager
    async def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        trusted: bool = False,
        json_body: Mapping[str, Any] | None = None,
        permit: Permit | None = None,
    ) -> AsyncIterator[Page]:
        """Fetch a URL, following a few redirects; the body is read inside the block.

        Args:
            url: Where.
            headers: Sent in addition, to the first host only.
            timeout_s: For everything, the reading of the body included.
            trusted: The user configured this address, so it may be private; redirects are checked all the same.
            json_body: POST this, to the first hop only, instead of asking with GET.
            permit: Gives the reason why a redirect may not be followed to an address, or None; not asked about the
                first hop, nor about others on its host.

        Raises:
            AddressRefused: A hop leads where it may not. That hop was not connected to.
            FetchFailed: No answer, too many redirects, or too late.
        """
        import httpx

        try:
            async with (
                asyncio.timeout(timeout_s) as deadline,
                self._client() as client,
                self._followed(
                    client, url, dict(headers or {}), trusted, json_body, unhurried(permit, deadline)
                ) as page,
            ):
                yield page
        except TimeoutError:
            raise FetchFailed(f"no complete answer within {timeout_s:g} seconds") from None
        except httpx.HTTPError as error:
            raise FetchFailed(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from error

    def _client(self) -> "httpx.AsyncClient":
        import httpx

        return httpx.AsyncClient(
            transport=self._transport or httpx.AsyncHTTPTransport(retries=0),
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        )

    @asynccontextmanager
    async def _followed(
        self,
        client: "httpx.AsyncClient",
        url: str,
        headers: dict[str, str],
        trusted: bool,
        body: Mapping[str, Any] | None,
        permit: Permit | None,
    ) -> AsyncIterator[Page]:
        before: list[str] = []
        first_host = None
        for _hop in range(REDIRECTS_MAX + 1):
            target = check_url(url)
            first_host = first_host or target.host
            extra = headers if target.host == first_host else {}
            reason = await permit(target.url) if permit is not None and target.host != first_host else None
            if reason is not None:
                raise AddressRefused(f"redirected to {target.url}: {reason}")
            addresses = await self.addresses(target, trusted=trusted and not before)
            response = await self._connect(client, target, addresses, extra, None if before else body)
            try:
                location = response.headers.get("location")
                if response.status_code not in REDIRECTS or not location:
                    named = {name.lower(): value for name, value in response.headers.items()}
                    yield Page(target.url, response.status_code, named, tuple(before), response.aiter_raw())
                    return
            finally:
                await response.aclose()
            before.append(target.url)
            url = urljoin(target.url, location)
        raise FetchFailed(f"more than {REDIRECTS_MAX} redirects")

    async def addresses(self, target: Target, *, trusted: bool = False) -> list[Address]:
        """Where a hop may be connected to: every address its name has, every one of them checked.

        Raises:
            AddressRefused: One of them may not be reached, or the name means this machine or its network.
            FetchFailed: There is no such name.
        """
        if target.address is not None:
            found: list[Address] = [target.address]
        else:
            if not trusted:
                check_name(target.host, self._policy.allowed)
            try:
                found = [ipaddress.ip_address(each) for each in await self._resolve(target.host, target.port)]
            except OSError as error:
                raise FetchFailed(f"the name {target.host} cannot be looked up: {error.strerror or error}") from error
        if not found:
            raise FetchFailed(f"the name {target.host} has no address")
        if not trusted and target.host not in self._policy.allowed:
            for address in found:
                check_address(address, self._policy.networks)
        return found

    async def _connect(
        self,
        client: "httpx.AsyncClient",
        target: Target,
        addresses: Sequence[Address],
        headers: Mapping[str, str],
        body: Mapping[str, Any] | None,
    ) -> "httpx.Response":
        """Ask the first of the addresses that answers. The name is only in the Host header and the TLS handshake."""
        import httpx

        failure: httpx.HTTPError | None = None
        for address in addresses[:4]:
            url = httpx.URL(target.url).copy_with(host=str(address))
            host = httpx.URL(target.url).netloc.decode()
            request = client.build_request(
                "GET" if body is None else "POST",
                url,
                json=body,
                headers={**HEADERS, **headers, "Host": host},
                extensions={"sni_hostname": target.host} if target.address is None else {},
            )
            try:
                return await client.send(request, stream=True)
            except httpx.ConnectError as error:
                failure = error
                if isinstance(error.__cause__, ssl.SSLError) or "CERTIFICATE" in str(error).upper():
                    break
        assert failure is not None
        raise failure


def unhurried(permit: Permit | None, deadline: asyncio.Timeout) -> Permit | None:
    """The same; while somebody thinks about the answer the time stands still."""
    if permit is None:
        return None

    async def ask(url: str) -> str | None:
        loop = asyncio.get_running_loop()
        left = (deadline.when() or loop.time()) - loop.time()
        deadline.reschedule(None)
        try:
            return await permit(url)
        finally:
            deadline.reschedule(loop.time() + left)

    return ask


async def look_up(host: str, port: int) -> list[str]:
    """The addresses of a name, by the operating system."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))


def unpacker(encoding: str) -> "Callable[[bytes], Any]":
    """A function that unpacks a body piece by piece, each piece small however much was packed into it.

    Raises:
        FetchFailed: The body is packed in a way that was not asked for.
    """
    names = [name.strip().lower() for name in encoding.split(",") if name.strip() not in ("", "identity")]
    if not names:
        return lambda packed: (packed,)
    if len(names) > 1 or names[0] not in ("gzip", "x-gzip", "deflate"):
        raise FetchFailed(f"the body is packed as {encoding}, which was not asked for")
    state = {"inflate": zlib.decompressobj(47 if names[0] != "deflate" else 15), "first": True}

    def unpack(packed: bytes) -> Any:
        inflate: Any = state["inflate"]
        try:
            piece = inflate.decompress(packed, UNPACKED_CHUNK)
        except zlib.error:
            if not state["first"] or names[0] != "deflate":
                raise FetchFailed("the packed body is damaged") from None
            inflate = state["inflate"] = zlib.decompressobj(-15)  # some send it without its head
            piece = inflate.decompress(packed, UNPACKED_CHUNK)
        state["first"] = False
        while piece:
            yield piece
            try:
                piece = inflate.decompress(inflate.unconsumed_tail, UNPACKED_CHUNK) if inflate.unconsumed_tail else b""
            except zlib.error:
                raise FetchFailed("the packed body is damaged") from None

    return unpack
