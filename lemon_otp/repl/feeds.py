"""Edge. Following what goes on: messages of one server, events that concern one process, log records.

A feed attaches itself where things are said anyway, passes each on in a few words, and is detached when it ends,
however it does. Whoever is followed does not wait for whoever follows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import count
from typing import Any, Final

from lemon_otp import introspect, telemetry
from lemon_otp.bounded import bounded
from lemon_otp.clock import wall_ms
from lemon_otp.exits import Down
from lemon_otp.machine import Process
from lemon_otp.pid import Pid
from lemon_otp.process import monitor, receive
from lemon_otp.recorder import LIFECYCLE, LogTap, log_entry
from lemon_otp.repl.finding import find, tree_id
from lemon_otp.repl.operations import Answer, Emit, Refusal
from lemon_otp.scheduler import CURRENT
from lemon_otp.server_process import ServerProcess
from lemon_otp.system import Watcher

TEXT_MAX: Final = 500
LOGGERS: Final = ("lemon_otp", "lemon_ai", "lemon_agent", "coding_agent")
_numbers: Final = count(1)


async def trace(request: Mapping[str, Any], emit: Emit) -> Answer:
    """Every message that a server takes and every answer it gives; with `events` also what telemetry says of it."""
    process = find(request.get("target"), alive=True)
    name = tree_id(process)
    events = bool(request.get("events"))
    if not isinstance(process, ServerProcess) and not events:
        raise Refusal(f"{tree_id(process)} is no server; `trace {process.id} --events` follows what is said of it")
    ref = monitor(process)
    watcher: Watcher | None = None
    handler_id = f"lemon_otp.repl.trace[{next(_numbers)}]"
    try:
        if events:
            telemetry.attach_many(handler_id, _events(), _Follower(process, emit))
        if isinstance(process, ServerProcess):
            watcher = _watch(process, emit)
        down: Down = await receive(lambda m: isinstance(m, Down) and m.ref is ref)
        return {"text": f"{name} ended: {bounded(down.reason, TEXT_MAX)}"}
    finally:
        if events:
            telemetry.detach(handler_id)
        _unwatch(process, watcher)


def _watch(process: ServerProcess, emit: Emit) -> Watcher:
    """Look over the server's shoulder from its next message on, without asking it."""

    def saw(direction: str, message: Any, _state: Any) -> None:
        emit({"wall_ms": wall_ms(), "what": direction, "text": bounded(introspect.payload(message), TEXT_MAX)})

    system = process.watch_system()
    if system.watcher is not None:
        raise Refusal(f"{tree_id(process)} is traced already", "busy")
    system.watcher = saw
    return saw


def _unwatch(process: Process, watcher: Watcher | None) -> None:
    system = process.sys if isinstance(process, ServerProcess) else None
    if system is not None and watcher is not None and system.watcher is watcher:
        system.watcher = None


class _Follower:
    """A telemetry handler that passes on what concerns one process."""

    def __init__(self, process: Process, emit: Emit) -> None:
        self.process = process
        self.emit = emit

    def __call__(self, event: tuple[str, ...], measured: Mapping[str, Any], told: Mapping[str, Any], _: Any) -> None:
        if CURRENT.get(None) is not self.process and not any(value is self.process for value in told.values()):
            return
        shown = {name: _shown(value) for name, value in (*measured.items(), *told.items())}
        self.emit({"wall_ms": wall_ms(), "what": ".".join(event), "text": _words(shown)})


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, Pid) else value if type(value) is str else bounded(value, 120)


def _words(shown: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in shown.items())[:TEXT_MAX]


def _events() -> list[telemetry.EventName]:
    """Every event that somebody has an ear for, and what happens to processes."""
    return list(dict.fromkeys((*LIFECYCLE, *(entry.event for entry in telemetry.list_handlers()))))


async def follow_log(request: Mapping[str, Any], emit: Emit) -> Answer:
    """Log records as they come; with `target` those of one process."""
    target = request.get("target")
    process = None if target in (None, "") else find(target)
    mark = "" if process is None else f"<pid {process.id} "

    def heard(record: logging.LogRecord) -> None:
        entry = log_entry(record)
        if process is None or entry["pid"] == process.id or mark in entry["text"]:
            emit(entry)

    tap = LogTap(heard)
    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addHandler(tap)
    try:
        await receive(lambda _: False)
    finally:
        for logger in loggers:
            logger.removeHandler(tap)
    return {}
