"""Edge. One request to one answer, on the event loop; or from another thread while the loop is held up.

Looking reads fields and returns. Whatever goes wrong becomes an answer that says so: asking never fails whoever serves.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from lemon_otp.errors import OtpError
from lemon_otp.repl.catalogue import find_operation, operations
from lemon_otp.repl.operations import Answer, Emit, Later, Operation, Refusal
from lemon_otp.repl.wire import BadRequest, failure
from lemon_otp.scheduler import Scheduler
from lemon_otp.telling import error_line, error_trace

TRIES: Final = 5
"""How often a look is begun again when what it reads is changed meanwhile, by a loop that is not quite held up."""

ERROR_TEXT_MAX: Final = 500

_RAISED: Final = (Exception, asyncio.CancelledError)
"""What a look may raise: also that something it reads was cancelled, which nobody has asked of the looker."""

_log: Final = logging.getLogger("lemon_otp")


async def ask(request: Mapping[str, Any], *, unsafe: bool = False) -> dict[str, Any]:
    """Answer a look or an act of the calling runtime, as the socket would; never raises for what the request is."""
    try:
        operation = wanted(request, unsafe=unsafe)
    except (BadRequest, Refusal) as refusal:
        return failed(refusal)
    if operation.kind == "look":
        return finished(look(operation, request))
    if operation.kind == "act":
        return finished(await act(operation, request))
    return failure(f"{operation.name} is a {operation.kind}; it needs a connection", "bad_request")


def wanted(request: Mapping[str, Any], *, unsafe: bool) -> Operation:
    """The operation that a request asks for.

    Raises:
        BadRequest: There is none.
        Refusal: It may not be used here.
    """
    name = request.get("op")
    operation = find_operation(name)
    if operation is None:
        raise BadRequest(f"unknown operation {name!r}; there are: {', '.join(sorted(operations()))}")
    if operation.unsafe and not unsafe:
        raise Refusal(f"{name} can do anything here; start the host with --unsafe-repl to allow it", "unsafe")
    return operation


def look(operation: Operation, request: Mapping[str, Any]) -> Answer | Later:
    """Run a look where the caller stands."""
    try:
        answer: Any = operation.run(request)
    except _RAISED as error:
        return failed(error)
    looked: Answer | Later = answer
    return looked


async def act(operation: Operation, request: Mapping[str, Any]) -> Answer | Later:
    """Run an act in the calling process, for no longer than it may take."""
    try:
        async with asyncio.timeout(operation.timeout_s):
            answer: Any = operation.run(request)
            done: Answer | Later = await answer if inspect.isawaitable(answer) else answer
            return done
    except TimeoutError:
        return too_slow(operation)
    except Exception as error:
        return failed(error)


async def feed(operation: Operation, request: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Run a feed in the calling process until it ends; its last word."""
    try:
        last: Any = await operation.run(request, emit)  # type: ignore[misc]
    except Exception as error:
        return {**failed(error), "end": True}
    return {"ok": True, **(last or {}), "end": True}


def finished(answer: Answer | Later) -> dict[str, Any]:
    """The whole answer; on any thread."""
    try:
        value = answer.finish() if isinstance(answer, Later) else answer
        return {"ok": True, **value}
    except _RAISED as error:
        return failed(error)


def too_slow(operation: Operation) -> dict[str, Any]:
    """What an act is answered with that has taken as long as it may."""
    return failure(f"{operation.name} did not end within {operation.timeout_s:g} s; it may still", "timeout")


def failed(error: BaseException) -> dict[str, Any]:
    """What an exception is answered with. One that nobody foresaw is logged."""
    if isinstance(error, Refusal):
        return failure(str(error), error.code)
    if isinstance(error, BadRequest):
        return failure(str(error), "bad_request")
    if not isinstance(error, OtpError):
        _log.warning("a request to look inside failed\n%s", error_trace(error))
    return failure(error_line(error, ERROR_TEXT_MAX))


# While the loop is held up.


def answer_held(run: Callable[..., Any], operation: Operation, request: Mapping[str, Any], runtime: Scheduler) -> Any:
    """What can be said of a request while the loop does not answer.

    Args:
        run: Calls a function with the runtime current, on this thread.
        operation: What was asked for.
        request: The request.
        runtime: Whose loop is held up.
    """
    from lemon_otp.repl import frames  # not needed by a loop that answers

    held: dict[str, Any] = {
        "partial": "the event loop is held up; this is what another thread can see",
        "held": frames.held(runtime),
    }
    why = f"the event loop is held up by {held['held']['holder']}"
    if operation.kind == "act":
        return {"ok": True, "queued": True, "text": f"{why}; {operation.name} is done when it goes on", **held}
    if operation.kind == "feed":
        return {**failure(f"{why}; nothing can be followed until it goes on", "held"), **held, "end": True}
    error: BaseException | None = None
    for _ in range(TRIES):
        try:
            answer = run(operation.run, request)
            return {**finished(answer), **held}
        except Refusal as refusal:
            return {**failed(refusal), **held}
        except _RAISED as caught:  # read while it was changed
            error = caught
    assert error is not None
    return {**failed(error), **held}
