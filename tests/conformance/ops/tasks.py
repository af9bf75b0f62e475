"""Ops on tasks, with a handle or without."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from attrs import define

from lemon_otp import MaxChildren, StartFailed, Task, TaskDone, TaskExit, TaskSupervisor, self_pid, trap_exit
from tests.conformance.failures import OpError, no_clause
from tests.conformance.interpreter import NOTHING, Fields, Place, op, run_ops, seconds
from tests.conformance.normalise import Answer, Sorted
from tests.conformance.terms import NIL
from tests.conformance.world import Actor, World


async def task_value(place: Place, body: Any) -> Any:
    """Run the body of a task; the value it returns."""
    returned = await run_ops(body, place)
    if returned is not None and returned["how"] == "value":
        return place.term(returned.get("value"))
    return "ok"


@define(eq=False)
class Body:
    """What the process of a task runs; each run after the first is a new incarnation."""

    world: World
    name: str
    parent: str
    number: int
    fields: Fields
    runs: int = 0

    @property
    def actor(self) -> Actor:
        """Who the task is."""
        return Actor(f"{self.name}#{self.number}", self.parent, (), self.number)

    async def run(self) -> Any:
        """Come to life, and run the ops."""
        self.runs += 1
        if self.runs > 1:
            self.number = self.world.next_number(self.name)
        actor = self.actor
        self.world.came_to_life(actor, self_pid())
        if self.fields.get("trap_exit"):
            trap_exit(True)
        return await task_value(Place(self.world, actor), self.fields.get("do"))


def _body(place: Place, fields: Fields) -> Body:
    name = fields["task"]
    return Body(place.world, name, place.actor.label, place.world.next_number(name), fields)


def _options(fields: Fields) -> dict[str, Any]:
    if "shutdown" not in fields:
        return {}
    shutdown = fields["shutdown"]
    return {"shutdown": shutdown if isinstance(shutdown, str) else shutdown / 1000}


@op("task_async")
async def start_owned(place: Place, fields: Fields) -> Any:
    body = _body(place, fields)
    run: Callable[[], Coroutine[Any, Any, Any]] = body.run
    if "sup" in fields:
        start = TaskSupervisor.async_nolink if fields.get("nolink") else TaskSupervisor.async_
        task = await start(place.address(fields["sup"]), run, **_options(fields))
    else:
        task = Task.async_(run)
    assert task.pid is not None
    place.world.came_to_life(body.actor, task.pid)
    if "as" in fields:
        place.world.tasks[fields["as"]] = task
    return task.pid


@op("task_start")
async def start_unowned(place: Place, fields: Fields) -> Any:
    body = _body(place, fields)
    if "sup" in fields:
        options = _options(fields) | ({"restart": fields["restart"]} if "restart" in fields else {})
        try:
            pid = await TaskSupervisor.start_child(place.address(fields["sup"]), body.run, **options)
        except (MaxChildren, StartFailed) as error:
            return ("error", error.reason)
    else:
        pid = Task.start_link(body.run) if fields.get("link") else Task.start(body.run)
    place.world.came_to_life(body.actor, pid)
    return ("ok", pid)


def _task(place: Place, handle: str) -> Task[Any]:
    task: Task[Any] | None = place.world.tasks.get(handle)
    if task is None:
        raise no_clause()
    return task


def _deal_with(place: Place, task: Task[Any]) -> None:
    """The driver need not keep the messages of this task any more."""
    if task.owner is self_pid():
        place.world.dealt_with.add(task.ref)


def ended(result: TaskDone[Any] | TaskExit | None) -> Any:
    """`{ok, V}`, `{exit, R}` or nil."""
    if isinstance(result, TaskDone):
        return ("ok", result.value)
    return None if result is None else ("exit", result.reason)


@op("task_await")
async def await_one(place: Place, fields: Fields) -> Any:
    task = _task(place, fields["task"])
    _deal_with(place, task)
    return Answer("ok", await task.await_(seconds(fields.get("timeout", 5000))))


@op("task_await_many")
async def await_many(place: Place, fields: Fields) -> Any:
    handles: list[str] = fields["tasks"]
    tasks = [place.world.tasks[handle] for handle in handles if handle in place.world.tasks]
    for task in tasks:
        _deal_with(place, task)
    if len(tasks) < len(handles):
        raise OpError("MatchError", ("badmatch", NIL))
    return Answer("ok", await Task.await_many(tasks, seconds(fields.get("timeout", 5000))))


@op("task_yield")
async def yield_one(place: Place, fields: Fields) -> Any:
    task = _task(place, fields["task"])
    result = await task.yield_(seconds(fields.get("timeout", 5000)))
    if result is not None:
        _deal_with(place, task)
    return ended(result)


@op("task_yield_many")
async def yield_many(place: Place, fields: Fields) -> Any:
    tasks = [_task(place, handle) for handle in fields["tasks"]]
    results = await Task.yield_many(tasks, seconds(fields.get("timeout", 5000)))
    for task, result in results:
        if result is not None:
            _deal_with(place, task)
    return [ended(result) for _, result in results]


@op("task_shutdown")
async def shut_down(place: Place, fields: Fields) -> Any:
    task = _task(place, fields["task"])
    _deal_with(place, task)
    timeout = fields.get("timeout", 5000)
    return ended(await task.shutdown("brutal_kill" if timeout == "brutal_kill" else seconds(timeout)))


@op("task_ignore")
async def ignore(place: Place, fields: Fields) -> Any:
    task = _task(place, fields["task"])
    _deal_with(place, task)
    return ended(await task.ignore())


@op("task_completed")
async def completed(place: Place, fields: Fields) -> Any:
    place.world.tasks[fields["as"]] = Task.completed(place.term(fields.get("value")))
    return NOTHING


@op("task_children")
async def children(place: Place, fields: Fields) -> Any:
    return Sorted(await TaskSupervisor.children(place.address(fields["sup"])))
