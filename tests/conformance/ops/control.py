"""Ops that control a body: leave it, fail it, wait, and keep state."""

from __future__ import annotations

from typing import Any

from lemon_otp import exit_process, sleep_s
from tests.conformance.failures import OpError, Raised, Thrown
from tests.conformance.interpreter import NOTHING, Fields, Place, op


@op("exit")
async def leave(place: Place, fields: Fields) -> Any:
    exit_process(place.term(fields.get("reason")))


@op("raise")
async def fail(place: Place, fields: Fields) -> Any:
    raise Raised(fields["message"])


@op("throw")
async def throw(place: Place, fields: Fields) -> Any:
    raise Thrown(place.term(fields.get("value")))


@op("log")
async def log(place: Place, fields: Fields) -> Any:
    return place.term(fields.get("value"))


@op("sleep")
async def sleep(place: Place, fields: Fields) -> Any:
    await sleep_s(fields["ms"] / 1000)
    return NOTHING


@op("put")
async def put(place: Place, fields: Fields) -> Any:
    place.actor.state[fields["key"]] = place.term(fields.get("value"))
    return NOTHING


@op("incr")
async def increment(place: Place, fields: Fields) -> Any:
    before = place.actor.state.get(fields["key"], 0)
    if not isinstance(before, int | float):
        raise OpError("ArithmeticError", "badarith")
    place.actor.state[fields["key"]] = before + fields.get("by", 1)
    return NOTHING
