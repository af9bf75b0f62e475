"""Edge. Looking at processes, one or many, and at what they hold in common. Reads fields; sends no message.

Every value is shown through `bounded`, which runs no code of the value's own. A look that would take long stops and
says that it is partial.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from lemon_otp import introspect
from lemon_otp.bounded import bounded
from lemon_otp.callbacks import UNSET
from lemon_otp.children import Child
from lemon_otp.machine import Process
from lemon_otp.pid import ALIVE, MonitorRef
from lemon_otp.process import current_runtime
from lemon_otp.registry import RunningRegistry
from lemon_otp.repl import frames
from lemon_otp.repl.finding import find, supervised, tree_id
from lemon_otp.repl.operations import Answer, Later, Refusal
from lemon_otp.repl.paths import held_at
from lemon_otp.server_process import ServerProcess
from lemon_otp.sizes import size_estimate

MEASURE_S: Final = 0.25
"""How long it may take to measure what many processes hold."""
MEASURED_OBJECTS_MAX: Final = 400
"""Objects of each of them that are measured."""
ROWS_MAX: Final = 500
NAMES_MAX: Final = 5_000
TEXT_MAX: Final = 200


def number(request: Mapping[str, Any], name: str, default: int, most: int) -> int:
    """A whole number of the request, between 1 and `most`."""
    value = request.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Refusal(f"{name} must be a positive whole number", "bad_request")
    return min(value, most)


def told_pid(pid: Any) -> Any:
    """A process as a small value; anything else in a few words."""
    if isinstance(pid, Process):
        return {"pid": pid.id, "id": tree_id(pid)}
    return bounded(pid, TEXT_MAX)


# One process.


def look_at_info(request: Mapping[str, Any]) -> Answer:
    """Everything that is known of one process, in a few words each."""
    process = find(request.get("target"))
    found = supervised(process)
    held = process.state if isinstance(process, ServerProcess) else UNSET
    box = list(process.mailbox or ())
    alive = process.exit_reason is ALIVE
    side = process.runtime
    return {
        "pid": process.id,
        "process": tree_id(process),
        "name": process.name,
        "label": process.label,
        "module": introspect.module_of(process),
        "initial_call": process.initial_call(),
        "state": introspect.state_of(process),
        "exit_reason": None if alive else bounded(process.exit_reason, TEXT_MAX),
        "zombie": process in side.zombies or process in side.orphans,
        "supervisor": None if found is None else told_pid(found[0]),
        "child": None if found is None else _told_child(found[1]),
        "parent": None if process.parent is None else told_pid(process.parent),
        "current_message": _current_message(process),
        "elapsed_s": introspect.age_s(process),
        "mailbox_length": len(box),
        "messages_handled": process.handled,
        "links": [told_pid(pid) for pid in process.links],
        "monitors": [told_pid(ref.shown) for ref in process.monitoring],
        "monitored_by": [told_pid(ref.owner) for ref in process.monitors if isinstance(ref, MonitorRef)],
        "trap_exit": process.trap,
        "facts": introspect.facts_of(process),
        "held_state": None if held is UNSET else bounded(held, TEXT_MAX),
        "memory_bytes": size_estimate(process, process.facts, None if held is UNSET else held, *box[:100]),
        "doomed": alive and process.doom is not ALIVE,
    }


def _told_child(child: Child) -> dict[str, Any]:
    spec = child.spec
    return {"restart": spec.restart, "shutdown": spec.shutdown, "kind": spec.kind, "restarts": child.restarts}


def _current_message(process: Process) -> str | None:
    if not isinstance(process, ServerProcess) or process.exit_reason is not ALIVE or process.coro is None:
        return None
    last = process.last_message
    return None if last is UNSET else bounded(introspect.payload(last), TEXT_MAX)


def look_at_state(request: Mapping[str, Any]) -> Answer:
    """What a server holds, or what stands at a path in it: `state.sessions['a'].model`."""
    process = find(request.get("target"))
    limit = number(request, "limit", 4_000, 100_000)
    depth = number(request, "depth", 4, 12)
    if not isinstance(process, ServerProcess):
        raise Refusal(f"{tree_id(process)} is no server and holds no state; `stack` shows where it stands", "no_state")
    if process.state is UNSET:
        raise Refusal(f"{tree_id(process)} has no state (yet, or any more)", "no_state")
    value = held_at(process.state, str(request.get("path") or ""))
    text = bounded(value, limit, depth=depth, items=max(12, limit // 100))
    return {"pid": process.id, "process": tree_id(process), "value": text, "cut": text.endswith("…")}


def look_at_stack(request: Mapping[str, Any]) -> Later:
    """Where a process stands, as Python frames, outermost first; and where the threads stand that it waits for."""
    process = find(request.get("target"))
    stands = [(process, *_framed(process))]
    stands += [(helper, *_framed(helper)) for helper in _helpers(process)]

    def finish() -> Answer:
        told = [
            {"pid": of.id, "process": name, "where": where, "frames": frames.with_source(lines)}
            for of, name, where, lines in [(of, tree_id(of), where, lines) for of, where, lines in stands]
        ]
        return {**told[0], "helpers": told[1:]}

    return Later(finish)


def _framed(process: Process) -> tuple[str, list[dict[str, Any]]]:
    where, found = frames.frames_of(process)
    return where, [frames.told(frame) for frame in found]


def _helpers(process: Process) -> list[Process]:
    """Processes on threads that this one started and is linked to: the code it waits for is theirs."""
    linked = [other for other in process.links if isinstance(other, Process) and other.parent is process]
    return [other for other in linked if frames.has_thread(other)]


def look_at_messages(request: Mapping[str, Any]) -> Answer:
    """The oldest messages that wait in a mailbox, each in a few words."""
    process = find(request.get("target"))
    limit = number(request, "limit", 20, ROWS_MAX)
    box = list(process.mailbox or ())
    told = [bounded(introspect.payload(message), 500) for message in box[:limit]]
    return {"pid": process.id, "process": tree_id(process), "messages": told, "waiting": len(box)}


# Many processes.


def look_at_top(request: Mapping[str, Any]) -> Later:
    """The busiest processes: by `messages` handled, `mailbox`, `time` at the current message, or `memory`.

    What they hold is measured off the event loop, and for so long only.
    """
    order = request.get("sort", "mailbox")
    if order not in WEIGHTS:
        raise Refusal(f"sort={order!r}; expected one of {', '.join(WEIGHTS)}", "bad_request")
    limit = number(request, "limit", 20, ROWS_MAX)
    runtime = current_runtime()
    live = runtime.live()
    weigh = WEIGHTS[order]
    rows = live if weigh is None else heapq.nsmallest(limit, live, key=lambda each: (-weigh(each), each.id))
    totals = {"mailbox": sum(len(process.mailbox or ()) for process in live)}

    def finish() -> Answer:
        sizes = _measured(rows)
        shown = rows
        if weigh is None:
            shown = heapq.nsmallest(limit, sizes, key=lambda each: (-sizes[each], each.id))
        told = [{**_told_row(process), "memory_bytes": sizes.get(process)} for process in shown]
        partial = {"partial": f"measured {len(sizes)} of {len(rows)} processes"} if len(sizes) < len(rows) else {}
        answer = {"rows": told, "sort": order, "processes": len(live), "totals": totals, "turns": runtime.turns}
        return {**answer, **partial}

    return Later(finish)


def _measured(processes: Iterable[Process]) -> dict[Process, int]:
    """What these hold, as far as time allows."""
    until_s = time.perf_counter() + MEASURE_S
    found: dict[Process, int] = {}
    for process in processes:
        held = process.state if isinstance(process, ServerProcess) and process.state is not UNSET else None
        box = list(process.mailbox or ())[:100]
        found[process] = size_estimate(process, held, *box, objects_max=MEASURED_OBJECTS_MAX)
        if time.perf_counter() > until_s:
            break
    return found


def _messages_weight(process: Process) -> float:
    return process.handled


def _mailbox_weight(process: Process) -> float:
    return len(process.mailbox or ())


def _time_weight(process: Process) -> float:
    return introspect.age_s(process) or 0.0


WEIGHTS: Final[Mapping[str, Callable[[Process], float] | None]] = {
    "messages": _messages_weight,
    "mailbox": _mailbox_weight,
    "time": _time_weight,
    "memory": None,
}
"""By what the busiest are found; what they hold has to be measured first."""


def _told_row(process: Process) -> dict[str, Any]:
    return {
        "pid": process.id,
        "id": tree_id(process),
        "state": introspect.state_of(process),
        "messages_handled": process.handled,
        "mailbox_length": len(process.mailbox or ()),
        "elapsed_s": introspect.age_s(process),
        "facts": introspect.facts_of(process),
    }


def look_at_zombies(_: Mapping[str, Any]) -> Answer:
    """The dead of which something goes on: a coroutine that does not end, or a thread."""
    runtime = current_runtime()
    told = []
    for process in dict.fromkeys((*runtime.zombies, *runtime.orphans)):
        where, found = frames.frames_of(process)
        at = frames.with_source([frames.told(found[-1])])[0] if found else None
        what = "thread" if process in runtime.orphans else "coroutine"
        reason = bounded(process.exit_reason, TEXT_MAX)
        told.append(
            {"pid": process.id, "id": tree_id(process), "what": what, "where": where, "at": at, "reason": reason}
        )
    return {"zombies": told}


def look_at_names(_: Mapping[str, Any]) -> Answer:
    """What can be said for a process: for completion."""
    runtime = current_runtime()
    told = [[process.id, tree_id(process)] for process in runtime.live()[:NAMES_MAX]]
    registries = [info.name for info in introspect.registries()]
    return {"names": told, "registered": sorted(runtime.names)[:NAMES_MAX], "registries": registries[:NAMES_MAX]}


# What processes hold in common.


def look_at_registry(request: Mapping[str, Any]) -> Answer:
    """The registered names, and every registry; with `name` the entries of one."""
    runtime = current_runtime()
    wanted = request.get("name")
    if wanted:
        service = runtime.name_services.get(str(wanted))
        if not isinstance(service, RunningRegistry):
            raise Refusal(f"no registry {wanted} runs", "not_found")
        return {"registry": str(wanted), "entries": _entries(service, number(request, "limit", 100, ROWS_MAX))}
    names = [{"name": name, "pid": process.id} for name, process in sorted(runtime.names.items())]
    told = [
        {"name": info.name, "keys": info.keys, "entries": info.entries, "processes": info.processes}
        for info in introspect.registries()
    ]
    return {"names": names, "registries": told}


def _entries(service: RunningRegistry, limit: int) -> list[dict[str, Any]]:
    found = []
    for key, pid, value in service.entries.all()[:limit]:
        found.append({"key": bounded(key, 80), "pid": told_pid(pid), "value": bounded(value, TEXT_MAX)})
    return found


def look_at_tables(request: Mapping[str, Any]) -> Answer:
    """Every table: type, access, owner, heir, size."""
    told = [
        {
            "name": info.name,
            "type": info.type,
            "access": info.access,
            "owner": told_pid(info.owner),
            "heir": None if info.heir is None else told_pid(info.heir),
            "size": info.size,
        }
        for info in introspect.tables()
    ]
    return {"tables": told[: number(request, "limit", 100, ROWS_MAX)]}


def look_at_streams(request: Mapping[str, Any]) -> Answer:
    """Every event stream that is open or has events to read: depth, high-water mark, drops."""
    told = [
        {
            "pid": info.pid.id,
            "owner": told_pid(info.pid.parent) if isinstance(info.pid, Process) and info.pid.parent else None,
            "open": info.open,
            "outcome": info.outcome,
            "depth": info.stats.queue_size,
            "max": info.stats.max_queue,
            "high_water": info.stats.high_water,
            "dropped": info.stats.dropped,
        }
        for info in introspect.streams()
    ]
    return {"streams": told[: number(request, "limit", 200, ROWS_MAX)], "count": len(told)}


def look_at_applications(_: Mapping[str, Any]) -> Answer:
    """The applications: which run, on which top supervisor, in the order of starting."""
    told = [
        {
            "name": application.name,
            "running": application.running,
            "top": None if application.top is None else told_pid(application.top),
            "needs": list(application.needs),
        }
        for application in introspect.applications()
    ]
    return {"applications": told}
