"""PROC. What the processes of a scenario run: plain processes and servers that execute ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from attrs import frozen

from lemon_otp import (
    Caller,
    GenServer,
    Ignore,
    Init,
    NoReply,
    ProcessExit,
    Reply,
    Stop,
    receive,
    self_pid,
)
from tests.conformance.failures import Thrown
from tests.conformance.interpreter import Fields, Place, Returned, run_ops
from tests.conformance.messages import event_of, key_of
from tests.conformance.terms import Do
from tests.conformance.world import Actor, World


@frozen
class Start:
    """What a process is started with.

    Attributes:
        world: The scenario.
        actor: Who the process is.
        definition: What it runs.
    """

    world: World
    actor: Actor
    definition: Mapping[str, Any]

    def handler(self, key: str) -> Sequence[Fields]:
        """The ops for a message; a missing handler is an empty one."""
        ops: Sequence[Fields] = self.definition.get("on", {}).get(key, ())
        return ops


async def run_process(start: Start) -> None:
    """A plain process: its start ops, then one message after the other until an op `return`."""
    place = Place(start.world, start.actor)
    start.world.came_to_life(start.actor, self_pid())
    returned = await run_ops(start.definition.get("start"), place)
    while returned is None:
        message = await receive()
        if isinstance(message, Do):
            returned = await run_ops(message.ops, place)
        else:
            name, terms = event_of(message, "msg")
            place.log(name, *terms)
            returned = await run_ops(start.handler(key_of(message)), place)


class PlainServer(GenServer[Start, Any, Any, Start]):
    """A server with nothing but `init`."""

    async def init(self, start: Start) -> Start | Init[Start] | Ignore | Stop[Start]:
        place = _begin(start)
        place.log("init", start.actor.args)
        return start


class ScenarioServer(GenServer[Start, Any, Any, Start]):
    """A server whose callbacks record what they are called with and execute ops."""

    async def init(self, start: Start) -> Start | Init[Start] | Ignore | Stop[Start]:
        place = _begin(start)
        place.log("init", start.actor.args)
        try:
            returned = await run_ops(start.definition.get("init"), place)
        except Thrown as thrown:
            raise ProcessExit(("bad_return_value", thrown.value)) from None
        if returned is None:
            return start
        match returned["how"]:
            case "ok":
                return Init(start, **_extras(returned, place))
            case "ignore":
                return Ignore()
            case "stop":
                return Stop(place.term(returned.get("reason")))
        raise ProcessExit(("bad_return_value", place.term(returned.get("value"))))

    async def handle_call(self, message: Any, caller: Caller, start: Start) -> Any:
        place = Place(start.world, start.actor, caller)
        try:
            returned = await self._run(message, "handle_call", "call:", place, start)
        except Thrown as thrown:
            return thrown.value
        if returned is None:
            return Reply("ok", start)
        match returned["how"]:
            case "reply":
                return Reply(place.term(returned.get("value")), start, **_extras(returned, place))
            case "stop" if "reply" in returned:
                return Stop(place.term(returned.get("reason")), start, reply=place.term(returned["reply"]))
            case _:
                return _go_on(returned, place, start)

    async def handle_cast(self, message: Any, start: Start) -> Any:
        return await self._told(message, "handle_cast", "cast:", start)

    async def handle_info(self, message: Any, start: Start) -> Any:
        return await self._told(message, "handle_info", "info:", start)

    async def handle_continue(self, term: Any, start: Start) -> Any:
        return await self._told(term, "handle_continue", "continue:", start)

    async def terminate(self, reason: Any, start: Start) -> None:
        place = Place(start.world, start.actor)
        place.lived("terminate", reason)
        place.log("terminate", reason)
        with suppress(Thrown):  # a throw is a return value, and that of terminate does not matter
            await run_ops(start.definition.get("terminate"), place)

    async def _told(self, message: Any, event: str, prefix: str, start: Start) -> Any:
        place = Place(start.world, start.actor)
        try:
            returned = await self._run(message, event, prefix, place, start)
        except Thrown as thrown:
            return thrown.value
        return NoReply(start) if returned is None else _go_on(returned, place, start)

    async def _run(self, message: Any, event: str, prefix: str, place: Place, start: Start) -> Returned:
        if isinstance(message, Do):
            return await run_ops(message.ops, place)
        name, terms = event_of(message, event) if event == "handle_info" else (event, (message,))
        place.log(name, *terms)
        return await run_ops(start.handler(prefix + key_of(message)), place)


def _begin(start: Start) -> Place:
    place = Place(start.world, start.actor)
    start.world.came_to_life(start.actor, self_pid())
    place.lived("init")
    return place


def _go_on(returned: Fields, place: Place, start: Start) -> Any:
    match returned["how"]:
        case "noreply":
            return NoReply(start, **_extras(returned, place))
        case "stop":
            return Stop(place.term(returned.get("reason")), start)
        case _:
            return place.term(returned.get("value"))


def _extras(returned: Fields, place: Place) -> dict[str, Any]:
    """What a result carries besides: one of timeout, continue and hibernate."""
    if "timeout" in returned:
        return {"timeout_s": returned["timeout"] / 1000}
    if "continue" in returned:
        return {"continue_": place.term(returned["continue"])}
    return {"hibernate": True} if returned.get("hibernate") else {}
