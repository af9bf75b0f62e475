"""Edge. One handler is called for a bounded time, whatever it does: in a process of its own where a runtime is.

An async handler runs beside everything else; a plain one on a thread, so that one that never returns holds nobody up.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

from lemon_otp import alive, error_line, exit_signal, spawn_link, unlink

HANDLER_S: Final = 30.0
"""What a handler may take where a run waits for it."""
DISCOVER_S: Final = 5.0
"""What one may take to name skills and templates, while the start of a session waits."""
RENDER_S: Final = 2.0
"""What one may take to say how a message is shown, while the client waits for the message."""
FAREWELL_S: Final = 2.0
"""What handlers may take together to say goodbye to a session."""
EVENT_S: Final = 10.0
"""What a handler may take that only hears of something."""


class HandlerFailed(Exception):
    """A handler raised, or took too long; the text says which."""


async def call_handler(handler: Callable[..., Any], *args: Any, limit_s: float | None = HANDLER_S) -> Any:
    """What a handler answers. Cancelling ends it.

    Raises:
        HandlerFailed: It raised, ended its process, or did not answer in time; an async one was stopped then.
    """
    outcome: asyncio.Future[tuple[bool, Any]] = asyncio.get_running_loop().create_future()
    label = f"extension_handler[{getattr(handler, '__qualname__', type(handler).__name__)}]"
    if _is_async(handler):
        pid = spawn_link(_work, outcome, handler, args, label=label)
    else:
        loop = asyncio.get_running_loop()
        pid = spawn_link(_work_on_thread, loop, outcome, handler, args, on="thread", label=label)
    try:
        async with asyncio.timeout(limit_s):
            went_well, found = await outcome
    except TimeoutError:
        raise HandlerFailed(f"it did not answer within {limit_s:g} seconds") from None
    finally:
        unlink(pid)
        if alive(pid):
            exit_signal(pid, "kill")
        outcome.cancel()
    return _checked(went_well, found, "it answered a coroutine; make it an async function")


def call_now(handler: Callable[..., Any], *args: Any, limit_s: float) -> Any:
    """What a plain handler answers, where no event loop runs that could wait for it.

    It has a thread of its own, which is left behind when the time is over and ends with the program.

    Raises:
        HandlerFailed: It raised, did not answer in time, or answered a coroutine.
    """
    outcome: SimpleQueue[tuple[bool, Any]] = SimpleQueue()

    def work() -> None:
        outcome.put(_outcome_of(handler, args))

    threading.Thread(target=work, name="extension handler", daemon=True).start()
    try:
        went_well, found = outcome.get(timeout=limit_s)
    except Empty:
        raise HandlerFailed(f"it did not answer within {limit_s:g} seconds") from None
    return _checked(went_well, found, "nothing can be waited for here; make it a plain function")


def _checked(went_well: bool, found: Any, if_coroutine: str) -> Any:
    if inspect.iscoroutine(found):
        found.close()
        raise HandlerFailed(if_coroutine)
    if not went_well:
        raise HandlerFailed(found)
    return found


def _is_async(handler: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


async def _work(
    outcome: "asyncio.Future[tuple[bool, Any]]", handler: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    try:
        _settle(outcome, True, await handler(*args))
    except BaseException as error:
        _settle(outcome, False, error_line(error))


def _outcome_of(handler: Callable[..., Any], args: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        return True, handler(*args)
    except BaseException as error:
        return False, error_line(error)


def _work_on_thread(
    loop: asyncio.AbstractEventLoop,
    outcome: "asyncio.Future[tuple[bool, Any]]",
    handler: Callable[..., Any],
    args: tuple[Any, ...],
) -> None:
    went_well, found = _outcome_of(handler, args)
    with suppress(RuntimeError):  # the program has ended meanwhile
        loop.call_soon_threadsafe(_settle, outcome, went_well, found)


def _settle(outcome: "asyncio.Future[tuple[bool, Any]]", went_well: bool, found: Any) -> None:
    if not outcome.done():
        outcome.set_result((went_well, found))
