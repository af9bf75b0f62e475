"""Value. Why a process ended, and the two messages that tell others.

A reason is any value. A few have a meaning everywhere:

"normal"            it had nothing left to do; links do not pull anybody down
"shutdown"          its supervisor asked it to stop; also `("shutdown", detail)`
"killed"            it was killed; nothing could stop that
"noproc"            it was not there to begin with
an exception        it raised this and did not catch it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import frozen

if TYPE_CHECKING:
    from lemon_otp.process import MonitorRef, Pid

Reason: TypeAlias = Any


@frozen
class Exit:
    """A linked process ended, or somebody sent an exit signal; only processes that trap exits see it."""

    pid: Pid
    reason: Reason


@frozen
class Down:
    """A monitored process ended; exactly one for each monitor.

    `process` is the pid, or the name it was monitored by.
    """

    ref: MonitorRef
    process: Any
    reason: Reason


def is_normal(reason: Reason) -> bool:
    """Whether the reason is "normal", which pulls no linked process down."""
    return type(reason) is str and reason == "normal"


def is_orderly(reason: Reason) -> bool:
    """Whether a process that ended so ended as planned: "normal", "shutdown" or ("shutdown", x)."""
    if type(reason) is str:
        return reason in ("normal", "shutdown")
    return type(reason) is tuple and len(reason) == 2 and type(reason[0]) is str and reason[0] == "shutdown"
