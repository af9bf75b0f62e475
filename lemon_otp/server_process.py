"""Process. The receive loop of a GenServer, from `init` to `terminate`.

A server that waits has no coroutine. When a message comes, one is made that serves what is in the mailbox,
handler by handler, and ends when the mailbox is empty or the turn is over; a handler that waits for
something suspends it, and the messages with it.
"""

from __future__ import annotations

import logging
from contextvars import copy_context
from inspect import isawaitable
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final

from lemon_otp.callbacks import TIMEOUT, UNSET, Ignore, Init, NoReply, Reply, Stop
from lemon_otp.caller import CALL, CAST, SYSTEM, Caller
from lemon_otp.clock import Timer
from lemon_otp.crash_reports import report_crash
from lemon_otp.ending import reason_of
from lemon_otp.errors import BadReturn, ProcessExit, StartFailed
from lemon_otp.exits import Exit
from lemon_otp.machine import Process
from lemon_otp.mailbox import NOTHING, take
from lemon_otp.pid import ALIVE, Via
from lemon_otp.scheduler import CURRENT, DONE, MAIL, Scheduler
from lemon_otp.system import SystemState, handle_system, is_wanted
from lemon_otp.telling import describe

if TYPE_CHECKING:
    from lemon_otp.gen_server import GenServer

TURN_FUEL: Final = 128
"""Messages that a server takes in one turn."""

_log: Final = logging.getLogger("lemon_otp")


