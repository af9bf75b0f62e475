"""The program in tmux, a terminal that keeps its own scrollback and folds lines when it is made narrower."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import define

from tests.coding_agent.terminal.pty_screen import PATIENCE_S, ROOT

pytestmark = pytest.mark.xdist_group("terminal")


@define
class Tmux:
    """A tmux server of one's own, with one window."""

    socket: Path

    def run(self, *arguments: str) -> str:
        command = ["tmux", "-S", str(self.socket), "-f", "/dev/null", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout

    def keys(self, text: str) -> None:
        self.run("send-keys", "-l", text)

    def press(self, *names: str) -> None:
        self.run("send-keys", *names)

    def screen(self) -> str:
        return "\n".join(line.rstrip() for line in self.run("capture-pane", "-p").split("\n")).rstrip()

    def scrollback(self) -> str:
        return self.run("capture-pane", "-p", "-S", "-5000")

    def wait(self, holds: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while not holds(screen := self.screen()):
            assert time.monotonic() < deadline, screen
            time.sleep(0.05)
        return screen


@pytest.fixture
def tmux(home: Path) -> Iterator[Tmux]:
    """The real program, ready, in a window of 80 by 30."""
    (home / "project").mkdir()
    tmux = Tmux(home / "tmux")
    env = {
        "HOME": str(home), "PYTHONPATH": str(ROOT), "LEMON_SESSION_DIR": str(home / "sessions"),
        "TERM": "tmux-256color",
        "LEMON_RUNTIME_DIR": str(home / "run"), "LANG": "C.UTF-8", "PATH": os.environ["PATH"],
    }  # fmt: skip
    words = ["env", "-i", *(f"{name}={value}" for name, value in env.items())]
    program = shlex.join([*words, sys.executable, "-m", "coding_agent", "--model", "scripted/echo"])
    command = f"cd {shlex.quote(str(home / 'project'))}; {program}; echo left-with-$?; sleep 600"
    tmux.run("new-session", "-d", "-x", "80", "-y", "30", command)
    try:
        tmux.wait(lambda screen: "ready · scripted/echo" in screen)
        yield tmux
    finally:
        tmux.run("kill-server")


def is_clean(screen: str, columns: int) -> bool:
    """One line across, one editor below it, one status line, and nothing of what was drawn for another width."""
    above, across, below = screen.rpartition("─" * columns)
    editor, status = below.strip("\n").split("\n") if below.count("\n") == 2 else ("", "")
    return bool(across) and "─" not in above and editor == "›" and "scripted/echo" in status


def test_a_conversation_in_tmux_can_be_scrolled_and_copied(tmux):
    """Each line of a long answer is in tmux's own scrollback, once; keys with Alt arrive as such."""
    items = "\n".join(["say", *(f"- item {number} of many" for number in range(60))])
    tmux.keys("@text first")
    tmux.press("M-Enter")
    tmux.keys("@think quietly")
    tmux.wait(lambda screen: "› @text first\n  @think quietly" in screen)
    tmux.press("Enter")
    tmux.wait(lambda screen: "∴ thought" in screen and "ready" in screen)
    tmux.run("set-buffer", "-b", "pasted", items)
    tmux.run("paste-buffer", "-p", "-d", "-b", "pasted")
    tmux.wait(lambda screen: "[pasted 61 lines #1]" in screen)
    tmux.press("Enter")
    tmux.wait(lambda screen: "• item 59 of many" in screen and "ready" in screen)

    printed = tmux.scrollback()
    assert [printed.count(f" • item {number} of many\n") for number in range(60)] == [1] * 60


def test_a_narrower_and_a_wider_tmux_window_is_drawn_clean(tmux):
    """tmux folds what is on the screen by itself; what is drawn for the new width stands alone all the same."""
    tmux.keys("some words " * 12)
    tmux.press("Enter")
    tmux.wait(lambda screen: screen.count("words some") >= 2 and "ready" in screen)
    for columns, rows in ((40, 30), (20, 12), (100, 30)):
        tmux.run("resize-window", "-x", str(columns), "-y", str(rows))
        tmux.wait(lambda screen, columns=columns: is_clean(screen, columns))
    tmux.press("C-d")
    tmux.wait(lambda screen: "left-with-0" in screen)
    assert "python -m coding_agent --continue" in tmux.screen()
