"""Process. Answers `GET /metrics` for a Prometheus server.

Tree:  coding_agent.supervisor / metrics_endpoint, permanent; stands only with `--metrics HOST:PORT`
Emits: nothing
Asked: GetUrl
Owns:  a listening socket, closed when the process ends
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, ClassVar, Final

from attrs import define, frozen

from coding_agent.application import add_child
from coding_agent.metrics.metrics import Metrics
from coding_agent.observer.addresses import ListenAt, listen_at
from coding_agent.observer.guard import Guard, Scope, Send
from coding_agent.observer.server import WebServer, require_web
from lemon_otp import GenServer, Reply, Request, StartFailed, call

NAME: Final = "metrics_endpoint"
FLAG: Final = "--metrics"
TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"


@frozen
class GetUrl(Request[str]):
    """Where the series are."""


@define(eq=False)
class Endpoint:
    """What it is started with. The port, once it has one, stays the same when the process is started again."""

    metrics: Metrics
    at: ListenAt


class MetricsEndpoint(GenServer[Endpoint, GetUrl, None, WebServer]):
    """Serves the series of this host."""

    trap_exit: ClassVar[bool] = True  # so that `terminate` closes the server

    async def init(self, endpoint: Endpoint) -> WebServer:
        app = _Exposition(endpoint.metrics)
        guard = Guard(app, endpoint.at)
        server = await WebServer.start(guard, endpoint.at)
        endpoint.at = guard.at = server.at
        return server

    async def handle_call(self, message: GetUrl, caller: object, server: WebServer) -> Reply[WebServer]:
        return Reply(server.url("metrics"), server)

    async def terminate(self, reason: object, server: WebServer) -> None:
        await server.close()


@define(eq=False)
class _Exposition:
    """The one page."""

    metrics: Metrics

    async def __call__(
        self, scope: Scope, receive: Callable[[], Awaitable[MutableMapping[str, Any]]], send: Send
    ) -> None:
        found = scope["path"] == "/metrics" and scope["method"] in ("GET", "HEAD")
        body = self.metrics.exposition().encode() if found else b"see /metrics\n"
        headers = [(b"content-type", TYPE), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200 if found else 404, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


async def serve_metrics(metrics: Metrics, where: str) -> str:
    """Serve the series at `where`, a `HOST:PORT`; the address for a scraper.

    Raises:
        BadUsage: It is no address, it is taken, or the web server is not installed. Nothing is left running.
    """
    require_web(FLAG)
    endpoint = Endpoint(metrics, listen_at(where, FLAG))
    try:
        pid = await add_child(MetricsEndpoint.child_spec(endpoint, id=NAME, name=NAME))
    except StartFailed as failed:
        from coding_agent.errors import BadUsage

        raise failed.reason if isinstance(failed.reason, BadUsage) else failed from None
    assert pid is not None
    return await call(pid, GetUrl())
