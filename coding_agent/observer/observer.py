"""Process. Shows the running tree in a browser.

Tree:  coding_agent.supervisor / observer, permanent; stands only with `--observe`
Emits: nothing
Asked: GetUrl
Owns:  a listening socket, the pages that are open, and what has happened since it began, which is lost on restart

It looks at the tree while a page is open and otherwise only remembers what telemetry says.
"""

import secrets
from hashlib import sha256
from typing import Any, ClassVar, Final

from attrs import define, frozen

from coding_agent.application import add_child
from coding_agent.errors import BadUsage
from coding_agent.measuring.loop_lag import measure_loop_lag
from coding_agent.observer.addresses import ListenAt, listen_at
from coding_agent.observer.guard import Guard
from coding_agent.observer.routes import application
from coding_agent.observer.server import WebServer, require_web
from coding_agent.observer.watching import Watching
from lemon_otp import GenServer, NoReply, Reply, Request, StartFailed, call, self_pid, send, send_after

NAME: Final = "observer"
FLAG: Final = "--observe"


@frozen
class GetUrl(Request[str]):
    """The address, without the token."""


@frozen
class Look:
    """To itself: look at the tree, if anybody wants to see it."""


@frozen
class LookAgain:
    """To itself: the pause after a look is over."""


@define(eq=False)
class Place:
    """What an observer is started with. Port and token stay the same when it is started again."""

    at: ListenAt
    token_hash: bytes


@define(eq=False)
class Serving:
    """What it holds."""

    server: WebServer
    watching: Watching
    due: bool = False


class Observer(GenServer[Place, GetUrl, None, Serving]):
    """Serves the page."""

    trap_exit: ClassVar[bool] = True  # so that `terminate` closes the server

    async def init(self, place: Place) -> Serving:
        me = self_pid()
        watching = Watching(lambda: send(me, Look()))
        guard = Guard(application(watching), place.at, place.token_hash)
        server = await WebServer.start(guard, place.at)
        place.at = guard.at = server.at
        watching.timeline.start()
        return Serving(server, watching)

    async def handle_call(self, message: GetUrl, caller: object, state: Serving) -> Reply[Serving]:
        return Reply(state.server.url(), state)

    async def handle_info(self, message: Any, state: Serving) -> NoReply[Serving]:
        match message:
            case Look() if not state.due:
                self._look(state)
            case LookAgain():
                state.due = False
                self._look(state)
            case _:
                pass
        return NoReply(state)

    def _look(self, state: Serving) -> None:
        if len(state.watching.feeds):
            state.due = True
            send_after(self_pid(), LookAgain(), state.watching.look())

    async def terminate(self, reason: Any, state: Serving) -> None:
        state.watching.timeline.stop()
        state.watching.feeds.end()
        await state.server.close()


async def observe(where: str) -> str:
    """Serve the page at `where`, a `HOST:PORT`; the address for a browser, with the token in its fragment.

    Raises:
        BadUsage: It is no address, it is taken, or the web server is not installed. Nothing is left running.
    """
    require_web(FLAG)
    token = secrets.token_urlsafe(24)
    place = Place(listen_at(where, FLAG), sha256(token.encode()).digest())
    await measure_loop_lag()
    try:
        pid = await add_child(Observer.child_spec(place, id=NAME, name=NAME))
    except StartFailed as failed:
        raise failed.reason if isinstance(failed.reason, BadUsage) else failed from None
    assert pid is not None
    return f"{await call(pid, GetUrl())}#token={token}"
