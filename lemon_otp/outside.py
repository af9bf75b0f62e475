"""Edge. Processes whose work is done elsewhere: on a thread, or in a child process of the operating system."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from lemon_otp.scheduler import CURRENT


async def run_in_thread(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The body of a process that runs a plain function on a thread of its own.

    A thread cannot be killed: when the process ends first, its thread goes on as an orphan.
    """
    process = CURRENT.get()
    runtime = process.runtime
    done: asyncio.Future[Any] = runtime.loop.create_future()
    context = copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    def work() -> None:
        try:
            result = context.run(fn, *args)
        except BaseException as error:
            runtime.post(settle, None, error)
        else:
            runtime.post(settle, result, None)

    threading.Thread(target=work, daemon=True, name=repr(process)).start()
    return await done


async def run_in_os_process(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The body of a process that runs a picklable function in a child process."""
    return await run_in_thread(fn, args)
