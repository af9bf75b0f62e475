"""Process. One browser, seen from the host: its worker program, what it is asked to do, what it may connect to.

Tree:  coding_agent.supervisor / background_supervisor / browser_session[id], temporary
Owns:  a child of the keeper (worker, Playwright's driver, Chromium) and a private folder; both end with this process,
       with its owner, and when nobody has used the browser for a while. A new one starts without pages and cookies
"""

import asyncio
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import define, field, frozen

from coding_agent.tools import background_supervisor
from coding_agent.tools.browser_worker import KILL_S, START_S, Failed, Lines, Start, started
from coding_agent.tools.child import Child
from lemon_otp import (
    Address,
    Caller,
    Down,
    DynamicSupervisor,
    GenServer,
    Init,
    NoReply,
    Pid,
    Reply,
    Request,
    Stop,
    annotate,
    at_exit,
    call,
    cancel_timer,
    cast,
    monitor,
    reply,
    self_pid,
    send,
    send_after,
    spawn_link,
)

LATE_S: Final = 20.0
"""How much longer than an action's own time its answer may take before the browser counts as hung."""
IDLE_S: Final = 15 * 60.0
GRACE_S: Final = 0.3
WAITING_MAX: Final = 8


@frozen
class Do(Request[dict[str, Any] | Failed]):
    """Do this and tell what the page is like then."""

    action: str
    args: Mapping[str, Any] = field(repr=False)
    timeout_s: float
    token: str = ""


@frozen
class Opened(Request["Failed | None"]):
    """Can it be used? Answered when that is known."""


@frozen
class GiveUp:
    """Nobody waits any more for the answer to the request with this token."""

    token: str


@frozen
class Heard:
    """The worker said something."""

    message: dict[str, Any] = field(repr=False)


@frozen
class Late:
    """The answer to this request should have come long ago."""

    number: int


@frozen
class Idle:
    """Nobody has used it for a while."""

    used: int


@frozen
class WorkerEnded:
    """The worker is gone, and the browser with it."""


@define
class Waiting:
    """A request under way."""

    caller: Caller
    token: str
    timer: Any


@define
class Browsing:
    """The browser as it is now."""

    start: Start
    folder: Path
    child: Child | None = None
    failure: Failed | None = None
    waiting: dict[int, Waiting] = field(factory=dict)
    used: int = 0
    pen: asyncio.Lock = field(factory=asyncio.Lock)


