"""Process. The receive loop of a GenServer, from `init` to `terminate`.

A server that waits has no coroutine. When a message comes, one is made that serves what is in the mailbox,
handler by handler, and ends when the mailbox is empty or the turn is over; a handler that waits for
something suspends it, and the messages with it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from lemon_otp.callbacks import TIMEOUT, UNSET, Ignore, Init, NoReply, Reply, Stop
from lemon_otp.caller import ANSWERED, CALL, CAST, SYSTEM, Caller
from lemon_otp.clock import Timer
from lemon_otp.crash_reports import report_crash
from lemon_otp.ending import reason_of
from lemon_otp.errors import BadReturn, ProcessExit, StartFailed
from lemon_otp.exits import Exit
from lemon_otp.machine import Process
from lemon_otp.mailbox import NOTHING, take
from lemon_otp.pid import ALIVE
from lemon_otp.scheduler import DONE, IDLE, MAIL, READY, Scheduler, now_running, running_process
from lemon_otp.stepper import is_awaitable
from lemon_otp.system import SystemState, handle_system, is_wanted
from lemon_otp.telling import describe

if TYPE_CHECKING:
    from lemon_otp.gen_server import GenServer

TURN_FUEL: Final = 128
"""Messages that a server takes in one turn."""

NO_STATE: Final = frozenset({Init, Ignore, Stop, Reply, NoReply})
"""Classes of what `init` may or may not return beside a state."""

_init_process: Final = Process.__init__
_finish_process: Final = Process.finished

_log: Final = logging.getLogger("lemon_otp")


class Extras:
    """What a server keeps only while it waits for a limited time, or once `sys` has had to do with it."""

    __slots__ = ("idle_timeout_s", "idle_timer", "system")

    def __init__(self) -> None:
        self.idle_timeout_s: float | None = None
        self.idle_timer: Timer | None = None
        self.system: SystemState | None = None


class ServerProcess(Process):
    """The process of a GenServer; its `entry` is what `init` is given, until that has returned."""

    __slots__ = ("extras", "last_message", "linked_parent", "server", "starter", "state")

    def __init__(
        self, runtime: Scheduler, context: Context, parent: Process, server: GenServer[Any, Any, Any, Any], arg: Any
    ) -> None:
        _init_process(self, runtime, context, arg, parent)
        self.server = server
        self.starter: Any = UNSET
        self.state: Any = UNSET
        self.linked_parent: Process | None = parent
        self.last_message: Any = UNSET
        self.extras: Extras | None = None

    def initial_call(self) -> str:
        return f"{type(self.server).__module__}.{type(self.server).__qualname__}.init"

    @property
    def sys(self) -> SystemState | None:
        """What `sys` keeps of this server, once somebody has asked for it."""
        return None if self.extras is None else self.extras.system

    # Turns.

    def first_step(self) -> Any:
        return self.take_up(self.serve()) if self.starter is None else self.begin()

    def returned(self, value: Any) -> None:
        """The mailbox is empty, or the turn is over."""
        self.coro = None
        if self.alert and self._returned_alert():
            return
        if self.mailbox:
            if self._holds_back():
                self.status = MAIL
            else:
                self.runtime.enqueue(self)
        else:
            self.status = IDLE
        if self.extras is not None and self.status != READY:
            self._await_timeout(self.extras)

    def at_rest(self) -> bool:
        """Whether it waits for work with nothing begun, and nobody watches or has suspended it."""
        return self.status == IDLE and self.extras is None

    def _returned_alert(self) -> bool:
        """Attend to what came during the turn; whether the process is dead now."""
        self.take_signals()
        if self.exit_reason is not ALIVE:
            self.finished()
            return True
        side = self.interrupts()
        side.must_cancel = False  # whoever wanted a handler to be cancelled came too late
        side.thrown = None
        side.cancel_requests = 0
        self.settle_alert()
        return False

    def _holds_back(self) -> bool:
        """Whether nothing in the mailbox may be served now, because the server is suspended."""
        system = self.sys
        if system is None or not system.suspended:
            return False
        return not any(is_wanted(message, self.linked_parent) for message in self.mailbox or ())

    def _await_timeout(self, extras: Extras) -> None:
        """Set the timer of a server that waits for a limited time."""
        timeout_s = extras.idle_timeout_s
        if timeout_s is None or extras.idle_timer is not None:
            return
        if timeout_s > 0 or self.mailbox:
            extras.idle_timer = self.runtime.timers.add(max(0.0, timeout_s), self._timed_out)
        else:
            self.deliver(TIMEOUT)

    def _timed_out(self) -> None:
        if self.extras is not None:
            self.extras.idle_timer = None
        if self.status == IDLE:
            self.deliver(TIMEOUT)

    def finished(self) -> None:
        _finish_process(self)
        if self.extras is not None:
            self._stop_idle_timer(self.extras)
        self.state = self.entry = self.last_message = UNSET
        self.linked_parent = self.extras = None

    def report(self, reason: Any) -> None:
        report_crash(self, reason, self.last_message, self.state)

    # The first turn.

    # The slot `starter` says who is told how `init` ends: UNSET until somebody has had to wait for that, or until it
    # was refused; None once it has ended well. Most servers begin without a coroutine and before anybody waits.

    def ask(self, me: Process) -> Caller:
        """What tells `me` how `init` ends, or has ended."""
        starter = self.starter
        if type(starter) is not Caller:
            starter = Caller(me)
            if self.starter is None:
                starter.settle_as(ANSWERED, self)
            else:
                self.starter = starter
        return starter

    def begin(self) -> Any:
        """Run `init`, and go on where it does not wait for anything."""
        now_running(self)
        try:
            result: Any = self.server.init(self.entry)
            waits = is_awaitable(result)
            idle = not waits and self._begun(result)
        except BaseException as error:
            self._refuse(StartFailed(reason_of(error)))
            raise
        if not idle:
            return self.take_up(self._begin_slowly(result) if waits else self._serve_first(result))
        self.returned(None)
        return DONE

    async def _begin_slowly(self, waiting: Awaitable[Any]) -> None:
        try:
            result = await waiting
            self._begun(result)
        except BaseException as error:
            self._refuse(StartFailed(reason_of(error)))
            raise
        await self._serve_first(result)

    def _begun(self, result: Any) -> bool:
        """Take in what `init` returned, and tell the starter; whether the server has nothing else to do."""
        if type(result) not in NO_STATE:
            self.state = result
        elif type(result) is Init:
            self._go_on(result)
        else:
            self._decline(result)
        self.entry = UNSET
        starter, self.starter = self.starter, None
        if starter is not UNSET:
            starter.answer(self)
        return type(result) is not Init or result.continue_ is UNSET

    def _decline(self, result: Any) -> NoReturn:
        """End as `init` wants it: what it returned is no state."""
        if type(result) is Ignore:
            self._refuse(None)
            raise ProcessExit("normal")
        if type(result) is Stop:
            raise ProcessExit(result.reason)
        raise BadReturn("init", result, "a state, Init, Ignore or Stop")

    def _refuse(self, answer: StartFailed | None) -> None:
        """Tell the starter that there will be no server; only the first time counts."""
        if self.exit_reason is ALIVE:
            self.ask(self).settle_as(ANSWERED, answer)

    async def _serve_first(self, result: Any) -> None:
        """What comes right after `init`."""
        if type(result) is Init and result.continue_ is not UNSET:
            await self._conclude(result, None)
        if self.mailbox:
            await self.serve()

    # A request to a server that has nothing else to do.

    def serve_request(self) -> Any:
        """Serve the request that `last_message` is; no coroutine is needed where its handler does not wait."""
        request = self.last_message
        if self.extras is not None or request[0] is SYSTEM:
            self.deliver(request)
            return self.first_step()
        self.runtime.fuel -= 1
        self.handled += 1
        caller: Caller = request[1]
        try:
            result = self.server.handle_call(request[2], caller, self.state)
        except BaseException as error:
            return self.take_up(self._fail_with(error))
        if not self._replied(result, caller):
            return self.take_up(self._serve_on(result, caller))
        if self.alert or self.mailbox:
            self.returned(None)
        else:
            self.status = IDLE
        return DONE

    def serve_here(self, handler: Callable[[Any, Any], Any], subject: Any, timeout_s: float | None) -> Any:
        """Let the turn of the one who asks do what this idle server would do: `handler(state, subject)`.

        For handlers of the library's own, to which it is all the same whose turn it is. The answer; or what to await
        for it, where the handler has to wait, which it does in a turn of the server's.
        """
        self.runtime.fuel -= 1
        self.handled += 1
        self.status = READY
        try:
            answer = handler(self.state, subject)
        except BaseException:
            self.returned(None)
            raise
        if not isinstance(answer, CoroutineType):
            if self.alert or self.mailbox:
                self.returned(None)
            else:
                self.status = IDLE
            return answer
        me = running_process()
        caller = Caller(me)
        self.last_message = (CALL, caller, subject)
        self.runtime.run_inside(self, lambda server: server.take_up(server.answer_later(answer, caller)))
        return caller.wait(me, self, timeout_s)

    def answer_later(self, answer: Awaitable[Any], caller: Caller) -> Coroutine[Any, Any, None]:
        """Wait for an answer and give it; then serve on."""

        async def result() -> Reply[Any]:
            return Reply(await answer, self.state)

        return self._serve_on(result(), caller)

    def _replied(self, result: Any, caller: Caller) -> bool:
        """Answer and keep the state, if that is all that a handler wants."""
        if type(result) is Reply and result.timeout_s is None and result.continue_ is UNSET and self.extras is None:
            self.state = result.state
            caller.settle_as(ANSWERED, result.value)
            return True
        return False

    async def _serve_on(self, result: Any, caller: Caller) -> None:
        """Wait for the handler of a request, if that is what it returned, and see to its result."""
        if is_awaitable(result):
            try:
                result = await result
            except BaseException as error:
                await self._clean_up(error)
                raise
        if not self._replied(result, caller):
            await self._conclude(result, caller)
        if self.mailbox:
            await self.serve()

    async def _fail_with(self, error: BaseException) -> None:
        await self._clean_up(error)
        raise error

    # Every other turn.

    async def serve(self) -> None:
        """Serve the messages in the mailbox until it is empty or the turn is over."""
        runtime, server = self.runtime, self.server
        fuel = runtime.fuel if runtime.fuel < TURN_FUEL else TURN_FUEL
        runtime.fuel -= fuel
        before = self.handled
        for number in range(before + 1, before + fuel + 1):
            if self.alert or not self.mailbox:
                break
            if self.extras is not None:
                message = self._take_watched(self.extras)
                if message is NOTHING:
                    break
            else:
                message = self.mailbox.popleft()
            self.handled = number
            self.last_message = message
            kind = type(message)
            caller: Caller | None = None
            result: Any
            try:
                if kind is tuple and message:
                    tag = message[0]
                    if tag is CAST:
                        result = server.handle_cast(message[1], self.state)
                    elif tag is CALL:
                        caller = message[1]
                        result = server.handle_call(message[2], caller, self.state)
                    elif tag is SYSTEM:
                        handle_system(self, message[1], message[2])
                        continue
                    else:
                        result = server.handle_info(message, self.state)
                elif kind is Exit and message.pid is self.linked_parent:
                    raise ProcessExit(message.reason)
                else:
                    result = server.handle_info(message, self.state)
                kind = type(result)
                if kind is CoroutineType or (kind is not NoReply and kind is not Reply and is_awaitable(result)):
                    result = await result
            except BaseException as error:
                await self._clean_up(error)
                raise
            if type(result) is NoReply and result.timeout_s is None and result.continue_ is UNSET:
                self.state = result.state
            elif caller is None or not self._replied(result, caller):
                await self._conclude(result, caller)
        runtime.fuel += before + fuel - self.handled  # what was not needed

    def _take_watched(self, extras: Extras) -> Any:
        """Take the next message of a server that is watched, suspended, or waits for a limited time."""
        box, system, parent = self.mailbox, extras.system, self.linked_parent
        assert box is not None
        suspended = system is not None and system.suspended
        message = take(box, (lambda waiting: is_wanted(waiting, parent)) if suspended else None)
        if message is NOTHING:
            return NOTHING
        self._stop_idle_timer(extras)
        if not (type(message) is tuple and message and message[0] is SYSTEM):
            extras.idle_timeout_s = None
            if system is not None:
                system.saw("in", message, self.state)
            else:
                self.extras = None
        return message

    def _stop_idle_timer(self, extras: Extras) -> None:
        if extras.idle_timer is not None:
            self.runtime.timers.cancel(extras.idle_timer)
            extras.idle_timer = None

    def _go_on(self, result: Init[Any] | Reply[Any] | NoReply[Any]) -> None:
        self.state = result.state
        if result.timeout_s is not None:
            self._extra().idle_timeout_s = result.timeout_s

    def _extra(self) -> Extras:
        extras = self.extras
        if extras is None:
            extras = self.extras = Extras()
        return extras

    def watch_system(self) -> SystemState:
        """The state that `sys` keeps of this server, from now on."""
        extras = self._extra()
        if extras.system is None:
            extras.system = SystemState()
        return extras.system

    async def _conclude(self, result: Any, caller: Caller | None) -> None:
        """Deal with every result that is not simply "go on"."""
        while True:
            kind = type(result)
            if kind is Stop:
                await self._stop(result, caller)
            if kind is Reply and caller is not None:
                caller.answer(result.value)
                system = self.sys
                if system is not None:
                    system.saw("out", result.value, result.state)
            elif kind is not NoReply and kind is not Init:
                expected = "Reply, NoReply or Stop" if caller is not None else "NoReply or Stop"
                error = BadReturn("the callback", result, expected)
                await self._clean_up(error)
                raise error
            self._go_on(result)
            if result.continue_ is UNSET:
                return
            caller = None
            try:
                result = self.server.handle_continue(result.continue_, self.state)
                if is_awaitable(result):
                    result = await result
            except BaseException as failure:
                await self._clean_up(failure)
                raise

    async def _stop(self, result: Stop[Any], caller: Caller | None) -> None:
        if result.state is not UNSET:
            self.state = result.state
        try:
            await self._terminate(result.reason)
        finally:
            if result.reply is not UNSET and caller is not None and self.exit_reason is ALIVE:
                caller.answer(result.reply)
        raise ProcessExit(result.reason)

    async def _clean_up(self, error: BaseException) -> None:
        """`terminate` after a callback raised, unless the process is dead already."""
        if self.exit_reason is ALIVE and not isinstance(error, KeyboardInterrupt | SystemExit):
            await self._terminate(reason_of(error))

    async def _terminate(self, reason: Any) -> None:
        result = self.server.terminate(reason, self.state)
        if is_awaitable(result):
            await result


begin: Final = ServerProcess.begin
"""The turn of a server that is new."""
serve_request: Final = ServerProcess.serve_request
"""The turn of a server that has nothing to do but `last_message`."""


def send_request(runtime: Scheduler, target: Process, message: tuple[Any, ...]) -> None:
    """Deliver a request; a server that waits for work serves it at once, inside the turn of the one who asks."""
    if target.status == IDLE and runtime.fuel > 0 and (not runtime.outer or runtime.has_room()):
        server: ServerProcess = target  # type: ignore[assignment]  # no other process is ever idle
        server.status = READY
        server.last_message = message
        runtime.run_inside(server, serve_request)
    elif message[0] is SYSTEM:
        target.deliver_urgent(message)
    else:
        target.deliver(message)


def log_unexpected(process: Process | None, message: Any) -> None:
    """What the default `handle_info` does with a message."""
    _log.warning("%r has no handle_info for %s", process, describe(message))
