"""A host that cannot go on says who holds it."""

from __future__ import annotations

import subprocess
import sys

from tests.flows.hosts import PATIENCE_S, Machine

PROGRAM = """
import sys, time
from coding_agent import host, print_mode

def hold_the_loop():
    time.sleep(0.6)

async def held(prompts, printer, options, host):
    hold_the_loop()
    return 0

print_mode.WATCHDOG_S = 0.1
print_mode._run = held
sys.exit(host.main(["-p", "hello", "--model", "scripted/echo"]))
"""


def test_who_holds_the_event_loop_is_named_in_the_log_file(machine: Machine):
    """The host of the command line watches its own loop; the terminal stays quiet."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=machine.project, env=machine.env(), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    log = (machine.home / "host.log").read_text()
    assert "has held the event loop" in log
    assert "in hold_the_loop" in log
