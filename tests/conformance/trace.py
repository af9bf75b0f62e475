"""Pure. The trace of a scenario: what was logged in a step, as section 6 of the conformance README wants it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.conformance.normalise import Normaliser, Streamed
from tests.conformance.world import DRIVER, DYNAMIC, Event, Life, Running, World

VIEWS: Final = ("life", "obs", "exits")
COPIED: Final = ("life_order", "unordered")
"""Fields of a step that its entry repeats."""


def entry_of(index: int | str, step: Mapping[str, Any], world: World) -> dict[str, Any]:
    """The entry of a step: everything since the one before."""
    show = Normaliser(world.labels)
    log = world.take_log()
    views = {
        "life": [_life(record, show) for record in log if isinstance(record, Life)],
        "obs": _observed(log, show),
        "exits": {label: show(reason) for label, reason in world.deaths().items()},
    }
    entry: dict[str, Any] = {"i": index, "op": step["op"]}
    entry.update((key, step[key]) for key in COPIED if key in step)
    entry.update((view, shown) for view, shown in views.items() if shown)
    return entry


def trace_of(scenario: Mapping[str, Any], steps: list[dict[str, Any]], rest: dict[str, Any], world: World) -> Any:
    """The whole trace."""
    definitions = scenario.get("defs", {})
    trace = {
        "name": scenario["name"],
        "dynamic": sorted(name for name, definition in definitions.items() if definition["kind"] in DYNAMIC),
        "trace": steps,
    }
    if any(view in rest for view in VIEWS):
        trace["rest"] = rest
    trace["alive"] = sorted(label for label, pid in world.pids.items() if pid.alive and label != DRIVER)
    return trace


def _life(record: Life, show: Normaliser) -> list[Any]:
    return [record.kind, record.who, record.parent, *map(show, record.reason)]


def _observed(log: Sequence[Event | Life | Running], show: Normaliser) -> dict[str, list[Any]]:
    at_once = _most_at_once(log)
    streams: dict[str, list[Any]] = {}
    for record in log:
        if isinstance(record, Event):
            terms = [term.shown(at_once) if isinstance(term, Streamed) else term for term in record.terms]
            streams.setdefault(record.who, []).append([record.name, *map(show, terms)])
    return streams


def _most_at_once(log: Sequence[Event | Life | Running]) -> int:
    running = most = 0
    for record in log:
        if isinstance(record, Running):
            running += record.change
            most = max(most, running)
    return most
