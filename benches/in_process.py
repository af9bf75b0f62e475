"""Work measured where code under supervision runs: in a process, which drives its own coroutine."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from lemon_otp import Down, monitor, receive, spawn

T = TypeVar("T")


async def in_process(work: Callable[[], Awaitable[T]]) -> T:
    """What `work` gives in a new process of the running runtime.

    Raises:
        RuntimeError: The process ended without giving anything; what ended it is in the log.
    """
    made: list[T] = []

    async def measuring() -> None:
        made.append(await work())

    ref = monitor(spawn(measuring))
    down: Any = await receive(lambda message: isinstance(message, Down) and message.ref is ref)
    if not made:
        raise RuntimeError(f"nothing was measured: {down.reason}")
    return made[0]