class ServerProcess(Process):
    """The process of a GenServer."""

    serves_inside = True

    __slots__ = (
        "arg",
        "idle_timeout_s",
        "idle_timer",
        "last_message",
        "linked_parent",
        "server",
        "starter",
        "state",
        "sys",
        "via",
        "watched",
    )

    def __init__(self, runtime: Scheduler, parent: Process, server: GenServer[Any, Any, Any, Any], arg: Any) -> None:
        Process.__init__(self, runtime, copy_context(), server, parent)
        self.server = server
        self.arg = arg
        self.state: Any = UNSET
        self.starter: Caller | None = Caller(parent)
        self.linked_parent: Process | None = None
        self.via: Via | None = None
        self.last_message: Any = UNSET
        self.idle_timeout_s: float | None = None
        self.idle_timer: Timer | None = None
        self.sys: SystemState | None = None
        self.watched = False
        runtime.processes[self.id] = self

    def initial_call(self) -> str:
        return f"{type(self.server).__module__}.{type(self.server).__qualname__}.init"

    # Turns.

    def first_step(self) -> Any:
        coro = self.serve() if self.starter is None else self.serve_first()
        try:
            waits_for = coro.send(None)
        except StopIteration:
            self.returned(None)
            return DONE
        self.coro = coro
        return waits_for

    def returned(self, value: Any) -> None:
        """The mailbox is empty, or the turn is over."""
        self.coro = None
        if self.alert and self._returned_alert():
            return
        if self.mailbox and not self._holds_back():
            self.runtime.enqueue(self)
        else:
            self.status = MAIL
            if self.idle_timeout_s is not None and self.idle_timer is None:
                self._await_timeout(self.idle_timeout_s)

    def at_rest(self) -> bool:
        """Whether it waits for work with nothing begun, and nobody watches or has suspended it."""
        return self.status == MAIL and self.coro is None and not self.mailbox and not self.watched

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
        if self.sys is None or not self.sys.suspended:
            return False
        return not any(is_wanted(message, self.linked_parent) for message in self.mailbox or ())

    def _await_timeout(self, timeout_s: float) -> None:
        if timeout_s > 0 or self.mailbox:
            self.idle_timer = self.runtime.timers.add(max(0.0, timeout_s), self._timed_out)
        else:
            self.deliver(TIMEOUT)

    def _timed_out(self) -> None:
        self.idle_timer = None
        if self.status == MAIL and self.coro is None and not self.mailbox:
            self.deliver(TIMEOUT)

    def finished(self) -> None:
        Process.finished(self)
        if self.idle_timer is not None:
            self.runtime.timers.cancel(self.idle_timer)
            self.idle_timer = None
        self.state = self.arg = self.last_message = UNSET
        self.starter = self.linked_parent = self.sys = None

    def report(self, reason: Any) -> None:
        report_crash(self, reason, self.last_message, self.state)

    # The first turn.

    async def serve_first(self) -> None:
        """Run `init` and tell the starter, then serve."""
        CURRENT.set(self)
        starter, self.starter = self.starter, None
        assert starter is not None
        result: Any
        try:
            result = self.server.init(self.arg)
            if type(result) is CoroutineType or isawaitable(result):
                result = await result
            self.arg = UNSET
            kind = type(result)
            if kind is Reply or kind is NoReply:
                raise BadReturn("init", result, "a state, Init, Ignore or Stop")
            if kind is Stop:
                raise ProcessExit(result.reason)
        except BaseException as error:
            self._refuse(starter, StartFailed(reason_of(error)))
            raise
        if kind is Ignore:
            self._refuse(starter, None)
            raise ProcessExit("normal")
        starter.answer(self)
        if kind is Init:
            self._go_on(result)
            if result.continue_ is not UNSET:
                await self._conclude(result, None)
        else:
            self.state = result
        if self.mailbox:
            await self.serve()

    def _refuse(self, starter: Caller, answer: StartFailed | None) -> None:
        """Free the name and tell the starter that there will be no server."""
        if self.exit_reason is ALIVE:
            self.unregister()
            if self.via is not None:
                service = self.runtime.name_services.get(self.via.registry)
                if service is not None:
                    service.unregister_name(self.via.key, self)
            starter.answer(answer)

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
            if self.watched:
                message = self._take_watched()
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
                if type(result) is CoroutineType or isawaitable(result):
                    result = await result
            except BaseException as error:
                await self._clean_up(error)
                raise
            kind = type(result)
            if kind is NoReply and result.timeout_s is None and result.continue_ is UNSET:
                self.state = result.state
            elif (
                kind is Reply
                and caller is not None
                and result.timeout_s is None
                and result.continue_ is UNSET
                and not self.watched
            ):
                self.state = result.state
                caller.answer(result.value)
            else:
                await self._conclude(result, caller)
        runtime.fuel += before + fuel - self.handled  # what was not needed

    def _take_watched(self) -> Any:
        """Take the next message of a server that is watched, suspended, or waits for a limited time."""
        box, system, parent = self.mailbox, self.sys, self.linked_parent
        assert box is not None
        suspended = system is not None and system.suspended
        message = take(box, (lambda waiting: is_wanted(waiting, parent)) if suspended else None)
        if message is NOTHING:
            return NOTHING
        if self.idle_timer is not None:
            self.runtime.timers.cancel(self.idle_timer)
            self.idle_timer = None
        if not (type(message) is tuple and message and message[0] is SYSTEM):
            self.idle_timeout_s = None
            if system is not None:
                system.saw("in", message, self.state)
            else:
                self.watched = False
        return message

    def _go_on(self, result: Init[Any] | Reply[Any] | NoReply[Any]) -> None:
        self.state = result.state
        if result.timeout_s is not None:
            self.idle_timeout_s = result.timeout_s
            self.watched = True

    def watch_system(self) -> SystemState:
        """The state that `sys` keeps of this server, from now on."""
        if self.sys is None:
            self.sys = SystemState()
            self.watched = True
        return self.sys

    async def _conclude(self, result: Any, caller: Caller | None) -> None:
        """Deal with every result that is not simply "go on"."""
        while True:
            kind = type(result)
            if kind is Stop:
                await self._stop(result, caller)
            if kind is Reply and caller is not None:
                caller.answer(result.value)
                if self.sys is not None:
                    self.sys.saw("out", result.value, result.state)
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
                if isawaitable(result):
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
        if isawaitable(result):
            await result


def log_unexpected(process: Process | None, message: Any) -> None:
    """What the default `handle_info` does with a message."""
    _log.warning("%r has no handle_info for %s", process, describe(message))
