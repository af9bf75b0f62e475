"""Ops on supervisors, static and dynamic."""

from __future__ import annotations

from typing import Any

from lemon_otp import (
    Address,
    AlreadyPresent,
    AlreadyStarted,
    BadChildSpec,
    ChildRunning,
    DynamicSupervisor,
    MaxChildren,
    NotFound,
    Pid,
    StartFailed,
    Supervisor,
    whereis,
)
from tests.conformance.failures import WithDescription, no_clause
from tests.conformance.interpreter import Fields, Place, op
from tests.conformance.normalise import Shown, Sorted
from tests.conformance.starts import child_spec
from tests.conformance.terms import NIL


@op("start_child")
async def start_child(place: Place, fields: Fields) -> Any:
    supervisor = place.address(fields["sup"])
    try:
        spec = child_spec(place, fields["child"])
        if fields.get("dynamic"):
            return _started(await DynamicSupervisor.start_child(supervisor, spec), "ignore")
        return _started(await Supervisor.start_child(supervisor, spec), ("ok", "undefined"))
    except (AlreadyStarted, AlreadyPresent, BadChildSpec, MaxChildren) as error:
        return ("error", error.reason)
    except StartFailed as error:
        return ("error", error.reason if fields.get("dynamic") else WithDescription(error.reason, "$child"))


def _started(answer: Any, declined: Any) -> Any:
    if answer is None:
        return declined
    return ("ok", *answer) if isinstance(answer, tuple) else ("ok", answer)


@op("terminate_child")
async def terminate_child(place: Place, fields: Fields) -> Any:
    supervisor = place.address(fields["sup"])
    try:
        if fields.get("dynamic"):
            await DynamicSupervisor.terminate_child(supervisor, _child(place, fields))
        else:
            await Supervisor.terminate_child(supervisor, place.term(fields["child"]))
    except NotFound:
        return ("error", "not_found")
    return "ok"


def _child(place: Place, fields: Fields) -> Any:
    pid = place.pid(fields["child"])
    if pid is NIL:
        raise no_clause()
    return pid


@op("restart_child")
async def restart_child(place: Place, fields: Fields) -> Any:
    supervisor = place.address(fields["sup"])
    try:
        started = await Supervisor.restart_child(supervisor, place.term(fields["child"]))
    except NotFound:
        return ("error", "not_found")
    except ChildRunning as error:
        return ("error", error.state)
    except StartFailed as error:
        return ("error", error.reason)
    return _started(started, ("ok", "undefined"))


@op("delete_child")
async def delete_child(place: Place, fields: Fields) -> Any:
    supervisor = place.address(fields["sup"])
    try:
        await Supervisor.delete_child(supervisor, place.term(fields["child"]))
    except NotFound:
        return ("error", "not_found")
    except ChildRunning as error:
        return ("error", error.state)
    return "ok"


def _holder(address: Address) -> Pid | None:
    return address if isinstance(address, Pid) else whereis(address)


def _kind_of(place: Place, address: Address) -> type[Supervisor] | type[DynamicSupervisor]:
    return DynamicSupervisor if place.world.is_dynamic(_holder(address)) else Supervisor


@op("which_children")
async def which_children(place: Place, fields: Fields) -> Any:
    supervisor = place.address(fields["sup"])
    children = await _kind_of(place, supervisor).which_children(supervisor)
    if place.world.is_dynamic(_holder(supervisor)):
        return Sorted([("undefined", child.pid, child.kind) for child in children])
    return Sorted([(child.id, child.pid or "undefined", child.kind) for child in children])


@op("count_children")
async def count_children(place: Place, fields: Fields) -> Any:
    supervisor = place.address(fields["sup"])
    counts = await _kind_of(place, supervisor).count_children(supervisor)
    return Shown(
        {
            "specs": counts.specs,
            "active": counts.active,
            "supervisors": counts.supervisors,
            "workers": counts.workers,
        }
    )
