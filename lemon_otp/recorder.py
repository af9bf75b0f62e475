"""Edge. The flight recorder: the last things that happened in a runtime, kept in a ring until somebody asks.

A plain telemetry handler, and a handler of log records. An entry holds short plain values only, so that nothing is kept
alive by being remembered; what it costs is bounded in time and in memory. When a process crashes, `on_crash` is given
what led to it, at most once in `DUMP_PAUSE_S`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from attrs import field

from lemon_otp import telemetry
from lemon_otp.clock import Clock
from lemon_otp.pid import Pid
from lemon_otp.process import current_runtime
from lemon_otp.scheduler import CURRENT
from lemon_otp.telling import describe
from lemon_otp.values import define

ENTRIES_MAX: Final = 2_000
LOG_MAX: Final = 500
TEXT_MAX: Final = 300
LOG_TEXT_MAX: Final = 4_000
DUMP_PAUSE_S: Final = 5.0
HANDLER_ID: Final = "lemon_otp.recorder"
OWN: Final = frozenset({"pid", "event", "wall_ms"})
"""What every entry has of its own."""
STORED: Final = "recorder"

CHILD_ENDED: Final = ("lemon_otp", "supervisor", "child_ended")
CRASH: Final = ("lemon_otp", "process", "crash")
LIFECYCLE: Final = (
    CRASH,
    ("lemon_otp", "process", "zombie"),
    ("lemon_otp", "process", "orphan_thread"),
    CHILD_ENDED,
    ("lemon_otp", "supervisor", "restart"),
    ("lemon_otp", "supervisor", "start_error"),
    ("lemon_otp", "supervisor", "give_up"),
    ("lemon_otp", "telemetry", "handler_failed"),
    ("lemon_otp", "watchdog", "held"),
)
"""What happens to processes, whatever they are for."""

Entry: TypeAlias = dict[str, Any]
Dump: TypeAlias = Callable[[list[Entry]], None]
_Raw: TypeAlias = tuple[float, int | None, tuple[str, ...], Mapping[str, Any], Mapping[str, Any]]
_EMPTIES: Final = frozenset({dict, list, tuple})
_PLAIN: Final = frozenset({int, float, bool, type(None)})


@define(eq=False)
class Recorder:
    """Remembers the last events of one runtime.

    Attributes:
        on_crash: Given the entries so far, the crash last. It must not wait.
    """

    on_crash: Dump | None = None
    _ring: deque[_Raw] = field(factory=lambda: deque(maxlen=ENTRIES_MAX))
    _log: deque[Entry] = field(factory=lambda: deque(maxlen=LOG_MAX))
    _dumped_s: float = float("-inf")
    _clock: Clock = field(factory=lambda: current_runtime().clock)
    _offset_ms: float = 0.0

    def __attrs_post_init__(self) -> None:
        self._offset_ms = self._clock.wall_ms() - self._clock.monotonic_s() * 1000

    @classmethod
    def start(cls, more: Iterable[telemetry.EventName] = (), *, on_crash: Dump | None = None) -> Recorder:
        """Remember from now on; the recorder of a runtime that has one already, which then remembers `more` too."""
        runtime = current_runtime()
        found: Recorder | None = runtime.store.get(STORED)
        events = dict.fromkeys((*LIFECYCLE, *more))
        if found is None:
            found = runtime.store[STORED] = cls(on_crash)
        else:
            found.on_crash = on_crash or found.on_crash
            known = {entry.event for entry in telemetry.list_handlers() if entry.id == HANDLER_ID}
            events = dict.fromkeys((*known, *events))
            telemetry.detach(HANDLER_ID)
        telemetry.attach_many(HANDLER_ID, events, found.record)
        return found

    def stop(self) -> None:
        """Remember nothing more; what was remembered stays."""
        telemetry.detach(HANDLER_ID)
        current_runtime().store.pop(STORED, None)

    def record(
        self, event: tuple[str, ...], measurements: Mapping[str, Any], metadata: Mapping[str, Any], _: Any
    ) -> None:
        """The telemetry handler."""
        if event == CHILD_ENDED and metadata.get("reason") == "normal":
            return  # work that is done is no news
        if event == CRASH:  # the report is in the log, with what the process held
            metadata = {name: value for name, value in metadata.items() if name != "report"}
        process = CURRENT.get(None)
        number = None if process is None else process.id
        if _is_plain(metadata) and _is_plain(measurements):
            self._ring.append((self._clock.monotonic_s(), number, event, measurements, metadata))
            return
        measured = {name: _kept(value) for name, value in measurements.items()}
        self._ring.append(
            (self._clock.monotonic_s(), number, event, measured, {n: _kept(value) for n, value in metadata.items()})
        )
        if event == CRASH:
            self._dump()

    def _dump(self) -> None:
        now_s = self._clock.monotonic_s()
        if self.on_crash is not None and now_s - self._dumped_s >= DUMP_PAUSE_S:
            self._dumped_s = now_s
            self.on_crash(self.entries())

    def entries(self, limit: int | None = None, *, about: int | None = None) -> list[Entry]:
        """What happened, oldest first.

        Args:
            limit: Only the last so many.
            about: Only what a process of this number did, or what names it.
        """
        found = [self._shown(raw) for raw in list(self._ring) if about is None or _is_about(raw, about)]
        return found if limit is None else found[-limit:]

    def _shown(self, raw: _Raw) -> Entry:
        at_s, pid, event, measured, told = raw
        values = {("of" if name in OWN else name): value for name, value in (*measured.items(), *told.items())}
        return {"wall_ms": round(self._offset_ms + at_s * 1000), "pid": pid, "event": ".".join(event), **values}

    def heard(self, record: logging.LogRecord) -> None:
        """Remember a log record."""
        self._log.append(log_entry(record))

    def log(self, limit: int | None = None, *, about: int | None = None) -> list[Entry]:
        """The last log records, oldest first; `about` as in `entries`."""
        mark = f"<pid {about} "
        found = [entry for entry in list(self._log) if about is None or entry["pid"] == about or mark in entry["text"]]
        return found if limit is None else found[-limit:]


def recorder() -> Recorder | None:
    """The recorder of the calling runtime, if it has one."""
    found: Recorder | None = current_runtime().store.get(STORED)
    return found


def log_entry(record: logging.LogRecord) -> Entry:
    """A log record as short plain values, with the process that logged it."""
    process = CURRENT.get(None)
    try:
        text = record.getMessage()
    except Exception as error:
        text = f"(a log record whose message raised {type(error).__name__})"
    entry = {"wall_ms": round(record.created * 1000), "pid": None if process is None else process.id}
    return {**entry, "level": record.levelname, "logger": record.name, "text": text[:LOG_TEXT_MAX]}


class LogTap(logging.Handler):
    """Passes log records on, such as to `Recorder.heard`."""

    def __init__(self, heard: Callable[[logging.LogRecord], None], level: int = logging.INFO) -> None:
        super().__init__(level)
        self.heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        self.heard(record)


def _is_plain(values: Mapping[str, Any]) -> bool:
    """Whether these can be kept as they are: short, and holding nothing else alive."""
    for value in values.values():
        kind = type(value)
        if kind is str:
            if len(value) > TEXT_MAX:
                return False
        elif kind not in _PLAIN:
            return False
    return True


def _kept(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return value if len(value) <= TEXT_MAX else value[: TEXT_MAX - 1] + "…"
    if kind in _PLAIN:
        return value
    if isinstance(value, Pid):
        return repr(value)
    if kind in _EMPTIES and not value:
        return repr(value)
    return describe(value, TEXT_MAX)


def _is_about(raw: _Raw, number: int) -> bool:
    mark = f"<pid {number} "
    return raw[1] == number or any(type(value) is str and mark in value for value in raw[4].values())
