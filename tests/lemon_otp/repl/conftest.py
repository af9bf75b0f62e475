"""A tree to look into, and a way to ask."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest_asyncio

from lemon_otp import (
    DynamicSupervisor,
    GenServer,
    NoReply,
    Pid,
    Registry,
    Reply,
    Supervisor,
    annotate,
    repl,
    sleep_s,
    whereis,
)

Ask = Callable[..., Coroutine[Any, Any, dict[str, Any]]]


class Hostile:
    """Whatever is asked of it raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __sizeof__ = __getattr__ = __repr__  # type: ignore[assignment]


class Keeper(GenServer[Any, Any, Any, Any]):
    """Holds what it was given, and does as it is told."""

    async def init(self, arg: Any) -> Any:
        return arg

    async def handle_call(self, message: Any, caller: Any, state: Any) -> Reply[Any]:
        return Reply(message, state)

    async def handle_info(self, message: Any, state: Any) -> NoReply[Any]:
        if message == "wait":
            annotate(phase="waiting", hostile=Hostile())
            await deep_inside()
        elif message == "boom":
            raise RuntimeError("boom")
        return NoReply(state)


async def deep_inside() -> None:
    """Where a keeper stands that was told to wait."""
    await sleep_s(3600)


async def start_tree() -> Pid:
    """top: keeper (also by name), evil, dynamic with session[a1], session[a2], session[b], a registry."""
    held = {"items": [1, {"deep": "value"}], "hostile": Hostile(), "big": "x" * 50_000_000}
    top = await Supervisor.start_link(
        [
            Keeper.child_spec(held, id="keeper", name="the_keeper"),
            Keeper.child_spec(None, id="evil\x1b[2J\n", name="evil\x1b]0;x\x07"),
            DynamicSupervisor.child_spec(id="dynamic", name="dynamic"),
            Registry.child_spec("names"),
            Keeper.child_spec(None, id="passing", name="passing", restart="temporary"),
        ],
        name="top",
    )
    for key in ("a1", "a2", "b"):
        await DynamicSupervisor.start_child("dynamic", Keeper.child_spec(key, id=f"session[{key}]"))
    return top


@pytest_asyncio.fixture
async def top(runtime: Any) -> Pid:
    """The tree of `start_tree`."""
    return await start_tree()


async def ask(op: str, /, **parameters: Any) -> dict[str, Any]:
    """A good answer."""
    answer = await repl.ask({"op": op, **parameters})
    assert answer["ok"], answer
    return answer


async def refused(op: str, /, **parameters: Any) -> tuple[str, str]:
    """Code and text of a bad answer."""
    answer = await repl.ask({"op": op, **parameters})
    assert not answer["ok"], answer
    return answer["code"], answer["error"]


def keeper() -> Pid:
    """The keeper as it is now."""
    found = whereis("the_keeper")
    assert found is not None
    return found


async def passes(count: int = 5) -> None:
    """Let the loop go on for a few passes."""
    for _ in range(count):
        await asyncio.sleep(0)
