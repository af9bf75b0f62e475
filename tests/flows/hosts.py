"""Real hosts as real child processes, with a home of their own and no keys."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 30.0


@define
class Machine:
    """A person's machine: a home, a project folder, where sessions and sockets are kept."""

    home: Path
    extra_env: dict[str, str] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.project.mkdir(parents=True, exist_ok=True)

    @property
    def project(self) -> Path:
        return self.home / "project"

    @property
    def session_dir(self) -> Path:
        return self.home / "sessions"

    @property
    def runtime_dir(self) -> Path:
        return self.home / "run"

    def env(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONASYNCIODEBUG") if name in os.environ}
        return kept | {
            "HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "error",
            "LEMON_SESSION_DIR": str(self.session_dir),
            "LEMON_RUNTIME_DIR": str(self.runtime_dir),
            "LEMON_LOG_FILE": str(self.home / "host.log"),
            **self.extra_env,
        }

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run the program to its end."""
        return subprocess.run(
            [sys.executable, "-m", "coding_agent", *arguments],
            cwd=self.project, env=self.env(), input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    def start(self, *arguments: str) -> "RunningHost":
        """Start the program and go on."""
        process = subprocess.Popen(
            [sys.executable, "-m", "coding_agent", *arguments],
            cwd=self.project, env=self.env(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        return RunningHost(process)

    def session_files(self) -> list[Path]:
        return sorted(self.session_dir.rglob("*.jsonl"))

    def entries(self) -> list[dict[str, Any]]:
        """The lines of the one session file."""
        (file,) = self.session_files()
        return [json.loads(line) for line in file.read_text().splitlines()]

    def messages(self) -> list[dict[str, Any]]:
        return [entry["message"] for entry in self.entries() if entry["type"] == "message"]


@define
class RunningHost:
    """A host that runs now."""

    process: "subprocess.Popen[str]"

    def lines(self) -> Iterator[dict[str, Any]]:
        """Its JSON lines, as they come."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield json.loads(line)

    def wait_for(self, event_type: str) -> dict[str, Any]:
        """Read until an event of this type comes."""
        for line in self.lines():
            if line["type"] == event_type:
                return line
        raise AssertionError(f"the host ended without {event_type}: {self.finish()}")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def finish(self) -> tuple[int, str, str]:
        """Wait for its end: exit code, the rest of its output, its complaints."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, err


def alive(pids: Sequence[int]) -> list[int]:
    """Which of these operating-system processes are still there and no zombies."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            found.append(pid)
    return found


def pids_with(marker: str) -> list[int]:
    """Operating-system processes whose command line holds this text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if marker in line:
                found.append(int(entry.name))
    return alive(found)


def gone_within(marker: str, seconds: float) -> bool:
    """True as soon as no such process is left; the clock is the operating system's, which only real time moves."""
    deadline = time.monotonic() + seconds
    while pids_with(marker):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
