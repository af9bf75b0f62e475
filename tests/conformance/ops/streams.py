"""The op `async_stream`: many tasks, a few at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from lemon_otp import CallFailed, CallTimeout, Task, TaskSupervisor, exit_signal, receive, self_pid, trap_exit
from tests.conformance.interpreter import Fields, Place, op, seconds
from tests.conformance.normalise import Streamed
from tests.conformance.ops.tasks import ended, task_value
from tests.conformance.world import Actor, Running


@op("async_stream")
async def stream(place: Place, fields: Fields) -> Any:
    items = fields["items"]
    first = place.world.reserve(fields["task"], len(items))
    numbered = [(first + index, body) for index, body in enumerate(items)]

    async def run(item: tuple[int, Any]) -> Any:
        number, body = item
        actor = Actor(f"{fields['task']}#{number}", place.actor.label, [number], number)
        place.world.came_to_life(actor, self_pid())
        place.world.log.append(Running(1))
        try:
            value = await task_value(Place(place.world, actor), body)
        except BaseException:
            if self_pid().alive:  # if it was killed nobody says that it stopped running, as on the BEAM
                place.world.log.append(Running(-1))
            raise
        place.world.log.append(Running(-1))
        return value

    try:
        results = await _take(_open(place, fields, numbered, run), fields.get("take"))
    except CallTimeout:
        raise
    except CallFailed as error:
        await _end_of_helper(error)
        raise CallFailed(error) from None
    return Streamed([ended(result) for result in results], bool(fields.get("show_concurrency")))


async def _end_of_helper(error: CallFailed) -> None:
    """The recorded system asks through a helper that is linked to the caller, and ends when the answer is no."""
    if not trap_exit(True):
        trap_exit(False)
        exit_signal(self_pid(), error)
        await receive(lambda _: False)


def _open(place: Place, fields: Fields, items: list[Any], run: Any) -> AsyncIterator[Any]:
    options: dict[str, Any] = {
        "max_concurrency": fields.get("max_concurrency"),
        "ordered": fields.get("ordered", True),
        "timeout_s": seconds(fields.get("timeout", 5000)),
        "on_timeout": fields.get("on_timeout", "exit"),
    }
    if "sup" not in fields:
        return Task.async_stream(items, run, **options)
    supervisor = place.address(fields["sup"])
    return TaskSupervisor.async_stream(supervisor, items, run, link=not fields.get("nolink"), **options)


async def _take(results: AsyncIterator[Any], at_most: int | None) -> list[Any]:
    """All results, or the first ones; what still runs then is stopped."""
    taken: list[Any] = []
    if at_most == 0:
        return taken
    async with aclosing(results):  # type: ignore[type-var]
        async for result in results:
            taken.append(result)
            if len(taken) == at_most:
                break
    return taken
