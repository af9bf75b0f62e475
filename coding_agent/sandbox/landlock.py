"""Edge. The sandbox where there is no bubblewrap: programs give up rights by the kernel's Landlock before they begin.

They write in the workspace, a private folder (also their `TMPDIR`) and a few devices, and nowhere else; they cannot
read folders known for secrets, our session files among them; they see no other program's environment. With `strict`
they can make no socket at all, with `net` any.

It is weaker than bubblewrap. Landlock cannot take away a part of what it gives, so `.git/hooks`, `.git/config` and
`.lemon` in the workspace can be written by commands; names of files that cannot be read can still be listed; `/tmp` is
not theirs alone, they just cannot write in it; other programs are in sight, and before Linux 6.12 can be sent signals;
with `net` the sockets of other programs, such as Docker's, can be connected to. What a command leaves in the background
is as restricted, and ends with the session instead of with the command.
"""

import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import evolve

from coding_agent.sandbox.landlock_main import MACHINES, version
from coding_agent.tools.child import Child, ChildNotStarted, OnOutput
from coding_agent.tools.keeper import Keeper, Program, found_in_path
from coding_agent.tools.program_keeper import ProgramKeeper

HELPER: Final = Path(__file__).with_name("landlock_main.py")
DEVICES: Final = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts"))
ENTRIES_MAX: Final = 2_000
"""A folder with more entries than this beside a hidden one is not readable: each entry is a rule."""

LIMITS: Final = (
    "the sandbox is Landlock's, as bubblewrap does not work here: commands write in the working folder only, but its "
    "git hooks and settings are not protected from them, /tmp is not private, and other programs are in sight"
)


def unavailable(level: str) -> str | None:
    """Why Landlock cannot do it here, as a sentence; None when it can."""
    if not sys.platform.startswith("linux"):
        return "there is no Landlock on this system"
    if version() < 1:
        return "the kernel has no Landlock"
    if level == "strict" and platform.machine() not in MACHINES:
        return f"Landlock alone cannot keep commands from the network on {platform.machine()}"
    return None


def readable(hidden: Iterable[str]) -> tuple[list[str], list[str]]:
    """What to give so that all can be read but what is hidden: whole folders, and folders that can only be listed."""
    secret = sorted({os.path.realpath(path) for path in hidden if os.path.lexists(path)})
    given: list[str] = []
    pending = ["/"]
    listed = ["/"] if secret else []
    while pending:
        folder = pending.pop()
        if folder in secret or os.path.islink(folder):  # where a link leads is given, or not, under its own name
            continue
        if not any(path.startswith(folder.rstrip("/") + "/") for path in secret):
            given.append(folder)
            continue
        try:
            entries = os.listdir(folder)
        except OSError:
            continue
        if len(entries) <= ENTRIES_MAX:
            pending += [os.path.join(folder, name) for name in entries]
        else:
            pending += [path for path in secret_parents(secret, folder) if path not in secret]
    return sorted(given), listed


def secret_parents(secret: Sequence[str], folder: str) -> set[str]:
    """The entries of a folder that lead on to something hidden."""
    prefix = folder.rstrip("/") + "/"
    return {prefix + path[len(prefix) :].partition("/")[0] for path in secret if path.startswith(prefix)}


class LandlockedKeeper(Keeper):
    """Starts programs as the runtime's keeper does, each under Landlock."""

    def __init__(self, root: str, *, network: bool, hidden: Sequence[str] = ()) -> None:
        """Args:
        root: The workspace, without links.
        network: Sockets can be made.
        hidden: Files and folders that cannot be read, unless the workspace lies in one of them.
        """
        super().__init__()
        self._root = root
        self._network = network
        self._hidden = tuple(hidden)

    @property
    def home(self) -> Path:
        """The private directory; programs can write there too."""
        shared = ProgramKeeper.shared()
        return super().home if shared is None else shared.home

    def spec(self) -> dict[str, Any]:
        """What a program keeps, as it is now; folders that appear later are not in it."""
        read, listed = readable(self._hidden)
        written = [self._root, str(self.home)]
        return {"read": read, "list": listed, "write": written, "devices": DEVICES, "network": self._network}

    async def start(self, program: Program, on_output: OnOutput, *, on_errors: OnOutput | None = None) -> Child:
        """Start a program under Landlock; see `Keeper.start`."""
        path = found_in_path(program.argv[0], program.env.get("PATH", os.defpath))
        if path is None:
            raise ChildNotStarted(2, f"no program {program.argv[0]}")
        temporary = self.home / "tmp"
        temporary.mkdir(mode=0o700, exist_ok=True)
        argv = (sys.executable, "-I", "-S", str(HELPER), json.dumps(self.spec()), "--", path, *program.argv[1:])
        inside = evolve(program, argv=argv, env={**program.env, "TMPDIR": str(temporary)})
        shared = ProgramKeeper.shared()
        if shared is None:
            return await super().start(inside, on_output, on_errors=on_errors)
        return await shared.start(inside, on_output, on_errors=on_errors)
