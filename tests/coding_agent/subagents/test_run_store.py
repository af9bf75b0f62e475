"""The record of runs: it only moves forward, and survives what happens to programs and disks."""

import pytest

from coding_agent.subagents.run_records import TEXT_MAX, RunRecord, fold, may_follow, to_line
from coding_agent.subagents.run_store import RunStore, read_runs, runs_file


def record(status: str, run_id: str = "a", **more) -> RunRecord:
    return RunRecord(id=run_id, status=status, parent_session="p", **more)


def test_a_run_only_moves_forward():
    """queued, running, one end; nothing follows an end."""
    ends = ["completed", "error", "timeout", "aborted", "lost"]
    assert may_follow(None, record("running"))
    for before, after, allowed in [
        ("queued", "running", True),
        ("running", "queued", False),
        ("running", "running", True),
        *[("running", end, True) for end in ends],
        *[(end, "running", False) for end in ends],
        ("completed", "error", False),
    ]:
        assert may_follow(record(before), record(after)) is allowed


def test_damaged_lines_and_fields_nobody_knows_do_not_matter():
    """What is no record is passed over; a field of a newer program is ignored; the last word of a run counts."""
    lines = [
        to_line(record("queued")), "", "{", "[]", '"x"', "null", '{"id": 1, "status": "queued", "parent_session": ""}',
        '{"id":"b","status":"flying","parent_session":"p"}', to_line(record("running")),
        '{"id":"c","status":"queued","parent_session":"p","colour":"red"}', to_line(record("completed"))[:-10],
    ]  # fmt: skip

    assert {name: one.status for name, one in fold(lines).items()} == {"a": "running", "c": "queued"}


def test_runs_that_went_on_when_a_program_ended_are_lost(tmp_path):
    """Opened anew, what was running is lost and what had ended stays; opened twice changes nothing more."""
    session = tmp_path / "s.jsonl"
    store = RunStore.open(session)
    store.put(record("queued", "a"))
    store.put(record("running", "a", session_id="s1"))
    store.put(record("completed", "b", result="x" * (TEXT_MAX + 5)))
    store.put(record("running", "b"))

    again = RunStore.open(session)
    size = runs_file(session).stat().st_size

    assert {name: one.status for name, one in again.records.items()} == {"a": "lost", "b": "completed"}
    assert again.records["a"].session_id == "s1"
    assert len(again.records["b"].result) == TEXT_MAX
    RunStore.open(session)
    assert runs_file(session).stat().st_size == size
    assert read_runs(tmp_path / "other.jsonl") == {}


def test_a_torn_last_line_spoils_nothing_that_follows(tmp_path):
    """A program died while it wrote: the next one's lines are whole."""
    session = tmp_path / "s.jsonl"
    runs_file(session).write_text(to_line(record("completed", "a")) + to_line(record("running", "b"))[:20])

    RunStore.open(session).put(record("running", "c"))

    assert {name: one.status for name, one in read_runs(session).items()} == {"a": "completed", "c": "running"}


@pytest.mark.requirement("PERS-10")
def test_what_cannot_be_written_is_written_later(tmp_path):
    """Where a folder should be there is a file: nothing is raised, and once it is gone the lines are there."""
    (tmp_path / "sub").write_text("in the way")
    store = RunStore.open(tmp_path / "sub" / "s.jsonl")
    store.put(record("queued"))
    assert len(store.unsaved) == 1

    (tmp_path / "sub").unlink()
    store.put(record("running"))

    assert store.unsaved == []
    assert read_runs(tmp_path / "sub" / "s.jsonl")["a"].status == "running"
