"""Edge. What is logged and told when a process ends badly.

A report is one record of the logger "lemon_otp" whose `crash` attribute holds the facts, and the telemetry
event ("lemon_otp", "process", "crash"). Values are shown by a bounded repr that cannot raise, and go through what
`clean_reports` was given, so that whoever knows what a secret looks like can keep it out.

Emits: telemetry ("lemon_otp", "process", "crash"), ("lemon_otp", "process", "zombie")
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from lemon_otp import telemetry
from lemon_otp.exits import describe
from lemon_otp.scheduler import CURRENT
from lemon_otp.values import frozen

if TYPE_CHECKING:
    from lemon_otp.machine import Process

_log: Final = logging.getLogger("lemon_otp")

NO_MESSAGE: Final = "(none)"
_CLEANER: Final = "crash_reports.cleaner"


@frozen
class CrashReport:
    """What is known of a process that crashed."""

    pid: str
    initial_call: str
    reason: str
    last_message: str
    state: str
    ancestors: tuple[str, ...]
    traceback: str


def clean_reports(cleaner: Callable[[str], str]) -> None:
    """From now on every text in a crash report of this runtime is `cleaner(text)`. It must not raise."""
    CURRENT.get().runtime.store[_CLEANER] = cleaner


def report_crash(process: Process, reason: Any, last_message: str = NO_MESSAGE, state: str = "") -> CrashReport:
    """Log that `process` crashed and execute the telemetry event."""
    error = reason if isinstance(reason, BaseException) else None
    clean = process.runtime.store.get(_CLEANER, str)
    where = clean("".join(traceback.format_exception(error))) if error is not None else ""
    report = CrashReport(
        pid=repr(process),
        initial_call=process.initial_call(),
        reason=clean(describe(reason)),
        last_message=clean(last_message),
        state=clean(state),
        ancestors=tuple(repr(pid) for pid in process.ancestors()),
        traceback=where,
    )
    _log.error(
        "%s crashed: %s\n  initial call: %s\n  last message: %s\n  state: %s\n  ancestors: %s\n%s",
        report.pid,
        report.reason,
        report.initial_call,
        report.last_message,
        report.state,
        ", ".join(report.ancestors) or "(none)",
        where,
        extra={"crash": report},
    )
    if error is not None:
        # What the frames hold would live as long as the reason does.
        traceback.clear_frames(error.__traceback__)
    metadata = {"pid": process, "reason": reason, "report": report}
    telemetry.execute_in(process.runtime, ("lemon_otp", "process", "crash"), {"count": 1}, metadata)
    return report


def report_zombie(process: Process, attempts: int) -> None:
    """Log that the coroutine of a dead process goes on although it was cancelled `attempts` times."""
    places = [f"{frame.f_code.co_filename}:{frame.f_lineno}" for frame in process.get_stack()]
    where = " > ".join(places) or "(unknown)"
    _log.warning("%r is dead, but its coroutine goes on after %d cancels, at %s", process, attempts, where)
    metadata = {"pid": process, "where": where}
    telemetry.execute_in(process.runtime, ("lemon_otp", "process", "zombie"), {"attempts": attempts}, metadata)


def report_leftover_error(process: Process, error: BaseException) -> None:
    """Log an error that a dead process raised while it cleaned up; nobody else will see it."""
    where = "".join(traceback.format_exception(error))
    _log.warning("%r raised while it cleaned up after its death\n%s", process, where)
