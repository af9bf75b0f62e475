"""Value and pure. The record of one run of a subagent, as a line, and what a file of such lines says.

A record is written anew each time it changes, and the last line of a run counts. It only moves forward: queued,
running, then one of the ends. A run whose last line is no end when the file is opened was lost with its program.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

from attrs import asdict, evolve, fields_dict

from lemon_otp import frozen

ORDER: Final = {"queued": 0, "running": 1, "completed": 2, "error": 2, "timeout": 2, "aborted": 2, "lost": 2}
TEXT_MAX: Final = 16 * 1024


@frozen(kw_only=True)
class RunRecord:
    """One run.

    Attributes:
        status: `queued`, `running`, `completed`, `error`, `timeout`, `aborted` or `lost`.
        parent_session: The session that asked for it.
        session_file: Where the subagent's conversation is stored.
        result: Its last words, cut when they are long.
        updated_ms: When this was written.
    """

    id: str
    status: str
    parent_session: str
    subagent: str | None = None
    description: str = ""
    background: bool = False
    session_id: str | None = None
    session_file: str | None = None
    result: str = ""
    error: str | None = None
    updated_ms: int = 0

    @property
    def is_over(self) -> bool:
        """Has it ended?"""
        return ORDER.get(self.status, 2) == 2


def to_line(record: RunRecord) -> str:
    """A record as a line of JSON."""
    cut = evolve(
        record, result=record.result[:TEXT_MAX], error=None if record.error is None else record.error[:TEXT_MAX]
    )
    return json.dumps(asdict(cut), ensure_ascii=False) + "\n"


def fold(lines: Iterable[str]) -> dict[str, RunRecord]:
    """The latest record of each run, in the order they began; lines that are none are passed over."""
    records: dict[str, RunRecord] = {}
    for line in lines:
        record = _record(line)
        if record is not None and may_follow(records.get(record.id), record):
            records[record.id] = record
    return records


def may_follow(before: RunRecord | None, after: RunRecord) -> bool:
    """Does this change move forward?"""
    return before is None or (not before.is_over and ORDER[after.status] >= ORDER[before.status])


def _record(line: str) -> RunRecord | None:
    try:
        data: Any = json.loads(line)
        known = {name: value for name, value in data.items() if name in fields_dict(RunRecord)}
        record = RunRecord(**known)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return record if isinstance(record.id, str) and record.status in ORDER else None
