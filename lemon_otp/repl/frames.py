"""Edge. Where a process stands: the frames of its coroutine, of its thread, or of the event loop that it holds up."""

from __future__ import annotations

import linecache
import sys
import threading
from types import FrameType
from typing import Any, Final

from lemon_otp.bounded import bounded
from lemon_otp.machine import Process
from lemon_otp.scheduler import Scheduler

FRAMES_MAX: Final = 60


def frames_of(process: Process) -> tuple[str, list[FrameType]]:
    """Where the process is and its frames, outermost first.

    "runs": its code is on the loop's stack right now. "thread": a thread works for it. "waits": its coroutine is
    suspended. "idle": it has no code in the middle of anything.
    """
    runtime = process.runtime
    if runtime.is_running(process) and threading.get_ident() != runtime.thread_id:
        return "runs", loop_frames(runtime)
    frame = _thread_frame(process)
    if frame is not None:
        return "thread", outermost_first(frame)
    found = process.get_stack(limit=FRAMES_MAX)
    return ("waits", found) if found else ("idle", [])


def has_thread(process: Process) -> bool:
    """Whether a thread works for the process."""
    return _thread_frame(process) is not None


def _thread_frame(process: Process) -> FrameType | None:
    mark = f"<pid {process.id} "  # as `outside` names the thread
    for thread in threading.enumerate():
        if thread.name.startswith(mark) and thread.ident is not None and "waits for its child" not in thread.name:
            return sys._current_frames().get(thread.ident)
    return None


def loop_frames(runtime: Scheduler) -> list[FrameType]:
    """What the thread of the event loop does right now."""
    frame = sys._current_frames().get(runtime.thread_id)
    return [] if frame is None else outermost_first(frame)


def outermost_first(frame: FrameType | None) -> list[FrameType]:
    """A stack of running frames, as people read it."""
    found: list[FrameType] = []
    while frame is not None and len(found) < FRAMES_MAX:
        found.append(frame)
        frame = frame.f_back
    return found[::-1]


def told(frame: FrameType) -> dict[str, Any]:
    """A frame as plain values. `line` is read later, by `with_source`: it may need a file."""
    code = frame.f_code
    return {"file": code.co_filename, "line_number": frame.f_lineno, "function": code.co_qualname}


def with_source(told_frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The frames with the line of source that each stands at."""
    for entry in told_frames:
        entry["line"] = linecache.getline(entry["file"], entry["line_number"]).strip()
    return told_frames


def held(runtime: Scheduler) -> dict[str, Any]:
    """Who holds the event loop up, and where. For another thread."""
    holder = runtime.running
    stack = with_source([told(frame) for frame in loop_frames(runtime)])
    pid = holder.id if isinstance(holder, Process) else None
    shown = repr(holder) if pid is not None else "a callback" if holder is None else bounded(holder, 200)
    return {"holder": shown, "pid": pid, "stack": stack}
