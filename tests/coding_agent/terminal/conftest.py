"""Programs on pseudo terminals that end with their test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.coding_agent.terminal import pty_screen
from tests.coding_agent.terminal.pty_screen import Pty


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of one's own; short, because socket paths must be."""
    return tmp_path_factory.mktemp("h")


@pytest.fixture
def scene(home: Path) -> Iterator[Callable[..., Pty]]:
    """Start a scene of `show_host`."""
    started: list[Pty] = []

    def start(name: str, *arguments: str, **options: Any) -> Pty:
        started.append(pty_screen.scene(name, home, *arguments, **options))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def lemon(home: Path) -> Iterator[Callable[..., Pty]]:
    """Start the real program, and wait until it is ready."""
    started: list[Pty] = []

    def start(*arguments: str, **options: Any) -> Pty:
        started.append(pty_screen.program(home, *arguments, **options))
        started[-1].wait_for("ready · scripted/echo")
        return started[-1]

    yield start
    for each in started:
        each.close()
