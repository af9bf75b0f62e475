"""The guard of the web: what is refused, what is connected to, and how much is read."""

import asyncio
import gzip
import ipaddress
import zlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.tools.web_address import AddressRefused, check_address, check_name, check_url, networks
from coding_agent.tools.web_client import FetchFailed, WebClient, WebPolicy
from tests.coding_agent.tools.web_server import WebServer, running

LOOPBACK = WebPolicy(("127.0.0.1",))


@pytest.fixture
async def server() -> AsyncIterator[WebServer]:
    """A web server on loopback."""
    async with running() as made:
        yield made


@pytest.mark.requirement("BR-172")
@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/", "http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/", "http://0/",
        "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/", "http://[::127.0.0.1]/", "http://[fe80::1]/", "http://[fc00::1]/", "http://[fec0::1]/",
        "http://10.0.0.1/", "http://172.16.0.1/", "http://192.168.1.1/", "http://100.64.0.1/", "http://169.254.169.254/",
        "http://\uff11\uff12\uff17.0.0.1/", "http://127。0。0。1/", "http://localhost/", "http://LOCALHOST./", "http://a.localhost/",
        "http://printer.local/", "http://db.internal/", "http://metadata.google.internal/", "http://intranet/",
        "http://user:pw@example.com/", "http://example.com@127.0.0.1/", "http://example.com\\@127.0.0.1/", "file:///etc/passwd",
        "ftp://example.com/", "gopher://x/", "http://", "http:///x", "javascript:alert(1)", "http://[::1%25eth0]/",
        "http://a b/", "http://exa mple.com", "http://999.1.1.1/", "http://1.2.3.4.5/", "http://x..y/", "http://224.0.0.1/",
    ],
)  # fmt: skip
async def test_addresses_that_are_not_public_are_refused_in_any_spelling(url: str) -> None:
    """Before anything is looked up or connected to."""

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        pytest.fail("a name was looked up")

    def connect(_request: httpx.Request) -> httpx.Response:
        pytest.fail("a connection was made")

    client = WebClient(resolve=resolve, transport=httpx.MockTransport(connect))
    with pytest.raises(AddressRefused):
        async with client.get(url):
            pass


@pytest.mark.requirement("BR-171")
async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """A name that means something else when asked again is asked only once; it is in the Host header alone."""
    answers = iter([["93.184.216.34"], ["127.0.0.1"], ["127.0.0.1"]])
    asked: list[str] = []
    seen: list[httpx.Request] = []

    async def resolve(host: str, _port: int) -> Sequence[str]:
        asked.append(host)
        return next(answers)

    def connect(request: httpx.Request) -> httpx.Response:
        seen.append(request)

        async def body() -> AsyncIterator[bytes]:
            yield b"hello"

        return httpx.Response(200, content=body())

    client = WebClient(resolve=resolve, transport=httpx.MockTransport(connect))
    async with client.get("https://rebind.example:8443/x?y=1#z") as page:
        assert await page.read(100) == b"hello"

    assert asked == ["rebind.example"]
    assert str(seen[0].url) == "https://93.184.216.34:8443/x?y=1"
    assert seen[0].headers["host"] == "rebind.example:8443"
    assert seen[0].extensions["sni_hostname"] == "rebind.example"


@pytest.mark.parametrize("addresses", [["93.184.216.34", "127.0.0.1"], ["::ffff:10.0.0.1"], ["169.254.169.254"]])
async def test_one_private_address_of_a_name_is_enough_to_refuse_it(addresses: list[str]) -> None:
    """Whichever of them would have been taken."""

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return addresses

    client = WebClient(resolve=resolve, transport=httpx.MockTransport(lambda _request: pytest.fail("connected")))
    with pytest.raises(AddressRefused):
        async with client.get("http://example.com/"):
            pass


@pytest.mark.parametrize(
    "to", ["http://169.254.169.254/latest", "//localhost/x", "file:///etc/passwd", "http://10.0.0.1/"]
)
async def test_every_redirect_is_checked(server: WebServer, to: str) -> None:
    """The first hop is allowed, the second is not."""
    server.redirect("/", to)
    with pytest.raises(AddressRefused):
        async with WebClient(LOOPBACK).get(server.url()):
            pass
    assert len(server.asked) == 1


async def test_redirects_are_followed_a_few_times(server: WebServer) -> None:
    """Relative ones too; then it is enough."""
    server.redirect("/a", "/b?x=1")
    server.redirect("/b", server.url("/c"))
    server.page("/c", "end")
    server.redirect("/round", "/round")
    async with WebClient(LOOPBACK).get(server.url("/a")) as page:
        assert await page.read(10) == b"end"
        assert page.url == server.url("/c")
        assert len(page.redirects) == 2
    with pytest.raises(FetchFailed, match="more than 3 redirects"):
        async with WebClient(LOOPBACK).get(server.url("/round")):
            pass


