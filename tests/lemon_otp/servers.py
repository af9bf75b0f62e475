"""Small servers that several test modules use."""

from typing import Any

from attrs import frozen

from lemon_otp import Caller, GenServer, NoReply, Reply, Request


@frozen
class Read(Request[int]):
    """What is the count?"""


@frozen
class Add:
    """Count up by so much."""

    by: int


class Counter(GenServer[int, Read, Add, int]):
    """Counts."""

    async def init(self, arg: int) -> int:
        return arg

    async def handle_call(self, message: Read, caller: Caller, state: int) -> Reply[int]:
        return Reply(state, state)

    async def handle_cast(self, message: Add, state: int) -> NoReply[int]:
        return NoReply(state + message.by)


class Scripted(GenServer[Any, Any, Any, Any]):
    """Does what it is told: every message is `(function, *args)`, called with the state, and returns the result."""

    async def init(self, arg: Any) -> Any:
        return await arg() if callable(arg) else arg

    async def handle_call(self, message: Any, caller: Caller, state: Any) -> Any:
        return await message(caller, state)

    async def handle_cast(self, message: Any, state: Any) -> Any:
        return await message(state)
