"""Ops on applications: the trees of a scenario that have a name of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from lemon_otp import (
    AlreadyStarted,
    Application,
    ApplicationFailed,
    BadArgument,
    NotFound,
    NotStarted,
    Pid,
    ProcessExit,
    StartFailed,
    ensure_all_started,
    fetch_env,
    get_env,
    load,
    put_env,
    running_applications,
    start_application,
    stop_application,
)
from tests.conformance.failures import FAILURES, Thrown, WithDescription, reason_of
from tests.conformance.interpreter import Fields, Place, op, run_ops
from tests.conformance.normalise import Sorted
from tests.conformance.starts import start_definition
from tests.conformance.terms import ListTerm
from tests.conformance.world import Actor, Life, World

NO_FILE: Final = "no such file or directory"


def load_applications(place: Place) -> None:
    """Make every application of the scenario known to the runtime."""
    for name, definition in place.world.definitions.items():
        if definition["kind"] == "application":
            load(_application(place, name, definition))


def _application(place: Place, name: str, definition: Mapping[str, Any]) -> Application:
    has_callback = "root" in definition or "start" in definition
    env = {key: place.term(value) for key, value in definition.get("env", {}).items()}
    deps = list(definition.get("deps", ()))
    if not has_callback:
        return Application(name, deps=deps, env=env)
    return Application(
        name,
        start=_start_callback(place.world, name, definition),
        deps=deps,
        env=env,
        prep_stop=_recorder(place.world, "app_prep_stop", name),
        stop=_recorder(place.world, "app_stop", name),
    )


def _recorder(world: World, kind: str, name: str) -> Callable[[], None]:
    return lambda: world.log.append(Life(kind, name, "app"))


def _start_callback(world: World, name: str, definition: Mapping[str, Any]) -> Callable[[], Any]:
    async def start() -> Any:
        world.log.append(Life("app_start", name, "app"))
        try:
            result = await _result_of_callback(Place(world, Actor(name)), definition)
        except Thrown as thrown:
            result = thrown.value
        except (*FAILURES, ProcessExit) as error:
            result = ("EXIT", reason_of(error))
        match result:
            case ("ok", Pid() as pid, *_):
                return pid
            case ("error", reason):
                raise StartFailed(WithDescription(reason))
            case ("EXIT", "normal"):
                raise StartFailed(WithDescription(result))
        raise StartFailed(("bad_return", (_callback(name), result)))

    return start


async def _result_of_callback(place: Place, definition: Mapping[str, Any]) -> Any:
    returned = await run_ops(definition.get("start"), place)
    if returned is not None:
        return ("error", place.term(returned.get("reason")))
    return await start_definition(place, definition["root"], ListTerm(), linked=True)


def _callback(name: str) -> Any:
    """The call of the start callback, as the recorded system describes it."""
    return ("LC.App", "start", ListTerm(["normal", ListTerm([name.encode()])]))


@op("app_start")
async def start(place: Place, fields: Fields) -> Any:
    name = fields["app"]
    await _controller_is_free(place)
    try:
        await start_application(name)
    except AlreadyStarted:
        return ("error", ("already_started", name))
    except NotStarted as error:
        return ("error", error.reason)
    except ApplicationFailed as error:
        return ("error", error.reason)
    except BadArgument:
        return ("error", _unknown(name))
    return "ok"


def _unknown(name: str) -> Any:
    """What the recorded system says of an application that it finds no file of: two lists of characters."""
    return ListTerm(NO_FILE.encode()), ListTerm(f"{name}.app".encode())


def _first_unknown(world: World, name: str) -> str:
    """The first application that is not known, where `name` and what it depends on are started in order."""
    if name not in world.definitions:
        return name
    unknown = (_first_unknown(world, dependency) for dependency in world.definitions[name].get("deps", ()))
    return next((found for found in unknown if found not in world.definitions), name)


@op("app_ensure_all_started")
async def ensure(place: Place, fields: Fields) -> Any:
    try:
        return ("ok", await ensure_all_started(fields["app"]))
    except ApplicationFailed as error:
        return ("error", (error.application, error.reason))
    except BadArgument:
        name = _first_unknown(place.world, fields["app"])
        return ("error", (name, _unknown(name)))


@op("app_stop")
async def stop(place: Place, fields: Fields) -> Any:
    try:
        async with place.world.controller:
            await stop_application(fields["app"])
    except NotStarted as error:
        return ("error", error.reason)
    return "ok"


@op("app_running")
async def running(place: Place, fields: Fields) -> Any:
    await _controller_is_free(place)
    return Sorted(running_applications())


async def _controller_is_free(place: Place) -> None:
    async with place.world.controller:
        pass


@op("app_get_env")
async def get(place: Place, fields: Fields) -> Any:
    return get_env(fields["app"], fields["key"], place.term(fields.get("default")))


@op("app_put_env")
async def put(place: Place, fields: Fields) -> Any:
    put_env(fields["app"], fields["key"], place.term(fields.get("value")))
    return "ok"


@op("app_fetch_env")
async def fetch(place: Place, fields: Fields) -> Any:
    try:
        return ("ok", fetch_env(fields["app"], fields["key"]))
    except NotFound:
        return "error"
