"""Edge. Start functions: what `start`, supervisors and applications call to bring a definition to life."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

from lemon_otp import (
    AlreadyStarted,
    BadChildSpec,
    ChildSpec,
    Down,
    DynamicSupervisor,
    Exit,
    Ignore,
    Pid,
    ProcessExit,
    ReceiveTimeout,
    Registry,
    StartFailed,
    Supervisor,
    TaskSupervisor,
    Via,
    monitor,
    receive,
    register,
    self_pid,
    spawn,
    spawn_link,
)
from tests.conformance.bodies import PlainServer, ScenarioServer, Start, run_process
from tests.conformance.failures import Thrown
from tests.conformance.interpreter import Fields, Place, run_ops
from tests.conformance.terms import NIL
from tests.conformance.world import Actor, InterpreterFault, Life, World

SUPERVISORS: Final = ("supervisor", "dynamic_supervisor", "task_supervisor", "registry")
SILENT: Final = ("task_supervisor", "registry")
"""Kinds that do not record their own `init`; it is recorded when their start has succeeded."""


async def start_definition(place: Place, name: str, args: Any, *, linked: bool, timeout_ms: int | None = None) -> Any:
    """Call the start function of a definition; its result as a term: `("ok", pid)`, `("error", reason)`..."""
    world = place.world
    definition = world.definition(name)
    number = world.next_number(name)
    actor = Actor(f"{name}#{number}", place.actor.label, args, number)
    start = Start(world, actor, definition)
    kind = definition["kind"]
    if kind == "gen_server":
        result = await _start_server(place, start, linked, timeout_ms)
    else:
        result = await _STARTERS[kind](place, start, linked)
    match result:
        case ("ok", Pid() as pid):
            await _name_started(place, start, pid)
            return (*result, place.term(definition["start_info"])) if "start_info" in definition else result
        case ("ok", *_):
            return result
    if linked:
        await _forget_failed_start(world, actor.label)
    return result


def spawn_process(place: Place, name: str, args: Any, *, link: bool, monitor: bool) -> Pid:
    """The op `spawn`: a plain process that nobody waits for."""
    definition = place.world.definition(name)
    number = place.world.next_number(name)
    actor = Actor(f"{name}#{number}", place.actor.label, args, number)
    start = Start(place.world, actor, definition)
    pid = spawn(run_process, start, link=link, monitor=monitor, trap_exit=bool(definition.get("trap_exit")))
    place.world.came_to_life(actor, pid)
    return pid


def child_spec(place: Place, template: Any) -> ChildSpec:
    """The child specification of a template, which is the name of a definition or an object."""
    fields: Fields = {"def": template} if isinstance(template, str) else template
    world, name = place.world, fields["def"]
    kind: Any = fields.get("type") or ("supervisor" if world.definition(name)["kind"] in SUPERVISORS else "worker")
    shutdown: Any = fields.get("shutdown", "infinity" if kind == "supervisor" else 5000)
    if isinstance(shutdown, str) and shutdown not in ("brutal_kill", "infinity"):
        shutdown = shutdown.encode()  # as the recorded system has it: a text, and no shutdown
    elif isinstance(shutdown, int) and shutdown > 0:
        shutdown /= 1000
    return ChildSpec(
        id=place.term(fields["id"]) if "id" in fields else name,
        start=_child_start(world, name, place.term(fields.get("args", []))),
        restart=fields.get("restart", "permanent"),
        shutdown=shutdown,
        kind=kind,
        significant=bool(fields.get("significant")),
    )


def _child_start(world: World, name: str, args: Any) -> Callable[..., Awaitable[Any]]:
    async def start(*extra: Any) -> Any:
        """Runs in the supervisor; says as the library wants it what the start function gave."""
        place = Place(world, world.actors[self_pid()])
        try:
            result = await start_definition(place, name, [*extra, *args], linked=True)
        except Thrown as thrown:
            if world.is_dynamic(self_pid()):
                raise
            result = thrown.value  # a static supervisor takes a throw for the value
        match result:
            case "ignore":
                return None
            case ("ok", Pid() as pid):
                return pid
            case ("ok", Pid() as pid, about):
                return pid, about
            case ("error", reason):
                raise StartFailed(reason)
            case _:
                return result

    return start


# One starter a kind.


def _name_of(place: Place, definition: Mapping[str, Any]) -> str | Via | None:
    name = definition.get("name")
    if name is None or isinstance(name, str):
        return name
    registry, key, *value = name["via"]
    return Via(registry, place.term(key), place.term(value[0]) if value else NIL)


async def _outcome(starting: Awaitable[Pid | None]) -> Any:
    try:
        pid = await starting
    except AlreadyStarted as error:
        return ("error", ("already_started", error.pid))
    except (StartFailed, BadChildSpec) as error:
        return ("error", error.reason)
    return "ignore" if pid is None else ("ok", pid)


async def _start_server(place: Place, start: Start, linked: bool, timeout_ms: int | None) -> Any:
    definition = start.definition
    server = PlainServer if definition.get("bare") else ScenarioServer
    begin = server.start_link if linked else server.start
    return await _outcome(
        begin(
            start,
            name=_name_of(place, definition),
            timeout_s=None if timeout_ms is None else timeout_ms / 1000,
            trap_exit=bool(definition.get("trap_exit")),
        )
    )


async def _start_process(place: Place, start: Start, linked: bool) -> Any:
    begin = spawn_link if linked else spawn
    pid = begin(run_process, start, trap_exit=bool(start.definition.get("trap_exit")))
    place.world.came_to_life(start.actor, pid)
    if "name" in start.definition:
        register(start.definition["name"], pid)
    return ("ok", pid)


async def _start_supervisor(place: Place, start: Start, linked: bool) -> Any:
    definition = start.definition
    inner = Place(start.world, start.actor)

    async def children() -> list[ChildSpec] | Ignore:
        start.world.came_to_life(start.actor, self_pid())
        inner.lived("init")
        try:
            returned = await run_ops(definition.get("init"), inner)
        except Thrown as thrown:
            raise ProcessExit(("bad_return_value", thrown.value)) from None
        if returned is None:
            return [child_spec(inner, child) for child in definition.get("children", ())]
        if returned["how"] == "ignore":
            return Ignore()
        raise ProcessExit(("bad_return", ("LC.Sup", "init", inner.term(returned.get("value")))))

    return await _outcome(
        Supervisor.start_link(
            children,
            strategy=definition.get("strategy", "one_for_one"),
            max_restarts=definition.get("max_restarts", 3),
            max_seconds=definition.get("max_seconds", 5),
            auto_shutdown=definition.get("auto_shutdown", "never"),
            name=_name_of(place, definition),
        )
    )


STARTING: ContextVar[Start] = ContextVar("starting")
"""The start that a new dynamic supervisor belongs to."""


class ScenarioDynamicSupervisor(DynamicSupervisor):
    """A dynamic supervisor that records its `init`."""

    async def init(self, options: Any) -> Any:
        start = STARTING.get()
        start.world.came_to_life(start.actor, self_pid())
        Place(start.world, start.actor).lived("init")
        return await super().init(options)


async def _start_dynamic_supervisor(place: Place, start: Start, linked: bool) -> Any:
    definition = start.definition
    token = STARTING.set(start)
    try:
        return await _outcome(
            ScenarioDynamicSupervisor.start_link(
                name=_name_of(place, definition),
                max_children=definition.get("max_children"),
                extra_arguments=tuple(place.term(definition.get("extra_arguments", []))),
                max_restarts=definition.get("max_restarts", 3),
                max_seconds=definition.get("max_seconds", 5),
            )
        )
    finally:
        STARTING.reset(token)


async def _start_task_supervisor(place: Place, start: Start, linked: bool) -> Any:
    definition = start.definition
    return await _outcome(
        TaskSupervisor.start_link(
            name=_name_of(place, definition),
            max_children=definition.get("max_children"),
            max_restarts=definition.get("max_restarts", 3),
            max_seconds=definition.get("max_seconds", 5),
        )
    )


async def _start_registry(place: Place, start: Start, linked: bool) -> Any:
    definition = start.definition
    name = definition.get("name") or start.actor.label.partition("#")[0]
    return await _outcome(
        Registry.start_link(name, keys=definition["keys"], partitions=definition.get("partitions", 1))
    )


async def _run_start_function(place: Place, start: Start, linked: bool) -> Any:
    returned = await run_ops(start.definition.get("do"), place)
    fields = returned or {}
    match fields:
        case {"how": "error"}:
            return ("error", place.term(fields.get("reason")))
        case {"how": "ignore"}:
            return "ignore"
        case {"how": "start", "def": name}:
            return await start_definition(place, name, start.actor.args, linked=True)
        case {"how": "bad"}:
            return place.term(fields.get("value"))
        case _:
            raise InterpreterFault("a start function returns error, ignore, bad or start")


_STARTERS: Final[dict[str, Callable[[Place, Start, bool], Awaitable[Any]]]] = {
    "proc": _start_process,
    "supervisor": _start_supervisor,
    "dynamic_supervisor": _start_dynamic_supervisor,
    "task_supervisor": _start_task_supervisor,
    "registry": _start_registry,
    "start_fn": _run_start_function,
}


# After the start.


async def _name_started(place: Place, start: Start, pid: Pid) -> None:
    kind, world = start.definition["kind"], place.world
    if kind == "start_fn":
        return
    world.came_to_life(start.actor, pid)
    if kind in SILENT:
        world.log.append(Life("init", start.actor.label, start.actor.parent))
    if kind == "registry":
        for child in await Supervisor.which_children(pid):
            if isinstance(child.pid, Pid):
                world.labels[child.pid] = start.actor.label


async def _forget_failed_start(world: World, label: str) -> None:
    """Wait for the end of a process whose linked start failed, and drop its exit message."""
    pid = world.pids.get(label)
    if pid is None:
        return
    ref = monitor(pid)
    await receive(lambda message: isinstance(message, Down) and message.ref is ref)
    with contextlib.suppress(ReceiveTimeout):
        await receive(lambda message: isinstance(message, Exit) and message.pid is pid, timeout_s=0)
