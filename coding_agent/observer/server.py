"""Edge. A web server that belongs to a process of ours: started in its `init`, closed in its `terminate`.

uvicorn's server is driven step by step, so it takes no signals and ends nobody's program. However the process ends, its
sockets are closed. The observer's runs in a thread, whose business its end is then.
"""

import asyncio
import errno
import socket
from typing import TYPE_CHECKING, Any, Final

from attrs import define, evolve

from coding_agent.errors import BadUsage
from coding_agent.observer.addresses import ListenAt, url_host
from lemon_otp import Pid, at_exit, self_pid

if TYPE_CHECKING:
    from uvicorn import Server

CLOSE_S: Final = 1.0
"""What answers under way are given when the server is closed."""
CONNECTIONS_MAX: Final = 64
BACKLOG: Final = 32


@define(eq=False)
class WebServer:
    """A server that listens.

    Attributes:
        at: Where, with the port it got.
    """

    at: ListenAt
    _socket: socket.socket
    _server: "Server"

    @classmethod
    async def start(cls, app: Any, at: ListenAt) -> "WebServer":
        """Listen, and serve `app`, until `close` or until the calling process ends.

        Raises:
            BadUsage: The address is taken or is none of this machine's.
        """
        bound, at = bound_to(at)
        try:
            running = await cls.over(bound, at, app)
        except BaseException:
            bound.close()
            raise
        at_exit(self_pid(), running._gone)
        return running

    @classmethod
    async def over(cls, bound: socket.socket, at: ListenAt, app: Any) -> "WebServer":
        """Serve `app` at a bound socket, in the running loop, until `close`."""
        from uvicorn import Config, Server

        from coding_agent.observer.connections import Connection

        config = Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=1,
        )
        config.load()
        server = Server(config)
        server.lifespan = config.lifespan_class(config)
        await server.startup(sockets=[bound])
        return cls(at, bound, server)

    def url(self, fragment: str = "") -> str:
        """The address for a browser on this machine."""
        return url_of(self.at, fragment)

    async def close(self) -> None:
        """Take no more requests; answers under way have `CLOSE_S`, then their connections are cut."""
        self._listen_no_more()
        state = self._server.server_state
        for connection in list(state.connections):
            connection.shutdown()
        if state.tasks:
            await asyncio.wait(list(state.tasks), timeout=CLOSE_S)
        self._cut()

    def cut(self) -> None:
        """Take no more requests, and cut every connection."""
        self._listen_no_more()
        self._cut()

    def _gone(self, _pid: Pid, _reason: Any) -> None:
        """The process has ended; after a `close` there is nothing left to do."""
        self.cut()

    def _listen_no_more(self) -> None:
        for server in self._server.servers:
            server.close()
        self._socket.close()

    def _cut(self) -> None:
        state = self._server.server_state
        for task in list(state.tasks):
            task.cancel()
        for connection in list(state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()


def url_of(at: ListenAt, fragment: str = "") -> str:
    """The address of a server there, for a browser on this machine."""
    host = "127.0.0.1" if at.host == "0.0.0.0" else "::1" if at.host == "::" else at.host
    return f"http://{url_host(host)}:{at.port}/{fragment}"


def bound_to(at: ListenAt) -> tuple[socket.socket, ListenAt]:
    """A socket at an address, and the address with the port it got.

    Raises:
        BadUsage: The address is taken or is none of this machine's.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            at.host, at.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise BadUsage(f"{at.host!r} is no address of this machine: {error.strerror or error}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        taken = (
            "another program listens there; give another port" if error.errno == errno.EADDRINUSE else error.strerror
        )
        raise BadUsage(f"cannot listen at {url_host(at.host)}:{at.port}: {taken}") from error
    bound.setblocking(False)
    return bound, evolve(at, port=bound.getsockname()[1])


def require_web(flag: str) -> None:
    """Return when the web server is installed.

    Raises:
        BadUsage: It is not; the text names the extra.
    """
    try:
        import starlette
        import uvicorn
    except ImportError as missing:
        raise BadUsage(f"{flag} needs an extra: pip install 'lemon-agents[web]'") from missing
    assert starlette
    assert uvicorn
