"""Edge. Events that happened, for whoever measures: attach, execute, span.

Handlers belong to a runtime and are called at once, in the process that executes the event, in the order in
which they were attached. One that raises is detached and reported; the event goes on to the others.
Without a handler an event costs a lookup, and outside a runtime nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Any, Final, TypeAlias

from lemon_otp.clock import monotonic_s, wall_ms
from lemon_otp.errors import AlreadyRegistered, BadArgument, NoRuntime, ProcessExit
from lemon_otp.scheduler import CURRENT, HANDLERS, Scheduler
from lemon_otp.telling import cleaner_in, describe, error_trace
from lemon_otp.values import frozen

EventName: TypeAlias = tuple[str, ...]
Measurements: TypeAlias = Mapping[str, Any]
Metadata: TypeAlias = Mapping[str, Any]
Handler: TypeAlias = Callable[[EventName, Measurements, Metadata, Any], None]

HANDLER_FAILED: Final[EventName] = ("lemon_otp", "telemetry", "handler_failed")

_handlers_here: Final = HANDLERS.get
"""Looked up once: most events are heard by nobody, and this is all that they cost."""

_log: Final = logging.getLogger("lemon_otp")


@frozen
class Attachment:
    """One handler and the event it is called for."""

    id: str
    event: EventName
    handler: Handler
    config: Any


def attach(handler_id: str, event: EventName, handler: Handler, config: Any = None) -> None:
    """Call `handler(event, measurements, metadata, config)` for every `event` from now on.

    Raises:
        AlreadyRegistered: A handler of this id is attached.
        BadArgument: The event is no tuple of words, or the handler no plain function.
        NoRuntime: There is no runtime here.
    """
    attach_many(handler_id, (event,), handler, config)


def attach_many(handler_id: str, events: Iterable[EventName], handler: Handler, config: Any = None) -> None:
    """Attach one handler to several events under one id; see `attach`."""
    runtime, events = _runtime(), tuple(events)
    for event in events:
        if type(event) is not tuple or not event or not all(isinstance(word, str) for word in event):
            raise BadArgument(f"an event is a tuple of words, not {describe(event)}")
    if not callable(handler) or iscoroutinefunction(handler):
        raise BadArgument(f"a handler is a plain function, not {describe(handler)}")
    if any(entry.id == handler_id for entries in runtime.handlers.values() for entry in entries):
        raise AlreadyRegistered(handler_id)
    for event in events:
        runtime.handlers[event] = (*runtime.handlers.get(event, ()), Attachment(handler_id, event, handler, config))


def detach(handler_id: str) -> bool:
    """Whether a handler of this id was attached; it is called no more."""
    return _detach(_runtime(), handler_id)


def list_handlers(prefix: EventName = ()) -> list[Attachment]:
    """Every handler of the events that begin with `prefix`."""
    return [
        entry for event, entries in _runtime().handlers.items() if event[: len(prefix)] == prefix for entry in entries
    ]


def heard(event: EventName) -> bool:
    """Whether anybody hears `event`: to be asked before `execute` where it takes work to say what happened."""
    handlers = _handlers_here(None)
    return bool(handlers) and event in handlers  # type: ignore[operator]


def execute(event: EventName, measurements: Measurements, metadata: Metadata) -> None:
    """Tell every handler of `event`, at once."""
    handlers = _handlers_here(None)
    if handlers and event in handlers:
        execute_in(CURRENT.get().runtime, event, measurements, metadata)


def execute_in(runtime: Scheduler, event: EventName, measurements: Measurements, metadata: Metadata) -> None:
    """`execute` for callers that no process runs."""
    for entry in runtime.handlers.get(event, ()):
        try:
            entry.handler(event, measurements, metadata, entry.config)
        except (Exception, ProcessExit) as error:
            _detach(runtime, entry.id)
            _report(runtime, entry, error)


@contextmanager
def span(event: EventName, metadata: Metadata) -> Iterator[dict[str, Any]]:
    """Execute `event + ("start",)` before the block and `("stop",)` or `("exception",)` after it.

    What the block puts into the dictionary it is given is added to the metadata of the last event.
    """
    began_s = monotonic_s()
    execute((*event, "start"), {"monotonic_s": began_s, "wall_ms": wall_ms()}, metadata)
    more: dict[str, Any] = {}
    try:
        yield more
    except BaseException as error:
        failed = {**metadata, **more, "kind": type(error).__name__, "reason": error}
        execute((*event, "exception"), {"duration_s": monotonic_s() - began_s}, failed)
        raise
    execute((*event, "stop"), {"duration_s": monotonic_s() - began_s}, {**metadata, **more})


def _detach(runtime: Scheduler, handler_id: str) -> bool:
    found = False
    for event, entries in list(runtime.handlers.items()):
        kept = tuple(entry for entry in entries if entry.id != handler_id)
        if len(kept) < len(entries):
            found = True
            if kept:
                runtime.handlers[event] = kept
            else:
                del runtime.handlers[event]
    return found


def _report(runtime: Scheduler, entry: Attachment, error: BaseException) -> None:
    where = error_trace(error, cleaner_in(runtime.store))
    _log.error("telemetry handler %r raised and was detached from %r\n%s", entry.id, entry.event, where)
    if entry.event != HANDLER_FAILED:
        execute_in(runtime, HANDLER_FAILED, {"wall_ms": wall_ms()}, {"handler_id": entry.id, "reason": error})


def _runtime() -> Scheduler:
    process = CURRENT.get(None)
    if process is None:
        raise NoRuntime("telemetry handlers belong to a runtime; there is none here")
    return process.runtime
