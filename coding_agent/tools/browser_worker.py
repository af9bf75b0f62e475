"""Edge. The worker program of a browser, seen from the host: how it is started, and what it says, line by line."""

import asyncio
import json
import os
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import define, field, frozen

from coding_agent.tools.child import Child, first_of
from coding_agent.tools.keeper import Keeper, Program
from lemon_otp import Pid

WORKER: Final = Path(__file__).with_name("browser_main.py")
START_S: Final = 45.0
KILL_S: Final = 3.0
FOLDER_LENGTH_MAX: Final = 60
"""Chromium makes a socket below its folder for temporary files, and a socket's path has about a hundred bytes."""
LINE_MAX: Final = 24 * 1024 * 1024

Judge = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""What the worker is answered when it asks about an address."""


@define(eq=False)
class Failed(Exception):
    """The browser could not do it; the text says why.

    Attributes:
        notes: What happened meanwhile.
    """

    text: str
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


@frozen
class Start:
    """A browser to start.

    Attributes:
        id: Names the process in the tree.
        executable: Chromium.
        sandbox: Use Chromium's own.
        env: For the worker; it needs no secrets.
        judge: Asked about every address.
        owner: When this process ends, so does the browser.
    """

    id: str
    executable: str
    sandbox: bool
    env: Mapping[str, str] = field(repr=False)
    keeper: Keeper = field(repr=False)
    judge: Judge = field(repr=False)
    owner: Pid | None = None


class Lines:
    """Takes the worker's output apart."""

    def __init__(self) -> None:
        self.hear: Callable[[dict[str, Any]], None] = lambda _message: None
        self.errors: deque[str] = deque(maxlen=20)
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> None:
        """More of what it says."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            whole = b"".join([*self._parts, line])
            self._parts, self._size = [], 0
            try:
                message = json.loads(whole)
            except ValueError:
                continue
            if isinstance(message, dict):
                self.hear(message)
        self._size += len(rest)
        if rest and self._size <= LINE_MAX:
            self._parts.append(rest)

    def complain(self, data: bytes) -> None:
        """More of what went wrong."""
        self.errors.append(data[-500:].decode(errors="replace"))


async def started(start: Start, folder: Path, lines: Lines) -> Child:
    """The worker with its browser, ready.

    Raises:
        Failed: It is not.
    """
    if len(os.fsencode(folder)) > FOLDER_LENGTH_MAX:
        raise Failed(f"The browser cannot be started: {folder} is too long for it; set TMPDIR to a shorter path")
    settings = {"executable": start.executable, "sandbox": start.sandbox, "folder": str(folder)}
    env = {**start.env, "HOME": str(folder), "TMPDIR": str(folder), "XDG_CONFIG_HOME": str(folder)}
    argv = (sys.executable, "-P", str(WORKER), json.dumps(settings))
    program = Program(argv=argv, env=env, stdin="pipe", split_errors=True)
    first: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    later = lines.hear

    def hear(message: dict[str, Any]) -> None:
        """Chromium may ask for addresses before all is ready."""
        if "ask" in message or first.done():
            later(message)
        else:
            first.set_result(message)

    lines.hear = hear
    try:
        cwd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            child = await start.keeper.start(program.in_directory(cwd), lines.feed, on_errors=lines.complain)
        finally:
            os.close(cwd)
    except OSError as error:
        raise Failed(f"The browser cannot be started: {error.strerror or error}") from error
    try:
        await first_of(START_S, first, child.exited)
        child.read_what_is_there()
        if not first.done():
            raise Failed("The browser cannot be started: " + (why(lines.errors) or "it does not answer"))
        if "ready" not in first.result():
            raise Failed(f"The browser cannot be started: {first.result().get('failed')}")
    except BaseException:
        child.kill(0)
        await child.ended_for_certain(KILL_S)
        child.close()
        raise
    lines.hear = later
    return child


def why(errors: "deque[str]") -> str:
    """The last thing that was complained about."""
    lines = "".join(errors).strip().splitlines()
    return lines[-1][:300] if lines else ""
