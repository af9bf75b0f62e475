"""Crash files: written beside the log, private, redacted, few."""

import json
import logging
import stat
import threading
from pathlib import Path

from coding_agent.logs import LOGGERS
from coding_agent.measuring.flight_recorder import FILES_MAX, crash_files, start_recorder, write_crash
from lemon_otp import monitor, receive, spawn
from lemon_otp.testing import settle

KEY = "sk-ant-api03-" + "a" * 40


async def test_a_crash_is_written_to_a_file_with_what_led_to_it(runtime, tmp_path: Path) -> None:
    """By a thread, into a private file without credentials; the loggers are as before when the owner has ended."""
    environ = {"LEMON_LOG_FILE": str(tmp_path / "state" / "host.log")}
    before = {name: list(logging.getLogger(name).handlers) for name in LOGGERS}

    async def owner() -> None:
        start_recorder(environ)
        logging.getLogger("coding_agent").warning("about to fail")
        await receive()

    def fails() -> None:
        raise RuntimeError(f"the key is {KEY}")

    pid = spawn(owner)
    await settle()
    spawn(fails)
    await settle()
    for thread in threading.enumerate():
        if thread.name == "crash file":
            thread.join()
    (path,) = crash_files(environ)
    told = json.loads(path.read_text())
    assert told["entries"][-1]["event"] == "lemon_otp.process.crash"
    assert KEY not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    from lemon_otp import exit_signal

    monitor(pid)
    exit_signal(pid, "kill")
    await receive()
    assert {name: list(logging.getLogger(name).handlers) for name in LOGGERS} == before


def test_only_the_newest_crash_files_are_kept(tmp_path: Path) -> None:
    """And none where nothing can be written."""
    for number in range(FILES_MAX + 3):
        write_crash(tmp_path / "crashes" / f"crash-{number:013d}-1.json", [])
    kept = sorted(path.name for path in (tmp_path / "crashes").iterdir())
    assert len(kept) == FILES_MAX
    assert kept[0] == f"crash-{3:013d}-1.json"
    (tmp_path / "file").touch()
    write_crash(tmp_path / "file" / "crash-1-1.json", [])


def test_a_link_in_the_place_of_a_crash_file_is_not_followed(tmp_path: Path) -> None:
    """Whoever put it there learns nothing and destroys nothing."""
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "crash-1-1.json").symlink_to(target)
    write_crash(tmp_path / "crash-1-1.json", [])
    assert target.read_text() == "precious"
