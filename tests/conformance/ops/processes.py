"""Ops on plain processes: start, send, link, monitor, signal, name."""

from __future__ import annotations

from typing import Any, Final

from lemon_otp import (
    Down,
    MonitorRef,
    NoProcess,
    ReceiveTimeout,
    Via,
    cancel_timer,
    demonitor,
    exit_signal,
    info,
    link,
    monitor,
    monotonic_s,
    receive,
    register,
    send,
    send_after,
    trap_exit,
    unlink,
    unregister,
    whereis,
)
from tests.conformance.failures import OpError, bad_argument, no_clause
from tests.conformance.interpreter import NOTHING, Fields, Place, op
from tests.conformance.normalise import Sorted
from tests.conformance.starts import spawn_process, start_definition
from tests.conformance.terms import NIL, Do

RESERVED_NAMES: Final = ("nil", "true", "false", "undefined")


@op("start")
async def start(place: Place, fields: Fields) -> Any:
    return await start_definition(
        place,
        fields["def"],
        place.term(fields.get("args", [])),
        linked=fields.get("link", True),
        timeout_ms=fields.get("timeout"),
    )


@op("spawn")
async def spawn(place: Place, fields: Fields) -> Any:
    args = place.term(fields.get("args", []))
    return spawn_process(place, fields["def"], args, link=bool(fields.get("link")), monitor=bool(fields.get("monitor")))


@op("send")
async def send_message(place: Place, fields: Fields) -> Any:
    send(place.address(fields["to"]), place.term(fields.get("msg")))
    return NOTHING


@op("tell")
async def tell(place: Place, fields: Fields) -> Any:
    send(place.address(fields["to"]), Do(fields["do"]))
    return NOTHING


@op("send_after")
async def send_later(place: Place, fields: Fields) -> Any:
    address = place.address(fields["to"])
    if isinstance(address, Via):
        raise bad_argument()
    timer = send_after(address, place.term(fields.get("msg")), fields["ms"] / 1000)
    if "as" in fields:
        place.world.timers[fields["as"]] = timer
    return NOTHING


@op("cancel_timer")
async def cancel(place: Place, fields: Fields) -> Any:
    timer = place.world.timers.get(fields["timer"])
    if timer is None:
        raise bad_argument()
    return cancel_timer(timer)


@op("link")
async def link_to(place: Place, fields: Fields) -> Any:
    pid = place.process(fields["to"])
    try:
        link(pid)
    except NoProcess:
        raise OpError("noproc") from None
    return True


@op("unlink")
async def unlink_from(place: Place, fields: Fields) -> Any:
    unlink(place.process(fields["to"]))
    return True


@op("monitor")
async def watch(place: Place, fields: Fields) -> Any:
    address = place.address(fields["to"])
    ref = monitor((whereis(address) or NIL) if isinstance(address, Via) else address)
    if "as" in fields:
        place.world.monitors[fields["as"]] = ref
    return NOTHING


@op("demonitor")
async def stop_watching(place: Place, fields: Fields) -> Any:
    ref = place.world.monitors.get(fields["monitor"])
    if ref is None:
        raise bad_argument()
    was_active = demonitor(ref, flush=bool(fields.get("flush")))
    return was_active if fields.get("info") else True


@op("exit_signal")
async def signal(place: Place, fields: Fields) -> Any:
    exit_signal(place.process(fields["to"]), place.term(fields.get("reason")))
    return NOTHING


@op("trap_exit")
async def trap(place: Place, fields: Fields) -> Any:
    return trap_exit(fields["flag"])


@op("alive")
async def is_alive(place: Place, fields: Fields) -> Any:
    return place.process(fields["pid"]).alive


@op("register")
async def register_name(place: Place, fields: Fields) -> Any:
    pid = place.process(fields["pid"])
    if fields["name"] in RESERVED_NAMES:
        raise no_clause()
    register(fields["name"], pid)
    return True


@op("unregister")
async def unregister_name(place: Place, fields: Fields) -> Any:
    unregister(fields["name"])
    return True


@op("whereis")
async def find(place: Place, fields: Fields) -> Any:
    return place.pid(fields["to"])


@op("links")
async def links(place: Place, fields: Fields) -> Any:
    pid = place.process(fields["pid"])
    if not pid.alive:
        raise OpError("MatchError", ("badmatch", NIL))
    return Sorted([other for other in info(pid).links if other in place.world.labels])


@op("registered_name")
async def registered_name(place: Place, fields: Fields) -> Any:
    pid = place.process(fields["pid"])
    return (info(pid).name if pid.alive else None) or NIL


@op("wait_dead")
async def wait_until_dead(place: Place, fields: Fields) -> Any:
    refs = {monitor(pid) for pid in [place.process(reference) for reference in fields["pids"]]}
    deadline_s = monotonic_s() + fields.get("timeout", 5000) / 1000
    try:
        while refs:
            refs.discard((await _next_down(refs, deadline_s - monotonic_s())).ref)
    except ReceiveTimeout:
        return False
    finally:
        for ref in refs:
            demonitor(ref, flush=True)
    return True


async def _next_down(refs: set[MonitorRef], timeout_s: float) -> Down:
    def is_awaited(message: Any) -> bool:
        return isinstance(message, Down) and message.ref in refs

    found: Down = await receive(is_awaited, timeout_s=max(0.0, timeout_s))
    return found
