"""Edge. The flight recorder of a host: what it remembers, and the file that is written when a process crashes.

A crash file is `crash-<time>-<process id>.json` in `crashes/` beside the log, of mode 0600, redacted; the newest
`FILES_MAX` are kept. It is written by a thread: whoever crashed and the rest of the host do not wait for a disk.
"""

import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from coding_agent import event_names
from coding_agent.credentials import known_secrets
from coding_agent.logs import LOGGERS, log_file
from lemon_ai import redact
from lemon_otp import Pid, at_exit, make_private, recorder, self_pid, wall_ms

FILES_MAX: Final = 20
CRASH_FOLDER: Final = "crashes"

EVENTS: Final = (
    event_names.CALL_REJECTED,
    event_names.CALL_START,
    event_names.CALL_STOP,
    event_names.CALL_RETRY,
    *event_names.BREAKER_CHANGES,
    event_names.RUN_START,
    event_names.RUN_END,
    event_names.TOOL_START,
    event_names.TOOL_END,
    event_names.TOOL_ERROR,
    event_names.TOOL_ORPHANED,
    event_names.AGENT_SPAWNED,
    event_names.AGENT_ENDED,
    event_names.PERMISSION_ASKED,
    event_names.PERMISSION_DECIDED,
    event_names.SUBAGENT_START,
)
"""What a host remembers beside what happens to processes. None of it holds prompts, answers or arguments."""


def start_recorder(environ: Mapping[str, str] = os.environ) -> recorder.Recorder:
    """Remember from now on, until the calling process ends; a crash is written to a file."""
    kept = recorder.Recorder.start(EVENTS, on_crash=_writer(crash_folder(environ)))
    tap = recorder.LogTap(kept.heard)
    for name in LOGGERS:
        logging.getLogger(name).addHandler(tap)

    def leave(_pid: Pid, _reason: Any) -> None:
        for name in LOGGERS:
            logging.getLogger(name).removeHandler(tap)

    at_exit(self_pid(), leave)
    return kept


def crash_folder(environ: Mapping[str, str]) -> Path:
    """Where crash files are kept."""
    return log_file(environ).parent / CRASH_FOLDER


def crash_files(environ: Mapping[str, str]) -> list[Path]:
    """The crash files, newest first."""
    return sorted(crash_folder(environ).glob("crash-*.json"), key=lambda path: path.name, reverse=True)


def _writer(folder: Path) -> Callable[[list[dict[str, Any]]], None]:
    def on_crash(entries: list[dict[str, Any]]) -> None:
        name = f"crash-{wall_ms():013d}-{os.getpid()}.json"
        threading.Thread(target=partial(write_crash, folder / name, entries), name="crash file", daemon=True).start()

    return on_crash


def write_crash(path: Path, entries: list[dict[str, Any]]) -> None:
    """Write one crash file, and take the oldest away. What cannot be written is dropped: the log has the crash, too."""
    text = redacted_json({"os_pid": os.getpid(), "entries": entries})
    with suppress(OSError):
        make_private(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        for old in sorted(path.parent.glob("crash-*.json"))[:-FILES_MAX]:
            old.unlink(missing_ok=True)


def redacted_json(value: Any, secrets: frozenset[str] | None = None) -> str:
    """The value as JSON with everything that is, or looks like, a credential taken out of its texts."""
    known = known_secrets(os.environ) if secrets is None else secrets
    return json.dumps(redacted(value, known), indent=1, default=str, ensure_ascii=False) + "\n"


def redacted(value: Any, secrets: frozenset[str]) -> Any:
    """The value with its texts redacted, wherever they stand."""
    if isinstance(value, str):
        return redact(value, secrets)
    if isinstance(value, Mapping):
        return {str(key): redacted(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item, secrets) for item in value]
    return value
