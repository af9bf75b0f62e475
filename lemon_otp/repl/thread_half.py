"""Edge. What a control socket does on its thread: understands requests, has the loop answer them, and says the answers.

When the loop has not begun with a request in time, somebody holds it up: the thread then answers itself, with the stack
that holds it and what can be read from outside. Nothing here runs on the loop; it is asked through the `Handover`.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from lemon_otp.repl import answering
from lemon_otp.repl.askers import Askers
from lemon_otp.repl.connections import Connection, Pending, Taken
from lemon_otp.repl.handover import Handover
from lemon_otp.repl.operations import Answer, Later, Operation
from lemon_otp.repl.turns import LATER, Turns
from lemon_otp.repl.wire import VERSION, BadRequest, failure, parse, skew
from lemon_otp.telling import error_trace

_log: Final = logging.getLogger("lemon_otp")

PENDING_MAX: Final = 64
FEED_BYTES_MAX: Final = 4 * 1024 * 1024
"""What may wait for a slow asker before events of its feeds are dropped."""


class ThreadHalf:
    """Serves askers until the other half says stop.

    Args:
        bound: The socket; closed in the end.
        handover: The way to the loop.
        unsafe: Whether operations that can do anything are allowed.
        about: More for the greeting.
        held_s: How long the loop may take before the thread answers in its place.
    """

    def __init__(
        self, bound: socket.socket, handover: Handover, *, unsafe: bool, about: Mapping[str, Any], held_s: float
    ) -> None:
        self.askers = Askers(bound, self._heard, self._left)
        self._handover = handover
        self._unsafe = unsafe
        self._about = about
        self._held_s = held_s
        self._turns = Turns(handover, held_s)

    def listen(self) -> None:
        """Let askers in; they are served once `run` is called."""
        self.askers.listen(self._handover.bell, self._handover.heard_bell)

    def run(self) -> None:
        """The thread's whole life."""
        try:
            while not self._handover.stopped:
                for work in self.askers.ready(self._patience_s()):
                    self._guarded(work)
                while (handed := self._handover.next_for_thread()) is not None:
                    self._guarded(handed)
                self._guarded(self._answer_late)
        finally:
            self.close()

    def close(self) -> None:
        """Hang up on everybody."""
        self.askers.close_all()
        self._handover.close()

    def _guarded(self, work: Callable[[], None]) -> None:
        """A mistake of ours costs one answer, not the thread that answers."""
        try:
            if not self._handover.stopped:
                work()
        except Exception as error:
            _log.error("the control socket failed at one request and goes on\n%s", error_trace(error))

    # Requests.

    def _heard(self, connection: Connection, line: bytes) -> None:
        request_id: Any = None
        try:
            request = parse(line)
            request_id = request.get("id")
            if not connection.asked and request.get("op") == "hello":
                self._greet(connection, request)
                return
            connection.asked = True
            if request.get("op") == "cancel" and connection.greeted:
                self._cancel(connection, request_id)
                return
            operation = self._handover.run_here(lambda: answering.wanted(request, unsafe=self._unsafe))
            self._begin(connection, request, operation)
        except Exception as error:  # also a mistake of ours: whatever else was asked is still answered
            answer = {**answering.failed(error), **({} if request_id is None else {"id": request_id})}
            if connection.greeted:
                self.askers.say(connection, answer)
            else:
                self.askers.leave(connection, answer)

    def _greet(self, connection: Connection, request: Mapping[str, Any]) -> None:
        connection.asked = True
        if (problem := skew(request.get("version"))) is not None:
            self.askers.leave(connection, failure(problem, "version_skew", version=VERSION))
            return
        connection.greeted = True
        hello = {"ok": True, "version": VERSION, "os_pid": os.getpid(), "unsafe": self._unsafe, **self._about}
        self.askers.say(connection, hello if request.get("id") is None else {"id": request["id"], **hello})

    def _begin(self, connection: Connection, request: dict[str, Any], operation: Operation) -> None:
        if operation.kind == "takeover":
            self._give_away(connection, request, operation)
            return
        if operation.kind == "feed" and not connection.greeted:
            raise BadRequest(f"{operation.name} says things for a while; begin the connection with a hello")
        request_id = request.get("id")
        if not isinstance(request_id, str | int | None) or request_id in connection.requests:
            raise BadRequest("the id of a request is text or a number that no request on its way has")
        if len(connection.requests) >= PENDING_MAX:
            raise BadRequest(f"{PENDING_MAX} requests are on their way already")
        pending = Pending(connection, request, operation, time.monotonic() + self._held_s)
        connection.requests[request_id] = pending
        if not connection.greeted:
            connection.closing = True  # one question, one answer
        if operation.kind == "look":
            self._turns.add(pending)
        else:
            self._handover.begin(pending)

    def _give_away(self, connection: Connection, request: dict[str, Any], operation: Operation) -> None:
        if connection.waiting or connection.requests:
            raise BadRequest(f"{operation.name} takes the connection; ask for it when no other answer is on its way")
        taken = Taken(self.askers.give_away(connection), request, bytes(connection.received))
        self._handover.take_over(operation, taken)

    def _cancel(self, connection: Connection, request_id: Any) -> None:
        pending = connection.requests.pop(request_id, None)
        if pending is not None:
            self._end(pending)
            self.askers.say(connection, {"id": request_id, "ok": True, "end": True})

    def _left(self, connection: Connection) -> None:
        for pending in reversed(list(connection.requests.values())):  # those that wait for their turn do not get it now
            self._end(pending)

    def _end(self, pending: Pending) -> None:
        self._handover.end(pending)
        if not self._handover.stopped:
            self._turns.over(pending)

    # Answers.

    def answered(self, pending: Pending, answer: Answer | Later) -> None:
        """Say the answer that the loop has found."""
        self._answer(pending, answering.finished(answer))

    def said(self, pending: Pending, event: Any) -> None:
        """Say what a feed has said, unless too much waits; then how much is missing is said with the next one."""
        pending.taken += 1
        if len(pending.connection.waiting) > FEED_BYTES_MAX:
            pending.dropped += 1
            return
        missing = pending.lost + pending.dropped
        dropped, pending.told = missing - pending.told, missing
        self._answer(pending, {"ok": True, "event": event, **({"dropped": dropped} if dropped else {})}, more=True)

    def _answer(self, pending: Pending, answer: Mapping[str, Any], *, more: bool = False) -> None:
        connection, request_id = pending.connection, pending.request.get("id")
        try:
            if connection.closed or pending.cancelled or connection.requests.get(request_id) is not pending:
                return  # it was told already that this is done when the loop goes on
            if not more:
                connection.requests.pop(request_id, None)
            self.askers.say(connection, answer if request_id is None else {**answer, "id": request_id})
            if not more:
                self.askers.leave_if_idle(connection)
        finally:
            self._turns.over(pending)

    # Time.

    def _patience_s(self) -> float | None:
        deadlines_s = [*self.askers.deadlines_s(), *(pending.deadline_s for pending in self._waiting())]
        return max(0.0, min(deadlines_s) - time.monotonic()) if deadlines_s else None

    def _waiting(self) -> list[Pending]:
        """What the loop was asked and has not begun with."""
        return [
            pending
            for connection in self.askers.connections
            for pending in connection.requests.values()
            if not pending.claim.taken and pending.deadline_s < LATER
        ]

    def _answer_late(self) -> None:
        """Leave askers whose time is over, and answer what the loop has not begun with."""
        now_s = time.monotonic()
        self.askers.look_at_clock(now_s)
        for pending in self._waiting():
            if pending.deadline_s <= now_s and pending.claim.take():
                handover, operation, request = self._handover, pending.operation, pending.request
                handover.held = True
                self._answer(pending, answering.answer_held(handover.run_here, operation, request, handover.runtime))
