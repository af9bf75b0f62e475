"""Process. Shows the running tree in a browser.

Tree:  coding_agent.supervisor / observer, permanent; stands only with `--observe`
Emits: nothing
Asked: GetUrl
Owns:  a thread that serves the page, so that it answers while a handler holds the event loop up; the listening socket,
       the pages that are open, and what has happened since it began, which is lost on restart

The tree is looked at while a page is open; otherwise it is only remembered what telemetry says.
"""

import secrets
from hashlib import sha256
from typing import Any, ClassVar, Final

from attrs import define, frozen

from coding_agent.application import add_child
from coding_agent.errors import BadUsage
from coding_agent.measuring.loop_lag import measure_loop_lag
from coding_agent.observer.addresses import ListenAt, listen_at
from coding_agent.observer.server import require_web, url_of
from coding_agent.observer.site import Failed, Site
from lemon_otp import GenServer, NoReply, Reply, Request, StartFailed, Stop, call

NAME: Final = "observer"
FLAG: Final = "--observe"


@frozen
class GetUrl(Request[str]):
    """The address, without the token."""


@define(eq=False)
class Place:
    """What an observer is started with. Port and token stay the same when it is started again."""

    at: ListenAt
    token_hash: bytes


class Observer(GenServer[Place, GetUrl, None, Site]):
    """Has the page served."""

    trap_exit: ClassVar[bool] = True  # so that `terminate` closes it

    async def init(self, place: Place) -> Site:
        site = Site(place.at, place.token_hash)
        site.open()
        place.at = site.at
        return site

    async def handle_call(self, message: GetUrl, caller: object, state: Site) -> Reply[Site]:
        return Reply(url_of(state.at), state)

    async def handle_info(self, message: Any, state: Site) -> NoReply[Site] | Stop[Site]:
        match message:
            case Failed(error):
                return Stop(error, state)
            case _:
                return NoReply(state)

    async def terminate(self, reason: Any, state: Site) -> None:
        await state.close()


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