class BrowserSession(GenServer[Start, Do | Opened, GiveUp, Browsing]):
    """Runs one browser and makes sure that it ends."""

    trap_exit = True

    # Client side: runs in the caller.

    @staticmethod
    async def begin(start: Start, *, supervisor: Address = background_supervisor.NAME) -> Pid:
        """Start a browser under the supervisor; returns when it can be used.

        Raises:
            Failed: It cannot be used.
        """
        spec = BrowserSession.child_spec(
            start, id=f"browser_session[{start.id}]", restart="temporary", shutdown=GRACE_S + KILL_S + 2
        )
        pid = await DynamicSupervisor.start_child(supervisor, spec)
        assert isinstance(pid, Pid)
        failure = await call(pid, Opened(), timeout_s=START_S + 10)
        if failure is not None:
            raise failure
        return pid

    @staticmethod
    async def do(browser: Address, action: str, args: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """What the page is like after an action.

        Raises:
            Failed: It could not be done.
            CallFailed: The browser is gone.

        Cancelling stops the action.
        """
        token = os.urandom(6).hex()
        try:
            answer = await call(browser, Do(action, args, timeout_s, token), timeout_s=None)
        except asyncio.CancelledError:
            cast(browser, GiveUp(token))
            raise
        if isinstance(answer, Failed):
            raise answer
        return answer

    # Server side: runs in the process.

    async def init(self, start: Start) -> Init[Browsing]:
        if start.owner is not None:
            monitor(start.owner)
        send_after(self_pid(), Idle(0), IDLE_S)
        return Init(Browsing(start, start.keeper.home / f"b-{start.id}"), continue_="open")

    async def handle_continue(self, term: Any, browsing: Browsing) -> NoReply[Browsing]:
        me, lines = self_pid(), Lines()
        lines.hear = lambda message: send(me, Heard(message))
        try:
            browsing.folder.mkdir(mode=0o700)
            child = browsing.child = await started(browsing.start, browsing.folder, lines)
        except OSError as error:
            browsing.failure = Failed(f"The browser cannot be started: {error.strerror or error}")
        except Failed as failed:
            browsing.failure = failed
        else:
            at_exit(me, lambda _pid, _reason: child.close())  # a kill leaves no time for `terminate`
            child.exited.add_done_callback(lambda _exited: send(me, WorkerEnded()))
            annotate(pid=child.pid)
        return NoReply(browsing)

    async def handle_call(
        self, message: Do | Opened, caller: Caller, browsing: Browsing
    ) -> Reply[Browsing] | NoReply[Browsing] | Stop[Browsing]:
        if browsing.failure is not None:
            return Stop("normal", browsing, reply=browsing.failure)
        if isinstance(message, Opened):
            return Reply(None, browsing)
        if len(browsing.waiting) >= WAITING_MAX:
            reply(caller, Failed(f"{WAITING_MAX} actions are waiting already"))
            return NoReply(browsing)
        browsing.used += 1
        number = browsing.used
        timer = send_after(self_pid(), Late(number), message.timeout_s * (len(browsing.waiting) + 1) + LATE_S)
        browsing.waiting[number] = Waiting(caller, message.token, timer)
        await tell(browsing, id=number, do=message.action, args=dict(message.args), timeout_s=message.timeout_s)
        return NoReply(browsing)

    async def handle_cast(self, message: GiveUp, browsing: Browsing) -> NoReply[Browsing]:
        for number, waiting in list(browsing.waiting.items()):
            if waiting.token == message.token:
                forget(browsing, number)
                await tell(browsing, stop=number)
        return NoReply(browsing)

    async def handle_info(self, message: Any, browsing: Browsing) -> NoReply[Browsing] | Stop[Browsing]:
        match message:
            case Heard(said) if "ask" in said:
                spawn_link(answer, browsing, said, label="browser_ask")
            case Heard(said) if "id" in said:
                settle(browsing, said)
                if said.get("lost"):
                    return Stop("normal", browsing)
            case Late(number) if number in browsing.waiting:
                fail_all(browsing, "the browser does not answer any more and was closed")
                return Stop("normal", browsing)
            case WorkerEnded():
                fail_all(browsing, "the browser ended unexpectedly; the next action starts a new one")
                return Stop("normal", browsing)
            case Idle(used):
                if used == browsing.used and not browsing.waiting:
                    return Stop("normal", browsing)
                send_after(self_pid(), Idle(browsing.used), IDLE_S)
            case Down():
                return Stop("normal", browsing)
        return NoReply(browsing)

    async def terminate(self, reason: Any, browsing: Browsing) -> None:
        fail_all(browsing, "the browser was closed")
        child = browsing.child
        if child is not None:
            if not child.gone.done():
                child.kill(GRACE_S)
                await child.ended_for_certain(GRACE_S + KILL_S)
            child.close()
        await asyncio.to_thread(shutil.rmtree, browsing.folder, ignore_errors=True)


async def answer(browsing: Browsing, asked: dict[str, Any]) -> None:
    """Judge an address and tell the worker. Whatever goes wrong is a no."""
    try:
        said = await browsing.start.judge(asked)
    except Exception as error:
        said = {"refused": str(error) or type(error).__name__}
    await tell(browsing, ask=asked["ask"], **said)


async def tell(browsing: Browsing, **message: Any) -> None:
    """Send the worker a message; one that takes none is about to be found out."""
    try:
        async with asyncio.timeout(5), browsing.pen:
            assert browsing.child is not None
            await browsing.child.write(json.dumps(message).encode() + b"\n")
    except (TimeoutError, OSError):
        return


def settle(browsing: Browsing, said: dict[str, Any]) -> None:
    """Answer who asked for an action."""
    waiting = forget(browsing, said["id"])
    if waiting is None:
        return
    done = said.get("done")
    if isinstance(done, dict):
        reply(waiting.caller, done)
    else:
        reply(waiting.caller, Failed(str(said.get("error")), tuple(map(str, said.get("notes") or ()))))


def forget(browsing: Browsing, number: int) -> Waiting | None:
    """A request is no longer waited for."""
    waiting = browsing.waiting.pop(number, None)
    if waiting is not None:
        cancel_timer(waiting.timer)
    return waiting


def fail_all(browsing: Browsing, text: str) -> None:
    """Tell everybody who waits."""
    for number in list(browsing.waiting):
        waiting = forget(browsing, number)
        if waiting is not None:
            reply(waiting.caller, Failed(text))
