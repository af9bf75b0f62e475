"""Edge. What is logged and told when a process ends badly.

A report is one record of the logger "lemon_otp" whose `crash` attribute holds the facts, and the telemetry
event ("lemon_otp", "process", "crash"). State, message and reason are told as `telling.py` does: shortly, soon, and
without running code of theirs, so that a crash holds nobody up and shows nothing that its values hide. Every text
goes through what `clean_reports` was given, so that whoever knows what a secret looks like can keep it out.

Emits: telemetry ("lemon_otp", "process", "crash"), ("lemon_otp", "process", "zombie")
"""

from __future__ import annotations

import logging
import traceback
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from lemon_otp import telemetry
from lemon_otp.callbacks import UNSET
from lemon_otp.scheduler import CURRENT
from lemon_otp.speaking import Cleaner
from lemon_otp.telling import CLEANER, cleaner_in, describe, error_trace
from lemon_otp.values import frozen

if TYPE_CHECKING:
    from lemon_otp.machine import Process

_log: Final = logging.getLogger("lemon_otp")

VALUE_MAX: Final = 2_000
"""Characters of a state or a message."""
ANCESTORS_MAX: Final = 20


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


def clean_reports(cleaner: Cleaner) -> None:
    """From now on every text in a crash report of this runtime is `cleaner(text)`. It must not raise."""
    CURRENT.get().runtime.store[CLEANER] = cleaner


def report_crash(process: Process, reason: Any, last_message: Any = UNSET, state: Any = UNSET) -> CrashReport:
    """Log that `process` crashed and execute the telemetry event."""
    error = reason if isinstance(reason, BaseException) else None
    clean = cleaner_in(process.runtime.store)
    where = error_trace(error, clean) if error is not None else ""
    report = CrashReport(
        pid=repr(process),
        initial_call=process.initial_call(),
        reason=describe(reason, clean=clean),
        last_message="(none)" if last_message is UNSET else describe(last_message, VALUE_MAX, clean),
        state="(none)" if state is UNSET else describe(state, VALUE_MAX, clean),
        ancestors=tuple(repr(pid) for pid in islice(process.ancestors(), ANCESTORS_MAX)),
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
    where = error_trace(error, cleaner_in(process.runtime.store))
    _log.warning("%r raised while it cleaned up after its death\n%s", process, where)
