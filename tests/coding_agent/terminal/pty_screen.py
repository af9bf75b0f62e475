"""The program on a pseudo terminal, and what a person would see there."""

import json
import os
import re
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pyte
from attrs import define

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 30.0


@define
class Pty:
    """A running program, the screen it draws on, and every byte it wrote."""

    child: "pexpect.spawn[bytes]"
    screen: pyte.HistoryScreen
    stream: pyte.ByteStream
    raw: bytes = b""

    def text(self) -> str:
        """What is on the screen, without blanks at the ends of lines."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def scrollback(self) -> str:
        """What has gone off the top, and the screen."""
        columns = range(self.screen.columns)
        above = ["".join(line[column].data for column in columns).rstrip() for line in self.screen.history.top]
        return "\n".join([*above, self.text()])

    def said(self) -> str:
        """What was written, however it is wrapped on the screen."""
        return self.raw.decode(errors="replace")

    def send(self, keys: str) -> None:
        self.child.send(keys.encode())

    def paste(self, text: str) -> None:
        self.send(f"\x1b[200~{text}\x1b[201~")

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        self.child.setwinsize(rows, columns)

    def pump(self) -> bool:
        """Read what there is; whether the program still runs."""
        try:
            data = self.child.read_nonblocking(65_536, timeout=0.05)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self.stream.feed(data)
        return True

    def until(self, holds: Callable[[str], bool], what: str) -> str:
        """Read on until this holds of the screen."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds(self.text()):
            if not self.pump() and not holds(self.text()):
                raise AssertionError(f"the program ended before {what}:\n{self.scrollback()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"never saw {what}:\n{self.text()}")
        return self.text()

    def wait_for(self, text: str) -> str:
        return self.until(lambda screen: text in screen, repr(text))

    def wait_gone(self, text: str) -> str:
        return self.until(lambda screen: text not in screen, f"the end of {text!r}")

    def finish(self) -> int:
        """Read to its end; the exit code, negative for a signal."""
        deadline = time.monotonic() + PATIENCE_S
        while self.pump():
            assert time.monotonic() < deadline, f"it does not end:\n{self.text()}"
        self.child.close()
        return -self.child.signalstatus if self.child.signalstatus else self.child.exitstatus or 0

    def close(self) -> None:
        if self.child.isalive():
            self.child.kill(9)
        self.child.close(force=True)

    def modes_left_on(self) -> set[str]:
        """The private modes that were switched on and never off again; for wrapping and the cursor, the reverse."""
        state: dict[str, bool] = {}
        for numbers, letter in re.findall(rb"\x1b\[\?([\d;]+)([hl])", self.raw):
            for number in numbers.decode().split(";"):
                state[number] = letter == b"h"
        normally_on = {"7", "25"}
        return {number for number, is_on in state.items() if is_on != (number in normally_on) and number != "12"}


def start(
    argv: list[str], home: Path, *, columns: int = 80, rows: int = 24, cwd: Path | None = None, **env: str
) -> Pty:
    """Start a program on a pseudo terminal of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONWARNINGS") if name in os.environ}
    whole = {
        **kept, "HOME": str(home), "TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT),
        "LEMON_SESSION_DIR": str(home / "sessions"), "LEMON_RUNTIME_DIR": str(home / "run"),
        "LEMON_LOG_FILE": str(home / "host.log"), **env,
    }  # fmt: skip
    # Newer Pythons warn of threads at a fork; the child does nothing but start a program.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = pexpect.spawn(
            argv[0], argv[1:], dimensions=(rows, columns), env=whole, cwd=str(cwd or ROOT), timeout=PATIENCE_S
        )
    child.delaybeforesend = None
    screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.5)
    return Pty(child, screen, pyte.ByteStream(screen))


def scene(name: str, home: Path, *arguments: str, columns: int = 80, rows: int = 24, **env: str) -> Pty:
    """The terminal on a host that is none; see `show_host`."""
    argv = [sys.executable, "-m", "tests.coding_agent.terminal.show_host", name, *arguments]
    pty = start(argv, home, columns=columns, rows=rows, **env)
    pty.until(lambda screen: "scripted/e" in screen.rpartition("›")[2], "the terminal")
    return pty


def wait_for_end(pid: int) -> None:
    """Until no process has this id, or only its remains."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} does not end")


def program(home: Path, *arguments: str, columns: int = 100, rows: int = 40, **env: str) -> Pty:
    """The real program in a project of its own, with a scripted model that does what the prompt says."""
    project = home / "project"
    project.mkdir(exist_ok=True)
    argv = [sys.executable, "-m", "coding_agent", "--model", "scripted/echo", *arguments]
    return start(argv, home, columns=columns, rows=rows, cwd=project, **env)


def entries(home: Path) -> list[dict[str, Any]]:
    """The lines of all session files, the oldest file first."""
    files = sorted((home / "sessions").rglob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def messages(home: Path, role: str) -> list[dict[str, Any]]:
    """The stored messages of a role."""
    return [each["message"] for each in entries(home) if each["type"] == "message" and each["message"]["role"] == role]
