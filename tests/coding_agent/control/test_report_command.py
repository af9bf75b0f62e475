"""The report: one private file, whatever stands in what it collects."""

import os
from pathlib import Path

import pytest

from coding_agent.control import report_command
from coding_agent.control.report_command import LOG_BYTES_MAX, contents, write_report
from coding_agent.logs import log_file


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A user on a machine where nothing runs."""
    given = {"HOME": str(tmp_path), "LEMON_RUNTIME_DIR": str(tmp_path / "run")}
    log_file(given).parent.mkdir(parents=True, exist_ok=True)
    return given


def test_text_that_is_no_unicode_does_not_stop_it(tmp_path, environ, monkeypatch):
    """A variable, a log and the name of a crash file of any bytes: all are in the report, as far as they can be."""
    monkeypatch.setenv("TERM", os.fsdecode(b"odd \xff"))
    log_file(environ).write_bytes(b"odd \xff\xfe\n")
    crashes = log_file(environ).parent / "crashes"
    crashes.mkdir()
    (crashes / os.fsdecode(b"crash-1-\xff.json")).write_text("[]")
    path = tmp_path / "report.zip"
    write_report(path, environ)
    found = contents(path)
    assert found["about.json"]["terminal"]["TERM"] == "odd ?"
    assert found["log.txt"].startswith("odd ")
    assert len([name for name in found if name.startswith("crashes/")]) == 1


def test_a_long_log_begins_with_a_whole_line(tmp_path, environ):
    """The rest of a line whose beginning is cut off might be the state of a process."""
    cut = b"  state: " + b"private " * (LOG_BYTES_MAX // 8) + b"\n"
    log_file(environ).write_bytes(b"first\n" + cut + b"last\n")
    path = tmp_path / "report.zip"
    write_report(path, environ)
    assert contents(path)["log.txt"] == "last\n"


def test_a_report_that_fails_leaves_no_file(tmp_path, environ, monkeypatch):
    """Nothing that looks like a report and is half of one."""

    def full(_: object) -> object:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report_command, "parts", full)
    with pytest.raises(OSError, match="No space"):
        write_report(tmp_path / "report.zip", environ)
    assert not (tmp_path / "report.zip").exists()
