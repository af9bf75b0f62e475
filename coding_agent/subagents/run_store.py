"""Edge. Which subagents a session has had, on disk beside its file, so that their lineage outlives the program.

Written by the session's coordinator alone, and the session's lock keeps other programs away. A line that cannot be
written is no reason to stop a subagent: it is counted, and written with the next one.
"""

import contextlib
from pathlib import Path

from attrs import evolve, field

from coding_agent.private_files import appending
from coding_agent.subagents.run_records import RunRecord, fold, may_follow, to_line
from lemon_otp import define, wall_ms


def runs_file(session_file: Path) -> Path:
    """Where the runs of a session are recorded; a name no listing of sessions looks at."""
    return session_file.with_name(session_file.name + ".runs")


def read_runs(session_file: Path) -> dict[str, RunRecord]:
    """The runs of a session, in the order they began; none when nothing can be read."""
    try:
        text = runs_file(session_file).read_text("utf-8", errors="replace")
    except OSError:
        return {}
    return fold(text.split("\n"))


@define(eq=False)
class RunStore:
    """The runs of one session. Attributes: `unsaved`, lines that have not reached the disk."""

    path: Path
    records: dict[str, RunRecord] = field(factory=dict)
    unsaved: list[str] = field(factory=list)

    @classmethod
    def open(cls, session_file: Path) -> "RunStore":
        """The store of a session; runs that were going on when its last program ended are `lost`."""
        store = cls(runs_file(session_file), read_runs(session_file))
        store._mend_last_line()
        for record in tuple(store.records.values()):
            if not record.is_over:
                store.put(evolve(record, status="lost"))
        return store

    def put(self, record: RunRecord) -> None:
        """Record how a run stands; a step back is ignored."""
        record = evolve(record, updated_ms=wall_ms())
        if not may_follow(self.records.get(record.id), record):
            return
        self.records[record.id] = record
        self.unsaved.append(to_line(record))
        with contextlib.suppress(OSError):
            with appending(self.path) as file:
                file.write("".join(self.unsaved).encode("utf-8", "backslashreplace"))
            self.unsaved.clear()

    def _mend_last_line(self) -> None:
        """What is appended must not become part of a line that a crash cut short."""
        with contextlib.suppress(OSError), self.path.open("rb+") as file:
            if file.seek(0, 2) and file.seek(-1, 2) >= 0 and file.read(1) != b"\n":
                file.write(b"\n")