async def test_secrets_in_headers_go_to_the_first_host_only(server: WebServer) -> None:
    """A redirect to another host does not carry them."""
    server.redirect("/", server.url("/other", host="127.0.0.2"))
    server.page("/other", "x")
    async with running() as _unused:
        client = WebClient(WebPolicy(("127.0.0.0/8",)), transport=ToLoopback())
        async with client.get(server.url(), headers={"Authorization": "Bearer canary"}) as page:
            await page.read(10)

    assert server.heads[0]["authorization"] == "Bearer canary"
    assert "authorization" not in server.heads[1]


class ToLoopback(httpx.AsyncHTTPTransport):
    """Carries every request to 127.0.0.1, so that one server can be many hosts."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(host="127.0.0.1")
        return await super().handle_async_request(request)


@pytest.mark.requirement("BR-172")
async def test_an_endless_body_is_read_to_the_limit_only(server: WebServer) -> None:
    """And the connection is closed."""
    closed = asyncio.Event()

    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        except ConnectionError:
            closed.set()

    server.answers["/"] = endless
    async with WebClient(LOOPBACK).get(server.url()) as page:
        assert len(await page.read(1_000_000)) == 1_000_000
        assert page.truncated
    await asyncio.wait_for(closed.wait(), 5)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate"])
async def test_a_packed_bomb_is_unpacked_to_the_limit_only(server: WebServer, encoding: str) -> None:
    """A hundred megabytes of zeros in a hundred kilobytes."""
    zeros = bytes(100_000_000)
    raw = zlib.compressobj(wbits=-15)
    packed = {
        "gzip": lambda: gzip.compress(zeros),
        "deflate": lambda: zlib.compress(zeros),
        "raw deflate": lambda: raw.compress(zeros) + raw.flush(),
    }[encoding]()
    server.page("/", packed, "text/plain", f"Content-Encoding: {encoding.split()[-1]}")
    async with WebClient(LOOPBACK).get(server.url()) as page:
        assert len(await page.read(3_000_000)) == 3_000_000
        assert page.truncated


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\nabc", "not asked for"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", "damaged"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", "RemoteProtocolError"),
        (b"nonsense\r\n\r\n", "RemoteProtocolError"),
        (b"", "RemoteProtocolError"),
    ],
)
async def test_bad_answers_are_failures(server: WebServer, answer: bytes, reason: str) -> None:
    """Packed in a way not asked for, damaged, cut short, no HTTP."""
    server.answers["/"] = answer
    with pytest.raises(FetchFailed, match=reason):
        async with WebClient(LOOPBACK).get(server.url()) as page:
            await page.read(1000)


async def test_a_server_that_says_nothing_is_given_up(server: WebServer) -> None:
    """Within the time for everything, body included."""

    async def dripping(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        for _byte in range(100):
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    server.answers["/"] = dripping
    with pytest.raises(FetchFailed, match="no complete answer within"):
        async with WebClient(LOOPBACK).get(server.url(), timeout_s=0.3) as page:
            await page.read(1000)
    with pytest.raises(FetchFailed, match="ConnectError"):
        async with WebClient(LOOPBACK).get("http://127.0.0.1:9/"):
            pass


@given(st.integers(0, 2**32 - 1) | st.integers(0, 2**128 - 1))
def test_no_private_address_passes_in_any_dress(number: int) -> None:
    """Whatever is let through is public by the standard library's judgement too, and so is what it may wrap."""
    address = ipaddress.ip_address(number)
    try:
        check_address(address)
    except AddressRefused:
        return
    assert address.is_global
    assert not address.is_multicast


@given(st.text(max_size=30), st.sampled_from(["http://", "https://", "http:", ""]))
def test_any_text_is_an_address_or_refused(text: str, scheme: str) -> None:
    """Never another error; and what is taken is plain."""
    try:
        target = check_url(scheme + text)
        check_name(target.host)
    except AddressRefused:
        return
    assert target.url.isascii() or target.url.encode()
    assert "@" not in target.host


def test_what_is_allowed_is_networks_and_names() -> None:
    """Only the first are addresses."""
    allowed: Any = networks(("127.0.0.1", "10.0.0.0/8", "host.example", "::1"))

    assert [str(each) for each in allowed] == ["127.0.0.1/32", "10.0.0.0/8", "::1/128"]
