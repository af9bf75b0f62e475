"""Ops on servers: call, cast, reply, stop."""

from __future__ import annotations

from typing import Any

from lemon_otp import call, cast, reply, stop
from tests.conformance.failures import OpError, no_clause
from tests.conformance.interpreter import NOTHING, Fields, Place, op, seconds
from tests.conformance.normalise import Answer
from tests.conformance.terms import Do


def _message(place: Place, fields: Fields) -> Any:
    return Do(fields["do"]) if fields.get("do") is not None else place.term(fields.get("msg"))


@op("call")
async def ask(place: Place, fields: Fields) -> Any:
    message = _message(place, fields)
    address = place.address(fields["to"])
    return Answer("ok", await call(address, message, timeout_s=seconds(fields.get("timeout", 5000))))


@op("cast")
async def tell(place: Place, fields: Fields) -> Any:
    message = _message(place, fields)
    cast(place.address(fields["to"]), message)
    return "ok" if fields.get("show") else NOTHING


@op("save_from")
async def save_caller(place: Place, fields: Fields) -> Any:
    if place.caller is None:
        raise OpError("KeyError", "badkey")
    place.world.callers[fields["as"]] = place.caller
    return NOTHING


@op("reply_to")
async def reply_later(place: Place, fields: Fields) -> Any:
    caller = place.world.callers.get(fields["from"])
    if caller is None:
        raise no_clause()
    reply(caller, place.term(fields.get("value")))
    return NOTHING


@op("reply")
async def reply_now(place: Place, fields: Fields) -> Any:
    if place.caller is None:
        raise OpError("KeyError", "badkey")
    reply(place.caller, place.term(fields.get("value")))
    return NOTHING


@op("stop")
async def stop_server(place: Place, fields: Fields) -> Any:
    reason = place.term(fields["reason"]) if "reason" in fields else "normal"
    address = place.address(fields["to"])
    await stop(address, reason, timeout_s=seconds(fields.get("timeout", "infinity")))
    return Answer("ok", "ok")
