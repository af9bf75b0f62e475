import json
import subprocess
import sys

import pytest


@pytest.mark.requirement("PERS-7", "PERS-8", "PERS-9")
def test_five_hundred_writers_killed_at_seeded_points_lose_nothing_they_acknowledged(tmp_path):
    """
    kill -9 at any moment, inside a system call or between two: every acknowledged message is there once and in order,
    at most the one being written is there besides, and the next append works and leaves a clean file.
    """
    program = [sys.executable, "-m", "tests.coding_agent.storage.crash_program", str(tmp_path), "0", "500"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)

    assert summary["broken"] == []
    assert summary["killed"] == 500
    assert summary["acknowledged"] > 1000
    assert summary["torn"] > 50
