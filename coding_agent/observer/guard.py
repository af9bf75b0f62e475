"""Edge. What stands before every request to a web server of the host: its names, its own pages, its token.

The token is in the fragment of the address that the host prints, which browsers do not send; the page puts it into an
`Authorization` header. So it is in no query string, no log and no `Referer`.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final, TypeAlias

from attrs import define

from coding_agent.observer.addresses import ListenAt, host_is_ours, origin_is_ours

Scope: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Callable[[], Awaitable[MutableMapping[str, Any]]], Send], Awaitable[None]]

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
    (b"cache-control", b"no-store"),
)


@define(eq=False)
class Guard:
    """An ASGI application in front of another.

    Attributes:
        app: What answers the requests that pass.
        at: Where the server listens.
        token_hash: Of what everything below `behind` asks for; None asks for nothing. Who looks into the process that
            holds this does not find the token.
        behind: The paths that need the token begin with this.
    """

    app: App
    at: ListenAt
    token_hash: bytes | None = None
    behind: str = "/api/"

    async def __call__(
        self, scope: Scope, receive: Callable[[], Awaitable[MutableMapping[str, Any]]], send: Send
    ) -> None:
        if scope["type"] != "http":
            return
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _refuse(send, *refusal)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        await self.app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope, headers: dict[bytes, list[bytes]]) -> tuple[int, str] | None:
        hosts, origins = headers.get(b"host", []), headers.get(b"origin", [])
        host = _text(hosts)
        if len(hosts) != 1 or not host_is_ours(host, self.at):
            return 403, "this server does not answer to that name"
        if len(origins) > 1 or not origin_is_ours(_text(origins), host):
            return 403, "requests from other pages are refused"
        if headers.get(b"sec-fetch-site", [b"none"])[0] in (b"cross-site", b"same-site"):
            follows_a_link = headers.get(b"sec-fetch-mode") == [b"navigate"] and scope["method"] == "GET"
            if not follows_a_link or scope["path"].startswith(self.behind):
                return 403, "requests from other pages are refused"
        if self.token_hash is not None and scope["path"].startswith(self.behind) and not self._has_token(headers):
            return 401, "the token is missing or wrong; open the address that the host printed"
        return None

    def _has_token(self, headers: dict[bytes, list[bytes]]) -> bool:
        given = headers.get(b"authorization", [b""])
        kind, _, token = given[0].partition(b" ")
        assert self.token_hash is not None
        return len(given) == 1 and kind == b"Bearer" and compare_digest(sha256(token).digest(), self.token_hash)


def _text(values: list[bytes]) -> str | None:
    return values[0].decode("latin-1") if values else None


async def _refuse(send: Send, status: int, text: str) -> None:
    body = text.encode() + b"\n"
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
